//! Rewrites traces in passes: finds the uses of values, collects edits, and applies all of them in one step.
//!
//! ```text
//! let uses = trace.uses()?;
//! let mut edit = trace.edit();
//! let fused = edit.insert(before, NewStep { … }, [NewValue::like(old_info)])?;
//! edit.replace(old, fused[0])?;
//! edit.remove(step)?;
//! let changes = edit.finish()?;
//! ```

use super::liveness::Liveness;
use super::params::SymbolicParams;
use super::steps::{
    Operation, Phase, Step, StepId, StepOrigins, Trace, TraceValue, TraceValueInfo, ValueSource, Varying,
};
use super::table::{Table, TableIndex};
use crate::Error;
use bb_ir::graph::DimExpr;
use bb_ir::op::Param;
use bb_ir::{DataType, Shape, TensorData};
use smallvec::SmallVec;
use std::collections::{HashMap, HashSet};

/// The step that computes each value of a trace, and the steps that read it.
#[derive(Debug)]
pub(crate) struct Uses {
    makers: Table<TraceValue, Option<StepId>>,
    readers: Table<TraceValue, SmallVec<[StepId; 2]>>,
    returned: Table<TraceValue, bool>,
}

impl Uses {
    /// Returns the step that computes a value; `None` for inputs and constants.
    pub(crate) fn maker(&self, value: TraceValue) -> Result<Option<StepId>, Error> {
        self.makers.get(value).copied()
    }

    /// Returns the steps that read a value, in order and without duplicates.
    pub(crate) fn readers(&self, value: TraceValue) -> Result<&[StepId], Error> {
        self.readers.get(value).map(SmallVec::as_slice)
    }

    /// Returns whether the trace returns a value.
    pub(crate) fn is_returned(&self, value: TraceValue) -> Result<bool, Error> {
        self.returned.get(value).copied()
    }

    /// Returns the only step that reads a value; `None` if there are several or the trace returns the value. A pass may
    /// fuse this step with the step that computes the value.
    pub(crate) fn only_reader(&self, value: TraceValue) -> Result<Option<StepId>, Error> {
        Ok(match self.readers(value)? {
            [only] if !*self.returned.get(value)? => Some(*only),
            _ => None,
        })
    }
}

/// A step that a pass inserts.
#[derive(Debug, Clone)]
pub(crate) struct NewStep {
    pub(crate) operation: Operation,
    pub(crate) params: Box<[Param<'static>]>,
    /// The parameters that are expressions.
    pub(crate) symbolic: Option<Box<SymbolicParams>>,
    pub(crate) inputs: SmallVec<[Option<TraceValue>; 3]>,
    /// The origins of all steps that the new step replaces.
    pub(crate) origins: StepOrigins,
    pub(crate) phase: Phase,
}

impl NewStep {
    /// Returns a step with the operation of another step and these operands.
    pub(crate) fn like(step: &Step, inputs: impl IntoIterator<Item = Option<TraceValue>>) -> NewStep {
        let Step { operation, params, symbolic, origins, phase, .. } = step;
        NewStep {
            operation: *operation,
            params: params.clone(),
            symbolic: symbolic.clone(),
            inputs: inputs.into_iter().collect(),
            origins: origins.clone(),
            phase: *phase,
        }
    }
}

/// A value that an inserted step computes.
#[derive(Debug, Clone)]
pub(crate) struct NewValue {
    pub(crate) dtype: DataType,
    pub(crate) shape: Shape,
    /// As [`TraceValueInfo::elements`]. If it is `None` for a large value, runs can compare the value's size only after
    /// computing it.
    pub(crate) elements: Option<DimExpr>,
    pub(crate) varying: Varying,
}

impl NewValue {
    /// Returns a value with these extents, which are the same in all runs.
    pub(crate) fn fixed(dtype: DataType, shape: &[usize]) -> NewValue {
        NewValue { dtype, shape: Shape::from_slice(shape), elements: None, varying: Varying::NONE }
    }

    /// Returns a value with the element type and the extents of another value.
    pub(crate) fn like(info: &TraceValueInfo) -> NewValue {
        let &TraceValueInfo { dtype, ref shape, ref elements, varying, .. } = info;
        NewValue { dtype, shape: shape.clone(), elements: elements.clone(), varying }
    }

