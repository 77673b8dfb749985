//! The picture of the crates in `bb/docs/crates.svg`, which is drawn from what Cargo says about them.
//!
//! `BB_DRAW=1 cargo test -p bb-tests --test pages crates_picture` draws it again.

#![expect(clippy::unwrap_used, reason = "tests")]

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The size of a box, and the distances between boxes and between rows.
const BOX: (usize, usize) = (132, 34);
const GAP: (usize, usize) = (14, 46);
const MARGIN: usize = 20;

/// Folders whose crates are programs of users, tests and benchmarks.
const LEFT_OUT: [&str; 4] = ["cli/examples/", "tests", "ui-tests", "benches"];

/// The first part of a crate's folder, its label, and its colours.
const GROUPS: [(&str, &str, &str, &str); 4] = [
    ("bb", "the library", "#dbe7f6", "#2b5c9e"),
    ("backends", "backends", "#dcefdd", "#2f7a3b"),
    ("doors", "doors", "#f7e4cf", "#a0621a"),
    ("", "commands and language models", "#e9e0f3", "#6a3f9c"),
];

struct Package {
    /// The folder, relative to the repository.
    folder: String,
    uses: BTreeSet<String>,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap()
}

/// Reads the crates of the workspace and their dependencies from Cargo, without dependencies of tests only.
fn packages() -> BTreeMap<String, Package> {
    let done = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--format-version", "1"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let all: Value = serde_json::from_slice(&done.stdout).unwrap();
    let mut packages = BTreeMap::new();
    for package in all.get("packages").unwrap().as_array().unwrap() {
        let text = |key: &str| package.get(key).unwrap().as_str().unwrap().to_owned();
        let manifest = PathBuf::from(text("manifest_path"));
        let folder = manifest.parent().unwrap().strip_prefix(root()).unwrap();
        let folder = folder.to_str().unwrap().replace('\\', "/");
        if LEFT_OUT.iter().any(|start| folder.starts_with(start)) {
            continue;
        }
        let dependencies = package.get("dependencies").unwrap().as_array().unwrap();
        let uses = dependencies.iter().filter(|used| used.get("kind").unwrap().is_null());
        let uses = uses.map(|used| used.get("name").unwrap().as_str().unwrap().to_owned()).collect();
        packages.insert(text("name"), Package { folder, uses });
    }
    let names: BTreeSet<String> = packages.keys().cloned().collect();
    packages.values_mut().for_each(|package| package.uses.retain(|used| names.contains(used)));
    packages
}

/// Everything that a crate uses, directly or not.
fn reached<'a>(packages: &'a BTreeMap<String, Package>, name: &'a str, found: &mut BTreeSet<&'a str>) {
    for used in &packages.get(name).unwrap().uses {
        if found.insert(used) {
            reached(packages, used, found);
        }
    }
}

/// The crates that a crate uses, without those that it also reaches through another one.
fn direct<'a>(packages: &'a BTreeMap<String, Package>, name: &str) -> Vec<&'a str> {
    let uses = &packages.get(name).unwrap().uses;
    let through = |used: &&String| {
        !uses.iter().any(|other| {
            let mut found = BTreeSet::new();
            reached(packages, other, &mut found);
            other != *used && found.contains(used.as_str())
        })
    };
    let names = packages.keys();
    names.filter(|name| uses.contains(*name)).filter(through).map(String::as_str).collect()
}

/// The row of a crate: one above the highest crate that it uses.
fn row(packages: &BTreeMap<String, Package>, name: &str) -> usize {
    direct(packages, name).into_iter().map(|used| row(packages, used) + 1).max().unwrap_or(0)
}

/// Orders the crates of each row so that arrows are short.
fn rows(packages: &BTreeMap<String, Package>) -> Vec<Vec<&str>> {
    let mut rows: Vec<Vec<&str>> = Vec::new();
    for name in packages.keys() {
        let row = row(packages, name);
        rows.resize(rows.len().max(row + 1), Vec::new());
        rows.get_mut(row).unwrap().push(name);
    }
    for _ in 0..8 {
        let mut places: BTreeMap<&str, f64> = BTreeMap::new();
        for row in &mut rows {
            let middle = |name: &str| {
                let below: Vec<f64> =
                    direct(packages, name).iter().filter_map(|used| places.get(used).copied()).collect();
                if below.is_empty() { 0.5 } else { below.iter().sum::<f64>() / below.len() as f64 }
            };
            let mut keyed: Vec<(f64, &str)> = row.iter().map(|name| (middle(name), *name)).collect();
            keyed.sort_by(|a, b| a.0.total_cmp(&b.0));
            *row = keyed.into_iter().map(|(_, name)| name).collect();
            let count = row.len() as f64;
            places.extend(row.iter().enumerate().map(|(at, name)| (*name, (at as f64 + 0.5) / count)));
        }
    }
    rows
}

