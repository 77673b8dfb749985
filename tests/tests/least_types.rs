//! A backend with the least set of element types: `f32`, `i32` and `bool`. Every case of ONNX that computes with these, or
//! with integers that these hold, passes; the others are skipped, with the reason.

use bb_tests::few::Few;

bb::conformance!(Few::least(), types = [F32, I32, Bool]);
