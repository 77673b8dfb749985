//! Tests that the kinds of errors have the same names in Rust, in Python, in the browser and on the pages.

#![expect(clippy::unwrap_used, reason = "tests")]

use bb::ErrorKind;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Returns the quoted texts in a part of a file, which begins after one text and ends before another.
fn quoted(place: &str, begin: &str, end: &str, quote: char) -> BTreeSet<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(place);
    let text = fs::read_to_string(path).unwrap();
    let (_, part) = text.split_once(begin).unwrap_or_else(|| panic!("{place} lacks `{begin}`"));
    let (part, _) = part.split_once(end).unwrap_or_else(|| panic!("{place} lacks `{end}`"));
    part.split(quote).skip(1).step_by(2).map(str::to_owned).collect()
}

#[test]
fn kinds_have_the_same_names_everywhere() {
    let names: BTreeSet<String> = ErrorKind::ALL.iter().map(|kind| kind.name().to_owned()).collect();
    assert_eq!(quoted("doors/python/bb/errors.py", "ErrorKind = Literal[", "]", '"'), names);
    assert_eq!(quoted("doors/web/bb.d.ts", "export type ErrorKind =", ";", '"'), names);
    assert_eq!(
        quoted(
            "bb/docs/browser.md",
            "The kind says what a page can do about it:",
            "; `doors/web/bb.d.ts`",
            '`'
        ),
        names
    );
    let page = quoted("bb/docs/python.md", "| kind | a program can | classes |", "| class | also a |", '`');
    let missing: Vec<_> = names.difference(&page).collect();
    assert!(missing.is_empty(), "`python.md` lacks {missing:?}");
}
