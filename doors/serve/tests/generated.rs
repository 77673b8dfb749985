//! Tests that the committed code of the gRPC service is up to date with its schema.
//!
//! After a change of `schema/open_inference.proto`, run this test and copy the files that it names to `src/messages/inference.rs` and
//! `src/grpc/inference.bin`, which the reflection service uses.
#![expect(clippy::unwrap_used, reason = "tests")]

use prost::Message;
use std::path::Path;

#[test]
fn committed_service_comes_from_the_schema() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let out = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let files = protox::compile(["open_inference.proto"], [root.join("schema")]).unwrap();
    let described = files.encode_to_vec();
    std::fs::write(out.join("inference.bin"), &described).unwrap();
    tonic_prost_build::configure()
        .bytes(".inference.ModelInferRequest.raw_input_contents")
        .bytes(".inference.ModelInferResponse.raw_output_contents")
        .bytes(".inference.InferTensorContents.bytes_contents")
        .codec_path("crate::messages::codec::Codec")
        .out_dir(out)
        .compile_fds(files)
        .unwrap();
    let made = std::fs::read_to_string(out.join("inference.rs")).unwrap();
    let committed = std::fs::read_to_string(root.join("src/messages/inference.rs")).unwrap();
    assert!(
        made == committed,
        "expected src/messages/inference.rs to be {}",
        out.join("inference.rs").display()
    );
    let committed = std::fs::read(root.join("src/grpc/inference.bin")).unwrap();
    assert!(
        described == committed,
        "expected src/grpc/inference.bin to be {}",
        out.join("inference.bin").display()
    );
}
