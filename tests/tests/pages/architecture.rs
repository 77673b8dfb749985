//! Tests that the module map in `bb/docs/architecture.md` agrees with the sources.
//!
//! The page lists the modules of each crate, lowest first. A module may use all modules above it in that list, because
//! these are lower. A use in the other direction is an arrow upwards; the page must list each of these with its reason,
//! and no others. In crates without a list, no modules may use each other in a circle.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The page's description of a crate.
struct Map {
    /// The folder of the sources, relative to the repository.
    sources: String,
    /// The modules, lowest first.
    modules: Vec<String>,
    /// The arrows upwards that the page lists.
    upwards: BTreeSet<(String, String)>,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Reads the blocks that begin with ```` ```modules FOLDER ````, and the rows `` | `FOLDER` | `a` → `b` | reason | ``.
fn maps() -> Vec<Map> {
    let page = fs::read_to_string(root().join("bb/docs/architecture.md")).unwrap();
    let mut maps: Vec<Map> = Vec::new();
    let mut within = false;
    for line in page.lines() {
        if let Some(sources) = line.strip_prefix("```modules ") {
            maps.push(Map { sources: sources.into(), modules: Vec::new(), upwards: BTreeSet::new() });
            within = true;
        } else if line.starts_with("```") {
            within = false;
        } else if within {
            let name = line.split_whitespace().next().unwrap_or_default();
            maps.last_mut().unwrap().modules.push(name.to_owned());
        } else if let [_, folder, arrow, reason, _] = line.split('|').map(str::trim).collect::<Vec<_>>()[..]
            && let Some((from, to)) = arrow.split_once(" → ")
        {
            let bare = |text: &str| text.trim_matches('`').to_owned();
            assert!(!reason.is_empty(), "{arrow} has no reason");
            let map = maps.iter_mut().find(|m| m.sources == bare(folder));
            map.unwrap_or_else(|| panic!("{folder} has no list")).upwards.insert((bare(from), bare(to)));
        }
    }
    assert!(!maps.is_empty(), "the page has no map");
    maps
}

/// Collects the other modules of the crate that a file of the module `inside` uses. For each path that begins with
/// `crate` or `super`, this is the first name after the crate's root.
fn reached(tokens: TokenStream, inside: &[String], names: &mut BTreeSet<String>) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let is = |at: usize, text: &str| tokens.get(at).is_some_and(|t| t.to_string() == text);
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        if is(at, "#") && tokens.get(at + 1).is_some_and(|t| t.to_string().replace(' ', "") == "[cfg(test)]")
        {
            // An item that is compiled only for tests ends with a block or a semicolon.
            at += 2;
            while let Some(token) = tokens.get(at) {
                at += 1;
                let block = matches!(token, TokenTree::Group(g) if g.delimiter() == Delimiter::Brace);
                if block || token.to_string() == ";" {
                    break;
                }
            }
            continue;
        }
        match token {
            TokenTree::Group(group) => reached(group.stream(), inside, names),
            // `$crate` occurs in macros, and names items that callers of the macro use.
            TokenTree::Ident(_) if at > 0 && is(at - 1, "$") => {}
            TokenTree::Ident(ident) if ident == "crate" || ident == "super" => {
                // The number of modules between the crate's root and the start of the path.
                let mut depth = if ident == "crate" { 0 } else { inside.len().saturating_sub(1) };
                let mut next = at + 1;
                while is(next, ":") && is(next + 1, ":") && is(next + 2, "super") {
                    depth = depth.saturating_sub(1);
                    next += 3;
                }
                if depth == 0 && is(next, ":") && is(next + 1, ":") {
                    first_names(tokens.get(next + 2), names);
                }
            }
            _ => {}
        }
        at += 1;
    }
}

/// Collects the first names of a `use` tree.
fn first_names(tree: Option<&TokenTree>, names: &mut BTreeSet<String>) {
    match tree {
        Some(TokenTree::Ident(name)) => {
            names.insert(name.to_string());
        }
        Some(TokenTree::Group(group)) => {
            let mut begins = true;
            for token in group.stream() {
                if begins {
                    first_names(Some(&token), names);
                }
                begins = token.to_string() == ",";
            }
        }
        _ => {}
    }
}

/// Returns, for each name that the crate's root re-exports, the module that it comes from.
fn re_exports(root: &TokenStream, modules: &BTreeSet<String>) -> BTreeMap<String, String> {
    let tokens: Vec<TokenTree> = root.clone().into_iter().collect();
    let mut from = BTreeMap::new();
    for (at, token) in tokens.iter().enumerate() {
        if token.to_string() != "use" {
            continue;
        }
        let module = tokens.get(at + 1).map(ToString::to_string).unwrap_or_default();
        if !modules.contains(&module) {
            continue;
        }
        let path = tokens[at + 2..].iter().take_while(|t| t.to_string() != ";");
        let mut names = BTreeSet::new();
        for token in path {
            all_names(token, &mut names);
        }
        from.extend(names.into_iter().map(|name| (name, module.clone())));
    }
    from
}

fn all_names(token: &TokenTree, names: &mut BTreeSet<String>) {
    match token {
        TokenTree::Ident(name) => {
            names.insert(name.to_string());
        }
        TokenTree::Group(group) => group.stream().into_iter().for_each(|t| all_names(&t, names)),
        _ => {}
    }
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
}

