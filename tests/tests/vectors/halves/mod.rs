//! Tests that operators and operations of families round 16-bit floats once: their errors relative to `f64` results that are rounded
//! once, with numbers near both ends of the types' ranges.
//!
//! `BB_WRITE=1 cargo test --test vectors halves` writes the table of the greatest errors into `bb/docs/semantics.md`; without the
//! variable, the page must have the table that is measured.

mod cases;
mod draws;
mod left_out;
mod operations;
mod operators;

use bb::onnx::Class;
use bb::{BackendHandle, DataType, Runtime, TensorData};
use bb_tests::backends;
use draws::{DRAWS, HALVES, Half, Random, converted};
use left_out::{OPERATIONS, OPERATORS};
use operators::Name;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;

/// The backends of the table, in the order of its columns.
const BACKENDS: [&str; 3] = ["cpu", "reference", "whole-graph"];

/// The greatest error that an operation may have: where `f32` rounds to the middle between two numbers, the second rounding goes
/// to either.
const MOST: f64 = 1.0;

/// The greatest errors of something, for each type and backend.
type Errors = [[f64; BACKENDS.len()]; HALVES.len()];

/// A call: computes results from operands.
type Run<'a> = Box<dyn Fn(&[TensorData]) -> Result<Vec<TensorData>, bb::Error> + 'a>;

/// A call on a backend, with halves and with `f32`.
struct Runs<'a> {
    half: Run<'a>,
    single: Run<'a>,
}

/// The greatest error of a call on a backend, its description, and the number of compared numbers.
#[derive(Default)]
struct Found {
    error: f64,
    what: String,
    compared: usize,
}

/// Compares the results of a call with halves on each backend with its results in `f64` and in `f32`.
fn measured(name: &str, half: &Half, own: &[&TensorData], exact: &Run<'_>, runs: &[Runs<'_>]) -> Vec<Found> {
    let mut all: Vec<Found> = runs.iter().map(|_| Found::default()).collect();
    for (at, [first, others]) in DRAWS.iter().enumerate() {
        let mut random = Random::of(&format!("{name} {at}"));
        let ranges = std::iter::once(first).chain(std::iter::repeat(others));
        let operands: Vec<TensorData> =
            own.iter().zip(ranges).map(|(own, range)| half.draw(&mut random, *range, own)).collect();
        let wide = |dtype| operands.iter().map(|x| converted(x, dtype)).collect::<Vec<_>>();
        // An operand that an operation refuses is refused in every type.
        let Ok(exact) = exact(&wide(DataType::F64)) else { continue };
        let bounded = [first, others].iter().all(|range| range.is_moderate());
        let singles = wide(DataType::F32);
        for (runs, found) in runs.iter().zip(&mut all) {
            let (Ok(single), Ok(got)) = ((runs.single)(&singles), (runs.half)(&operands)) else {
                (found.error, found.what) = (f64::INFINITY, format!("draw {at} fails"));
                found.compared += 1;
                continue;
            };
            for ((got, exact), single) in got.iter().zip(&exact).zip(&single) {
                let (error, what) = if got.dtype() == half.dtype && exact.dtype() == DataType::F64 {
                    half.error(got, exact, single, bounded)
                } else if got.dtype() == exact.dtype() && got.bytes().unwrap() == exact.bytes().unwrap() {
                    (0.0, String::new())
                } else if !got.dtype().is_float() && got.dtype() == exact.dtype() {
                    (f64::INFINITY, format!("other {}", got.dtype()))
                } else {
                    continue;
                };
                found.compared += got.len();
                if error > found.error {
                    (found.error, found.what) = (error, format!("draw {at}: {what}"));
                }
            }
        }
    }
    all
}

/// The measurements.
#[derive(Default)]
struct Table {
    errors: BTreeMap<String, Errors>,
    wrong: Vec<String>,
    refused: BTreeMap<String, String>,
}

