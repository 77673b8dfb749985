//! Proves from a trace that the rows of a run are independent.
//!
//! A *row* is the part of the inputs at one index of their first dimension. Rows are independent if each row of the outputs is
//! a function of only the same row of the inputs, and this function is the same for every row and every number of rows. Then
//! several callers can share a run, and a table can be split between any two rows.
//!
//! The module is traced with a symbolic number of rows; all other extents are numbers. Then the proof derives the location of
//! the rows in each value (`place.rs`), with one rule for each class of operations (`rules.rs`). An operation without a rule is
//! replaced by its body. If an operation of the body has no rule either, it is assumed to mix rows, and so is an operation that
//! is unknown before a run. A value whose elements depend on the number of rows also mixes them, because a run with a single
//! row has another number.

mod place;
mod rules;

use super::Module;
use super::resolve::Resolved;
use super::segment::{Outcome, SegmentInput, SegmentTrace, Settings, Start, trace};
use crate::measure::ProfiledNode;
use crate::operator;
use crate::trace::{
    Event, Guard, Operation, Relation, Step, Table, TableIndex, Trace, TraceValue, ValueSource, Varies,
};
use crate::{Error, InputSpec};
use bb_ir::graph::{Dim, DimExpr, ValueType};
use bb_ir::{DataTypes, Limits, Shape};
use place::{RowPlace, Rows, Spread};
use rules::{Call, Mixes};
use smallvec::SmallVec;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// The name of the symbolic number of rows, the only symbolic dimension in a proof.
const ROWS: &str = "rows";

/// The number of rows while tracing, where a number is needed. The trace itself is valid for a symbolic number of rows.
const TRACED: usize = 7;

/// The role of a module's input in a proof, in the order of the module's inputs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RowInput {
    /// The input has one row for each index of its first dimension. The list has the other extents.
    Rows(Vec<usize>),
    /// All rows share the input. The list has its extents.
    Shared(Vec<usize>),
    /// The input is omitted, so that the module's default is used.
    Absent,
}

/// Whether the rows of a module's runs are independent.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RowProof {
    /// Each row of the outputs depends only on the same row of the inputs.
    Independent,
    /// No proof was found.
    Unproven {
        /// The first node after which rows are not known to be independent; empty if there is none.
        node: String,
        /// The operator of the node.
        op: String,
        /// A description of the node's effect, as in `takes a maximum over the rows`.
        reason: String,
    },
}

impl fmt::Display for RowProof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RowProof::Independent => f.write_str("independent"),
            RowProof::Unproven { node, reason, .. } if node.is_empty() => {
                write!(f, "not known to be independent: {reason}")
            }
            RowProof::Unproven { node, op, reason } => {
                write!(f, "not known to be independent: node `{node}` ({op}) {reason}")
            }
        }
    }
}

impl Module {
    /// Returns the roles of the inputs according to their declared shapes. An input has rows if its first dimension is symbolic
    /// and equals the first symbolic one among the first dimensions of the inputs. Returns `None` if no input has rows, or if
    /// the rank of an input is not known.
    ///
    /// Shapes: `shapes` maps names of inputs to extents; other symbolic extents are chosen arbitrarily.
    pub fn row_inputs(&self, shapes: &HashMap<String, Vec<usize>>) -> Option<Vec<RowInput>> {
        let graph = self.graph();
        let mut made_up: HashMap<String, usize> = HashMap::new();
        let mut rows: Option<Dim> = None;
        let mut inputs = Vec::with_capacity(graph.inputs.len());
        for value in &graph.inputs {
            let ValueType::Tensor { shape: Some(dims), .. } = &graph.values.get(value.index())?.ty else {
                return None;
            };
            let named = shapes.get(graph.name_of(*value));
            let open = dims.first().filter(|dim| !matches!(dim, Dim::Known(_)));
            let by_row = open.is_some() && rows.as_ref().is_none_or(|rows| Some(rows) == open);
            if by_row {
                rows = open.cloned();
            }
            let mut extents = Vec::with_capacity(dims.len());
            for (axis, dim) in dims.iter().enumerate().skip(usize::from(by_row)) {
                let next = 8 + made_up.len();
                extents.push(match (named.and_then(|named| named.get(axis)), dim) {
                    (Some(n), _) | (None, Dim::Known(n)) => *n,
                    (None, dim) => *made_up.entry(dim.to_string()).or_insert(next),
                });
            }
            inputs.push(if by_row { RowInput::Rows(extents) } else { RowInput::Shared(extents) });
        }
        inputs.iter().any(|input| matches!(input, RowInput::Rows(_))).then_some(inputs)
    }

