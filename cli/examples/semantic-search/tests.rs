//! Tests of the whole program.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::path::PathBuf;

/// Makes an empty folder for a test.
pub(crate) fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("semantic-search-{}-{name}", std::process::id()));
    std::fs::remove_dir_all(&folder).unwrap_or_default();
    std::fs::create_dir_all(&folder).unwrap();
    folder.canonicalize().unwrap()
}
