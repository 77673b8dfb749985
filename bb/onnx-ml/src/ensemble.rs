//! Tree ensembles.

use super::forest::{Forest, Mode, Places, Tables, doubles, list};
use super::linear::rows;
use super::scores::{Labels, Transform, classes_types, one_for_each, pair, targets_types};
use bb_core::ext::{TreeEnsembleOptions, math};
use bb_core::operator::{Call, OpResult, one};
use bb_core::prelude::*;
use bb_core::trace::{TraceStop, TracedTensor, Tracer};
use bb_core::{DataType, Error, Tensor};
use bb_ir::TensorData;
use bb_ir::convert::{Rounding, cast};
use bb_ir::infer::rule::{NodeFacts, Types};
use bb_onnx::shared::operators;
use smallvec::smallvec;

operators! {
    "ai.onnx.ml" {
        TreeEnsemble => Primitives(tree_ensemble), infer: By(tree_ensemble_types), becomes: MlOp::TreeEnsemble, ignores: { "nodes_hitrates": "it tells how often nodes are visited, and changes no result" };
        TreeEnsembleClassifier => Primitives(tree_ensemble_classifier), infer: By(classifier_types), ignores: { "nodes_hitrates": "it tells how often nodes are visited, and changes no result", "nodes_hitrates_as_tensor": "it tells how often nodes are visited, and changes no result" };
        TreeEnsembleRegressor => Primitives(tree_ensemble_regressor), infer: By(regressor_types), ignores: { "nodes_hitrates": "it tells how often nodes are visited, and changes no result", "nodes_hitrates_as_tensor": "it tells how often nodes are visited, and changes no result" };
    }
}

/// The maximum number of leaf weights, including zeros.
const MOST_WEIGHTS: usize = 1 << 28;

/// How the weights of the leaves that a row reaches are combined into its scores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Aggregate {
    Average,
    Sum,
    Min,
    Max,
}

impl Aggregate {
    fn named<T>(call: &Call<'_, T>) -> Result<Aggregate, Error> {
        Ok(match call.text_or("aggregate_function", "SUM")? {
            "AVERAGE" => Aggregate::Average,
            "SUM" => Aggregate::Sum,
            "MIN" => Aggregate::Min,
            "MAX" => Aggregate::Max,
            other => {
                let problem = format!("is `{other}`, expected `AVERAGE`, `SUM`, `MIN` or `MAX`");
                return Err(call.wrong("aggregate_function", problem));
            }
        })
    }

    fn numbered<T>(call: &Call<'_, T>) -> Result<Aggregate, Error> {
        Ok(match call.int_or("aggregate_function", 1)? {
            0 => Aggregate::Average,
            1 => Aggregate::Sum,
            2 => Aggregate::Min,
            3 => Aggregate::Max,
            other => return Err(call.wrong("aggregate_function", format!("is {other}, expected 0 to 3"))),
        })
    }

    /// Returns the name for [`Ml::tree_ensemble`](bb_core::ext::Ml::tree_ensemble).
    fn word(self) -> &'static str {
        match self {
            Aggregate::Average => "average",
            Aggregate::Sum => "sum",
            Aggregate::Min => "min",
            Aggregate::Max => "max",
        }
    }

    /// Returns the neutral element of the aggregation: the maximum finite number for minima, the minimum for maxima, and 0 for sums.
    fn start(self, dtype: DataType) -> f64 {
        let most = if dtype == DataType::F64 { f64::MAX } else { f64::from(f32::MAX) };
        match self {
            Aggregate::Average | Aggregate::Sum => 0.0,
            Aggregate::Min => most,
            Aggregate::Max => -most,
        }
    }

    fn join(self, a: f64, b: f64) -> f64 {
        match self {
            Aggregate::Average | Aggregate::Sum => a + b,
            Aggregate::Min => a.min(b),
            Aggregate::Max => a.max(b),
        }
    }
}

/// The weights that leaves add to targets, as leaf index, target index and weight.
type Votes = Vec<(usize, usize, f64)>;

