//! Parts of traces in the types that a backend has, for a backend that takes graphs whole and lacks element types.
//!
//! A run of steps becomes a graph in the types that the backend has: each value is of the type that holds it, as
//! [`NarrowTensor`](crate::erased::NarrowTensor) holds tensors. That is exact only if it is known before the run that every result
//! fits its holder ([`KnownRanges`]), because values between the nodes of a graph are not checked. Steps without this guarantee are
//! not part of a graph: each is called as a single operation, with the ranges of the actual elements. `ready()` names these steps
//! (`narrow/range_report.rs`), unless the deployment accepts them.

use crate::Error;
use crate::erased::Holding;
use crate::erased::range::{Range, Ranged, only_moves, reach, values};
use crate::trace::{Step, StepId, Table, Trace, TraceValue, ValueSource};
use bb_ir::convert::{self, Rounding};
use bb_ir::op::{Param, Primitive};
use bb_ir::{DataType, TensorData};
use smallvec::SmallVec;

/// The steps of a trace whose results are known to fit the types that hold them.
#[derive(Debug)]
pub(crate) struct KnownRanges {
    holding: Holding,
    exact: Table<StepId, bool>,
    ranges: Table<TraceValue, Option<Range>>,
}

/// The known facts of values while steps are visited in order.
struct Known<'t> {
    trace: &'t Trace,
    holding: Holding,
    /// Whether the extents may differ between runs, so that nothing is known of the number of summands.
    open: bool,
    ranges: Table<TraceValue, Option<Range>>,
    /// Whether the elements fit the type that holds them.
    held: Table<TraceValue, bool>,
}

impl KnownRanges {
    /// Looks at the steps of a trace; `weight` finds the elements of a constant.
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

    /// Returns whether the results of a step fit whatever the inputs are.
    ///
    /// # Errors
    ///
    /// [`Error::Internal`] if the step does not exist.
    pub(crate) fn is_exact(&self, step: StepId) -> Result<bool, Error> {
        self.exact.get(step).copied()
    }

    /// Returns a constant in the type that holds it.
    ///
    /// # Errors
    ///
    /// That of the cast.
    pub(crate) fn constant(&self, data: &TensorData) -> Result<TensorData, Error> {
        match self.holding.of(data.dtype()) {
            Some(held) if held != data.dtype() && holds(self.holding, data) => {
                Ok(convert::cast(data, held, Rounding::default())?)
            }
            _ => Ok(data.clone()),
        }
    }

    /// Rewrites a trace of exact steps in the types that hold its values.
    ///
    /// # Errors
    ///
    /// That of casting a constant.
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

/// Returns whether a backend holds all elements of a constant, so that the result is exact, or is rounded as was accepted.
fn holds(holding: Holding, data: &TensorData) -> bool {
    match (holding.of(data.dtype()), Range::of_elements(data)) {
        (Some(held), Some(range)) => Range::of(held).is_some_and(|holder| holder.contains(range)),
        (held, _) => held.is_some(),
    }
}

/// An operand of a step: its type, its range if it holds integers, and its shape.
type Operand<'a> = (DataType, Option<Range>, &'a [usize]);

impl Known<'_> {
    /// Returns the range of a step's results, if they are integers; the outer `None` if it is not known that they fit.
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
        if only_moves(op) {
            let moved = operands.get(values(op, operands.len())).unwrap_or_default();
            return Ok(Some(moved.iter().map(|x| x.1).reduce(|a, b| Some(a?.or(b?))).flatten()));
        }
        let (Some(all), Some(holder)) = bounds else { return Ok(Some(None)) };
        if op == Primitive::Cast {
            let Some(&(_, from, _)) = operands.first() else { return Ok(None) };
            return Ok(match from {
                Some(range) if all.contains(range) && holder.contains(range) => Some(Some(range)),
                // The backend's own cast, which wraps.
                _ if held == result => Some(None),
                _ => None,
            });
        }
        let ranged: Option<SmallVec<[Ranged<'_>; 3]>> =
            operands.iter().map(|&(_, range, shape)| Some(Ranged { range: range?, shape })).collect();
        let Some(told) = ranged.and_then(|ranged| reach(op, &ranged, &step.params)) else {
            return Ok(Some(None));
        };
        // How many there are to add, and whether there are any to choose from.
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

/// The original steps of a graph that was narrowed to the types of a backend.
#[derive(Debug)]
pub(crate) struct NarrowedGraph {
    /// The steps, in the types of the model.
    pub(crate) steps: Vec<Step>,
    pub(crate) constants: Vec<(TraceValue, TensorData)>,
    pub(crate) inputs: Vec<(String, TraceValue)>,
    pub(crate) outputs: Vec<GraphOutput>,
}

/// An output of a graph.
#[derive(Debug)]
pub(crate) struct GraphOutput {
    pub(crate) name: String,
    pub(crate) value: TraceValue,
    /// The type in the model.
    pub(crate) dtype: DataType,
    pub(crate) range: Option<Range>,
}

impl NarrowedGraph {
    /// Records a part of a trace as it is before narrowing.
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
