//! Tests that the reference backend passes the cases of every primitive and ONNX's cases.

bb::conformance!(bb_reference::Reference);