/// Creates a tensor of numbers in the type of the features.
fn numbers(on: &Tracer, shape: &[usize], list: &[f64], dtype: DataType) -> Result<TracedTensor, TraceStop> {
    let data = TensorData::new(shape, list).map_err(Error::from)?;
    on.constant(&cast(&data, dtype, Rounding::default()).map_err(Error::from)?)
}

/// Creates the table of the sets for membership tests. Shorter sets are padded with NaN, which equals no number.
fn members(on: &Tracer, forest: &Forest, dtype: DataType) -> Result<TracedTensor, TraceStop> {
    let testing = forest.nodes.iter().filter(|node| node.mode == Mode::Member);
    let sets: Vec<&[f64]> = testing.map(|node| node.members.as_slice()).collect();
    let width = sets.iter().map(|set| set.len()).max().unwrap_or(0);
    let size = bb_ir::element_count(&[sets.len(), width]).filter(|&n| n <= MOST_WEIGHTS);
    if size.is_none() {
        let shape = [sets.len(), width].as_slice().into();
        let (dtype, limit) = (DataType::F64, MOST_WEIGHTS * size_of::<f64>());
        let error = bb_ir::Error::TooLarge { dtype, shape, limit, name: None };
        return bb_core::ext::fail(error);
    }
    let padded: Vec<f64> = sets
        .iter()
        .flat_map(|set| set.iter().copied().chain(std::iter::repeat_n(f64::NAN, width - set.len())))
        .collect();
    numbers(on, &[sets.len(), width], &padded, dtype)
}

/// Reads the features, and refuses nodes that test a feature index out of range.
fn features(
    on: &Tracer,
    call: &Call<'_, TracedTensor>,
    forest: &Forest,
    double: bool,
) -> Result<TracedTensor, TraceStop> {
    let x = rows(on, call)?;
    let x = if double { math::to(on, &x, DataType::F64)? } else { x };
    let count = usize::try_from(on.extent(&x, 1).number()).unwrap_or(0);
    match forest.nodes.iter().find(|node| node.leaf.is_none() && node.feature >= count) {
        Some(node) => {
            let problem = format!("has {}, expected less than {count}", node.feature);
            Err(call.wrong("nodes_featureids", problem).into())
        }
        None => Ok(x),
    }
}

/// Computes the scores of rows of features, `[n, targets]`: the weights of the reached leaves, aggregated for each target.
fn aggregated(
    on: &Tracer,
    call: &Call<'_, TracedTensor>,
    forest: &Forest,
    x: &TracedTensor,
    (votes, targets, how): (&Votes, usize, Aggregate),
) -> Result<TracedTensor, TraceStop> {
    let size = bb_ir::element_count(&[forest.leaves, targets]).filter(|&n| n <= MOST_WEIGHTS);
    let size = size.ok_or_else(|| {
        call.wrong(
            "targets",
            format!("are {targets}, which with {} leaves exceed {MOST_WEIGHTS}", forest.leaves),
        )
    })?;
    let mut weights: Vec<Option<f64>> = vec![None; size];
    for &(leaf, target, weight) in votes {
        if target >= targets {
            return Err(call
                .wrong("targets", format!("are {targets}; a leaf gives to target {target}"))
                .into());
        }
        if let Some(slot) = weights.get_mut(leaf * targets + target) {
            *slot = Some(slot.map_or(weight, |sum| how.join(sum, weight)));
        }
    }
    let start = how.start(x.dtype());
    let weights: Vec<f64> = weights.into_iter().map(|w| w.unwrap_or(start)).collect();
    let weights = numbers(on, &[forest.leaves, targets], &weights, x.dtype())?;
    walked(on, call, forest, (x, &weights), how)
}