fn group(folder: &str) -> (&'static str, &'static str, &'static str, &'static str) {
    let first = folder.split(['/', '-']).next().unwrap();
    *GROUPS.iter().find(|(start, ..)| *start == first).unwrap_or(GROUPS.last().unwrap())
}

fn draw(packages: &BTreeMap<String, Package>) -> String {
    let rows = rows(packages);
    let widest = rows.iter().map(Vec::len).max().unwrap();
    let width = 2 * MARGIN + widest * (BOX.0 + GAP.0) - GAP.0;
    let height = 2 * MARGIN + rows.len() * (BOX.1 + GAP.1) - GAP.1 + 30;
    let mut corners: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for (at, row) in rows.iter().rev().enumerate() {
        let taken = row.len() * (BOX.0 + GAP.0) - GAP.0;
        for (place, name) in row.iter().enumerate() {
            let x = (width - taken) / 2 + place * (BOX.0 + GAP.0);
            corners.insert(name, (x, MARGIN + at * (BOX.1 + GAP.1)));
        }
    }
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<title>The crates of bb: each uses those below it that its lines lead to</title>\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"#fff\"/>\n"
    );
    for (name, (x, y)) in &corners {
        for used in direct(packages, name) {
            let (to_x, to_y) = corners.get(used).unwrap();
            let (from, to) = (x + BOX.0 / 2, to_x + BOX.0 / 2);
            let (top, middle) = (y + BOX.1, (y + BOX.1 + to_y) / 2);
            let color = group(&packages.get(*name).unwrap().folder).3;
            writeln!(
                out,
                "<path d=\"M{from} {top}C{from} {middle} {to} {middle} {to} {to_y}\" fill=\"none\" stroke=\"{color}\" \
                 stroke-opacity=\"0.45\"/>"
            )
            .unwrap();
        }
    }
    for (name, (x, y)) in &corners {
        let folder = &packages.get(*name).unwrap().folder;
        let (_, _, fill, stroke) = group(folder);
        let (middle, first, second) = (x + BOX.0 / 2, y + 15, y + 28);
        writeln!(
            out,
            "<rect x=\"{x}\" y=\"{y}\" width=\"{}\" height=\"{}\" rx=\"4\" fill=\"{fill}\" stroke=\"{stroke}\"/>\n\
             <text x=\"{middle}\" y=\"{first}\" text-anchor=\"middle\" fill=\"#111\">{name}</text>\n\
             <text x=\"{middle}\" y=\"{second}\" text-anchor=\"middle\" font-size=\"9\" fill=\"#555\">{folder}</text>",
            BOX.0, BOX.1
        )
        .unwrap();
    }
    let y = height - MARGIN;
    for (at, (_, label, fill, stroke)) in GROUPS.iter().enumerate() {
        let x = MARGIN + at * 190;
        writeln!(
            out,
            "<rect x=\"{x}\" y=\"{}\" width=\"12\" height=\"12\" rx=\"2\" fill=\"{fill}\" stroke=\"{stroke}\"/>\n\
             <text x=\"{}\" y=\"{y}\" fill=\"#111\">{label}</text>",
            y - 10,
            x + 18
        )
        .unwrap();
    }
    out + "</svg>\n"
}

#[test]
fn the_picture_of_the_crates_is_of_these_crates() {
    let drawn = draw(&packages());
    let path = root().join("bb/docs/crates.svg");
    if std::env::var_os("BB_DRAW").is_some() {
        std::fs::write(&path, &drawn).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap();
    assert!(
        committed == drawn,
        "bb/docs/crates.svg is of other crates: BB_DRAW=1 cargo test -p bb-tests --test pages crates_picture"
    );
}
