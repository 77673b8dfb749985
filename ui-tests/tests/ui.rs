//! Tests the messages of rustc for wrong programs, and that correct programs compile.
//!
//! `TRYBUILD=overwrite cargo test -p ui-tests` writes the expected messages again; read each as its reader
//! would.

#[test]
fn messages_say_what_to_write() {
    let cases = trybuild::TestCases::new();
    cases.pass("pass/*.rs");
    cases.compile_fail("fail/*.rs");
}
