//! Why nothing is written.

use std::path::PathBuf;

/// Why no crate is written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file cannot be written.
    #[error("cannot write `{}`", .path.display())]
    Write {
        /// The file, or its folder.
        path: PathBuf,
        /// The system's reason.
        #[source]
        source: std::io::Error,
    },

    /// The folder has files.
    #[error("`{}` is not empty: `bb new` writes a folder of its own", .path.display())]
    FolderTaken {
        /// The folder.
        path: PathBuf,
    },

    /// `--bb` names a folder that is no checkout.
    #[error("`{}` is no checkout of `bb`: there is no `bb/Cargo.toml` or `cli/Cargo.toml`", .path.display())]
    NoCheckout {
        /// The folder.
        path: PathBuf,
    },

    /// Neither `--bb` nor `--git` is given.
    #[error(
        "`bb` has no release: pass `--bb DIR` with a checkout of its repository, or `--git URL` with the address of one"
    )]
    NoSource,

    /// `--git` is no URL.
    #[error("`{url}` is no URL of a git repository; expected one such as `https://…/bb.git`, `ssh://…` or `file:///…`; a folder is `--bb DIR`", url = .url.escape_debug())]
    GitUrl {
        /// The argument.
        url: String,
    },

    /// A backend or a layer has the name.
    #[error(
        "`{name}` is the name of a {holder} of `bb`: choose another one, because no program can have both"
    )]
    NameTaken {
        /// The name.
        name: String,
        /// "backend" or "layer".
        holder: &'static str,
    },

    /// A crate of this name would not compile.
    #[error(
        "`{name}` cannot be the name of the crate, because {reason}; choose another one, such as `my-{name}`"
    )]
    WordTaken {
        /// The name.
        name: String,
        /// Why it would not compile.
        reason: String,
    },

    /// Cargo refuses the name.
    #[error("`{name}` cannot be the name of a crate; expected small letters, digits, and single `-` or `_` between them, a letter first", name = .name.escape_debug())]
    CrateName {
        /// The name.
        name: String,
    },
}
