//! Tests that the excerpts of the guide are in the files that they name.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::path::Path;

const GUIDE: &str = include_str!("../../../bb/docs/writing-a-device-backend.md");

/// Returns the blocks that begin with the name of a file: this name and the rest of the block.
fn excerpts() -> impl Iterator<Item = (&'static str, &'static str)> {
    let blocks = GUIDE.split("```rs\n// ").skip(1);
    blocks.map(|block| block.split("```").next().unwrap().split_once('\n').unwrap())
}

#[test]
fn excerpts_are_in_the_files_they_name() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for (file, text) in excerpts() {
        let source = std::fs::read_to_string(root.join(file)).unwrap();
        assert!(source.contains(text.trim_end()), "`{file}` does not contain:\n{text}");
    }
    assert!(excerpts().count() > 5);
}
