//! Keeps half floats in `f32` between the operations of a run. The results of the trace are rounded once.
//!
//! A step is widened if the operation with `f32` operands has `f32` results instead of half floats. In addition, an operand must
//! be in `f32` already, or another step must compute with a result. A single operation is not widened, because it rounds only once
//! in any case. Steps that are not widened read rounded values. Steps that only move elements keep the type of their operands. A
//! product of few rows with a weight stays in half floats, because its time is the time to read the weight.

use super::{cast, cast_as, is_half};
use crate::ext::{CreateOp, NnOp, vendor};
use crate::trace::{
    NewStep, NewValue, Operation, Step, StepId, Trace, TraceEdit, TraceValue, ValueSource, Varying,
};
use crate::{DataType, Error, Primitive};
use bb_ir::TensorData;
use bb_ir::convert::{self, Rounding};
use std::collections::{HashMap, HashSet};

/// The maximum number of rows of a product that stays in half floats.
const FEW_ROWS: usize = 8;

pub(super) fn run(trace: &mut Trace) -> Result<usize, Error> {
    let mut any = false;
    for (_, info) in trace.values.iter() {
        any |= matches!(info.dtype, DataType::F16 | DataType::BF16);
    }
    if !any {
        return Ok(0);
    }
    let mut makers = HashMap::new();
    let mut steps = Vec::new();
    for (id, step) in trace.steps.iter() {
        makers.extend(step.outputs.iter().map(|&output| (output, id)));
        steps.push(id);
    }
    let computed = computed_with(trace, &steps)?;
    let mut widening = Widening { edit: trace.edit(), computed, makers, wide: HashMap::new(), count: 0 };
    for id in steps {
        widening.step(id)?;
    }
    let count = widening.count;
    widening.edit.finish()?;
    Ok(count)
}

/// Finds the values that a step computes with, directly or after steps that only move elements.
fn computed_with(trace: &Trace, steps: &[StepId]) -> Result<HashSet<TraceValue>, Error> {
    let mut computed = HashSet::new();
    for &id in steps.iter().rev() {
        let step = trace.steps.get(id)?;
        let computes = match step.operation {
            Operation::Host(_) => false,
            Operation::Row(_) if moves_elements(step) => {
                step.outputs.iter().any(|value| computed.contains(value))
            }
            Operation::Row(_) => !streams(trace, step)?,
        };
        if computes {
            computed.extend(step.reads());
        }
    }
    Ok(computed)
}

/// Returns whether a step multiplies few rows by a weight. Returns false if the number of rows may vary, so that the results do
/// not depend on the inputs of the first run.
fn streams(trace: &Trace, step: &Step) -> Result<bool, Error> {
    let (Some(Primitive::MatMul), &[Some(rows), Some(weight)]) =
        (step.operation.primitive(), step.inputs.as_slice())
    else {
        return Ok(false);
    };
    let (rows, weight) = (trace.values.get(rows)?, trace.values.get(weight)?);
    let count: usize = rows.shape.iter().rev().skip(1).product();
    let weighs = matches!(weight.source, ValueSource::Weight(_));
    Ok(weighs && rows.varying == Varying::NONE && count <= FEW_ROWS)
}

/// Returns whether an operation of a table only moves or selects elements.
fn moves_elements(step: &Step) -> bool {
    use Primitive::{Concat, Gather, Identity, Reshape, Slice, Split, Squeeze, Transpose, Unsqueeze, Where};
    let own = [NnOp::Pad.spec(), NnOp::GatherElements.spec(), NnOp::GatherNd.spec(), CreateOp::Expand.spec()];
    match (step.operation.primitive(), step.operation) {
        (Some(primitive), _) => matches!(
            primitive,
            Concat | Gather | Identity | Reshape | Slice | Split | Squeeze | Transpose | Unsqueeze | Where
        ),
        (None, Operation::Row(spec)) => own.contains(&spec),
        (None, Operation::Host(_)) => false,
    }
}

struct Widening<'t> {
    edit: TraceEdit<'t>,
    /// The values that steps compute with.
    computed: HashSet<TraceValue>,
    /// For each result, the original step that computed it.
    makers: HashMap<TraceValue, StepId>,
    /// For each half float value, the same value in `f32`.
    wide: HashMap<TraceValue, TraceValue>,
    count: usize,
}

