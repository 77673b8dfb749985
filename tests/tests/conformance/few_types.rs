//! Tests that a backend with four element types passes: calls with other types are refused, and ONNX's cases
//! that need other types are skipped, not passed.

use bb::DataType;
use bb_tests::tampered::{Tampered, refuse_others};

fn four_types() -> Tampered {
    use DataType::{Bool, F32, I32, I64};
    Tampered(|op, inputs, params| refuse_others(&[F32, I32, I64, Bool], op, inputs, params))
}

// Each 17th case, none of which is a network of `light/`. `.ci/nightly` runs all cases.
bb::conformance!(four_types(), types = [F32, I32, I64, Bool], cases = 17);