/// Evaluates the trees for the rows of `x`, and aggregates the weights of the reached leaves.
fn walked(
    on: &Tracer,
    call: &Call<'_, TracedTensor>,
    forest: &Forest,
    (x, weights): (&TracedTensor, &TracedTensor),
    how: Aggregate,
) -> Result<TracedTensor, TraceStop> {
    let Tables { nodes, thresholds, roots } = forest.tables(call)?;
    let inner = thresholds.len();
    let nodes = on.host(&[inner, 4], &nodes)?;
    let thresholds = numbers(on, &[inner], &thresholds, x.dtype())?;
    let roots = on.host(&[roots.len()], &roots)?;
    let occurs = |mode: &Mode| forest.inner().any(|node| node.mode == *mode);
    let modes: Vec<Mode> = Mode::ALL.into_iter().filter(occurs).collect();
    let sets = if modes.contains(&Mode::Member) { Some(members(on, forest, x.dtype())?) } else { None };
    let options = TreeEnsembleOptions {
        modes: &modes.iter().map(|&mode| mode as i64).collect::<Vec<_>>(),
        // Comparisons with NaN are false, except `!=`.
        missing: forest.inner().any(|node| node.missing) || modes.contains(&Mode::NotEqual),
        aggregate: how.word(),
    };
    let depth = forest.depth as i64;
    on.tree_ensemble(x, &nodes, &thresholds, &roots, weights, sets.as_ref(), depth, options)
}

/// Reads the weights of leaves, which are named by tree and node. Also returns whether the weights are `f64`.
fn votes<T>(
    call: &Call<'_, T>,
    forest: &Forest,
    places: &Places,
    what: &str,
) -> Result<(Votes, bool), Error> {
    let ints = |part: &str| -> Result<&[i64], Error> {
        Ok(call.ints(&format!("{what}_{part}"))?.unwrap_or_default())
    };
    let (trees, nodes, ids) = (ints("treeids")?, ints("nodeids")?, ints("ids")?);
    let (weights, double) = list(call, &format!("{what}_weights"))?.unwrap_or_default();
    let count = weights.len();
    if [trees.len(), nodes.len(), ids.len()] != [count; 3] {
        let problem = format!(
            "has {count} entries beside {} trees, {} nodes and {} targets",
            trees.len(),
            nodes.len(),
            ids.len()
        );
        return Err(call.wrong(format!("{what}_weights").as_str(), problem));
    }
    let entries = trees.iter().zip(nodes).zip(ids.iter().zip(weights));
    let votes = entries.map(|((&tree, &node), (&id, weight))| {
        let leaf = places.get(&(tree, node)).and_then(|&place| forest.nodes.get(place)?.leaf);
        let leaf = leaf.ok_or_else(|| {
            call.wrong(
                format!("{what}_nodeids").as_str(),
                format!("has {node} of tree {tree}, which is no leaf"),
            )
        })?;
        let target = usize::try_from(id).map_err(|_| {
            call.wrong(format!("{what}_ids").as_str(), format!("has {id}, expected no negative number"))
        })?;
        Ok((leaf, target, weight))
    });
    Ok((votes.collect::<Result<_, Error>>()?, double))
}

/// Adds the base values, one for each column.
fn with_base(
    on: &Tracer,
    call: &Call<'_, TracedTensor>,
    scores: &TracedTensor,
    base: &[f64],
    columns: usize,
) -> Result<TracedTensor, TraceStop> {
    if base.is_empty() {
        return Ok(scores.clone());
    }
    if base.len() != columns {
        let problem = format!("has {} numbers, expected {columns}", base.len());
        return Err(call.wrong("base_values", problem).into());
    }
    on.add(scores, &math::to(on, &on.host(&[columns], base)?, scores.dtype())?)
}

/// Reads the number of targets.
fn targets<T>(call: &Call<'_, T>) -> Result<usize, Error> {
    let count = call.int("n_targets")?;
    usize::try_from(count)
        .ok()
        .filter(|&n| n > 0)
        .ok_or_else(|| call.wrong("n_targets", format!("is {count}, expected a positive number")))
}

fn regressor_types(at: NodeFacts<'_>) -> Option<Types> {
    targets_types(at, Some(DataType::F32), at.int("n_targets", 0)?)
}

/// `TreeEnsembleRegressor`.
pub(crate) fn tree_ensemble_regressor(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    let (forest, places, split) = Forest::by_name(call)?;
    let (votes, weighty) = votes(call, &forest, &places, "target")?;
    let (targets, transform) = (targets(call)?, Transform::named(call)?);
    let x = features(on, call, &forest, split || weighty)?;
    let scores = aggregated(on, call, &forest, &x, (&votes, targets, Aggregate::named(call)?))?;
    let (base, _) = list(call, "base_values")?.unwrap_or_default();
    let scores = with_base(on, call, &scores, &base, targets)?;
    Ok(one(math::to(on, &transform.apply(on, &scores)?, DataType::F32)?))
}

