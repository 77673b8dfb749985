//! Narrows graphs for a backend that runs whole graphs and lacks element types.
//!
//! Consecutive steps become a graph in the types that the backend has. Each value has the type that the backend uses to store
//! its elements, its storage type; see [`NarrowTensor`]. That is exact only if it is known before the run that every result
//! fits its storage type ([`KnownRanges`]), because values between the nodes of a graph are not checked. Steps without this
//! guarantee are not part of a graph: each is called as a single operation, with the ranges of the actual elements. `ready()`
//! names these steps (`range_report.rs`), unless the deployment accepts them.

use super::range::{Ranged, reach};
use super::{Holding, NarrowTensor, NarrowedOn, Range};
use crate::ext::{ErasedError, ErasedTensor};
use crate::trace::{Step, StepId, Table, Trace, TraceValue, ValueSource};
use crate::{BackendAttrs, Error, Tensor};
use bb_ir::convert::{self, Rounding};
use bb_ir::op::{Param, Primitive};
use bb_ir::proto::GraphProto;
use bb_ir::{DataType, TensorData};
use smallvec::SmallVec;
use std::collections::HashMap;

/// The steps of a trace whose results are known to fit their storage types.
#[derive(Debug)]
pub(crate) struct KnownRanges {
    holding: Holding,
    exact: Table<StepId, bool>,
    ranges: Table<TraceValue, Option<Range>>,
}

/// The facts known about values while steps are visited in order.
struct Known<'t> {
    trace: &'t Trace,
    holding: Holding,
    /// Whether the extents may differ between runs. Then the number of terms in a sum is unknown.
    open: bool,
    ranges: Table<TraceValue, Option<Range>>,
    /// Whether the elements are known to fit their storage type.
    held: Table<TraceValue, bool>,
}

impl KnownRanges {
    /// Computes the known ranges for the steps of a trace; `weight` returns the elements of a constant.
    ///
    /// # Errors
    ///
    /// [`Error::Internal`] if a step refers to a value that does not exist.
    pub(crate) fn of<'t>(
        trace: &'t Trace,
        holding: Holding,
        open: bool,
        weight: impl Fn(ValueSource) -> Option<&'t TensorData>,
    ) -> Result<KnownRanges, Error> {
        let range =
            |dtype| holding.of(dtype).and_then(|held| Some(Range::of(dtype)?.within(Range::of(held)?)));
        let mut known = Known {
            trace,
            holding,
            open,
            ranges: (trace.values.entries())
                .map(|info| weight(info.source).and_then(Range::of_elements).or_else(|| range(info.dtype)))
                .collect(),
            held: (trace.values.entries())
                .map(|info| match weight(info.source) {
                    Some(data) => holds(holding, data),
                    None => holding.of(info.dtype).is_some(),
                })
                .collect(),
        };
        let mut exact = Table::with(trace.steps.len(), || false);
        for (id, step) in trace.steps.iter() {
            let Some(result) = known.result(step)? else { continue };
            exact.set(id, true)?;
            for &value in &step.outputs {
                known.ranges.set(value, result.or_else(|| Range::of(trace.values.get(value).ok()?.dtype)))?;
            }
        }
        Ok(KnownRanges { holding, exact, ranges: known.ranges })
    }

    /// Returns whether the results of a step fit for all inputs.
    ///
    /// # Errors
    ///
    /// [`Error::Internal`] if the step does not exist.
    pub(crate) fn is_exact(&self, step: StepId) -> Result<bool, Error> {
        self.exact.get(step).copied()
    }

    /// Returns a constant, converted to its storage type.
    ///
    /// # Errors
    ///
    /// Those of the cast.
    pub(crate) fn constant(&self, data: &TensorData) -> Result<TensorData, Error> {
        match self.holding.of(data.dtype()) {
            Some(held) if held != data.dtype() && holds(self.holding, data) => {
                Ok(convert::cast(data, held, Rounding::default())?)
            }
            _ => Ok(data.clone()),
        }
    }

    /// Replaces the types in a trace of exact steps by their storage types.
    ///
    /// # Errors
    ///
    /// Those of casting a constant.
    pub(crate) fn narrow(&self, part: &mut Trace) -> Result<(), Error> {
        for (_, value) in part.values.iter_mut() {
            value.dtype = self.holding.of(value.dtype).unwrap_or(value.dtype);
        }
        for (_, constant) in part.constants.iter_mut() {
            *constant = self.constant(constant)?;
        }
        for (_, step) in part.steps.iter_mut() {
            for param in &mut step.params {
                match param {
                    Param::Type(dtype) => *dtype = self.holding.of(*dtype).unwrap_or(*dtype),
                    Param::Data(data) => *data = std::borrow::Cow::Owned(self.constant(data)?),
                    _ => {}
                }
            }
        }
        Ok(())
    }
}

