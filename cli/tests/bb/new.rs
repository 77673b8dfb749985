//! Tests of `bb new`: the crate that it writes, and the names and sources that it refuses.

use crate::process::{bb, folder};

/// The checkout that has these tests.
const CHECKOUT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// Runs `bb new`, and returns its error. Fails if it wrote something.
fn refused(test: &str, name: &str, options: &[&str]) -> String {
    let crate_folder = folder(test).join("written");
    let ended = bb(&[&["new", name, "--folder", crate_folder.to_str().unwrap()], options].concat());
    assert_eq!(ended.code(), 1, "{}", ended.err);
    assert!(!crate_folder.exists(), "{name}: something was written");
    ended.err
}

#[test]
fn a_crate_depends_on_what_it_is_given() {
    let git = "https://example.org/bb.git";
    for (option, value) in [("--bb", CHECKOUT), ("--git", git)] {
        let folder = folder("new-crate");
        let ended = bb(&["new", "my-chip", "--folder", folder.to_str().unwrap(), option, value]);
        assert_eq!(ended.code(), 0, "{}", ended.err);
        let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).unwrap();
        let lines: Vec<&str> = manifest.lines().filter(|line| line.starts_with("bb")).collect();
        assert_eq!(lines.len(), 3, "{manifest}");
        for line in lines {
            let source = if option == "--git" { format!("git = \"{git}\"") } else { "path = \"/".to_owned() };
            assert!(line.contains(&source) && !line.contains("version"), "{line}");
        }
        assert!(manifest.contains("[profile.dev.package.my-chip]\nopt-level = 1\n"), "{manifest}");
    }
}

#[test]
fn without_a_source_of_bb_nothing_is_written() {
    let error = refused("new-without-source", "my-chip", &[]);
    assert!(
        error.contains("`bb` has no release: pass `--bb DIR`") && error.contains("`--git URL`"),
        "{error}"
    );
    let error = refused("new-without-source", "my-chip", &["--git", "../bb"]);
    assert!(error.contains("`../bb` is no URL of a git repository") && error.contains("--bb DIR"), "{error}");
    let error = refused("new-without-source", "my-chip", &["--bb", "."]);
    assert!(error.contains("`.` is no checkout of `bb`"), "{error}");
    assert_eq!(bb(&["new", "my-chip", "--bb", CHECKOUT, "--git", "https://example.org"]).code(), 2);
}

#[test]
fn names_that_are_taken_are_refused() {
    for (name, reason) in [
        ("cpu", "`cpu` is the name of a backend of `bb`"),
        ("metrics", "`metrics` is the name of a layer of `bb`"),
        ("match", "`match` cannot be the name of the crate, because it is a keyword of Rust"),
        ("bb", "because another crate in its build has this name; choose another one, such as `my-bb`"),
        ("tensor", "because its type would be `Tensor`, which is another type in its code"),
        ("MyChip", "`MyChip` cannot be the name of a crate; expected small letters"),
    ] {
        let error = refused("new-taken-names", name, &["--bb", CHECKOUT]);
        assert!(error.contains(reason), "{name}: {error}");
    }
}
