//! The committed files that are generated are what their sources give.
//!
//! To follow a new ONNX, replace `schema/onnx.proto`, run the first test, and copy the file that it names over
//! `src/proto/onnx.rs`; then run `schema/schemas.py`, which writes `src/opset/schemas.rs`.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::path::Path;
use std::process::Command;

#[test]
fn committed_types_come_from_the_schema() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let out = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let files = protox::compile(["onnx.proto"], [root.join("schema")]).unwrap();
    prost_build::Config::new().bytes([".onnx.TensorProto.raw_data"]).out_dir(out).compile_fds(files).unwrap();
    let made = std::fs::read_to_string(out.join("onnx.rs")).unwrap();
    let committed = std::fs::read_to_string(root.join("src/proto/onnx.rs")).unwrap();
    assert!(made == committed, "expected src/proto/onnx.rs to be {}", out.join("onnx.rs").display());
}

/// Runs where the Python that `BB_PYTHON` names, or `python3`, has the package `onnx` of the version that the file is from.
#[test]
fn committed_schemas_are_those_of_onnx() {
    const VERSION: &str = "1.23.";
    let python = std::env::var("BB_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let version = Command::new(&python).args(["-c", "import onnx; print(onnx.__version__)"]).output();
    let version = version.map(|o| String::from_utf8_lossy(&o.stdout).into_owned()).unwrap_or_default();
    if !version.starts_with(VERSION) {
        println!("skipped: {python} has no package `onnx` {VERSION}*, from whose schemas the file is made");
        return;
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/schema/schemas.py");
    let output = Command::new(&python).args([script, "--check"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