/// Returns whether the backend's type can store all elements of a constant, exactly or with the rounding that the program
/// accepted.
fn holds(holding: Holding, data: &TensorData) -> bool {
    match (holding.of(data.dtype()), Range::of_elements(data)) {
        (Some(held), Some(range)) => Range::of(held).is_some_and(|holder| holder.contains(range)),
        (held, _) => held.is_some(),
    }
}

/// An operand of a step: its type, its range if its elements are integers, and its shape.
type Operand<'a> = (DataType, Option<Range>, &'a [usize]);

impl Known<'_> {
    /// Returns the range of a step's results, or `None` inside if they are not integers. The outer `None` means that they may
    /// not fit.
    fn result(&self, step: &Step) -> Result<Option<Option<Range>>, Error> {
        let Some(op) = step.operation.primitive() else { return Ok(None) };
        let mut operands: SmallVec<[Operand<'_>; 3]> = SmallVec::new();
        for value in step.reads() {
            if !*self.held.get(value)? {
                return Ok(None);
            }
            let info = self.trace.values.get(value)?;
            operands.push((info.dtype, *self.ranges.get(value)?, &info.shape));
        }
        for value in &step.outputs {
            if self.holding.of(self.trace.values.get(*value)?.dtype).is_none() {
                return Ok(None);
            }
        }
        let Some(first) = step.outputs.first() else { return Ok(None) };
        let result = self.trace.values.get(*first)?.dtype;
        let Some(held) = self.holding.of(result) else { return Ok(None) };
        let bounds = (Range::of(result), Range::of(held));
        if op == Primitive::Constant {
            let Some(Param::Data(data)) = step.params.first() else { return Ok(None) };
            return Ok(holds(self.holding, data).then(|| Range::of_elements(data)));
        }
        if super::backend::only_moves(op) {
            let moved = operands.get(super::backend::values(op, operands.len())).unwrap_or_default();
            return Ok(Some(moved.iter().map(|x| x.1).reduce(|a, b| Some(a?.or(b?))).flatten()));
        }
        let (Some(all), Some(holder)) = bounds else { return Ok(Some(None)) };
        if op == Primitive::Cast {
            let Some(&(_, from, _)) = operands.first() else { return Ok(None) };
            return Ok(match from {
                Some(range) if all.contains(range) && holder.contains(range) => Some(Some(range)),
                // The backend has the type, so its own cast wraps.
                _ if held == result => Some(None),
                _ => None,
            });
        }
        let ranged: Option<SmallVec<[Ranged<'_>; 3]>> =
            operands.iter().map(|&(_, range, shape)| Some(Ranged { range: range?, shape })).collect();
        let Some(told) = ranged.and_then(|ranged| reach(op, &ranged, &step.params)) else {
            return Ok(Some(None));
        };
        // These operations depend on the number of elements, which may differ between runs if `open`: it bounds sums, and an
        // extremum of no elements is a limit of the type.
        let reduces = matches!(
            op,
            Primitive::ReduceSum | Primitive::ReduceMean | Primitive::ReduceMax | Primitive::ReduceMin
        );
        let counts = self.open && (reduces || op == Primitive::MatMul);
        let fits = !counts && all.contains(told.all);
        Ok(match held == result {
            true => Some(fits.then_some(told.result)),
            false => (fits && holder.contains(told.all)).then_some(Some(told.result)),
        })
    }
}

/// The original steps of a graph, kept because the graph itself was narrowed to the types of a backend.
#[derive(Debug)]
pub(crate) struct NarrowedGraph {
    /// The steps, in the types of the model.
    steps: Vec<Step>,
    constants: Vec<(TraceValue, TensorData)>,
    inputs: Vec<(String, TraceValue)>,
    outputs: Vec<GraphOutput>,
}

/// An output of a graph.
#[derive(Debug)]
struct GraphOutput {
    name: String,
    value: TraceValue,
    /// The type in the model.
    dtype: DataType,
    range: Option<Range>,
}

impl NarrowedGraph {
    /// Copies a part of a trace before the part is narrowed.
    ///
    /// # Errors
    ///
    /// [`Error::Internal`] if the part refers to a value that does not exist.
    pub(crate) fn of<'t>(
        known_ranges: &KnownRanges,
        part: &Trace,
        inputs: &[(String, TraceValue)],
        outputs: impl Iterator<Item = (String, TraceValue)>,
        weight: impl Fn(ValueSource) -> Option<&'t TensorData>,
    ) -> Result<NarrowedGraph, Error> {
        let mut constants: Vec<(TraceValue, TensorData)> = Vec::new();
        for value in part.steps.entries().flat_map(Step::reads) {
            if let Some(data) = weight(part.values.get(value)?.source)
                && !constants.iter().any(|(known, _)| *known == value)
            {
                constants.push((value, data.clone()));
            }
        }
        let mut made = Vec::new();
        for (name, value) in outputs {
            let (dtype, range) = (part.values.get(value)?.dtype, *known_ranges.ranges.get(value)?);
            made.push(GraphOutput { name, value, dtype, range });
        }
        let steps = part.steps.entries().cloned().collect();
        Ok(NarrowedGraph { steps, constants, inputs: inputs.to_vec(), outputs: made })
    }
}

