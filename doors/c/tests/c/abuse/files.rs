//! Tests files that are not libraries of backends.

use crate::built;
use bb::{BackendLibrary, LibraryKind, LoadError};
use std::fs;
use std::path::Path;

fn error(path: impl AsRef<Path>) -> LoadError {
    BackendLibrary::load(path).err().unwrap()
}

#[test]
fn what_is_no_file_or_no_library() {
    let folder = built::folder();
    assert!(matches!(error(folder.join("missing.so")), LoadError::Read { .. }));
    assert!(matches!(error(folder), LoadError::Read { .. }));
    #[cfg(unix)]
    assert!(matches!(error("/dev/null"), LoadError::Read { .. }));
    for (name, content) in
        [("empty.so", &b""[..]), ("text.so", b"this is a text"), ("elf.so", b"\x7fELF\x02\x01")]
    {
        let path = folder.join(name);
        fs::write(&path, content).unwrap();
        let error = error(&path);
        assert!(matches!(error, LoadError::Mismatch { .. }), "{name}: {error}");
        assert!(error.to_string().contains(name), "{error}");
    }
}

/// Tests truncated files, because the loader of Linux would end the program at the first missing byte.
#[test]
fn truncated_libraries() {
    let whole = fs::read(built::plain()).unwrap();
    let path = built::folder().join("truncated.so");
    for part in 0..64 {
        fs::write(&path, &whole[..whole.len() * part / 64]).unwrap();
        match BackendLibrary::load(&path) {
            // Bytes after the segments (debug symbols, section names) are not needed.
            Ok(library) => assert_eq!(library.name(), "plain"),
            Err(error) => {
                assert!(
                    matches!(
                        error,
                        LoadError::Mismatch { .. } | LoadError::Open { .. } | LoadError::NoBackend { .. }
                    ),
                    "{error}"
                )
            }
        }
        assert!(part > 32 || BackendLibrary::load(&path).is_err());
    }
}

#[cfg(target_os = "linux")]
#[test]
fn an_object_file_is_not_linked_yet() {
    let mut bytes = fs::read(built::plain()).unwrap();
    bytes[16] = 1;
    let path = built::folder().join("object.o");
    fs::write(&path, &bytes).unwrap();
    let path = path.canonicalize().unwrap();
    assert_eq!(
        error(&path).to_string(),
        format!(
            "the library `{}` has a wrong format: expected a shared library, got an object file: link it with `cc -shared`",
            path.display()
        )
    );
}

/// Tests that the message names the format of a file that is no shared library of Linux.
#[cfg(target_os = "linux")]
#[test]
fn a_file_of_another_format_is_described() {
    for (name, content, expected) in [
        ("nothing.so", &b""[..], "an empty file"),
        ("static.a", b"!<arch>\n/               0", "a static library, which is an archive of object files"),
        ("narrow.so", b"\x7fELF\x01\x01\x01\0", "a library of ELF with 32 bits"),
        ("windows.dll", b"MZ\x90\0\x03\0\0\0", "a file of Windows"),
        ("macos.dylib", b"\xcf\xfa\xed\xfe\x07\0\0\x01", "a file of macOS"),
        ("text.txt", b"#include <stdio.h>", "a text that begins with `#include`"),
        ("bytes.so", b"\x01\x02", "a file that begins with [01 02]"),
    ] {
        let path = built::folder().join(name);
        fs::write(&path, content).unwrap();
        let text = error(&path).to_string();
        assert!(
            text.contains(&format!("expected a library of ELF with 64 bits, got {expected}: ")),
            "{text}"
        );
    }
}

