//! Tests that the page about limits lists all limits.
#![expect(clippy::unwrap_used, reason = "tests")]

use bb::Limits;

#[test]
fn the_page_has_a_row_for_each_limit() {
    let page = include_str!("../../../bb/docs/limits.md");
    let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| `")).collect();
    let row = |limit: &bb::ir::LimitInfo| {
        let default = limit.default();
        let default = if default.is_empty() { "none" } else { &default };
        let (name, unit, phase, doc) = (limit.name, limit.unit, limit.phase.name(), limit.doc());
        format!("| `{name}` | {unit} | {default} | {phase} | {doc} |")
    };
    let expected: Vec<String> = Limits::all().iter().map(row).collect();
    assert_eq!(rows, expected);
}

/// Each test of growth finds its row by the name of the input.
#[test]
fn each_input_of_strangers_has_a_test_that_doubles_it() {
    const TESTS: [&str; 4] = [
        include_str!("../../../generate/tests/growing_files.rs"),
        include_str!("../../../generate/tests/growing_templates.rs"),
        include_str!("../../../generate/tests/growing_schemas.rs"),
        include_str!("../../../doors/serve/tests/besieged/doubled.rs"),
    ];
    let page = include_str!("../../../bb/docs/limits.md");
    let table = page.split("## Inputs of strangers").nth(1).unwrap().split("\n## ").next().unwrap();
    let rows =
        table.lines().filter_map(|line| line.strip_prefix("| a ")).map(|row| row.split('|').next().unwrap());
    let inputs: Vec<String> = rows.map(|row| format!("\"a {}\"", row.trim())).collect();
    assert!(inputs.len() >= 8, "{inputs:?}");
    for input in inputs {
        assert!(TESTS.iter().any(|test| test.contains(&input)), "no test doubles {input}");
    }
}

#[test]
fn limits_of_a_run_are_those_of_compiling() {
    let mut limits = Limits::default();
    limits.set("iterations", "7").unwrap();
    limits.set("value_bytes", "1KiB").unwrap();
    let options = bb::CompileOptions::default().within(&limits);
    assert_eq!((options.iterations, options.value_bytes), (7, 1024));
    let usual = bb::CompileOptions::default();
    assert_eq!(
        (usual.iterations, usual.value_bytes),
        (Limits::default().iterations, Limits::default().value_bytes)
    );
}
