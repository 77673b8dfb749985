//! Builds libraries and programs for tests.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Returns the folder of the crate.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns the folder for files of tests.
pub(crate) fn folder() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
}

/// Runs the C compiler, with all warnings as errors.
pub(crate) fn cc(arguments: &[&str]) {
    let mut command = Command::new("cc");
    command
        .args(["-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-I"])
        .arg(root().join("include"))
        .args(arguments);
    let output = command.output();
    let output = output.expect("no compiler for C: install one (`apt-get install gcc`), so that `cc` runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Builds a library from a C file. Each name is built once per process.
pub(crate) fn library(name: &str, source: &Path, more: &[&str]) -> PathBuf {
    // Several processes may build at the same time, so each writes its own file and renames it.
    let to = folder().join(format!("lib{name}.{}", std::env::consts::DLL_EXTENSION));
    let own = folder().join(format!("{name}-{}", std::process::id()));
    let arguments = ["-shared", "-fPIC", source.to_str().unwrap(), "-o", own.to_str().unwrap(), "-lm"];
    cc(&[&arguments[..], more].concat());
    std::fs::rename(&own, &to).unwrap();
    to
}

/// Returns the path of the backend written in C.
pub(crate) fn plain() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| library("plain", &root().join("examples/plain.c"), &[]))
}

/// Returns the path of a Rust backend's library, which is an example of this package.
pub(crate) fn exported(name: &str) -> PathBuf {
    let program = std::env::current_exe().unwrap();
    let examples = program.parent().and_then(Path::parent).unwrap().join("examples");
    let file = format!("{}{name}{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    let path = examples.join(file);
    assert!(path.exists(), "`{}` is not built: run `cargo build -p bb-c --examples`", path.display());
    path
}
