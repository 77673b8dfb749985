//! Tests that the committed protobuf types are those generated from the committed schema.
//!
//! To use a new schema, replace `schema/onnx.proto`, run this test, and copy the file that it names to
//! `src/proto/onnx.rs`.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::path::Path;

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
