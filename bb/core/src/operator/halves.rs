//! Handles 16-bit floats in operators: a result is rounded only once, even if its function takes several steps.

use super::{Call, Function, OpOutputs, OpResult};
use crate::ext::math;
use crate::trace::{TraceStop, TracedTensor, Tracer};
use crate::{Backend, DataType, Tensor};
use smallvec::SmallVec;
use std::fmt;

/// The treatment of 16-bit float operands by an operator's function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Halves {
    /// The function moves, selects or compares elements, and computes no new values.
    Moves,
    /// The function takes 16-bit operands and rounds each result only once: either it is a single operation that does
    /// so, or it widens the values itself.
    Once,
    /// The function is called with operands that are widened to `f32`, and its results are rounded afterwards.
    Widened,
}

/// The function of an operator on tensors, with its treatment of 16-bit floats.
#[derive(Clone, Copy)]
pub struct TensorFunction {
    run: Function,
    halves: Halves,
}

impl fmt::Debug for TensorFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TensorFunction").field("halves", &self.halves).finish_non_exhaustive()
    }
}

impl TensorFunction {
    /// Pairs a function with its treatment of 16-bit floats.
    pub const fn new(run: Function, halves: Halves) -> Self {
        TensorFunction { run, halves }
    }

    /// Calls the function.
    ///
    /// # Errors
    ///
    /// The errors of the function and of the backend.
    pub fn call(self, on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
        match self.narrow(on, call) {
            Some(narrow) => self.widened(on, call, narrow),
            None => (self.run)(on, call),
        }
    }

    /// Returns the 16-bit float type of the operands, if the function must be called with `f32` instead.
    ///
    /// If operands have different float types, the function gets them unchanged, because it has its own rules for
    /// them or refuses them.
    fn narrow(self, on: &Tracer, call: &Call<'_, TracedTensor>) -> Option<DataType> {
        if self.halves != Halves::Widened {
            return None;
        }
        let mut floats = (0..call.len())
            .filter_map(|i| call.optional(i))
            .map(Tensor::dtype)
            .filter(|dtype| dtype.is_float());
        let first = floats.next().filter(|&first| math::is_half(first))?;
        (floats.all(|dtype| dtype == first) && on.types().has(DataType::F32)).then_some(first)
    }

    fn widened(self, on: &Tracer, call: &Call<'_, TracedTensor>, narrow: DataType) -> OpResult {
        let wide = |x: &TracedTensor| {
            if x.dtype() == narrow { math::to(on, x, DataType::F32) } else { Ok(x.clone()) }
        };
        let operands: SmallVec<[Option<TracedTensor>; 4]> = (0..call.len())
            .map(|i| call.optional(i).map(wide).transpose())
            .collect::<Result<_, TraceStop>>()?;
        let results = (self.run)(on, &call.with_operands(&operands))?;
        let rounded = |(position, result): (usize, Option<TracedTensor>)| match result {
            Some(y) if y.dtype() == DataType::F32 => {
                math::narrowed(on, y, call.declared(position).unwrap_or(narrow)).map(Some)
            }
            other => Ok(other),
        };
        results.into_iter().enumerate().map(rounded).collect::<Result<OpOutputs<_>, TraceStop>>()
    }
}
