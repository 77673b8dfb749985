//! The reference backend keeps what every primitive promises, and passes ONNX's cases.

bb::conformance!(bb_reference::Reference);
