//! Rewrites a trace with a program's own rules, which replace steps.

use super::ModelTrace;
use super::replay::{Replayed, replay};
use crate::Error;
use crate::trace::{Operation, TraceStop, TracedTensor, Tracer, Weight, WeightId};
use bb_ir::op::{OpSpec, Param};
use smallvec::SmallVec;

/// A step of a trace: an operation of any family. Its operands and parameters are in the order of its table entry.
#[derive(Debug)]
#[non_exhaustive]
pub struct TraceStep<'a> {
    /// The operation.
    pub op: &'static OpSpec,
    /// The operands; `None` for an omitted optional operand.
    pub inputs: &'a [Option<&'a TracedTensor>],
    /// The parameters.
    pub params: &'a [Param<'static>],
}

impl ModelTrace {
    /// Iterates over the operations of the steps, in order. Steps that the host computes are skipped.
    pub fn operations(&self) -> impl Iterator<Item = &'static OpSpec> {
        self.recorded.steps.entries().filter_map(|step| match step.operation {
            Operation::Row(spec) => Some(spec),
            Operation::Host(_) => None,
        })
    }

    /// Returns the trace with some steps replaced. The function is called with each step that the outputs need, in order; its
    /// operands are already rewritten. The function calls operations on the tracer and returns their results, or `None` to keep
    /// the step. Steps whose results are no longer read are removed.
    ///
    /// [`BackendHandle::compile_trace`](crate::BackendHandle::compile_trace) compiles the result.
    ///
    /// # Errors
    ///
    /// The function's own errors; [`Error::Results`], [`bb_ir::Error::DataType`] and [`bb_ir::Error::Shapes`] if it returns
    /// results that differ from the step's results in number, element type or shape.
    ///
    /// # Examples
    ///
    /// Replaces a negation by a product:
    ///
    /// ```
    /// use bb::ext::Create;
    /// use bb::export::ModelTrace;
    /// use bb::{Backend, DataType};
    ///
    /// # fn main() -> Result<(), bb::Error> {
    /// let trace = ModelTrace::new(&[("x", DataType::F32, &[2])], |on, inputs| Ok(vec![on.neg(&inputs[0])?]))?;
    /// let rewritten = trace.rewrite(|on, step| match (step.op.method, step.inputs) {
    ///     ("neg", [Some(x)]) => Ok(Some(vec![on.mul(x, &on.scalar_like(x, -1.0)?)?])),
    ///     _ => Ok(None),
    /// })?;
    /// assert!(rewritten.operations().any(|op| op.method == "mul"));
    /// assert!(rewritten.operations().all(|op| op.method != "neg"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn rewrite(
        &self,
        mut rule: impl FnMut(&Tracer, &TraceStep<'_>) -> Result<Option<Vec<TracedTensor>>, TraceStop>,
    ) -> Result<ModelTrace, Error> {
        let weight = |id: WeightId| -> Option<Weight> {
            self.weights.get(&id).map(|(name, data)| (Some(name.clone()), data.clone()))
        };
        let on = Tracer::new(crate::ext::every_operation(), bb_ir::Limits::default().value_bytes);
        let mut rule = |on: &Tracer,
                        op: &'static OpSpec,
                        inputs: &[Option<&TracedTensor>],
                        params: &[Param<'static>]| {
            Ok(rule(on, &TraceStep { op, inputs, params })?.map(SmallVec::from_vec))
        };
        let Replayed { mut recorded, consulted } = replay(&self.recorded, &weight, on, &mut rule)?;
        recorded.drop_dead()?;
        Ok(ModelTrace {
            recorded,
            inputs: self.inputs.clone(),
            outputs: self.outputs.clone(),
            weights: self.weights.clone(),
            consulted: self.consulted | consulted,
        })
    }
}
