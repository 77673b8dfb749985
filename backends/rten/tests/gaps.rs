//! Each row of the table of gaps says what rten fails, and it does.

use bb_rten::{GAPS, RtenStrict};

#[test]
fn the_engine_fails_what_the_table_says() {
    bb_engines::report::check_gaps(GAPS, "the_engine_fails_what_the_table_says", || {
        RtenStrict::without_table()
    });
}
