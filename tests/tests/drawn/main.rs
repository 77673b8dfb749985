//! Runs models that a program draws at random on every backend, and compares the results with each other, with ONNX's
//! evaluator and with ONNX Runtime.
//!
//! `tests/drawn/draw.py` draws the models. `tests/drawn/known.txt` lists the wrong results of others; each other difference
//! fails the test. Some hundred models are part of all tests; `BB_DRAWN=20000 BB_SEED=7 cargo test -p bb-tests --test drawn --
//! --nocapture` draws 20,000. `BB_FIRST` is the number of the first model, and `BB_ONLY` the one operator that is drawn. `BB_REPORT`
//! is a file for all differences, one JSON object per line, `BB_RECORDS` a file with the output of `draw.py`, and `BB_UNUSED=1` fails if a row of the list fits nothing.
#![expect(clippy::unwrap_used, reason = "tests")]

mod answer;
mod compare;
mod known;
mod record;

use answer::{BACKENDS, BackendAnswer};
use known::Known;
use record::Record;
use serde_json::json;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The models that are drawn if `BB_DRAWN` is not set.
const USUAL: usize = 400;

/// The longest time that a backend may take for a model.
const LONGEST: Duration = Duration::from_secs(20);

/// A difference between answers.
struct Difference {
    /// Its kind: `panic`, `late`, `apart`, `evaluator`, `ort`, `both`, `refused`.
    kind: &'static str,
    detail: String,
}

/// Returns the differences between the answers of the backends and of others.
fn differences(record: &Record) -> Vec<Difference> {
    let mut found = Vec::new();
    let mut add = |kind, detail| found.push(Difference { kind, detail });
    let mut answers = Vec::new();
    for name in BACKENDS {
        let start = Instant::now();
        let answer = answer::of(name, record);
        if start.elapsed() > LONGEST {
            add("late", format!("{name}: {:?}", start.elapsed()));
        }
        if let BackendAnswer::Panicked(text) = &answer {
            add("panic", format!("{name}: {text}"));
        }
        answers.push(answer);
    }
    let Some(ours) = answers.first() else { return found };
    for (name, other) in BACKENDS.iter().zip(&answers).skip(1) {
        // This backend keeps halves in `f32` between operators.
        if *name == "whole-graph"
            && record.has("tags", "chain")
            && record.precisions().any(|dtype| dtype.bits() < 32)
        {
            continue;
        }
        match (ours, other) {
            (BackendAnswer::Given(ours), BackendAnswer::Given(other)) => {
                if let Some(detail) = compare::leaves(record, ours, other) {
                    add("apart", format!("{name} for cpu: {detail}"));
                }
            }
            (BackendAnswer::Refused(_), BackendAnswer::Refused(_))
            | (BackendAnswer::Panicked(_), _)
            | (_, BackendAnswer::Panicked(_)) => {}
            (BackendAnswer::Given(_), BackendAnswer::Refused(text)) => {
                add("apart", format!("only {name} refuses: {text}"))
            }
            (BackendAnswer::Refused(text), BackendAnswer::Given(_)) => {
                add("apart", format!("{name} gives what cpu refuses: {text}"))
            }
        }
    }
    let judges = [("evaluator", &record.evaluator), ("ort", &record.ort)];
    match ours {
        BackendAnswer::Given(ours) => {
            let wrong = judges
                .map(|(_, answer)| answer.as_ref().and_then(|answer| compare::leaves(record, answer, ours)));
            match (wrong, &record.evaluator, &record.ort) {
                ([Some(detail), Some(_)], Some(a), Some(b)) if compare::leaves(record, a, b).is_none() => {
                    add("both", detail);
                }
                (wrong, evaluator, ort) => {
                    let both = evaluator.is_some() && ort.is_some();
                    let several = wrong.iter().flatten().count() > 1;
                    let vote = if several {
                        ", the other gives another value"
                    } else if both {
                        ", the other agrees with us"
                    } else {
                        ""
                    };
                    for ((name, _), detail) in judges.iter().zip(wrong) {
                        if let Some(detail) = detail {
                            add(name, format!("{detail}{vote}"));
                        }
                    }
                }
            }
        }
        BackendAnswer::Refused(text) => {
            let who: Vec<&str> =
                judges.iter().filter(|(_, answer)| answer.is_some()).map(|(name, _)| *name).collect();
            if !who.is_empty() {
                add("refused", format!("{} gives a value: {text}", who.join(" and ")));
            }
        }
        BackendAnswer::Panicked(_) => {}
    }
    found
}

