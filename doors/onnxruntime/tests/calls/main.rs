//! Tests the function table, through the crate `ort` and with direct calls, like a C program.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
#![expect(unsafe_code, reason = "calls functions of an interface of pointers")]

mod raw;

mod abuse;
mod bindings;
mod changes;
mod errors;
mod models;
mod threads;
mod values;

use bb_reference as _;
use ort::environment::Environment;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Returns the environment of the crate `ort`, which exists once per process. The first call selects bb.
fn environment() -> &'static Environment {
    static MADE: OnceLock<Environment> = OnceLock::new();
    MADE.get_or_init(|| {
        #[cfg(feature = "ort")]
        let api = bb_onnxruntime::api();
        // SAFETY: `set_api` expects the structure of the crate.
        #[cfg(not(feature = "ort"))]
        let api = unsafe { bb_onnxruntime::api_as() };
        assert!(ort::set_api(api));
        ort::init().with_name("tests").build().unwrap()
    })
}

fn data(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data").join(folder)
}
