//! Tests that the reference backend passes the cases of every primitive and the ONNX test cases.

bb::conformance!(bb_reference::Reference);