    /// Tries to prove that rows are independent in runs of 1 to `most` rows. Otherwise returns the node that prevents a proof.
    ///
    /// The proof is valid for these extents, on every backend: mathematically, the result of an operation for a row does not
    /// depend on other rows. The proof does not cover whether the kernels of a backend round a row in the same way for every
    /// number of rows.
    ///
    /// # Errors
    ///
    /// [`Error::Input`] if the inputs do not fit the module; errors of lowering.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use bb::{Module, RowInput, RowProof};
    ///
    /// let module = Module::load("model.onnx")?;
    /// let proof = module.prove_rows(&[RowInput::Rows(vec![3, 224, 224])], 64)?;
    /// println!("rows are {proof}");
    /// # Ok::<(), bb::Error>(())
    /// ```
    pub fn prove_rows(&self, inputs: &[RowInput], most: usize) -> Result<RowProof, Error> {
        let graph = self.graph();
        if let Some(names) = self.behind_sequences() {
            return self.with_outputs(&names)?.prove_rows(inputs, most);
        }
        let rows = most.clamp(2, TRACED);
        let mut known = Vec::with_capacity(graph.inputs.len());
        for (at, value) in graph.inputs.iter().enumerate() {
            let ty = graph.values.get(value.index()).map(|info| &info.ty);
            let Some(ValueType::Tensor { dtype, .. }) = ty else {
                return Ok(unproven("takes inputs that are no tensors"));
            };
            let (dtype, fixed) = (*dtype, |n: &usize| Dim::Known(*n));
            known.push(match inputs.get(at).unwrap_or(&RowInput::Absent) {
                RowInput::Rows(others) => SegmentInput {
                    dtype,
                    shape: std::iter::once(rows).chain(others.iter().copied()).collect(),
                    varies: Varies::Declared(
                        std::iter::once(Dim::Symbol(ROWS.to_owned()))
                            .chain(others.iter().map(fixed))
                            .collect(),
                    ),
                    known: None,
                },
                RowInput::Shared(extents) => SegmentInput {
                    dtype,
                    shape: Shape::from_slice(extents),
                    varies: Varies::Nothing,
                    known: None,
                },
                RowInput::Absent => {
                    let own = graph.constants.iter().find(|(constant, _)| constant == value);
                    let Some((_, data)) = own else {
                        return Err(Error::MissingInput {
                            name: graph.name_of(*value).to_owned(),
                            expected: graph.inputs.iter().map(|v| graph.name_of(*v).to_owned()).collect(),
                        });
                    };
                    SegmentInput {
                        dtype,
                        shape: Shape::from_slice(data.shape()),
                        varies: Varies::Nothing,
                        known: Some(data.clone()),
                    }
                }
            });
        }
        let given = |i: usize| known.get(i).map(|input| (input.dtype, input.shape.as_slice()));
        InputSpec::new(graph).check_by(known.len(), &given)?;
        let start = Start { live: graph.inputs.clone(), ..Start::default() };
        let settings = Settings {
            natives: rules::known(),
            // Values are only traced and not computed, so their size needs no limit.
            value_bytes: usize::MAX,
            fold_bytes: Limits::default().fold_bytes,
            symbolic: true,
            // `strict` keeps extents free of conditions, so that they can be compared.
            strict: true,
            types: DataTypes::ALL,
        };
        let resolved = Arc::new(Resolved::new(self.planned()?)?);
        let (traced, end) = match trace(&resolved, &start, &known, &None, &settings)? {
            Outcome::Traced(traced, end) => (traced, end),
            Outcome::Needs(wanted) => {
                let name = ProfiledNode::of(&wanted.resolved.graph, wanted.node);
                return Ok(at(name, "computes what follows from the elements of an input"));
            }
        };
        if let Some(proof) = conditions(&traced, most) {
            return Ok(proof);
        }
        let by_row: Vec<bool> =
            (0..known.len()).map(|i| matches!(inputs.get(i), Some(RowInput::Rows(_)))).collect();
        let proof = Proof::of(&traced.recorded, &by_row, rows)?;
        // Steps that mix rows are reported first, because they come before the end of the trace.
        if let Some(mixed) = proof.first_mixed(&traced.recorded)? {
            return proof.unproven(mixed, &traced);
        }
        if let Some(node) = end.node(|start| start.node) {
            let name = ProfiledNode::of(&traced.resolved.graph, node);
            return Ok(at(name, "runs when values are known, so that nothing is known of it before a run"));
        }
        Ok(match proof.misplaced(&traced.recorded)? {
            Some(output) => {
                let name = graph.outputs.get(output).map_or("", |value| graph.name_of(*value));
                let reason = format!("the rows of output `{name}` are not along its first dimension");
                RowProof::Unproven { node: String::new(), op: String::new(), reason }
            }
            None => RowProof::Independent,
        })
    }
}

