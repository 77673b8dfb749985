//! The recorded steps of a trace, with typed indices.

use super::HostKernel;
use super::log::{Event, Symbol};
use super::params::SymbolicParams;
use super::table::{Table, indices};
use crate::Error;
use crate::contract::bytes_of;
use bb_ir::graph::DimExpr;
use bb_ir::op::{Family, OpSpec, Param, Primitive};
use bb_ir::{DataType, Shape, TensorData};
use smallvec::SmallVec;

indices! {
    /// A value of a [`Trace`].
    pub TraceValue = "value of the trace";
    /// The index of a step in a [`Trace`].
    pub StepId = "step of the trace";
    /// An input of a trace, or of the plan that is built from it.
    pub InputIndex = "input";
    /// A constant that is stored in a trace.
    pub ConstantIndex = "constant of the trace";
    /// The node that a step comes from. The caller of the tracer assigns these ids. Passes keep them when they move
    /// steps.
    pub OriginId = "origin";
}

/// A weight that is stored outside the trace, by the code that created the trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum WeightId {
    /// The index of a constant of the traced graph.
    Graph(usize),
    /// The index of a constant among the constants of unrolled bodies.
    Body(usize),
}

impl std::fmt::Display for WeightId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            WeightId::Graph(position) => write!(f, "{position}"),
            WeightId::Body(position) => write!(f, "body_{position}"),
        }
    }
}

/// The source of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueSource {
    /// The caller passes the value as an input.
    Input(InputIndex),
    /// The code that created the trace stores the weight.
    Weight(WeightId),
    /// The value is one of [`Trace::constants`].
    Constant(ConstantIndex),
    /// A step computes the value.
    Step,
}

impl ValueSource {
    /// Returns whether the value is known before anything runs.
    pub fn is_constant(self) -> bool {
        matches!(self, ValueSource::Weight(_) | ValueSource::Constant(_))
    }
}

/// A value of a trace.
#[derive(Debug, Clone)]
pub struct TraceValueInfo {
    pub source: ValueSource,
    pub dtype: DataType,
    pub shape: Shape,
    /// The number of elements, if it differs between runs and is an unconditional expression of the inputs' extents.
    pub(crate) elements: Option<DimExpr>,
    pub(crate) varying: Varying,
}

/// The dimensions of a value whose extents may differ between runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Varying {
    pub(super) bits: u64,
}

impl Varying {
    pub(crate) const NONE: Varying = Varying { bits: 0 };
    pub(crate) const ALL: Varying = Varying { bits: u64::MAX };

    /// Collects the dimensions whose flag in `varies` is set. All dimensions with an index of at least 63 share one
    /// bit.
    pub(crate) fn of(varies: impl IntoIterator<Item = bool>) -> Varying {
        let varying = varies.into_iter().enumerate().filter(|&(_, varies)| varies);
        Varying { bits: varying.fold(0, |all, (axis, _)| all | 1 << axis.min(63)) }
    }

    /// Returns whether the extent of a dimension may differ between runs.
    pub(crate) fn has(self, axis: usize) -> bool {
        self.bits >> axis.min(63) & 1 == 1
    }
}

impl TraceValueInfo {
    /// Returns the size of the value in bytes, for the traced inputs.
    pub(crate) fn bytes(&self) -> usize {
        bytes_of(self.dtype, &self.shape)
    }
}

/// The operation that a step calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operation {
    /// A primitive, or an operation of an extension family.
    Row(&'static OpSpec),
    /// A computation on host tensors.
    Host(&'static HostKernel),
}

impl Operation {
    /// Returns the name, as in `reduce_sum`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Operation::Row(spec) => spec.method,
            Operation::Host(body) => body.name,
        }
    }

    /// Returns the row of the operation; `None` if it computes on host tensors.
    pub(crate) fn spec(self) -> Option<&'static OpSpec> {
        match self {
            Operation::Row(spec) => Some(spec),
            Operation::Host(_) => None,
        }
    }

    /// Returns the primitive; `None` if the operation is not a primitive.
    pub(crate) fn primitive(self) -> Option<Primitive> {
        match self {
            Operation::Row(spec) if spec.family == Family::Primitive => Primitive::from_index(spec.index),
            Operation::Row(_) | Operation::Host(_) => None,
        }
    }
}

/// The nodes that a step comes from, in order. A traced step has one node. A step that a pass built from several steps
/// has several. The list is empty if the origin is unknown.
pub type StepOrigins = SmallVec<[OriginId; 1]>;

/// How often a step runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Once for all runs of a program: it reads only constants.
    Once,
    /// In each run.
    EachRun,
}

/// One operation of a trace.
#[derive(Debug, Clone)]
pub struct Step {
    /// The operation that is called.
    pub operation: Operation,
    /// The operation's parameters, in the order of its table row.
    pub params: Box<[Param<'static>]>,
    /// The parameters that are expressions. `params` has their values for the traced extents.
    pub(crate) symbolic: Option<Box<SymbolicParams>>,
    /// The operands; an omitted operand is `None`.
    pub inputs: SmallVec<[Option<TraceValue>; 3]>,
    /// The results.
    pub outputs: SmallVec<[TraceValue; 1]>,
    pub(crate) origins: StepOrigins,
    pub(crate) phase: Phase,
}

impl Step {
    /// Iterates over the values that the step reads.
    pub(crate) fn reads(&self) -> impl Iterator<Item = TraceValue> {
        self.inputs.iter().flatten().copied()
    }
}

/// The steps of a trace in a valid order of execution, and the values that it returns.
#[derive(Debug, Clone, Default)]
pub struct Trace {
    /// The steps, in order.
    pub steps: Table<StepId, Step>,
    /// The known properties of each value.
    pub values: Table<TraceValue, TraceValueInfo>,
    /// The constants that steps read.
    pub constants: Table<ConstantIndex, TensorData>,
    /// The values to return, in order.
    pub outputs: Vec<TraceValue>,
    /// The symbols that represent extents of inputs in expressions.
    pub(crate) symbols: Vec<Symbol>,
    /// The dependencies of the trace, in recording order.
    pub(crate) events: Vec<Event>,
}

impl Trace {
    /// Returns, for each value, whether it is known before a run. This holds for constants, weights, and results of
    /// steps that run once.
    ///
    /// # Errors
    ///
    /// [`Error::Internal`] if a step refers to a value that does not exist.
    pub(crate) fn constant_values(&self) -> Result<Table<TraceValue, bool>, Error> {
        let mut constant: Table<TraceValue, bool> =
            self.values.entries().map(|info| info.source.is_constant()).collect();
        for step in self.steps.entries().filter(|step| step.phase == Phase::Once) {
            for value in &step.outputs {
                constant.set(*value, true)?;
            }
        }
        Ok(constant)
    }
}
