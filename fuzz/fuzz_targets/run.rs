//! Compiles and runs models that pass the check on the reference backend, which must end in an error or in
//! outputs of the declared element types.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| bb_fuzz::compile_and_run(data));
