//! Tests that the relative links of pages lead to files.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::path::{Path, PathBuf};

/// Returns the targets of links outside blocks of code.
fn links(page: &str) -> Vec<&str> {
    let mut in_code = false;
    let mut links = Vec::new();
    for line in page.lines() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        } else if !in_code {
            links.extend(line.split("](").skip(1).filter_map(|rest| Some(rest.split_once(')')?.0)));
        }
    }
    links
}

/// Returns the links of a page that lead to no file. Addresses and links within the page are not checked.
fn broken(page: &Path) -> Vec<String> {
    let text = fs::read_to_string(page).unwrap();
    let folder = page.parent().unwrap();
    let is_relative = |link: &&str| !link.contains("://") && !link.starts_with('#');
    let file = |link: &str| folder.join(link.split('#').next().unwrap_or_default());
    links(&text)
        .into_iter()
        .filter(is_relative)
        .filter(|link| !file(link).exists())
        .map(str::to_owned)
        .collect()
}

#[test]
fn relative_links_lead_to_files() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut pages: Vec<PathBuf> =
        fs::read_dir(root.join("bb/docs")).unwrap().map(|entry| entry.unwrap().path()).collect();
    pages.retain(|page| page.extension().is_some_and(|extension| extension == "md"));
    pages.extend(["README.md", "CONTRIBUTING.md"].map(|page| root.join(page)));
    assert!(pages.len() > 20, "{}", pages.len());
    let broken: Vec<_> =
        pages.iter().map(|page| (page, broken(page))).filter(|(_, all)| !all.is_empty()).collect();
    assert!(broken.is_empty(), "links to no file: {broken:?}");
}

#[test]
fn links_are_found_outside_code() {
    let page = "a [b](c.md#d) and [e](../f.rs)\n```rust\nlet x = y[0](1);\n[g](h.md)\n```\n[i](https://j)";
    assert_eq!(links(page), ["c.md#d", "../f.rs", "https://j"]);
}
