//! What rustc says to someone who errs, and that what should compile does.
//!
//! `TRYBUILD=overwrite cargo test -p ui-tests` writes the expected messages anew; read each as its reader would.

#[test]
fn messages_say_what_to_write() {
    let cases = trybuild::TestCases::new();
    cases.pass("pass/*.rs");
    cases.compile_fail("fail/*.rs");
}
