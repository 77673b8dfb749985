//! The section of `bb/docs/operators.md` about ONNX Runtime's operators that ONNX has not.
//!
//! `tests/data/runtime/operators.txt` lists them, as ONNX Runtime's own table of kernels has them. Which run, `bb`'s table tells.

use bb::onnx::operators;
use std::collections::BTreeSet;
use std::fmt::Write;

const LIST: &str = include_str!("../../data/runtime/operators.txt");

const HEADER: &str = "
## ONNX Runtime's operators

What ONNX Runtime 1.32 runs on the CPU, and ONNX has not, or not in these versions of its domain: either *runs*, or why not.
`tests/data/runtime/make.py` made the list from ONNX Runtime's own table of kernels. Where the last column names `arm64`,
`training` or `torch`, builds with these parts alone have the kernel.

";

const PACKED: &str =
    "packs the sequences of an engine that serves, with states for a speculative decoder; not implemented";
const BYTES: &str =
    "the bytes of its weights are what ONNX Runtime's kernels pack; its schema does not define them";
const INTERNAL: &str = "its schema says no more than that it is for internal use";

/// Why operators do not run. A reason of one that runs since is not read.
const REASONS: &[(&str, &str)] = &[
    ("AttnLSTM", "a layer with attention to a memory in each step, of a converter for CNTK; not implemented"),
    ("GatedDeltaNet", PACKED),
    ("GatherPacked", BYTES),
    ("MatMulFpQ4", BYTES),
    ("MaxpoolWithMask", INTERNAL),
    ("SparseToDenseMatMul", "an operand is a sparse tensor, which no value of `bb` is"),
    ("VarlenNGramHashMapping", PACKED),
    ("ShrunkenGather", "for training: `Gather` serves models"),
    ("ATen", "calls a function of PyTorch by its name"),
];

/// Operators of ONNX Runtime that models use in ONNX's domain: checking moves them to ONNX Runtime's domain.
const MOVED: [&str; 2] = ["LayerNormalization", "SimplifiedLayerNormalization"];

/// An operator of the list.
struct Row {
    domain: &'static str,
    name: &'static str,
    versions: &'static str,
    build: &'static str,
}

fn rows() -> impl Iterator<Item = Row> {
    LIST.lines().filter(|line| !line.starts_with('#')).map(|line| {
        let mut words = line.split(' ');
        let mut word = || words.next().unwrap_or_default();
        Row { domain: word(), name: word(), versions: word(), build: word() }
    })
}

impl Row {
    /// Returns whether the oldest version of the list has a function. Later ones have it, too.
    fn runs(&self) -> bool {
        let domain = if self.domain == "ai.onnx" { "" } else { self.domain };
        let since: i64 = self
            .versions
            .split(['+', '-'])
            .next()
            .and_then(|version| version.parse().ok())
            .expect("each line has a version");
        let has = |domain, version| {
            operators().any(|o| (o.domain, o.name) == (domain, self.name) && o.since <= version)
        };
        has(domain, since) || (domain.is_empty() && MOVED.contains(&self.name) && has("com.microsoft", 1))
    }

    fn reason(&self) -> Option<&'static str> {
        REASONS.iter().find(|(name, _)| *name == self.name).map(|(_, reason)| *reason)
    }
}

/// Returns the section.
pub(super) fn section() -> String {
    let mut out = HEADER.to_owned();
    out += "| operator | versions | | |\n|---|---|---|---|\n";
    for row in rows() {
        let how = if row.runs() { "runs" } else { row.reason().unwrap_or("?") };
        let domain = if row.domain == "ai.onnx" { String::new() } else { format!("`{}` ", row.domain) };
        let build = if row.build.is_empty() { String::new() } else { format!("`{}`", row.build) };
        writeln!(out, "| {domain}{} | {} | {how} | {build} |", row.name, row.versions)
            .expect("a string takes any text");
    }
    out
}

#[test]
fn what_does_not_run_has_a_reason() {
    let silent: Vec<_> =
        rows().filter(|row| !row.runs() && row.reason().is_none()).map(|row| row.name).collect();
    assert!(silent.is_empty(), "neither run nor are refused for a reason: {silent:?}");
    assert!(rows().count() > 100 && rows().filter(Row::runs).count() > 80);
}

#[test]
fn reasons_are_of_operators_of_the_list() {
    let names: BTreeSet<&str> = rows().map(|row| row.name).collect();
    let others: Vec<_> = REASONS.iter().filter(|(name, _)| !names.contains(name)).collect();
    assert!(others.is_empty(), "{others:?}");
}