impl Table {
    /// Notes the errors of a call on halves on each backend.
    fn note(&mut self, name: &str, of: usize, all: &[Found]) {
        for (backend, found) in all.iter().enumerate().filter(|(_, found)| found.compared > 0) {
            let worst = &mut self.errors.entry(name.to_owned()).or_default()[of][backend];
            *worst = worst.max(found.error);
            if found.error > MOST {
                let (dtype, on) = (HALVES[of].dtype, BACKENDS[backend]);
                let Found { error, what, .. } = found;
                self.wrong.push(format!("{name} of {dtype} on {on} is {error:.2} units off: {what}"));
            }
        }
    }
}

/// The name of an operator in the table.
fn shown((domain, name): &Name) -> String {
    match domain.as_str() {
        "" => name.clone(),
        "com.microsoft" => format!("com.microsoft {name}"),
        other => format!("{other} {name}"),
    }
}

/// Returns whether a schema says that an operator takes no 16-bit floats. An operator without a schema may take them.
fn takes_none(domain: &str, name: &str) -> bool {
    let mut versions = bb::ir::opset::history(domain, name).filter_map(|version| version.types).peekable();
    let is_half = |dtype: &DataType| HALVES.iter().any(|half| half.dtype == *dtype);
    versions.peek().is_some() && !versions.any(|types| types.iter().any(is_half))
}

fn operators(table: &mut Table, started: &[Arc<Runtime>]) {
    let wide = backends::start("reference").unwrap();
    let calls = operators::calls();
    let all: BTreeSet<Name> =
        bb::onnx::operators().map(|op| (op.domain.to_owned(), op.name.to_owned())).collect();
    for name in &all {
        let title = shown(name);
        let classes: Vec<Class> = bb::onnx::operators()
            .filter(|op| (op.domain, op.name) == (name.0.as_str(), name.1.as_str()))
            .map(|op| op.class)
            .collect();
        let computes = classes.iter().any(|class| !matches!(class, Class::Items | Class::ControlFlow));
        if !computes || takes_none(&name.0, &name.1) || OPERATORS.iter().any(|(out, _)| *out == title) {
            continue;
        }
        for (i, call) in calls.get(name).into_iter().flatten().enumerate() {
            let refused = |error: &dyn std::error::Error| super::chain(error);
            let exact = match call.ready(&wide, DataType::F64) {
                Ok(exact) => Box::new(exact) as Run<'_>,
                Err(error) => {
                    table.refused.insert(title.clone(), refused(&*error));
                    continue;
                }
            };
            let own: Vec<&TensorData> = call.floats.iter().map(|(_, x)| x).collect();
            for (of, half) in HALVES.iter().enumerate() {
                let runs = started.iter().map(|on| {
                    let half = Box::new(call.ready(on, half.dtype)?) as Run<'_>;
                    Ok(Runs { half, single: Box::new(call.ready(on, DataType::F32)?) })
                });
                match runs.collect::<Result<Vec<_>, Box<dyn std::error::Error>>>() {
                    Ok(runs) => {
                        let found = measured(&format!("{title} {i}"), half, &own, &exact, &runs);
                        table.note(&format!("`{title}`"), of, &found);
                    }
                    Err(error) => drop(table.refused.insert(title.clone(), refused(&*error))),
                }
            }
        }
        if !table.errors.contains_key(&format!("`{title}`")) {
            let why = table.refused.get(&title).map_or("no vector has a call of it", String::as_str);
            table.wrong.push(format!("{title} is neither measured nor left out: {why}"));
        }
    }
    for (out, _) in OPERATORS {
        if !all.iter().any(|name| shown(name) == *out) {
            table.wrong.push(format!("{out} is left out, and no operator"));
        }
    }
}

