//! The body of [`Ml::tree_ensemble`](super::Ml::tree_ensemble). All rows walk down all trees in parallel, one level at
//! a time.

use super::{Extent, TreeEnsembleOptions, fail, types};
use crate::prelude::*;
use crate::trace::{TraceStop, TracedTensor, Tracer};
use crate::{DataType, Error, Tensor};

const OP: &str = "tree_ensemble";

/// Returns the error for an invalid parameter.
fn wrong(part: &'static str, problem: String) -> Error {
    Error::Operator { op: OP.to_owned(), part: part.into(), problem }
}

/// Tables with one entry per node. The children of a leaf are the leaf itself.
struct Tables<'a> {
    on: &'a Tracer,
    x: &'a TracedTensor,
    /// The number of inner nodes.
    inner: usize,
    features: TracedTensor,
    thresholds: TracedTensor,
    /// The children for the test results true and false.
    children: [TracedTensor; 2],
    /// The mode, the result for NaN, and the set of each node, if they are needed.
    tests: Option<[TracedTensor; 3]>,
}

impl<'a> Tables<'a> {
    fn new(
        on: &'a Tracer,
        x: &'a TracedTensor,
        [nodes, thresholds, weights]: [&TracedTensor; 3],
        tests: bool,
    ) -> Result<Self, TraceStop> {
        let count = |x: &TracedTensor, axis| -> Result<(usize, i32), TraceStop> {
            let number = on.extent(x, axis).number();
            match (usize::try_from(number), i32::try_from(number)) {
                (Ok(wide), Ok(narrow)) => Ok((wide, narrow)),
                _ => fail(wrong("nodes", format!("are {number}, more than 32 bits count"))),
            }
        };
        let ((inner, first), (leaves, more)) = (count(nodes, 0)?, count(weights, 0)?);
        let end = first.checked_add(more).ok_or_else(|| {
            wrong("nodes", format!("are {inner} and {leaves} leaves, more than 32 bits count"))
        })?;
        let nothing = on.zeros(&[leaves], DataType::I32)?;
        let own = on.host(&[leaves], &(first..end).collect::<Vec<i32>>())?;
        let column = |at: i64, of_leaves: &TracedTensor| {
            let inner = on.squeeze(&on.slice(nodes, &[at], &[at + 1], &[1], &[])?, &[1])?;
            on.concat(&[&inner, of_leaves], 0)
        };
        let no_thresholds = on.zeros(&[leaves], thresholds.dtype())?;
        let tests = if tests { Some(parts(on, &column(1, &nothing)?)?) } else { None };
        Ok(Tables {
            on,
            x,
            inner,
            features: column(0, &nothing)?,
            thresholds: on.concat(&[thresholds, &no_thresholds], 0)?,
            children: [column(2, &own)?, column(3, &own)?],
            tests,
        })
    }

    /// Descends one level from the nodes `at`.
    fn step(
        &self,
        at: &TracedTensor,
        modes: &[i64],
        missing: bool,
        members: Option<&TracedTensor>,
    ) -> Result<TracedTensor, TraceStop> {
        let on = self.on;
        let value = on.gather_elements(self.x, &on.gather(&self.features, at, 0)?, 1)?;
        let threshold = on.gather(&self.thresholds, at, 0)?;
        let mut holds: Option<TracedTensor> = None;
        for &mode in modes {
            let this = self.compared(mode, (&value, &threshold), at, members)?;
            holds = Some(match (holds, &self.tests) {
                (Some(other), Some([modes, ..])) => {
                    let here = on.equal(&on.gather(modes, at, 0)?, &on.host(&[], &[mode as i32])?)?;
                    on.r#where(&here, &this, &other)?
                }
                _ => this,
            });
        }
        let mut holds = holds.ok_or_else(|| wrong("modes", "are none".to_owned()))?;
        if let (true, Some([_, missing, _])) = (missing, &self.tests) {
            let holding = on.equal(&on.gather(missing, at, 0)?, &on.host(&[], &[1i32])?)?;
            holds = on.r#where(&on.is_nan(&value)?, &holding, &holds)?;
        }
        let [yes, no] = &self.children;
        on.r#where(&holds, &on.gather(yes, at, 0)?, &on.gather(no, at, 0)?)
    }

