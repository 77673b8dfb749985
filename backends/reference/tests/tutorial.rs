//! Tests that the excerpts in the tutorial match the source files.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::path::Path;

const TUTORIAL: &str = include_str!("../../../bb/docs/writing-a-backend.md");

/// Returns the code blocks that begin with a file name, as pairs of the file name and the rest of
/// the block.
fn excerpts() -> impl Iterator<Item = (&'static str, &'static str)> {
    let blocks = TUTORIAL.split("```rs\n// ").skip(1);
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
