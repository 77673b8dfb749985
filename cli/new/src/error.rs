//! The errors of `bb new`.

use std::path::PathBuf;

/// An error of writing a new crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file cannot be written.
    #[error("cannot write `{}`", .path.display())]
    Write {
        /// The file, or its folder.
        path: PathBuf,
        /// The error of the system.
        #[source]
        source: std::io::Error,
    },

    /// The folder is not empty.
    #[error("`{}` is not empty: `bb new` writes a folder of its own", .path.display())]
    FolderTaken {
        /// The folder.
        path: PathBuf,
    },

    /// `--bb` names a folder that is not a checkout of `bb`.
    #[error("`{}` is no checkout of `bb`: there is no `bb/Cargo.toml` or `cli/Cargo.toml`", .path.display())]
    NoCheckout {
        /// The folder.
        path: PathBuf,
    },

    /// Neither `--bb` nor `--git` was passed.
    #[error(
        "`bb` has no release: pass `--bb DIR` with a checkout of its repository, or `--git URL` with the address of one"
    )]
    NoSource,

    /// The argument of `--git` is not a URL.
    #[error("`{url}` is no URL of a git repository; expected one such as `https://…/bb.git`, `ssh://…` or `file:///…`; a folder is `--bb DIR`", url = .url.escape_debug())]
    GitUrl {
        /// The argument.
        url: String,
    },

    /// A backend or a layer of `bb` already has the name.
    #[error(
        "`{name}` is the name of a {holder} of `bb`: choose another one, because no program can have both"
    )]
    NameTaken {
        /// The name.
        name: String,
        /// The kind of the thing with this name: "backend" or "layer".
        holder: &'static str,
    },

    /// A crate with this name would not compile.
    #[error(
        "`{name}` cannot be the name of the crate, because {reason}; choose another one, such as `my-{name}`"
    )]
    WordTaken {
        /// The name.
        name: String,
        /// The reason why it would not compile.
        reason: String,
    },

    /// Cargo does not allow the name.
    #[error("`{name}` cannot be the name of a crate; expected small letters, digits, and single `-` or `_` between them, a letter first", name = .name.escape_debug())]
    CrateName {
        /// The name.
        name: String,
    },
}