/// Whether Python has the packages that draw models.
fn has_packages(python: &str) -> bool {
    let packages = Command::new(python).args(["-c", "import onnx, onnxruntime, ml_dtypes"]).output();
    packages.is_ok_and(|output| output.status.success())
}

fn setting(name: &str, default: usize) -> usize {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[test]
fn drawn_models_give_what_others_give() {
    let python = std::env::var("BB_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    if !has_packages(&python) {
        println!(
            "skipped: {python} has no packages `onnx`, `onnxruntime` and `ml_dtypes`, which draw models and run them"
        );
        return;
    }
    let (count, seed) = (setting("BB_DRAWN", USUAL), setting("BB_SEED", 1));
    // Others may compute otherwise on another processor, or in another version. Long runs are for people, who look at each difference.
    let is_long = std::env::var("BB_DRAWN").is_ok();
    let root = env!("CARGO_MANIFEST_DIR");
    let mut command = Command::new(&python);
    command.arg(format!("{root}/drawn/draw.py")).arg(bb_onnx_cases::folder().unwrap());
    command.args([seed, setting("BB_FIRST", 0), count].map(|n| n.to_string()));
    if let Ok(operator) = std::env::var("BB_ONLY") {
        command.args(["--only", &operator]);
    }
    // Records may have been written before, so that they are drawn once for several runs.
    let (mut child, from): (_, Box<dyn Read>) = match std::env::var("BB_RECORDS") {
        Ok(path) => (None, Box::new(std::io::BufReader::new(std::fs::File::open(path).unwrap()))),
        Err(_) => {
            let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
            let from = Box::new(child.stdout.take().unwrap());
            (Some(child), from)
        }
    };
    let records = record::Reader::new(from);
    let mut report = std::env::var("BB_REPORT").ok().map(|path| std::fs::File::create(path).unwrap());
    let mut known = Known::read(&std::fs::read_to_string(format!("{root}/drawn/known.txt")).unwrap());
    let (mut drawn, mut judged, mut explained, mut unexplained) = (0, 0, BTreeMap::new(), Vec::new());
    for record in records {
        drawn += 1;
        judged += usize::from(record.evaluator.is_some() || record.ort.is_some());
        for Difference { kind, detail } in differences(&record) {
            let row = known.row(&record, kind, &detail);
            if let Some(report) = &mut report {
                let line = json!({"kind": kind, "detail": detail, "model": record.description, "known": row.is_some()});
                writeln!(report, "{line}").unwrap();
            }
            match row {
                Some(row) => *explained.entry(row).or_insert(0) += 1,
                None if is_long || matches!(kind, "panic" | "late") => {
                    unexplained.push(format!("{} {kind}: {detail}", record.name()));
                }
                None => println!("{} {kind}: {detail}", record.name()),
            }
        }
    }
    if let Some(child) = &mut child {
        assert!(child.wait().unwrap().success());
    }
    println!(
        "{drawn} models drawn with the seed {seed}, of which {judged} have a result of the evaluator or ONNX Runtime"
    );
    for (row, count) in &explained {
        println!("{count:6} {row}");
    }
    let shown = unexplained.iter().take(50).map(String::as_str).collect::<Vec<_>>().join("\n");
    assert!(unexplained.is_empty(), "{} differences without a reason:\n{shown}", unexplained.len());
    // Some models are too large, or end the process that draws them.
    assert!(
        drawn * 10 > count * 9 && judged * 2 > count,
        "only {drawn} of {count} models drawn, {judged} judged"
    );
    if std::env::var("BB_UNUSED").is_ok() {
        let unused = known.unused();
        assert!(unused.is_empty(), "rows of known.txt that fit nothing:\n{}", unused.join("\n"));
    }
}