impl Module {
    /// Returns the names of the outputs. A sequence whose items are built from one row each is replaced by the value that it is
    /// built from. Returns `None` if no output is a sequence of this kind.
    fn behind_sequences(&self) -> Option<Vec<&str>> {
        let graph = self.graph();
        let mut any = false;
        let names = graph.outputs.iter().map(|output| {
            let made = graph.nodes.iter().find(|node| node.outputs.contains(&Some(*output)));
            let splits = made.filter(|node| operator::splits_rows(node));
            let whole = splits.and_then(|node| node.inputs.first().copied().flatten());
            let whole = whole.filter(|whole| !graph.name_of(*whole).is_empty());
            any |= whole.is_some();
            graph.name_of(whole.unwrap_or(*output))
        });
        let names = names.collect();
        any.then_some(names)
    }
}

fn at(node: Option<ProfiledNode>, reason: impl Into<String>) -> RowProof {
    let (node, op) = node.map(|name| (name.path, name.op)).unwrap_or_default();
    RowProof::Unproven { node, op, reason: reason.into() }
}

fn unproven(reason: &str) -> RowProof {
    at(None, format!("the model {reason}"))
}

/// The maximum number of row counts that a condition is evaluated for one by one.
const EVALUATED: i64 = 1 << 12;

/// Returns whether a condition is true for all numbers of rows from 1 to `most`. The number of rows is the only symbol of the
/// condition.
fn holds_always(guard: &Guard, most: usize) -> bool {
    let most = i64::try_from(most).unwrap_or(i64::MAX);
    let value = |rows: i64| guard.expr.value(&|_: &str| Some(rows));
    let holds = |rows| value(rows).is_some_and(|value| guard.relation.holds(value));
    let line = || {
        let (first, slope) = (value(0)?, value(1)?.checked_sub(value(0)?)?);
        let line = DimExpr::name(ROWS).scaled(slope)?.plus(&DimExpr::from(first))?;
        (line == guard.expr).then_some((first, slope))
    };
    match line() {
        // A linear function is not negative on an interval if it is not negative at both ends.
        Some(_) if guard.relation == Relation::AtLeastZero => holds(1) && holds(most),
        Some((first, slope)) if guard.relation == Relation::NotZero => {
            let root = first.checked_neg().filter(|_| slope != 0).filter(|first| first % slope == 0);
            let zero = if slope == 0 {
                first == 0
            } else {
                root.is_some_and(|first| (1..=most).contains(&(first / slope)))
            };
            !zero
        }
        _ => most <= EVALUATED && (1..=most).all(holds),
    }
}

/// Returns the first comparison of a trace whose outcome depends on the number of rows, for numbers up to `most`.
fn conditions(traced: &SegmentTrace, most: usize) -> Option<RowProof> {
    let always = |guard: &Guard| holds_always(guard, most);
    let events = traced.recorded.events.iter().enumerate();
    let depends = |(at, event): (usize, &Event)| match event {
        Event::Tied(_) => Some((at, "computes with the number of rows".to_owned())),
        Event::Guarded(guard) if !always(guard) => Some((at, format!("goes by the number of rows: {guard}"))),
        Event::Guarded(_) => None,
    };
    let (event, reason) = events.filter_map(depends).next()?;
    let cause = traced.causes.iter().find(|cause| cause.events > event);
    let (node, op) = cause.map(|cause| (cause.node.clone(), cause.op.clone())).unwrap_or_default();
    Some(RowProof::Unproven { node, op, reason })
}

/// The location of the rows in each value of a trace.
struct Proof {
    places: Table<TraceValue, RowPlace>,
    /// The steps that mix rows, in order, each with its reason. [`RowPlace::Mixed`] contains an index of this list.
    mixing: Vec<(usize, Mixes)>,
}

impl Proof {
    fn of(trace: &Trace, by_row: &[bool], rows: usize) -> Result<Proof, Error> {
        let input = |position: usize| match by_row.get(position) {
            Some(true) => RowPlace::Of(Spread::Rows(Rows::FIRST)),
            _ => RowPlace::Of(Spread::Shared),
        };
        let places = trace.values.entries().map(|info| match info.source {
            ValueSource::Input(index) => input(index.position()),
            ValueSource::Weight(_) | ValueSource::Constant(_) => RowPlace::Of(Spread::Shared),
            // A placeholder until the step is visited.
            ValueSource::Step => RowPlace::Mixed(usize::MAX),
        });
        let mut proof = Proof { places: places.collect(), mixing: Vec::new() };
        for (at, step) in trace.steps.entries().enumerate() {
            let places = proof.step(trace, step, rows, at)?;
            for (value, place) in step.outputs.iter().zip(places) {
                proof.places.set(*value, place)?;
            }
        }
        Ok(proof)
    }

