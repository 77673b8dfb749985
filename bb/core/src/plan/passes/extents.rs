//! The extents of a trace's values as expressions of the extents of the inputs, as far as the steps determine them.
//!
//! The values of a trace have the extents for the inputs that were traced. Two extents that are equal in the trace may differ
//! in other runs of the same plan, because a step that broadcasts accepts both. A pass that needs equal extents checks them
//! here.

use super::permutation::Transpose;
use crate::ext::{LlmOp, NnOp};
use crate::trace::{Operation, Step, SymbolicValue, Table, Trace, TraceValue, ValueSource};
use crate::{Error, Primitive};
use bb_ir::graph::DimExpr;
use bb_ir::op::{Class, Family, Param};
use smallvec::SmallVec;

/// The extents of a value; `None` for an unknown extent.
pub(super) type Known = SmallVec<[Option<DimExpr>; 4]>;

/// The known extents of all values.
#[derive(Debug)]
pub(super) struct Extents {
    /// `None` if the extents in all runs equal the extents in the trace.
    known: Option<Table<TraceValue, Known>>,
}

impl Extents {
    /// Derives the extents from the steps of a trace.
    pub(super) fn of(trace: &Trace) -> Result<Extents, Error> {
        if trace.symbols.is_empty() {
            return Ok(Extents { known: None });
        }
        let mut known: Table<TraceValue, Known> = Table::with(trace.values.len(), Known::new);
        for (value, info) in trace.values.iter() {
            let extent = |(axis, &number): (usize, &usize)| match info.source {
                ValueSource::Input(input) => {
                    let here =
                        |place: &crate::trace::Place| place.input == input && place.axis as usize == axis;
                    let symbol = trace.symbols.iter().find(|symbol| symbol.places.iter().any(here));
                    Some(symbol.map_or_else(|| fixed(number), |symbol| DimExpr::name(&symbol.name)))
                }
                ValueSource::Constant(_) | ValueSource::Weight(_) => Some(fixed(number)),
                ValueSource::Step => None,
            };
            known.set(value, info.shape.iter().enumerate().map(extent).collect())?;
        }
        for step in trace.steps.entries() {
            let &[result] = step.outputs.as_slice() else { continue };
            let shape = &trace.values.get(result)?.shape;
            let found = made(trace, &known, step)?.filter(|found| found.len() == shape.len());
            if let Some(found) = found {
                known.set(result, found)?;
            }
        }
        Ok(Extents { known: Some(known) })
    }

    /// Returns the extents of a value.
    pub(super) fn get(&self, trace: &Trace, value: TraceValue) -> Result<Known, Error> {
        match &self.known {
            Some(known) => known.get(value).cloned(),
            None => Ok(trace.values.get(value)?.shape.iter().map(|&number| Some(fixed(number))).collect()),
        }
    }
}

fn fixed(number: usize) -> DimExpr {
    DimExpr::from(i64::try_from(number).unwrap_or(i64::MAX))
}

/// Returns the extents of a step's result; `None` if nothing is known about them.
fn made(trace: &Trace, known: &Table<TraceValue, Known>, step: &Step) -> Result<Option<Known>, Error> {
    let Operation::Row(spec) = step.operation else { return Ok(None) };
    let of = |value: TraceValue| known.get(value).cloned();
    if spec.class == Class::Elementwise {
        let mut all = Known::new();
        for value in step.reads() {
            all = broadcast(all, of(value)?);
        }
        return Ok(Some(all));
    }
    let Some(first) = step.reads().next() else { return Ok(None) };
    let x = of(first)?;
    let same = match spec.family {
        Family::Nn => [NnOp::Softmax, NnOp::LogSoftmax, NnOp::LayerNormalization, NnOp::BatchNormalization]
            .iter()
            .any(|op| *op as u16 == spec.index),
        Family::Llm => [LlmOp::RmsNormalization, LlmOp::Rotate].iter().any(|op| *op as u16 == spec.index),
        _ => false,
    };
    if same {
        return Ok(Some(x));
    }
    Ok(match (step.operation.primitive(), &step.params[..]) {
        (Some(Primitive::Transpose), _) => match Transpose::of(trace, step)? {
            Some(transpose) => Some(transpose.perm.permuted(&x)?),
            None => None,
        },
        (Some(Primitive::Reshape), [Param::Extents(numbers)]) => {
            let mut shape: Known = numbers.iter().map(|&number| Some(fixed(number))).collect();
            for symbolic in step.symbolic.iter().flat_map(|symbolic| &symbolic.0) {
                let SymbolicValue::List(list) = &symbolic.value else { return Ok(None) };
                for (at, expr) in list {
                    let Some(extent) = shape.get_mut(*at) else { return Ok(None) };
                    *extent = Some(expr.clone());
                }
            }
            Some(shape)
        }
        // The extents of the operands differ only along the axis.
        (Some(Primitive::Concat), [Param::Int(axis)]) => Some(without(x, &[*axis])),
        (Some(Primitive::Slice), [_, _, Param::Ints(axes), ..]) if !axes.is_empty() => Some(without(x, axes)),
        (Some(Primitive::MatMul), _) => {
            let Some(by) = step.inputs.get(1).copied().flatten() else { return Ok(None) };
            let (mut left, mut right) = (x, of(by)?);
            if left.len() < 2 || right.len() < 2 {
                return Ok(None);
            }
            let columns = right.pop();
            right.pop();
            left.pop();
            let rows = left.pop();
            let mut all = broadcast(left, right);
            all.extend(rows);
            all.extend(columns);
            Some(all)
        }
        _ => None,
    })
}

