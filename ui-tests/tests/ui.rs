//! Tests the messages of rustc for wrong programs, and that correct programs compile.
//!
//! `TRYBUILD=overwrite cargo test -p ui-tests` writes the expected messages again; read each as its reader
//! would.

#[test]
fn messages_say_what_to_write() {
    trybuild::TestCases::new().compile_fail("fail/*.rs");
}

// By themselves, because programs that run would have each of the others built alone, instead of all being checked at once.
#[test]
fn correct_programs_compile_and_run() {
    trybuild::TestCases::new().pass("pass/*.rs");
}
