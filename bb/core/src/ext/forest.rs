//! The body of [`Ml::tree_ensemble`](super::Ml::tree_ensemble): every row walks down all trees at once, one level at a
//! time.

use super::{Extent, Ops, TreeEnsembleOptions, fail, types};
use crate::{DataType, Error, Tensor};

const OP: &str = "tree_ensemble";

/// The error for a parameter that has no meaning.
fn wrong(part: &'static str, problem: String) -> Error {
    Error::Operator { op: OP.to_owned(), part: part.into(), problem }
}

/// Tables with an entry for each node; leaves lead to themselves.
struct Tables<'a, B: Ops + ?Sized> {
    on: &'a B,
    x: &'a B::Tensor,
    /// How many inner nodes there are.
    inner: usize,
    features: B::Tensor,
    thresholds: B::Tensor,
    /// The children, for true and false.
    children: [B::Tensor; 2],
    /// The mode, whether the test holds for NaN, and the set of each node, where these are needed.
    tests: Option<[B::Tensor; 3]>,
}

impl<'a, B: Ops + ?Sized> Tables<'a, B> {
    fn new(
        on: &'a B,
        x: &'a B::Tensor,
        [nodes, thresholds, weights]: [&B::Tensor; 3],
        tests: bool,
    ) -> Result<Self, B::Error> {
        let count = |x: &B::Tensor, axis| -> Result<(usize, i32), B::Error> {
            let number = on.extent(x, axis).number();
            match (usize::try_from(number), i32::try_from(number)) {
                (Ok(wide), Ok(narrow)) => Ok((wide, narrow)),
                _ => fail::<B, _>(wrong("nodes", format!("are {number}, more than 32 bits count"))),
            }
        };
        let ((inner, first), (leaves, more)) = (count(nodes, 0)?, count(weights, 0)?);
        let end = first.checked_add(more).ok_or_else(|| {
            wrong("nodes", format!("are {inner} and {leaves} leaves, more than 32 bits count"))
        })?;
        let nothing = on.zeros(&[leaves], DataType::I32)?;
        let own = on.host(&[leaves], &(first..end).collect::<Vec<i32>>())?;
        let column = |at: i64, of_leaves: &B::Tensor| {
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

    /// Goes on one level from the nodes `at`.
    fn step(
        &self,
        at: &B::Tensor,
        modes: &[i64],
        missing: bool,
        members: Option<&B::Tensor>,
    ) -> Result<B::Tensor, B::Error> {
        let on = self.on;
        let value = on.gather_elements(self.x, &on.gather(&self.features, at, 0)?, 1)?;
        let threshold = on.gather(&self.thresholds, at, 0)?;
        let mut holds: Option<B::Tensor> = None;
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

    /// Compares values as a mode does.
    fn compared(
        &self,
        mode: i64,
        (value, threshold): (&B::Tensor, &B::Tensor),
        at: &B::Tensor,
        members: Option<&B::Tensor>,
    ) -> Result<B::Tensor, B::Error> {
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
            (6, ..) => fail::<B, _>(wrong("members", "are missing; mode 6 needs them".to_owned())),
            _ => fail::<B, _>(wrong("modes", format!("have {mode}, expected 0 to 6"))),
        }
    }
}

/// Splits tests into their modes, their flags for NaN, and their sets.
fn parts<B: Ops + ?Sized>(on: &B, tests: &B::Tensor) -> Result<[B::Tensor; 3], B::Error> {
    let split = |x: &B::Tensor, by: i32| -> Result<[B::Tensor; 2], B::Error> {
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
pub fn tree_ensemble<B: Ops + ?Sized>(
    on: &B,
    x: &B::Tensor,
    nodes: &B::Tensor,
    thresholds: &B::Tensor,
    roots: &B::Tensor,
    weights: &B::Tensor,
    members: Option<&B::Tensor>,
    depth: i64,
    TreeEnsembleOptions { modes, missing, aggregate }: TreeEnsembleOptions<'_>,
) -> Result<B::Tensor, B::Error> {
    for (name, operand, rank) in [
        ("x", x, 2),
        ("nodes", nodes, 2),
        ("thresholds", thresholds, 1),
        ("roots", roots, 1),
        ("weights", weights, 2),
    ] {
        types::ranked::<B>(OP, (name, operand), rank)?;
    }
    for operand in [Some(x), Some(thresholds), Some(weights), members].into_iter().flatten() {
        types::take::<B>(OP, operand, types::FLOATS)?;
    }
    for operand in [nodes, roots] {
        types::take::<B>(OP, operand, &[DataType::I32])?;
    }
    if let Some(members) = members {
        types::ranked::<B>(OP, ("members", members), 2)?;
    }
    if !on.extent(nodes, 1).is(4) || !on.extent(nodes, 0).equals(&on.extent(thresholds, 0)) {
        let (left, right) = (nodes.shape().into(), thresholds.shape().into());
        return fail::<B, _>(bb_ir::Error::Shapes { op: OP, left, right });
    }
    let tests = missing || modes.len() > 1 || modes.contains(&6);
    let tables = Tables::new(on, x, [nodes, thresholds, weights], tests)?;
    let trees = on.extent(roots, 0);
    let mut at = on.expand_to(&on.unsqueeze(roots, &[0])?, &[on.extent(x, 0), trees.clone()])?;
    // A walk that meets no node twice has no more steps.
    for _ in 0..depth.min(tables.inner as i64) {
        at = tables.step(&at, modes, missing, members)?;
    }
    let leaves = on.sub(&at, &on.host(&[], &[tables.inner as i32])?)?;
    aggregated(on, &on.gather(weights, &leaves, 0)?, &trees, aggregate)
}

/// Aggregates the weights of all trees: `[rows, trees, targets]` to `[rows, targets]`.
fn aggregated<B: Ops + ?Sized>(
    on: &B,
    given: &B::Tensor,
    trees: &Extent,
    aggregate: &str,
) -> Result<B::Tensor, B::Error> {
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
            fail::<B, _>(wrong("aggregate", format!("is `{other}`, expected {expected}")))
        }
    }
}
