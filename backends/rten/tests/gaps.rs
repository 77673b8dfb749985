//! Tests that rten fails the case of each row of its table of gaps.

use bb_rten::{GAPS, RtenStrict};

#[test]
fn the_engine_fails_what_the_table_says() {
    bb_engines::report::check_gaps(GAPS, "the_engine_fails_what_the_table_says", || {
        RtenStrict::without_table()
    });
}
