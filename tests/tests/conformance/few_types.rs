//! Tests that a backend with four element types passes: calls with other types are refused, and ONNX's cases run as far as these
//! hold other types exactly.

use bb::DataType::{Bool, F32, I32, I64};
use bb_tests::few::Few;

// Every 17th case. This includes no network of `light/`. `.ci/nightly` runs all cases.
bb::conformance!(Few::of(&[F32, I32, I64, Bool]), cases = 17);