impl Widening<'_> {
    fn step(&mut self, id: StepId) -> Result<(), Error> {
        let step = self.edit.trace().steps.get(id)?.clone();
        let mut halves = false;
        for value in step.reads().chain(step.outputs.iter().copied()) {
            halves |= is_half(self.edit.trace(), value)?;
        }
        if !halves {
            return Ok(());
        }
        if step.operation.primitive() == Some(Primitive::Cast) {
            return self.conversion(id, &step);
        }
        if self.moves(&step) || streams(self.edit.trace(), &step)? {
            return Ok(());
        }
        let has_wide = step.reads().any(|value| self.wide.contains_key(&value));
        if !has_wide && !step.outputs.iter().any(|value| self.computed.contains(value)) {
            return Ok(());
        }
        self.widen(id, step)
    }

    /// Rewrites a cast to read the `f32` value of its operand, if there is one. A cast to a half float that ends an operator
    /// stays for the steps that read the half float.
    fn conversion(&mut self, id: StepId, step: &Step) -> Result<(), Error> {
        let (&[Some(operand)], &[result]) = (step.inputs.as_slice(), step.outputs.as_slice()) else {
            return Ok(());
        };
        let source = self.wide.get(&operand).copied();
        let to = self.edit.trace().values.get(result)?.dtype;
        match (source, to) {
            (Some(wide), DataType::F32) => {
                self.edit.replace(result, wide)?;
                self.edit.remove(id)?;
                self.count += 1;
            }
            // An explicit rounding of the model stays.
            (Some(_), DataType::F16 | DataType::BF16) => {}
            (Some(wide), _) => {
                self.replace(id, step, NewStep::like(step, [Some(wide)]))?;
            }
            (None, DataType::F16 | DataType::BF16) if self.ends_operator(step, operand)? => {
                self.wide.insert(result, operand);
            }
            (None, _) => {}
        }
        Ok(())
    }

    /// Returns whether a cast ends an operator that computes in `f32`, and is not a `Cast` of the model. Then the cast and its
    /// operand come from the same node.
    fn ends_operator(&self, step: &Step, operand: TraceValue) -> Result<bool, Error> {
        let trace = self.edit.trace();
        let is_wide = trace.values.get(operand)?.dtype == DataType::F32;
        let maker = self.makers.get(&operand).copied();
        Ok(match maker {
            Some(maker) if is_wide => trace.steps.get(maker)?.origins == step.origins,
            _ => false,
        })
    }

    /// Replaces a step by another one whose results have the same types.
    fn replace(&mut self, id: StepId, step: &Step, new: NewStep) -> Result<(), Error> {
        let mut results = Vec::with_capacity(step.outputs.len());
        for &output in &step.outputs {
            results.push(NewValue::like(self.edit.trace().values.get(output)?));
        }
        let made = self.edit.insert(id, new, results)?;
        for (&old, new) in step.outputs.iter().zip(made) {
            self.edit.replace(old, new)?;
        }
        self.edit.remove(id)?;
        self.count += 1;
        Ok(())
    }

    /// Returns whether a step only moves elements without a known `f32` value.
    fn moves(&self, step: &Step) -> bool {
        let moves = match step.operation {
            Operation::Row(_) => moves_elements(step),
            Operation::Host(_) => true,
        };
        moves && !step.reads().any(|value| self.wide.contains_key(&value))
    }

    /// Computes a step in `f32`, if its results then are `f32` instead of half floats, and have the same types otherwise.
    fn widen(&mut self, id: StepId, step: Step) -> Result<(), Error> {
        let Operation::Row(spec) = step.operation else { return Ok(()) };
        // Vendor operations are not widened, because their kernel may support only half floats.
        if vendor::operation(spec).is_some() {
            return Ok(());
        }
        let mut operands = step.inputs.clone();
        for operand in operands.iter_mut().flatten() {
            if is_half(self.edit.trace(), *operand)? {
                *operand = self.wide(id, *operand)?;
            }
        }
        let mut expected = Vec::with_capacity(step.outputs.len());
        for &output in &step.outputs {
            let mut info = NewValue::like(self.edit.trace().values.get(output)?);
            if is_half(self.edit.trace(), output)? {
                info.dtype = DataType::F32;
            }
            expected.push(info);
        }
        let wide = Step { inputs: operands, ..step };
        let fits = match self.edit.trace().results_of(id, &wide) {
            Ok(Some(results)) => {
                results.len() == expected.len()
                    && results.iter().zip(&expected).all(|((dtype, _), info)| *dtype == info.dtype)
            }
            Ok(None) | Err(_) => false,
        };
        if !fits {
            return Ok(());
        }
        let new = NewStep::like(&wide, wide.inputs.iter().copied());
        let made = self.edit.insert(id, new, expected)?;
        for (&old, new) in wide.outputs.iter().zip(made) {
            if is_half(self.edit.trace(), old)? {
                self.wide.insert(old, new);
                let dtype = self.edit.trace().values.get(old)?.dtype;
                let rounded = cast_as(&mut self.edit, id, new, dtype, old)?;
                self.edit.replace(old, rounded)?;
            } else {
                self.edit.replace(old, new)?;
            }
        }
        self.edit.remove(id)?;
        self.count += 1;
        Ok(())
    }

    /// Returns the `f32` value of a half float; creates it if necessary.
    fn wide(&mut self, before: StepId, value: TraceValue) -> Result<TraceValue, Error> {
        if let Some(known) = self.wide.get(&value) {
            return Ok(*known);
        }
        let trace = self.edit.trace();
        let made = match trace.values.get(value)?.source {
            ValueSource::Constant(index) => {
                let data: TensorData =
                    convert::cast(trace.constants.get(index)?, DataType::F32, Rounding::default())?;
                self.edit.constant(data)
            }
            _ => cast(&mut self.edit, before, value, DataType::F32)?,
        };
        self.wide.insert(value, made);
        Ok(made)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
mod tests {
    use super::*;
    use crate::Backend;
    use crate::plan::passes::samples::traced;
    use crate::trace::{TraceStop, TracedTensor, Tracer};
    use bb_ir::op::RoundMode;

    type Traced = Result<TracedTensor, TraceStop>;

    fn half(on: &Tracer, x: &TracedTensor) -> Traced {
        on.cast(x, DataType::F16, true, RoundMode::Up)
    }

    /// Runs the pass on a function of a half float, and returns the steps whose results are read, with their types.
    fn steps(function: impl FnOnce(&Tracer, &TracedTensor) -> Result<Vec<TracedTensor>, TraceStop>) -> String {
        let mut trace = traced(&[&[2, 8]], |on, xs| function(on, &half(on, &xs[0])?));
        run(&mut trace).unwrap();
        trace.check().unwrap();
        trace.drop_dead().unwrap();
        let name = |step: &Step| {
            let dtype = trace.values.get(step.outputs[0]).unwrap().dtype;
            format!("{}:{dtype}", step.operation.name())
        };
        trace.steps.entries().map(name).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn only_what_leaves_is_rounded() {
        let found = steps(|on, x| {
            let square = on.mul(x, x)?;
            Ok(vec![on.sqrt(&on.exp(&square)?)?])
        });
        assert_eq!(found, "cast:f16 cast:f32 mul:f32 exp:f32 sqrt:f32 cast:f16");
    }

    #[test]
    fn a_single_operation_stays() {
        let found = steps(|on, x| Ok(vec![on.transpose(&on.exp(x)?, &[1, 0])?]));
        assert_eq!(found, "cast:f16 exp:f16 transpose:f16");
    }

    #[test]
    fn a_result_that_is_returned_and_read_is_rounded_for_the_caller_alone() {
        let found = steps(|on, x| {
            let square = on.mul(x, x)?;
            Ok(vec![square.clone(), on.exp(&square)?])
        });
        assert_eq!(found, "cast:f16 cast:f32 mul:f32 cast:f16 exp:f32 cast:f16");
    }

    #[test]
    fn what_only_moves_halves_moves_halves() {
        let found = steps(|on, x| Ok(vec![on.neg(&on.exp(&on.transpose(x, &[1, 0])?)?)?]));
        assert_eq!(found, "cast:f16 transpose:f16 cast:f32 exp:f32 neg:f32 cast:f16");
        let found = steps(|on, x| Ok(vec![on.neg(&on.transpose(&on.exp(x)?, &[1, 0])?)?]));
        assert_eq!(found, "cast:f16 cast:f32 exp:f32 transpose:f32 neg:f32 cast:f16");
    }

    #[test]
    fn other_types_read_what_was_not_rounded() {
        let found = steps(|on, x| Ok(vec![on.cast(&on.exp(x)?, DataType::I32, true, RoundMode::Up)?]));
        assert_eq!(found, "cast:f16 cast:f32 exp:f32 cast:i32");
        let found = steps(|on, x| Ok(vec![on.greater(&on.exp(x)?, x)?]));
        assert_eq!(found, "cast:f16 cast:f32 exp:f32 greater:bool");
    }
}
