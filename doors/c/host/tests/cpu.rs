//! Runs the conformance cases on a library of the CPU backend.
#![expect(clippy::unwrap_used, reason = "tests")]

use bb::LoadedBackend;
use std::path::{Path, PathBuf};

/// Returns the path of the library, which is an example of this package.
fn library() -> PathBuf {
    let program = std::env::current_exe().unwrap();
    let examples = program.parent().and_then(Path::parent).unwrap().join("examples");
    let file = format!("{}cpu{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    let path = examples.join(file);
    assert!(path.exists(), "`{}` is not built: run `cargo build -p bb-c-host --examples`", path.display());
    path
}

fn load() -> LoadedBackend {
    bb::load_backend(library()).unwrap()
}

// Runs every fifth case. The tests of the linked backend run all of them with the same code.
bb::conformance!(load(), cases = 5);

#[test]
fn a_library_has_the_natives_of_its_backend() {
    use bb::InnerBackend;
    let count = |natives: Vec<(bb::ir::op::Family, bb::ext::OpSet)>| -> usize {
        natives.into_iter().map(|(_, set)| set.len()).sum()
    };
    let linked = bb_cpu::Cpu::new().natives();
    let loaded = load().natives();
    assert!(count(linked.clone()) > 20);
    assert_eq!(count(loaded), count(linked));
}

#[test]
fn options_reach_the_backend() {
    let library = bb::BackendLibrary::load(library()).unwrap();
    let one = std::num::NonZeroUsize::MIN;
    assert!(library.open(&bb::OpenOptions::default().with_threads(one)).is_ok());
    let error = library.open(&bb::OpenOptions::default().with_own("tile", 3)).unwrap_err();
    assert!(error.to_string().contains("has no option `tile`; its options are: "), "{error}");
    assert_eq!(error.kind(), bb::ErrorKind::Configuration);
}

#[test]
fn a_name_that_is_taken_is_refused() {
    let error = bb::BackendLibrary::load(library()).unwrap().register().unwrap_err();
    assert!(error.to_string().ends_with("cannot be registered"), "{error}");
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert!(source.contains("`cpu`"), "{source}");
    assert!(bb::backend("cpu").is_ok(), "the linked one stays");
}
