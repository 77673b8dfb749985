//! Tests that a missing, a wrong and an old library give errors with advice. Each test runs in a separate process,
//! because a process loads only one library.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::path::{Path, PathBuf};
use std::process::Command;

/// The environment variable that marks this program as a child process, which opens the backend and prints the error.
const CHILD: &str = "BB_ORT_CHILD";

/// Returns the output of a child process that opens the backend with this library.
fn opened(library: &Path) -> String {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "child", "--nocapture"]).env(CHILD, "1").env(bb_ort::library::VARIABLE, library);
    let output = child.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn child() {
    use bb_ort as _;
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    let mut error: Option<Box<dyn std::error::Error>> = bb::backend("ort").err().map(Into::into);
    // A second attempt must give the same result, and must not hang or panic.
    assert_eq!(bb::backend("ort").is_err(), error.is_some());
    let mut next: Option<&dyn std::error::Error> = error.as_mut().map(|error| &**error as _);
    while let Some(error) = next {
        println!("said: {error}");
        next = error.source();
    }
}

/// A folder that is removed on drop.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("bb-ort-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _gone = std::fs::remove_dir_all(&self.0);
    }
}

/// Compiles a shared library from C source. Returns `None` if there is no C compiler.
fn library(folder: &Folder, source: &str) -> Option<PathBuf> {
    let (code, library) = (folder.0.join("fake.c"), folder.0.join("libonnxruntime.so"));
    std::fs::write(&code, source).unwrap();
    let compiled = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&code).status();
    let Ok(compiled) = compiled else {
        eprintln!("skipped: there is no `cc`");
        return None;
    };
    assert!(compiled.success());
    Some(library)
}

#[test]
fn a_missing_library_says_how_to_get_one() {
    let said = opened(Path::new("/nowhere/libonnxruntime.so"));
    assert!(said.contains("`/nowhere/libonnxruntime.so` cannot be loaded"), "{said}");
    assert!(said.contains("pip install onnxruntime"), "{said}");
}

#[test]
fn a_folder_without_a_library_says_what_it_looked_for() {
    let folder = Folder::new("empty");
    let said = opened(&folder.0);
    assert!(said.contains("has no file libonnxruntime"), "{said}");
}

#[test]
fn a_text_file_is_not_loaded() {
    let folder = Folder::new("text");
    let file = folder.0.join("libonnxruntime.so");
    std::fs::write(&file, "no library").unwrap();
    let said = opened(&folder.0);
    assert!(said.contains("cannot be loaded"), "{said}");
}

#[test]
fn another_library_is_not_taken_for_onnx_runtime() {
    let folder = Folder::new("other");
    let Some(library) = library(&folder, "int other(void) { return 1; }") else { return };
    let said = opened(&library);
    assert!(said.contains("is not ONNX Runtime"), "{said}");
}

#[test]
fn a_library_without_a_table_is_not_taken_for_onnx_runtime() {
    let folder = Folder::new("null");
    let Some(library) = library(&folder, "void *OrtGetApiBase(void) { return 0; }") else { return };
    let said = opened(&library);
    assert!(said.contains("is not ONNX Runtime"), "{said}");
}

#[test]
fn an_old_library_is_named_with_its_version() {
    let folder = Folder::new("old");
    let source = "static const void *api(unsigned v) { return 0; }\n\
                  static const char *version(void) { return \"1.9.0\"; }\n\
                  static struct { const void *(*a)(unsigned); const char *(*v)(void); } base = { api, version };\n\
                  void *OrtGetApiBase(void) { return &base; }\n";
    let Some(library) = library(&folder, source) else { return };
    let said = opened(&library);
    assert!(said.contains("is ONNX Runtime 1.9.0, expected 1.31 or a newer 1.x"), "{said}");
}

/// The library that the other tests use opens without an error.
#[test]
fn a_right_library_opens() {
    let library = std::env::var_os(bb_ort::library::VARIABLE).unwrap_or_default();
    let said = opened(Path::new(&library));
    assert!(!said.contains("said: "), "{said}");
}

#[test]
fn a_library_that_is_no_provider_is_described() {
    for (function, expected) in [
        ("bb_load_backend", "exports `CreateEpFactories`, but it is bb's own library for programs in C"),
        ("OrtGetApiBase", "but it is a library of ONNX Runtime itself"),
        ("something_else", "which exports `CreateEpFactories`"),
    ] {
        let folder = Folder::new(function);
        let Some(library) = library(&folder, &format!("int {function}(void) {{ return 0; }}")) else {
            return;
        };
        let error = bb_ort::OrtProvider::new(&library, 0).err().unwrap().to_string();
        assert!(error.contains(expected), "{error}");
    }
}