    /// Returns a value with these extents, and with the element type and the number of elements of another value.
    pub(crate) fn shaped(info: &TraceValueInfo, shape: Shape) -> NewValue {
        // If a dimension of the other value varies, any dimension of the new shape may vary.
        let varying = if info.varying == Varying::NONE { Varying::NONE } else { Varying::ALL };
        NewValue { dtype: info.dtype, shape, elements: info.elements.clone(), varying }
    }
}

/// The message for a pass whose replacements form a cycle.
const CIRCLE: &str = "values not to replace each other in a circle";

/// Edits of a trace, which [`finish`](TraceEdit::finish) applies.
///
/// Until `finish` is called, the trace keeps its steps and their ids. New values and constants exist immediately.
#[derive(Debug)]
pub(crate) struct TraceEdit<'t> {
    trace: &'t mut Trace,
    /// For each replaced value, the value that its readers read instead.
    replaced: HashMap<TraceValue, TraceValue>,
    removed: Table<StepId, bool>,
    /// New steps in the order of insertion, each with the existing step that it runs before.
    inserted: Vec<(StepId, Step)>,
    changes: usize,
}

impl Trace {
    /// Finds the step that computes each value and the steps that read it.
    ///
    /// # Errors
    ///
    /// [`Error::Internal`] if a step refers to a value that does not exist.
    pub(crate) fn uses(&self) -> Result<Uses, Error> {
        let values = self.values.len();
        let mut uses = Uses {
            makers: Table::with(values, || None),
            readers: Table::with(values, SmallVec::new),
            returned: Table::with(values, || false),
        };
        for (id, step) in self.steps.iter() {
            for value in step.reads() {
                let readers = uses.readers.get_mut(value)?;
                if readers.last() != Some(&id) {
                    readers.push(id);
                }
            }
            for value in &step.outputs {
                uses.makers.set(*value, Some(id))?;
            }
        }
        for value in &self.outputs {
            uses.returned.set(*value, true)?;
        }
        Ok(uses)
    }

    /// Removes the steps whose results are not read, and returns their number.
    ///
    /// # Errors
    ///
    /// [`Error::Internal`] if a step refers to a value that does not exist.
    pub(crate) fn drop_dead(&mut self) -> Result<usize, Error> {
        let liveness = Liveness::of(self)?;
        let mut edit = self.edit();
        let mut dead = Vec::new();
        for (id, _) in edit.trace().steps.iter() {
            if !liveness.is_live(id)? {
                dead.push(id);
            }
        }
        for id in dead {
            edit.remove(id)?;
        }
        edit.finish()
    }

    /// Begins to edit the trace.
    pub(crate) fn edit(&mut self) -> TraceEdit<'_> {
        let removed = Table::with(self.steps.len(), || false);
        TraceEdit { trace: self, replaced: HashMap::new(), removed, inserted: Vec::new(), changes: 0 }
    }
}

