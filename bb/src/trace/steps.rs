//! What a tracer recorded: steps over numbered values.

use crate::ext::HostKernel;
use bb_ir::op::{OpSpec, Param};
use bb_ir::{DataType, Shape, TensorData};
use smallvec::SmallVec;

/// The number of a value of a trace.
pub(crate) type ValueNo = u32;

/// Where a value comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// The input of this position.
    Input(u32),
    /// A weight that the caller holds, by the caller's number.
    Weight(u32),
    /// A constant, by its position in [`Trace::constants`].
    Constant(u32),
    /// A result of a step.
    Step,
}

/// A value of a trace.
#[derive(Debug, Clone)]
pub(crate) struct Value {
    pub(crate) source: Source,
    pub(crate) dtype: DataType,
    pub(crate) shape: Shape,
}

/// What a step calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Operation {
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
}

/// One operation of a trace.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    pub(crate) operation: Operation,
    pub(crate) params: Box<[Param<'static>]>,
    pub(crate) inputs: SmallVec<[Option<ValueNo>; 3]>,
    pub(crate) outputs: SmallVec<[ValueNo; 1]>,
}

/// The steps of a trace, in an order that can run.
#[derive(Debug, Clone, Default)]
pub(crate) struct Trace {
    pub(crate) steps: Vec<Step>,
    pub(crate) values: Vec<Value>,
    pub(crate) constants: Vec<TensorData>,
}