fn tokens(path: &Path) -> TokenStream {
    let text = fs::read_to_string(path).unwrap();
    text.parse().unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Returns the arrows between a crate's modules, each with a file that contains it.
fn arrows(sources: &Path) -> (BTreeSet<String>, BTreeMap<(String, String), PathBuf>) {
    let lib = tokens(&sources.join("lib.rs"));
    let mut found = Vec::new();
    files(sources, &mut found);
    found.retain(|path| !path.file_stem().is_some_and(|name| name.to_string_lossy().ends_with("tests")));
    found.sort();
    let module_of = |path: &Path| -> Vec<String> {
        let relative = path.strip_prefix(sources).unwrap().with_extension("");
        relative.iter().map(|p| p.to_string_lossy().into_owned()).filter(|p| p != "mod").collect()
    };
    let top = |path: &Path| module_of(path)[0].clone();
    let modules: BTreeSet<String> =
        found.iter().map(|p| top(p)).filter(|m| m != "lib" && m != "main").collect();
    let exported = re_exports(&lib, &modules);
    let mut arrows = BTreeMap::new();
    for path in found.iter().filter(|p| modules.contains(&top(p))) {
        let from = top(path);
        let mut names = BTreeSet::new();
        reached(tokens(path), &module_of(path), &mut names);
        for name in names {
            let to = if modules.contains(&name) { Some(name) } else { exported.get(&name).cloned() };
            if let Some(to) = to.filter(|to| *to != from) {
                arrows.entry((from.clone(), to)).or_insert_with(|| path.clone());
            }
        }
    }
    (modules, arrows)
}

#[test]
fn every_arrow_upwards_is_named_with_its_reason() {
    let mut wrong = Vec::new();
    for map in maps() {
        let (modules, arrows) = arrows(&root().join(&map.sources));
        let listed: BTreeSet<String> = map.modules.iter().cloned().collect();
        for module in modules.symmetric_difference(&listed) {
            wrong.push(format!("{}: `{module}` is listed or there, not both", map.sources));
        }
        let height = |module: &str| map.modules.iter().position(|m| m == module);
        let upwards: BTreeMap<_, _> =
            arrows.iter().filter(|((from, to), _)| height(from) < height(to)).collect();
        for (arrow @ (from, to), file) in &upwards {
            if !map.upwards.contains(*arrow) {
                wrong.push(format!("{}: `{from}` → `{to}` is not named; {}", map.sources, file.display()));
            }
        }
        for arrow @ (from, to) in &map.upwards {
            if !upwards.contains_key(arrow) {
                wrong.push(format!("{}: `{from}` → `{to}` is named, but there is none", map.sources));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Returns the arrows in circles, and between them: removes arrows to modules that use none, and from modules that none uses.
fn circle(mut arrows: BTreeMap<(String, String), PathBuf>) -> BTreeMap<(String, String), PathBuf> {
    loop {
        let using: BTreeSet<String> = arrows.keys().map(|(from, _)| from.clone()).collect();
        let used: BTreeSet<String> = arrows.keys().map(|(_, to)| to.clone()).collect();
        let count = arrows.len();
        arrows.retain(|(from, to), _| using.contains(to) && used.contains(from));
        if arrows.len() == count {
            return arrows;
        }
    }
}

/// Finds the sources of the libraries below a folder.
fn libraries(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.join("lib.rs").is_file() && name == "src" {
            found.push(path);
        } else if path.is_dir() && !name.starts_with('.') && !["target", "node_modules"].contains(&&*name) {
            libraries(&path, found);
        }
    }
}

#[test]
fn modules_use_each_other_in_no_circle() {
    let mut found = Vec::new();
    libraries(&root(), &mut found);
    assert!(found.len() > 30, "{found:?}");
    let listed: BTreeSet<PathBuf> = maps().iter().map(|map| root().join(&map.sources)).collect();
    let mut wrong = Vec::new();
    for sources in found.iter().filter(|sources| !listed.contains(*sources)) {
        for ((from, to), file) in circle(arrows(sources).1) {
            wrong.push(format!("`{from}` → `{to}` is in a circle; {}", file.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn circles_are_found() {
    let arrow = |from: &str, to: &str| ((from.to_owned(), to.to_owned()), PathBuf::new());
    let line = BTreeMap::from([arrow("a", "b"), arrow("b", "c"), arrow("a", "c")]);
    assert!(circle(line).is_empty());
    let circle = circle(BTreeMap::from([arrow("a", "b"), arrow("b", "c"), arrow("c", "b"), arrow("c", "d")]));
    assert_eq!(circle.keys().collect::<Vec<_>>(), [&arrow("b", "c").0, &arrow("c", "b").0]);
}

#[test]
fn paths_are_found_in_trees_and_by_super() {
    let text = "use crate::{a, b::{c, d}, e as f}; fn g() { super::super::h::i(crate::j::K); super::l(); }
        #[cfg(test)] mod tests { use crate::m; } mod after { fn n() { $crate::o!() } }";
    let mut names = BTreeSet::new();
    reached(text.parse().unwrap(), &["x".into(), "y".into()], &mut names);
    assert_eq!(names.into_iter().collect::<Vec<_>>(), ["a", "b", "e", "h", "j"]);
}
