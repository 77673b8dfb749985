//! Each row of the table of gaps says what ONNX Runtime fails, and it does.

use bb_ort::{GAPS, OrtStrict};

#[test]
fn the_engine_fails_what_the_table_says() {
    bb_engines::report::check_gaps(GAPS, "the_engine_fails_what_the_table_says", || {
        OrtStrict::without_table().expect("ONNX Runtime")
    });
}