    fn step(
        &mut self,
        trace: &Trace,
        step: &Step,
        rows: usize,
        at: usize,
    ) -> Result<SmallVec<[RowPlace; 1]>, Error> {
        let mut operands = SmallVec::<[_; 4]>::new();
        let mut mixed = None;
        for value in &step.inputs {
            operands.push(match value {
                None => None,
                Some(value) => match *self.places.get(*value)? {
                    RowPlace::Of(spread) => Some((spread, trace.values.get(*value)?.shape.as_slice())),
                    RowPlace::Mixed(before) => {
                        mixed = Some(mixed.map_or(before, |first: usize| first.min(before)));
                        None
                    }
                },
            });
        }
        if let Some(before) = mixed {
            return Ok(step.outputs.iter().map(|_| RowPlace::Mixed(before)).collect());
        }
        let mut results = SmallVec::<[&[usize]; 1]>::new();
        for value in &step.outputs {
            results.push(trace.values.get(*value)?.shape.as_slice());
        }
        let found = match step.operation {
            Operation::Host(_) => Err(Mixes::Unknown),
            Operation::Row(spec) => {
                let (params, symbolic) = (&*step.params, step.symbolic.as_deref());
                rules::apply(&Call { spec, params, symbolic, operands: &operands, results: &results, rows })
            }
        };
        let mut places = SmallVec::new();
        for (position, value) in step.outputs.iter().enumerate() {
            let spread = found.as_ref().map_err(|mixes| *mixes).and_then(|found| {
                let spread = found.get(position).or(found.last()).copied().ok_or(Mixes::Unknown)?;
                let info = trace.values.get(*value).map_err(|_| Mixes::Unknown)?;
                let has = |axis| info.varying.has(axis);
                if spread.fits(&info.shape, has, info.elements.as_ref(), rows) {
                    Ok(spread)
                } else {
                    Err(Mixes::Extents)
                }
            });
            places.push(match spread {
                Ok(spread) => RowPlace::Of(spread),
                Err(mixes) => {
                    if self.mixing.last().is_none_or(|(last, _)| *last != at) {
                        self.mixing.push((at, mixes));
                    }
                    RowPlace::Mixed(self.mixing.len() - 1)
                }
            });
        }
        Ok(places)
    }

    /// Returns the index of the first reason why an output mixes rows.
    fn first_mixed(&self, trace: &Trace) -> Result<Option<usize>, Error> {
        let mut first = None;
        for value in &trace.outputs {
            if let RowPlace::Mixed(cause) = *self.places.get(*value)? {
                first = Some(first.map_or(cause, |first: usize| first.min(cause)));
            }
        }
        Ok(first)
    }

    /// Returns the index of the first output whose first dimension is not the rows.
    fn misplaced(&self, trace: &Trace) -> Result<Option<usize>, Error> {
        for (position, value) in trace.outputs.iter().enumerate() {
            if *self.places.get(*value)? != RowPlace::Of(Spread::Rows(Rows::FIRST)) {
                return Ok(Some(position));
            }
        }
        Ok(None)
    }

    fn unproven(&self, mixed: usize, traced: &SegmentTrace) -> Result<RowProof, Error> {
        let internal = || Error::excluded("the cause of a mixed value to be there");
        let (step, mixes) = *self.mixing.get(mixed).ok_or_else(internal)?;
        let step = traced.recorded.steps.entries().nth(step).ok_or_else(internal)?;
        let origin = step.origins.first();
        let name =
            origin.map(|origin| traced.origins.name_of(*origin, &traced.resolved.graph)).transpose()?;
        Ok(at(name, mixes.text()))
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_decided_for_every_number_of_rows() {
        let line = |slope: i64, first: i64| {
            DimExpr::name(ROWS).scaled(slope).unwrap().plus(&DimExpr::from(first)).unwrap()
        };
        let exprs = [
            line(1, 0),
            line(1, -3),
            line(-1, 8),
            line(2, -6),
            line(2, -5),
            line(0, 4),
            line(0, 0),
            line(-2, 14),
        ];
        let bent = line(1, 0).floor_div(2).unwrap().plus(&DimExpr::from(-2)).unwrap();
        for expr in exprs.into_iter().chain([bent]) {
            for relation in [Relation::Zero, Relation::NotZero, Relation::AtLeastZero] {
                let guard = Guard { expr: expr.clone(), relation };
                for most in 1..12usize {
                    let one_by_one = (1..=most as i64)
                        .all(|rows| relation.holds(expr.value(&|_: &str| Some(rows)).unwrap()));
                    assert_eq!(holds_always(&guard, most), one_by_one, "{guard} for {most}");
                }
            }
        }
        // Without an upper limit, only linear conditions are decided.
        let at_least = |expr| Guard { expr, relation: Relation::AtLeastZero };
        assert!(holds_always(&at_least(line(3, -3)), usize::MAX >> 8));
        let bent = line(1, 0).floor_div(2).unwrap();
        assert!(!holds_always(&at_least(bent), usize::MAX));
    }
}