/// Tests a library for another processor, where Linux would only report that the file does not exist.
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
#[test]
fn a_library_for_another_processor() {
    let mut bytes = fs::read(built::plain()).unwrap();
    let (here, other, number) =
        if cfg!(target_arch = "x86_64") { ("x86_64", "aarch64", 183) } else { ("aarch64", "x86_64", 62) };
    for (number, name) in [(number, other.to_owned()), (2, "number 2 of ELF".to_owned())] {
        bytes[18] = number;
        let path = built::folder().join(format!("processor-{number}.so"));
        fs::write(&path, &bytes).unwrap();
        let path = path.canonicalize().unwrap();
        assert_eq!(
            error(&path).to_string(),
            format!(
                "the library `{}` has a wrong processor: expected {here}, got {name}: compile it for {here}",
                path.display()
            )
        );
    }
}

/// A missing function is reported when the library is loaded, not when the function is called.
#[cfg(target_os = "linux")]
#[test]
fn a_library_that_calls_a_function_of_no_library() {
    let source = built::folder().join("unlinked.c");
    fs::write(&source, "int of_nowhere(void);\nint calls(void);\nint calls(void) { return of_nowhere(); }\n")
        .unwrap();
    let error = error(built::library("unlinked", &source, &[]));
    let text = bb_core::error::causes(&error);
    assert!(matches!(error, LoadError::Open { .. }), "{text}");
    assert!(text.starts_with("the system cannot load the library `"), "{text}");
    assert!(text.contains("unlinked") && text.contains("link all libraries that it uses"), "{text}");
    assert!(text.contains("of_nowhere"), "{text}");
}

#[test]
fn a_library_without_the_symbol() {
    let source = built::folder().join("nothing.c");
    fs::write(&source, "int nothing = 1;\n").unwrap();
    let error = error(built::library("nothing", &source, &[]));
    assert!(matches!(error, LoadError::NoBackend { .. }), "{error}");
    assert!(error.to_string().contains("exports no `bb_backend_library`"), "{error}");
    assert!(std::error::Error::source(&error).is_some());
}

/// Tests that the message names the library of another interface.
#[test]
fn a_library_of_another_interface() {
    for (name, function, kind, expected) in [
        ("host", "bb_load_backend", LibraryKind::Host, "it is bb's own library for programs in C"),
        ("provider", "CreateEpFactories", LibraryKind::Provider, "`bb conformance --library`"),
        ("runtime", "OrtGetApiBase", LibraryKind::OnnxRuntime, "it is a library of ONNX Runtime"),
    ] {
        let source = built::folder().join(format!("{name}.c"));
        fs::write(&source, format!("int {function}(void);\nint {function}(void) {{ return 0; }}\n")).unwrap();
        let error = error(built::library(name, &source, &[]));
        assert!(matches!(&error, LoadError::NoBackend { kind: Some(got), .. } if *got == kind), "{error}");
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[test]
fn a_symbol_that_is_something_else() {
    let source = built::folder().join("other.c");
    for (name, text) in [
        ("other_zero", "const long long bb_backend_library[64] = {0};"),
        ("other_large", "const long long bb_backend_library[64] = {1 << 30};"),
        ("other_odd", "const long long bb_backend_library[64] = {161};"),
        ("other_magic", "const long long bb_backend_library[64] = {240, 7};"),
        ("other_function", "int bb_backend_library(void) { return 3; }"),
    ] {
        fs::write(&source, format!("{text}\n")).unwrap();
        let error = error(built::library(name, &source, &[]));
        assert!(matches!(error, LoadError::Mismatch { .. }), "{name}: {error}");
    }
}

#[test]
fn a_list_with_what_cannot_be_loaded_names_it() {
    let path = built::folder().join("absent.so");
    let error = bb::load_path(path.as_os_str()).unwrap_err();
    assert!(error.to_string().contains("absent.so"), "{error}");
}

#[cfg(unix)]
#[test]
fn a_list_with_another_separator_names_the_right_one() {
    for separator in [',', ';'] {
        let error = bb::load_path(format!("one.so{separator}two.so").as_ref()).unwrap_err();
        assert_eq!(
            bb_core::error::causes(&error),
            format!(
                "cannot read the library `one.so{separator}two.so`: there is no such file: separate files with `:` instead of `{separator}`"
            )
        );
    }
}
