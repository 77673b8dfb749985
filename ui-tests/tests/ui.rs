//! Tests the messages of rustc for wrong programs. The correct programs in `pass/` are tests of their own.
//!
//! `TRYBUILD=overwrite cargo test -p ui-tests` writes the expected messages again; read each as its reader
//! would.

#[test]
fn messages_say_what_to_write() {
    trybuild::TestCases::new().compile_fail("fail/*.rs");
}