impl TraceEdit<'_> {
    /// Returns the trace. Its steps do not contain the edits yet.
    pub(crate) fn trace(&self) -> &Trace {
        self.trace
    }

    /// Adds a constant.
    pub(crate) fn constant(&mut self, data: TensorData) -> TraceValue {
        let (dtype, shape) = (data.dtype(), Shape::from_slice(data.shape()));
        let index = self.trace.constants.push(data);
        self.trace.values.push(TraceValueInfo {
            source: ValueSource::Constant(index),
            dtype,
            shape,
            elements: None,
            varying: Varying::NONE,
        })
    }

    /// Inserts a step before the step `before`, after the steps already inserted there. Returns the values of its
    /// results.
    ///
    /// # Errors
    ///
    /// [`Error::Internal`] if the step `before` does not exist.
    pub(crate) fn insert(
        &mut self,
        before: StepId,
        new: NewStep,
        results: impl IntoIterator<Item = NewValue>,
    ) -> Result<SmallVec<[TraceValue; 1]>, Error> {
        self.removed.get(before)?;
        let mut outputs: SmallVec<[TraceValue; 1]> = SmallVec::new();
        for NewValue { dtype, shape, elements, varying } in results {
            outputs.push(self.trace.values.push(TraceValueInfo {
                source: ValueSource::Step,
                dtype,
                shape,
                elements,
                varying,
            }));
        }
        let NewStep { operation, params, symbolic, inputs, origins, phase } = new;
        let step = Step { operation, params, symbolic, inputs, outputs: outputs.clone(), origins, phase };
        self.inserted.push((before, step));
        self.changes += 1;
        Ok(outputs)
    }

    /// Replaces `value` by `by` in all existing and inserted steps that read it, and in the trace's outputs. Only the
    /// step that computes `by` still reads `value`, so that a step can be inserted after another step.
    ///
    /// # Errors
    ///
    /// [`Error::Internal`] if one of the values does not exist.
    pub(crate) fn replace(&mut self, value: TraceValue, by: TraceValue) -> Result<(), Error> {
        self.trace.values.get(value)?;
        self.trace.values.get(by)?;
        self.replaced.insert(value, by);
        self.changes += 1;
        Ok(())
    }

    /// Removes a step. After all edits are applied, no step may read its results.
    ///
    /// # Errors
    ///
    /// [`Error::Internal`] if the step does not exist.
    pub(crate) fn remove(&mut self, step: StepId) -> Result<(), Error> {
        self.removed.set(step, true)?;
        self.changes += 1;
        Ok(())
    }

    /// Applies the edits, and returns their number. Afterwards the steps have new ids.
    ///
    /// # Errors
    ///
    /// [`Error::Internal`] if replacements form a cycle.
    pub(crate) fn finish(mut self) -> Result<usize, Error> {
        if self.changes == 0 {
            return Ok(0);
        }
        self.shorten()?;
        let mut steps = Table::default();
        let mut inserted = std::mem::take(&mut self.inserted);
        // The sort is stable, so steps inserted before the same step keep their order.
        inserted.sort_by_key(|(before, _)| *before);
        let mut inserted = inserted.into_iter().peekable();
        let old = std::mem::take(&mut self.trace.steps);
        for (position, step) in old.into_entries().into_iter().enumerate() {
            let id = StepId::at(position);
            while let Some((_, new)) = inserted.next_if(|(before, _)| *before == id) {
                steps.push(self.renamed(new)?);
            }
            if !*self.removed.get(id)? {
                steps.push(self.renamed(step)?);
            }
        }
        let mut outputs = Vec::with_capacity(self.trace.outputs.len());
        for value in &self.trace.outputs {
            outputs.push(self.current(*value, &[])?);
        }
        self.trace.steps = steps;
        self.trace.outputs = outputs;
        Ok(self.changes)
    }

    /// Shortens chains of replacements, so that each value maps directly to the last value of its chain. Links to a
    /// value whose step reads a replaced value are kept, because [`current`](Self::current) may have to stop before
    /// them.
    ///
    /// # Errors
    ///
    /// [`Error::Internal`] if replacements form a cycle.
    fn shorten(&mut self) -> Result<(), Error> {
        let steps = self.inserted.iter().map(|(_, step)| step).chain(self.trace.steps.entries());
        let reading = steps.filter(|step| step.reads().any(|value| self.replaced.contains_key(&value)));
        let stays: HashSet<TraceValue> = reading.flat_map(|step| &step.outputs).copied().collect();
        let mut last: HashMap<TraceValue, TraceValue> = HashMap::with_capacity(self.replaced.len());
        let mut chain = Vec::new();
        for &first in self.replaced.keys() {
            let mut at = first;
            while !last.contains_key(&at)
                && let Some(by) = self.replaced.get(&at)
                && !stays.contains(by)
            {
                if chain.len() > self.replaced.len() {
                    return Err(Error::excluded(CIRCLE));
                }
                chain.push(at);
                at = *by;
            }
            let end = last.get(&at).copied().unwrap_or(at);
            last.extend(chain.drain(..).map(|link| (link, end)));
        }
        self.replaced.iter_mut().for_each(|(value, by)| *by = last.get(value).copied().unwrap_or(*by));
        Ok(())
    }

    /// Applies the replacements to the operands of a step.
    fn renamed(&self, mut step: Step) -> Result<Step, Error> {
        if !self.replaced.is_empty() {
            for value in step.inputs.iter_mut().flatten() {
                *value = self.current(*value, &step.outputs)?;
            }
        }
        Ok(step)
    }

    /// Returns the value that a step reads instead of `value`. `own` are the results of the step.
    fn current(&self, value: TraceValue, own: &[TraceValue]) -> Result<TraceValue, Error> {
        let mut current = value;
        // More iterations than replacements mean a cycle.
        for _ in 0..=self.replaced.len() {
            match self.replaced.get(&current) {
                Some(by) if !own.contains(by) => current = *by,
                _ => return Ok(current),
            }
        }
        Err(Error::excluded(CIRCLE))
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
mod tests {
    use super::*;
    use crate::trace::{InputIndex, TraceStop, TracedTensor, Tracer, Varies};
    use crate::{Backend, Primitive};

    fn traced(
        function: impl FnOnce(&Tracer, &TracedTensor) -> Result<Vec<TracedTensor>, TraceStop>,
    ) -> Trace {
        let on = Tracer::default();
        let x = on.input(InputIndex::at(0), "x", DataType::F32, &[2], &Varies::Everything, None);
        let outputs = function(&on, &x).unwrap().iter().map(TracedTensor::read).collect();
        on.finish(outputs)
    }

    fn new(primitive: Primitive, inputs: &[TraceValue]) -> NewStep {
        NewStep {
            operation: Operation::Row(primitive.spec()),
            params: Box::default(),
            symbolic: None,
            inputs: inputs.iter().map(|value| Some(*value)).collect(),
            origins: StepOrigins::new(),
            phase: Phase::EachRun,
        }
    }

    #[test]
    fn a_value_of_other_extents_varies_in_all_if_one_varied() {
        let info = |varies: [bool; 2]| TraceValueInfo {
            source: ValueSource::Step,
            dtype: DataType::F32,
            shape: Shape::from_slice(&[2, 3]),
            elements: None,
            varying: Varying::of(varies),
        };
        let axes = |new: &NewValue| [0, 1, 62, 63, 64].map(|axis| new.varying.has(axis));
        assert_eq!(axes(&NewValue::like(&info([true, false]))), [true, false, false, false, false]);
        assert_eq!(axes(&NewValue::like(&info([false, true]))), [false, true, false, false, false]);
        let six = || Shape::from_slice(&[6]);
        assert_eq!(axes(&NewValue::shaped(&info([true, false]), six())), [true; 5]);
        assert_eq!(axes(&NewValue::shaped(&info([false, false]), six())), [false; 5]);
        // All dimensions with an index of at least 63 share one bit.
        let far = Varying::of((0..70).map(|axis| axis == 69));
        assert_eq!([62, 63, 68, 69].map(|axis| far.has(axis)), [false, true, true, true]);
    }

    fn f32s() -> NewValue {
        NewValue::fixed(DataType::F32, &[2])
    }

    /// Returns the trace of `exp(-x)`, its values (the input, the results of `neg` and `exp`) and its steps.
    fn negated_exp() -> (Trace, [TraceValue; 3], [StepId; 2]) {
        let trace = traced(|on, x| Ok(vec![on.exp(&on.neg(x)?)?]));
        (trace, [0, 1, 2].map(TraceValue::at), [0, 1].map(StepId::at))
    }

    #[test]
    fn uses_say_who_makes_and_reads_a_value() {
        let trace = traced(|on, x| {
            let y = on.neg(x)?;
            Ok(vec![on.mul(&y, &y)?, y])
        });
        let uses = trace.uses().unwrap();
        let [x, y, z] = [0, 1, 2].map(TraceValue::at);
        assert_eq!((uses.maker(x).unwrap(), uses.maker(y).unwrap()), (None, Some(StepId::at(0))));
        assert_eq!(uses.readers(y).unwrap(), [StepId::at(1)]);
        assert_eq!(uses.only_reader(x).unwrap(), Some(StepId::at(0)));
        // The trace returns both values, so no pass may fuse the steps that compute them.
        assert_eq!((uses.only_reader(y).unwrap(), uses.only_reader(z).unwrap()), (None, None));
    }

    #[test]
    fn two_steps_become_one() {
        let (mut trace, [x, _, result], [neg, exp]) = negated_exp();
        let mut edit = trace.edit();
        let fused = edit.insert(exp, new(Primitive::Abs, &[x]), [f32s()]).unwrap();
        edit.replace(result, fused[0]).unwrap();
        edit.remove(neg).unwrap();
        edit.remove(exp).unwrap();
        assert_eq!(edit.finish().unwrap(), 4);
        assert_eq!(trace.to_string(), "%3: f32[2] = abs(input0)\nreturn %3\n");
        trace.check().unwrap();
    }

    #[test]
    fn a_step_behind_another_still_reads_it() {
        let (mut trace, [_, negated, _], [_, exp]) = negated_exp();
        let mut edit = trace.edit();
        let absolute = edit.insert(exp, new(Primitive::Abs, &[negated]), [f32s()]).unwrap();
        edit.replace(negated, absolute[0]).unwrap();
        edit.finish().unwrap();
        assert_eq!(
            trace.to_string(),
            "%1: f32[2] = neg(input0)\n%3: f32[2] = abs(%1)\n%2: f32[2] = exp(%3)\nreturn %2\n"
        );
        trace.check().unwrap();
    }

    #[test]
    fn a_new_constant_is_read_like_any_value() {
        let (mut trace, [_, negated, _], [neg, _]) = negated_exp();
        let mut edit = trace.edit();
        let constant = edit.constant(TensorData::new(&[2], &[1f32, 2.]).unwrap());
        edit.replace(negated, constant).unwrap();
        edit.remove(neg).unwrap();
        edit.finish().unwrap();
        assert_eq!(trace.to_string(), "%2: f32[2] = exp(constant0)\nreturn %2\n");
        trace.check().unwrap();
    }

    #[test]
    fn replacements_follow_each_other_and_a_circle_is_an_error() {
        let (mut trace, [x, negated, result], _) = negated_exp();
        let mut edit = trace.edit();
        edit.replace(result, negated).unwrap();
        edit.replace(negated, x).unwrap();
        edit.finish().unwrap();
        assert_eq!(trace.outputs, [x]);
        let mut edit = trace.edit();
        edit.replace(x, negated).unwrap();
        edit.replace(negated, x).unwrap();
        assert!(matches!(edit.finish(), Err(Error::Internal(_))));
    }
}
