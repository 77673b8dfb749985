//! `bb new`: writes a crate for a backend, which compiles, and whose tests say what to write next.

mod names;
mod stubs;

use crate::args;
use crate::error::{Error, Result};
use crate::out;
use bb::ir::text::sentence;
use names::Names;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The files of a crate: where each goes, and its text. `@…@` marks what depends on the name.
const FILES: &[(&str, &str)] = &[
    ("Cargo.toml", include_str!("template/cargo.txt")),
    ("README.md", include_str!("template/readme.txt")),
    (".gitignore", "/target\n"),
    (".github/workflows/ci.yml", include_str!("template/ci.txt")),
    ("src/error.rs", include_str!("template/error.txt")),
    ("src/tensor.rs", include_str!("template/tensor.txt")),
    ("src/main.rs", include_str!("template/main.txt")),
    ("tests/conformance.rs", include_str!("template/conformance.txt")),
];

pub(crate) fn new(options: &args::New) -> Result<ExitCode> {
    let names = Names::of(&options.name)?;
    let folder = options.folder.clone().unwrap_or_else(|| PathBuf::from(&options.name));
    let io = |path: &Path| {
        let path = path.to_owned();
        move |source| Error::Write { path, source }
    };
    // A folder that has something in it is somebody's work.
    let taken = std::fs::read_dir(&folder).is_ok_and(|mut entries| entries.next().is_some());
    if taken || folder.is_file() {
        return Err(Error::FolderTaken { path: folder });
    }
    let library = if options.whole_graph {
        include_str!("template/graph.txt")
    } else {
        include_str!("template/kernels.txt")
    };
    let files = FILES.iter().copied().chain([("src/lib.rs", library)]);
    let dependency = dependency(options.bb.as_deref())?;
    for (place, text) in files {
        let path = folder.join(place);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).map_err(io(parent))?;
        }
        std::fs::write(&path, filled(text, &names, &dependency)).map_err(io(&path))?;
    }
    out::line(format!(
        "a crate that compiles is in `{}`; there, `cargo test` says what to write",
        sentence(folder.display())
    ))?;
    Ok(ExitCode::SUCCESS)
}

/// How the crate depends on `bb`: as released, or in a checkout.
fn dependency(checkout: Option<&Path>) -> Result<[String; 2]> {
    let released = format!("version = \"{}\"", env!("CARGO_PKG_VERSION"));
    let Some(checkout) = checkout else { return Ok([released.clone(), released]) };
    let found = checkout.join("bb/Cargo.toml").is_file() && checkout.join("cli/Cargo.toml").is_file();
    let absolute = checkout.canonicalize().ok().filter(|_| found);
    let absolute = absolute.ok_or_else(|| Error::NoCheckout { path: checkout.to_owned() })?;
    let text = absolute.to_string_lossy().replace('\\', "/").replace('"', "\\\"");
    Ok([format!("path = \"{text}/bb\""), format!("path = \"{text}/cli\"")])
}

/// Puts names into a text.
fn filled(text: &str, names: &Names, [bb, cli]: &[String; 2]) -> String {
    text.replace("@name@", &names.backend)
        .replace("@crate@", &names.krate)
        .replace("@module@", &names.module)
        .replace("@Type@", &names.ty)
        .replace("@stubs@", stubs::primitives().trim_end())
        .replace("@bb@", bb)
        .replace("@cli@", cli)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    /// What is committed among the tests of authors, which compile it.
    #[test]
    fn the_tests_compile_what_is_written() {
        let dependency = dependency(None).unwrap();
        for (text, committed) in [
            (include_str!("template/kernels.txt"), "started_kernels/lib.rs"),
            (include_str!("template/graph.txt"), "started_graph/lib.rs"),
            (include_str!("template/error.txt"), "started_kernels/error.rs"),
            (include_str!("template/error.txt"), "started_graph/error.rs"),
            (include_str!("template/tensor.txt"), "started_kernels/tensor.rs"),
            (include_str!("template/tensor.txt"), "started_graph/tensor.rs"),
        ] {
            let names = Names::of(committed.split_once('/').unwrap().0).unwrap();
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/tests/authors").join(committed);
            let written = filled(text, &names, &dependency);
            if std::env::var_os("BB_WRITE").is_some() {
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(&path, &written).unwrap();
            }
            let there = std::fs::read_to_string(&path).unwrap_or_default();
            assert_eq!(there, written, "{committed}; BB_WRITE=1 writes it");
        }
    }

    #[test]
    fn nothing_is_left_to_fill_in() {
        let names = Names::of("my-chip").unwrap();
        for (place, text) in FILES {
            let text = filled(text, &names, &dependency(None).unwrap());
            assert!(!text.split('@').skip(1).step_by(2).any(names::is_word), "{place}: {text}");
        }
    }
}
