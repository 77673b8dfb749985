//! Tests that the header is up to date, and that C and Rust use the same layout of structures.

use crate::built;
use bb_c::abi::layouts;
use std::fmt::Write;
use std::process::Command;

/// To update the file, run `BB_WRITE=1 cargo test -p bb-c header`.
#[test]
fn the_header_in_the_repository_is_that_of_the_definitions() {
    let path = built::root().join("include/bb.h");
    let header = bb_c::header();
    if std::env::var_os("BB_WRITE").is_some() {
        std::fs::write(&path, &header).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap();
    let different = kept.lines().zip(header.lines()).position(|(kept, new)| kept != new);
    let hint = "run `BB_WRITE=1 cargo test -p bb-c header`";
    assert!(kept == header, "include/bb.h differs from the definitions, first at line {different:?}: {hint}");
}

#[test]
fn c_has_the_same_sizes_and_offsets() {
    let mut source = "#include \"bb.h\"\n#include <stdio.h>\nint main(void) {\n".to_owned();
    let mut expected = String::new();
    for of in layouts() {
        writeln!(source, "printf(\"{0} %zu\\n\", sizeof({0}));", of.name).unwrap();
        writeln!(expected, "{} {}", of.name, of.size).unwrap();
        for (field, offset) in of.fields {
            writeln!(source, "printf(\"{0}.{field} %zu\\n\", offsetof({0}, {field}));", of.name).unwrap();
            writeln!(expected, "{}.{field} {offset}", of.name).unwrap();
        }
    }
    source += "return 0;\n}\n";
    let (file, program) = (built::folder().join("layout.c"), built::folder().join("layout"));
    std::fs::write(&file, source).unwrap();
    built::cc(&[file.to_str().unwrap(), "-o", program.to_str().unwrap()]);
    let output = Command::new(program).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
}

#[test]
fn the_header_is_c_of_other_standards() {
    let file = built::folder().join("only.c");
    std::fs::write(&file, "#include \"bb.h\"\nint main(void) { return 0; }\n").unwrap();
    let file = file.to_str().unwrap();
    built::cc(&["-std=c99", "-pedantic", "-fsyntax-only", file]);
    built::cc(&["-std=c17", "-pedantic", "-fsyntax-only", file]);
}

#[test]
fn texts_of_literals_have_their_length() {
    let source = "#include \"bb.h\"\n\
        static const bb_named PAIR = {BB_TEXT_INIT(\"threads\"), BB_TEXT_INIT(\"\")};\n\
        static size_t count(bb_text text) { return text.count; }\n\
        int main(void) {\n\
            bb_text name = BB_TEXT(\"tile\");\n\
            bb_named one = {BB_TEXT(\"memory\"), BB_TEXT(\"1G\")};\n\
            name = count(name) == 4 ? BB_TEXT(\"axis\") : BB_TEXT(\"\");\n\
            return PAIR.name.count == 7 && PAIR.value.count == 0 && one.value.count == 2 && name.items[0] == 'a' ? 0 : 1;\n\
        }\n";
    let (file, program) = (built::folder().join("texts.c"), built::folder().join("texts"));
    std::fs::write(&file, source).unwrap();
    let (file, to) = (file.to_str().unwrap(), program.to_str().unwrap());
    let runs = || assert!(Command::new(to).status().unwrap().success());
    built::cc(&["-std=c99", "-pedantic", file, "-o", to]);
    runs();
    let mut command = Command::new("c++");
    command.args(["-std=c++11", "-Wall", "-Wextra", "-Werror", "-pedantic", "-x", "c++", "-I"]);
    let output = command.arg(built::root().join("include")).args([file, "-o", to]).output();
    let output =
        output.expect("no compiler for C++: install one (`apt-get install g++`), so that `c++` runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    runs();
}