/// The inputs or outputs of a graph, by name.
type Named = HashMap<String, NarrowTensor>;

impl NarrowedOn<'_> {
    /// Runs a graph as a whole. If no type of the backend can store the elements of an input, calls the original steps one by
    /// one.
    ///
    /// # Errors
    ///
    /// The backend's own errors; [`Error::MissingOutput`]; the errors of a step.
    pub(super) fn run_graph(
        &self,
        narrowed: &NarrowedGraph,
        graph: &GraphProto,
        inputs: Named,
        attrs: BackendAttrs<'_>,
    ) -> Result<Named, ErasedError> {
        let held = inputs.iter().map(|(name, x)| Some((name.clone(), x.on_device()?.clone())));
        let Some(held) = held.collect::<Option<HashMap<String, ErasedTensor>>>() else {
            return self.run_steps(narrowed, inputs);
        };
        let mut results = self.device().execute(graph, held, attrs.with_narrowed(None))?;
        let mut outputs = HashMap::with_capacity(narrowed.outputs.len());
        for GraphOutput { name, dtype, range, .. } in &narrowed.outputs {
            let y = results.remove(name).ok_or_else(|| Error::missing_output(name, &results))?;
            let own = y.dtype();
            let stands = self.holding().of(*dtype) == Some(own);
            let y = NarrowTensor::device(if stands { *dtype } else { own }, y, range.filter(|_| stands));
            outputs.insert(name.clone(), y);
        }
        Ok(outputs)
    }

    fn run_steps(&self, narrowed: &NarrowedGraph, mut inputs: Named) -> Result<Named, ErasedError> {
        let mut values: HashMap<TraceValue, NarrowTensor> = HashMap::new();
        for (name, value) in &narrowed.inputs {
            let missing = || Error::MissingInput { name: name.clone(), expected: Vec::new() };
            values.insert(*value, inputs.remove(name).ok_or_else(missing)?);
        }
        for (value, data) in &narrowed.constants {
            values.insert(*value, self.bring(data)?);
        }
        let lost = || Error::excluded("the values of a graph to be computed in order");
        for step in &narrowed.steps {
            let op = step.operation.primitive().ok_or_else(lost)?;
            let operand = |value: &Option<TraceValue>| match value {
                None => Ok(None),
                Some(value) => values.get(value).map(Some).ok_or_else(lost),
            };
            let results = {
                let operands: SmallVec<[Option<&NarrowTensor>; 4]> =
                    step.inputs.iter().map(operand).collect::<Result<_, Error>>()?;
                self.apply(op, &operands, &step.params)?
            };
            values.extend(step.outputs.iter().copied().zip(results));
        }
        let output = |output: &GraphOutput| {
            Ok((output.name.clone(), values.get(&output.value).cloned().ok_or_else(lost)?))
        };
        Ok(narrowed.outputs.iter().map(output).collect::<Result<_, Error>>()?)
    }
}
