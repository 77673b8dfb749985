//! The known types of a plan's results: element types, ranks, and the extents that are equal in all runs.
//!
//! Each result is compared with its type, so that an error names the operation that computed a wrong result, and not an
//! operation that reads it.

use super::lir::{Instruction, Plan};
use crate::error::{ResultMaker, TraceFault, WrongResult};
use crate::trace::{Trace, TraceValue, Varying};
use crate::{Error, Tensor};
use bb_ir::op::OpSpec;
use bb_ir::{DataType, Shape};
use smallvec::SmallVec;

/// The known type of a result.
#[derive(Debug)]
pub(super) struct Claim {
    dtype: DataType,
    varying: Varying,
    shape: Shape,
}

impl Claim {
    /// Returns the known type of a value in a trace. If `fixed`, the extents of inputs are equal in all runs.
    ///
    /// # Errors
    ///
    /// [`Error::Internal`] if the trace does not have the value.
    pub(super) fn of(trace: &Trace, value: TraceValue, fixed: bool) -> Result<Claim, Error> {
        let info = trace.values.get(value)?;
        let varying = if fixed { Varying::NONE } else { info.varying };
        Ok(Claim { dtype: info.dtype, varying, shape: info.shape.clone() })
    }

    /// Returns whether a result has the known type.
    #[inline]
    pub(super) fn holds<T: Tensor>(&self, x: &T) -> bool {
        let (own, shape) = (self.shape.as_slice(), x.shape());
        // A loop is faster here than a call that compares memory, because shapes are short.
        let same = own.len() == shape.len() && own.iter().zip(shape).all(|(a, b)| a == b);
        x.dtype() == self.dtype && (same || self.varying != Varying::NONE && self.varies(shape))
    }

    /// Returns whether the shape differs only in extents that may vary.
    #[inline(never)]
    fn varies(&self, shape: &[usize]) -> bool {
        let own = self.shape.as_slice();
        own.len() == shape.len()
            && own.iter().zip(shape).enumerate().all(|(axis, (a, b))| a == b || self.varying.has(axis))
    }

    /// Returns the error for a result of another type. If the plan was loaded from a file, the error blames the file, because
    /// it may be wrong instead of the result.
    #[cold]
    pub(super) fn wrong<T: Tensor>(
        &self,
        op: &str,
        index: usize,
        x: &T,
        is_loaded: bool,
        maker: ResultMaker,
    ) -> Error {
        if is_loaded {
            return other_result(x, self.dtype, Some(&self.shape));
        }
        let known = |(axis, &extent)| (!self.varying.has(axis)).then_some(extent);
        Error::WrongResult(Box::new(WrongResult {
            op: op.to_owned(),
            index,
            expected: self.dtype,
            expected_shape: self.shape.iter().enumerate().map(known).collect(),
            got: x.dtype(),
            got_shape: Shape::from_slice(x.shape()),
            maker,
        }))
    }
}

/// The known types of the results of a plan's instructions.
#[derive(Debug)]
pub(super) struct Claims {
    all: Vec<SmallVec<[Claim; 1]>>,
    /// Whether the plan was loaded from a file. Then a mismatch is blamed on the file.
    is_loaded: bool,
}

impl Claims {
    /// Collects the known types of all results. If `fixed`, the extents of inputs are equal in all runs.
    ///
    /// # Errors
    ///
    /// [`Error::Internal`] if the trace lacks a step or a value of the plan.
    pub(super) fn new(trace: &Trace, plan: &Plan, fixed: bool, is_loaded: bool) -> Result<Claims, Error> {
        let claims = |instruction: &Instruction| {
            let outputs = &trace.steps.get(instruction.step)?.outputs;
            outputs.iter().map(|value| Claim::of(trace, *value, fixed)).collect::<Result<_, Error>>()
        };
        let all = plan.instructions.iter().map(claims).collect::<Result<_, Error>>()?;
        Ok(Claims { all, is_loaded })
    }

    /// Returns whether an instruction has exactly one result, the common case, and the result has the known type.
    #[inline(always)]
    pub(super) fn holds_one<T: Tensor>(&self, at: usize, results: &[T]) -> bool {
        match (results, self.all.get(at).map(SmallVec::as_slice)) {
            ([x], Some([claim])) => claim.holds(x),
            _ => false,
        }
    }

    /// Compares the results of an instruction with their known types. `maker` returns the part of the program that computes an operation.
    ///
    /// # Errors
    ///
    /// [`Error::WrongResult`] for the first result that differs; [`Error::SavedPlan`] if the plan was loaded from a file.
    #[inline(never)]
    pub(super) fn check<T: Tensor>(
        &self,
        at: usize,
        instruction: &Instruction,
        results: &[T],
        maker: impl FnOnce(&'static OpSpec) -> ResultMaker,
    ) -> Result<(), Error> {
        let claims = self.all.get(at).map_or(&[][..], |claims| claims);
        for (index, (x, claim)) in results.iter().zip(claims).enumerate() {
            if !claim.holds(x) {
                let maker = instruction.operation.spec().map_or(ResultMaker::BACKEND, maker);
                return Err(claim.wrong(instruction.operation.name(), index, x, self.is_loaded, maker));
            }
        }
        Ok(())
    }
}

/// Returns the error for a result that differs from its type in the trace of a loaded plan.
#[cold]
fn other_result<T: Tensor>(x: &T, dtype: DataType, shape: Option<&[usize]>) -> Error {
    let claimed = (dtype, shape.unwrap_or(x.shape()).to_vec());
    let fault = TraceFault::Type {
        value: "a result".to_owned(),
        expected: (x.dtype(), x.shape().to_vec()),
        got: claimed,
    };
    faulty(fault.into())
}

/// Converts an internal error to an error of the file.
pub(super) fn faulty(error: Error) -> Error {
    match error {
        Error::Internal(fault) => Error::SavedPlan(Box::new(fault)),
        other => other,
    }
}