/// Marks the extents along some axes as unknown.
fn without(mut x: Known, axes: &[i64]) -> Known {
    let rank = x.len() as i64;
    for axis in axes {
        let axis = usize::try_from(if *axis < 0 { axis + rank } else { *axis }).ok();
        if let Some(extent) = axis.and_then(|axis| x.get_mut(axis)) {
            *extent = None;
        }
    }
    x
}

/// Broadcasts two lists of extents. If one of two extents is a number other than 1, the result has this number.
fn broadcast(a: Known, b: Known) -> Known {
    let (mut longer, shorter) = if a.len() < b.len() { (b, a) } else { (a, b) };
    let number = |extent: &Option<DimExpr>| extent.as_ref().and_then(DimExpr::constant);
    for (own, other) in longer.iter_mut().rev().zip(shorter.into_iter().rev()) {
        if *own == other && own.is_some() || number(&other) == Some(1) {
            continue;
        }
        let keeps = number(own).is_some_and(|number| number != 1);
        if number(own) == Some(1) || number(&other).is_some() {
            *own = other;
        } else if !keeps {
            *own = None;
        }
    }
    longer
}

#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
mod tests {
    use super::*;
    use crate::Backend;
    use crate::ext::{Extent, Ops};
    use crate::plan::passes::samples::{on_tracer, zeros};
    use crate::trace::{TraceStop, TracedTensor, Tracer, Varies};

    fn known(
        inputs: &[&[usize]],
        function: impl FnOnce(&Tracer, &[TracedTensor]) -> Result<TracedTensor, TraceStop>,
    ) -> Vec<String> {
        let on = Tracer::default().symbolic(true);
        let trace = on_tracer(on, &Varies::Everything, inputs, |on, xs| Ok(vec![function(on, xs)?]));
        let known = Extents::of(&trace).unwrap().get(&trace, *trace.outputs.first().unwrap()).unwrap();
        known.iter().map(|extent| extent.as_ref().map_or("?".to_owned(), ToString::to_string)).collect()
    }

    #[test]
    fn extents_follow_transposes_reshapes_and_products() {
        let heads = known(&[&[2, 3, 8]], |on, xs| {
            let of = on.extents(&xs[0]);
            let shape = [of[0].clone(), of[1].clone(), Extent::from(2i64), Extent::from(4i64)];
            let x = on.transpose(&on.reshape_to(&xs[0], &shape)?, &[0, 2, 1, 3])?;
            on.matmul(&x, &on.transpose(&x, &[0, 1, 3, 2])?)
        });
        assert_eq!(heads, ["x.0", "2", "x.1", "x.1"]);
    }

    #[test]
    fn what_may_stretch_is_known_only_where_it_is_the_same_or_a_number() {
        assert_eq!(known(&[&[2, 3], &[2, 3]], |on, xs| on.add(&xs[0], &xs[0])), ["x.0", "x.1"]);
        assert_eq!(known(&[&[2, 3]], |on, xs| on.add(&xs[0], &zeros(on, &[1, 3]))), ["x.0", "3"]);
        let (left, right): (&[usize], &[usize]) = (&[1, 3], &[3]);
        let trace =
            on_tracer(Tracer::default().symbolic(true), &Varies::Everything, &[left, right], |on, xs| {
                Ok(vec![on.add(&xs[0], &xs[1])?])
            });
        // Each input has its own symbols, and one of them may be 1 in another run.
        let known = Extents::of(&trace).unwrap().get(&trace, *trace.outputs.first().unwrap()).unwrap();
        assert!(known.first().unwrap().is_some() && known.last().unwrap().is_none(), "{known:?}");
    }
}