fn classifier_types(at: NodeFacts<'_>) -> Option<Types> {
    classes_types(at, "classlabels_int64s", "classlabels_strings", |classes| Some(one_for_each(classes)))
}

/// `TreeEnsembleClassifier`. With two classes, leaves may have weights for only one class. The score of the other class then follows from
/// it.
pub(crate) fn tree_ensemble_classifier(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    let labels = Labels::of(call, "classlabels_int64s", "classlabels_strings")?;
    let transform = Transform::named(call)?;
    let (forest, places, split) = Forest::by_name(call)?;
    let (mut votes, weighty) = votes(call, &forest, &places, "class")?;
    let (base, _) = list(call, "base_values")?.unwrap_or_default();
    let x = features(on, call, &forest, split || weighty)?;
    let first = votes.first().map_or(0, |vote| vote.1);
    if labels.len() != 2 || votes.iter().any(|vote| vote.1 != first) {
        let count = labels.len();
        let scores = aggregated(on, call, &forest, &x, (&votes, count, Aggregate::Sum))?;
        let scores = with_base(on, call, &scores, &base, count)?;
        let y = transform.apply(on, &scores)?;
        let label = if count == 1 {
            labels.only(on, &on.greater(&scores, &on.scalar_like(&scores, 0.0)?)?)?
        } else {
            labels.best(on, &y)?
        };
        return Ok(smallvec![Some(label), Some(math::to(on, &y, DataType::F32)?)]);
    }
    if first >= 2 {
        return Err(call.wrong("class_ids", format!("has {first}; there are 2 classes")).into());
    }
    for vote in &mut votes {
        vote.1 = 0;
    }
    let positive = aggregated(on, call, &forest, &x, (&votes, 1, Aggregate::Sum))?;
    // If there are base values for both classes, only the base value of the class with weights is used.
    let base = base.get(first..=first).filter(|_| base.len() == 2).unwrap_or(&base);
    let positive = with_base(on, call, &positive, base, 1)?;
    let other = if matches!(transform, Transform::None | Transform::Probit) {
        on.sub(&on.scalar_like(&positive, 1.0)?, &positive)?
    } else {
        on.neg(&positive)?
    };
    let scores = transform.apply(on, &pair(on, &other, &positive)?)?;
    Ok(smallvec![Some(labels.best(on, &scores)?), Some(math::to(on, &scores, DataType::F32)?)])
}

fn tree_ensemble_types(at: NodeFacts<'_>) -> Option<Types> {
    targets_types(at, at.dtype(0), at.int("n_targets", 0)?)
}

/// `TreeEnsemble`.
pub(crate) fn tree_ensemble(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    let missing = || call.wrong("leaf_weights", "is missing; the operator needs it");
    let weights = call.tensor_attribute("leaf_weights")?.ok_or_else(missing)?;
    let (weights, double) = doubles(weights)?;
    let ids = call.ints("leaf_targetids")?.unwrap_or_default();
    if ids.len() != weights.len() {
        let problem = format!("has {} entries, expected {}", ids.len(), weights.len());
        return Err(call.wrong("leaf_targetids", problem).into());
    }
    let forest = Forest::by_position(call, weights.len())?;
    let vote = |(leaf, (&id, &weight)): (usize, (&i64, &f64))| {
        let target = usize::try_from(id)
            .map_err(|_| call.wrong("leaf_targetids", format!("has {id}, expected no negative number")))?;
        Ok((leaf, target, weight))
    };
    let votes: Votes = ids.iter().zip(&weights).enumerate().map(vote).collect::<Result<_, Error>>()?;
    let (targets, transform) = (targets(call)?, Transform::numbered(call)?);
    let x = features(on, call, &forest, double)?;
    let scores = aggregated(on, call, &forest, &x, (&votes, targets, Aggregate::numbered(call)?))?;
    Ok(one(math::to(on, &transform.apply(on, &scores)?, call.input(0)?.dtype())?))
}