fn operations(table: &mut Table, started: &[Arc<Runtime>]) {
    let wide = BackendHandle::new(backends::start("reference").unwrap());
    let handles: Vec<BackendHandle> = started.iter().map(|on| BackendHandle::new(on.clone())).collect();
    for (i, call) in operations::calls().iter().enumerate() {
        let method = call.spec.method;
        if OPERATIONS.iter().any(|(out, _)| *out == method) {
            continue;
        }
        let own: Vec<&TensorData> = call
            .inputs
            .iter()
            .flatten()
            .filter_map(|x| match x {
                operations::Operand::Floats(x) => Some(x),
                operations::Operand::Other(_) => None,
            })
            .collect();
        let on = |handle: &BackendHandle, drawn: &[TensorData]| -> Result<Vec<TensorData>, bb::Error> {
            let mut drawn = drawn.iter();
            let mut inputs = Vec::new();
            for input in &call.inputs {
                inputs.push(match input {
                    Some(operations::Operand::Floats(_)) => drawn.next(),
                    Some(operations::Operand::Other(x)) => Some(x),
                    None => None,
                });
            }
            let inputs: Vec<_> = inputs
                .into_iter()
                .map(|x| x.map(|x| handle.runtime().constant(x)).transpose())
                .collect::<Result<_, _>>()?;
            let inputs: Vec<_> = inputs.iter().map(Option::as_ref).collect();
            handle.call(call.spec, &inputs, &call.params)?.iter().map(|y| handle.to_host(y)).collect()
        };
        for (of, half) in HALVES.iter().enumerate() {
            let exact: Run<'_> = Box::new(|drawn| on(&wide, drawn));
            let runs: Vec<Runs<'_>> = handles
                .iter()
                .map(|handle| Runs {
                    half: Box::new(move |drawn| on(handle, drawn)),
                    single: Box::new(move |drawn| on(handle, drawn)),
                })
                .collect();
            let found = measured(&format!("{method} {i}"), half, &own, &exact, &runs);
            table.note(&format!("`bb::ext` `{method}`"), of, &found);
        }
    }
    for spec in operations::specs() {
        let measured = table.errors.contains_key(&format!("`bb::ext` `{}`", spec.method));
        let out = OPERATIONS.iter().any(|(out, _)| *out == spec.method);
        if measured == out {
            table.wrong.push(format!("{} is neither measured nor left out, or both", spec.method));
        }
    }
}

impl Table {
    fn text(&self) -> String {
        let mut text =
            "| | f16: cpu | reference | whole-graph | bf16: cpu | reference | whole-graph |\n".to_owned();
        text.push_str("|---|---|---|---|---|---|---|\n");
        let mut exact = Vec::new();
        for (name, errors) in &self.errors {
            let flat = errors.as_flattened();
            if flat.iter().all(|error| *error == 0.0) {
                exact.push(name.as_str());
                continue;
            }
            write!(text, "| {name} |").unwrap();
            for error in flat {
                write!(text, " {:.2} |", (error * 100.0).ceil() / 100.0).unwrap();
            }
            text.push('\n');
        }
        write!(text, "\nNo error but what `f32` explains: {}.\n\nLeft out:\n\n", exact.join(", ")).unwrap();
        let operations = OPERATIONS.iter().map(|(name, why)| (format!("`bb::ext` `{name}`"), why));
        let mut reasons: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for (name, why) in OPERATORS.iter().map(|(name, why)| (format!("`{name}`"), why)).chain(operations) {
            reasons.entry(why).or_default().push(name);
        }
        for (why, names) in reasons {
            writeln!(text, "- {}: {why}.", names.join(", ")).unwrap();
        }
        text
    }
}

const BEGIN: &str = "<!-- halves -->\n";
const END: &str = "<!-- end of halves -->";

#[test]
fn halves_are_rounded_once() {
    let started: Vec<_> = BACKENDS.iter().map(|name| backends::start(name).unwrap()).collect();
    let mut table = Table::default();
    operators(&mut table, &started);
    operations(&mut table, &started);
    let path = super::folder().join("../../bb/docs/semantics.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (stated, after) = rest.split_once(END).unwrap();
    let measured = table.text();
    if std::env::var_os("BB_WRITE").is_some() {
        std::fs::write(&path, format!("{before}{BEGIN}{measured}{END}{after}")).unwrap();
    } else {
        assert_eq!(stated, measured);
    }
    assert!(table.wrong.is_empty(), "{} are wrong:\n{}", table.wrong.len(), table.wrong.join("\n"));
}