    /// Compares values in the way that a mode specifies.
    fn compared(
        &self,
        mode: i64,
        (value, threshold): (&TracedTensor, &TracedTensor),
        at: &TracedTensor,
        members: Option<&TracedTensor>,
    ) -> Result<TracedTensor, TraceStop> {
        let on = self.on;
        match (mode, members, &self.tests) {
            (0, ..) => on.less_or_equal(value, threshold),
            (1, ..) => on.less(value, threshold),
            (2, ..) => on.greater_or_equal(value, threshold),
            (3, ..) => on.greater(value, threshold),
            (4, ..) => on.equal(value, threshold),
            (5, ..) => on.not(&on.equal(value, threshold)?),
            (6, Some(members), Some([.., sets])) => {
                let set = on.gather(members, &on.gather(sets, at, 0)?, 0)?;
                on.reduce_max(&on.equal(&on.unsqueeze(value, &[2])?, &set)?, &[2], false)
            }
            (6, ..) => fail(wrong("members", "are missing; mode 6 needs them".to_owned())),
            _ => fail(wrong("modes", format!("have {mode}, expected 0 to 6"))),
        }
    }
}

/// Splits encoded tests into their modes, their results for NaN, and their sets.
fn parts(on: &Tracer, tests: &TracedTensor) -> Result<[TracedTensor; 3], TraceStop> {
    let split = |x: &TracedTensor, by: i32| -> Result<[TracedTensor; 2], TraceStop> {
        let by = on.host(&[], &[by])?;
        let high = on.div(x, &by)?;
        let low = on.sub(x, &on.mul(&high, &by)?)?;
        Ok([high, low])
    };
    let [sets, low] = split(tests, 16)?;
    let [missing, modes] = split(&low, 8)?;
    Ok([modes, missing, sets])
}

/// The body of [`Ml::tree_ensemble`](super::Ml::tree_ensemble).
#[expect(clippy::too_many_arguments, reason = "the operands of the row")]
pub fn tree_ensemble(
    on: &Tracer,
    x: &TracedTensor,
    nodes: &TracedTensor,
    thresholds: &TracedTensor,
    roots: &TracedTensor,
    weights: &TracedTensor,
    members: Option<&TracedTensor>,
    depth: i64,
    TreeEnsembleOptions { modes, missing, aggregate }: TreeEnsembleOptions<'_>,
) -> Result<TracedTensor, TraceStop> {
    for (name, operand, rank) in [
        ("x", x, 2),
        ("nodes", nodes, 2),
        ("thresholds", thresholds, 1),
        ("roots", roots, 1),
        ("weights", weights, 2),
    ] {
        types::ranked(OP, (name, operand), rank)?;
    }
    for operand in [Some(x), Some(thresholds), Some(weights), members].into_iter().flatten() {
        types::take(OP, operand, types::FLOATS)?;
    }
    for operand in [nodes, roots] {
        types::take(OP, operand, &[DataType::I32])?;
    }
    if let Some(members) = members {
        types::ranked(OP, ("members", members), 2)?;
    }
    if !on.extent(nodes, 1).is(4) || !on.extent(nodes, 0).equals(&on.extent(thresholds, 0)) {
        let (left, right) = (nodes.shape().into(), thresholds.shape().into());
        return fail(bb_ir::Error::Shapes { op: OP, left, right });
    }
    let tests = missing || modes.len() > 1 || modes.contains(&6);
    let tables = Tables::new(on, x, [nodes, thresholds, weights], tests)?;
    let trees = on.extent(roots, 0);
    let mut at = on.expand_to(&on.unsqueeze(roots, &[0])?, &[on.extent(x, 0), trees.clone()])?;
    // A path without cycles visits each inner node at most once, so it has at most that number of steps.
    for _ in 0..depth.min(tables.inner as i64) {
        at = tables.step(&at, modes, missing, members)?;
    }
    let leaves = on.sub(&at, &on.host(&[], &[tables.inner as i32])?)?;
    aggregated(on, &on.gather(weights, &leaves, 0)?, &trees, aggregate)
}

/// Aggregates the weights of all trees, from `[rows, trees, targets]` to `[rows, targets]`.
fn aggregated(
    on: &Tracer,
    given: &TracedTensor,
    trees: &Extent,
    aggregate: &str,
) -> Result<TracedTensor, TraceStop> {
    match aggregate {
        "sum" => on.reduce_sum(given, &[1], false),
        "average" => {
            let sum = on.reduce_sum(given, &[1], false)?;
            on.div(&sum, &on.scalar_like(&sum, trees.number() as f64)?)
        }
        "min" => on.reduce_min(given, &[1], false),
        "max" => on.reduce_max(given, &[1], false),
        other => {
            let expected = "`sum`, `average`, `min` or `max`";
            fail(wrong("aggregate", format!("is `{other}`, expected {expected}")))
        }
    }
}
