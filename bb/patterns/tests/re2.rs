//! Compares the matches with the ones that RE2 finds.
//!
//! `data/re2.jsonl` is the output of `python tests/drawn/patterns.py 400`, which calls RE2. `BB_RE2=FILE` reads a longer
//! file instead.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use base64::Engine as _;
use bb_patterns as _;
use serde_json::Value;
use std::io::BufRead as _;
use std::ops::Range;

/// Reads a string as bytes. If the bytes are not UTF-8, they are in base64.
fn bytes(of: &Value, name: &str) -> Vec<u8> {
    match &of[name] {
        Value::String(text) => text.clone().into_bytes(),
        _ => {
            let text = of[format!("{name}64")].as_str().unwrap();
            base64::engine::general_purpose::STANDARD.decode(text).unwrap()
        }
    }
}

fn range(of: &Value) -> Option<Range<usize>> {
    let ends: Option<[usize; 2]> = serde_json::from_value(of.clone()).unwrap();
    ends.map(|[start, end]| start..end)
}

/// Returns the differences from RE2.
fn differences(line: &Value) -> Vec<String> {
    let engine = bb_ir::pattern::engine().unwrap();
    let Ok(pattern) = String::from_utf8(bytes(line, "pattern")) else {
        // Operators refuse a pattern that is not UTF-8 before they compile it. RE2 refuses it, too.
        return if line["refused"].is_string() { Vec::new() } else { vec!["it is no UTF-8".to_owned()] };
    };
    let mut compiled = match (engine.compile)(&pattern) {
        Ok(compiled) => compiled,
        Err(problem) if line["refused"].is_string() => {
            assert!(problem.starts_with("is `"), "{problem}");
            return Vec::new();
        }
        Err(problem) => return vec![problem],
    };
    if let Some(reason) = line["refused"].as_str() {
        return vec![format!("RE2 says {reason}")];
    }
    let mut differences = Vec::new();
    for case in line["cases"].as_array().unwrap() {
        let text = bytes(case, "text");
        let full = compiled.matches_all(&text).unwrap();
        if full != case["full"].as_bool().unwrap() {
            differences.push(format!("{case}: {full} for all of it"));
        }
        for (from, name) in [(0, "longest"), (case["from"].as_u64().unwrap() as usize, "later")] {
            let want = range(&case[name]);
            // Operators ignore an empty match inside a character, and continue after it.
            if want
                .as_ref()
                .is_some_and(|at| at.is_empty() && text.get(at.start).is_some_and(|b| b & 0xC0 == 0x80))
            {
                continue;
            }
            let got = compiled.find(&text, from).unwrap();
            if got != want {
                differences.push(format!("{case}: {got:?} from {from}"));
            }
        }
    }
    differences
}

#[test]
fn patterns_match_what_re2_matches() {
    let file = std::env::var("BB_RE2")
        .unwrap_or_else(|_| concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/re2.jsonl").to_owned());
    let (mut count, mut wrong) = (0, Vec::new());
    for line in std::io::BufReader::new(std::fs::File::open(file).unwrap()).lines() {
        let line: Value = serde_json::from_str(&line.unwrap()).unwrap();
        count += 1;
        let differences = differences(&line);
        if let Some(first) = differences.first() {
            wrong.push(format!("{} {}: {first}", line["number"], line["pattern"]));
        }
    }
    assert!(count >= 400, "{count} patterns");
    assert!(
        wrong.is_empty(),
        "{} of {count} differ:\n{}",
        wrong.len(),
        wrong[..wrong.len().min(30)].join("\n")
    );
}
