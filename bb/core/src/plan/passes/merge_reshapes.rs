//! Lets a reshape read the operand of the preceding steps that only change the shape.
//!
//! Only the last reshape determines the shape of the result. It keeps its parameters, so the plan stays valid for the same
//! inputs.

use super::{Pass, PassOptions};
use crate::plan::engine::Engine;
use crate::trace::{NewStep, NewValue, StepId, StepOrigins, Trace, TraceValue, Uses};

use crate::{Error, Primitive};

pub(super) const PASS: Pass =
    Pass { name: "merge-reshapes", engines: &[Engine::Interpreter, Engine::WholeGraph], run };

fn run(trace: &mut Trace, _: PassOptions<'_>) -> Result<usize, Error> {
    let uses = trace.uses()?;
    let mut found = Vec::new();
    for (id, step) in trace.steps.iter() {
        if step.operation.primitive() == Some(Primitive::Reshape)
            && let ([Some(operand)], [result]) = (step.inputs.as_slice(), step.outputs.as_slice())
        {
            let (root, ahead) = root(trace, &uses, *operand, id)?;
            if root != *operand {
                found.push((id, root, *result, ahead));
            }
        }
    }
    let count = found.len();
    let mut edit = trace.edit();
    for (id, root, result, mut origins) in found {
        let step = edit.trace().steps.get(id)?;
        origins.extend(step.origins.iter().copied());
        let new = NewStep { origins, ..NewStep::like(step, [Some(root)]) };
        let results = [NewValue::like(edit.trace().values.get(result)?)];
        for merged in edit.insert(id, new, results)? {
            edit.replace(result, merged)?;
        }
        edit.remove(id)?;
    }
    edit.finish()?;
    Ok(count)
}

/// Walks back from an operand through the steps that only change its shape. Returns the value before them, and the origins of
/// the steps that only `reader` needs, because the merged step takes over their nodes.
fn root(
    trace: &Trace,
    uses: &Uses,
    operand: TraceValue,
    reader: StepId,
) -> Result<(TraceValue, StepOrigins), Error> {
    let (mut root, mut reader) = (operand, Some(reader));
    let mut ahead = Vec::new();
    while let Some(id) = uses.maker(root)? {
        let maker = trace.steps.get(id)?;
        let views = [Primitive::Reshape, Primitive::Squeeze, Primitive::Unsqueeze];
        let is_view = maker.operation.primitive().is_some_and(|op| views.contains(&op));
        let ([Some(before)], true) = (maker.inputs.as_slice(), is_view) else { break };
        if reader.is_some() && uses.only_reader(root)? == reader {
            ahead.push(maker.origins.clone());
            reader = Some(id);
        } else {
            reader = None;
        }
        root = *before;
    }
    Ok((root, ahead.into_iter().rev().flatten().collect()))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
mod tests {
    use super::*;
    use crate::Backend;
    use crate::ext::{Ops, product};
    use crate::plan::passes::samples::traced;
    use crate::trace::{InputIndex, OriginId, TableIndex, Tracer, Varies};

    #[test]
    fn the_last_reshape_reads_what_came_before_all_of_them() {
        let mut trace = traced(&[&[2, 3]], |on, xs| {
            let flat = on.reshape(&xs[0], &[6])?;
            Ok(vec![on.reshape(&on.unsqueeze(&flat, &[0])?, &[3, 2])?])
        });
        for (at, step) in trace.steps.iter_mut() {
            step.origins.push(OriginId::at(at.position()));
        }
        assert_eq!(run(&mut trace, PassOptions::INTERPRETED).unwrap(), 1);
        assert_eq!(
            trace.to_string(),
            "%1: f32[6] = reshape(input0) {shape=[6]}\n%2: f32[1, 6] = unsqueeze(%1) {axes=[0]}\n\
             %4: f32[3, 2] = reshape(input0) {shape=[3, 2]}\nreturn %4\n"
        );
        trace.check().unwrap();
        // The merged step comes from the nodes of all three steps, because no other step reads the results of the first two.
        let last = trace.steps.entries().last().unwrap();
        assert_eq!(last.origins.as_slice(), [0, 1, 2].map(OriginId::at));
    }

    #[test]
    fn a_step_that_others_read_stands_for_its_own_node() {
        let mut trace = traced(&[&[2, 3]], |on, xs| {
            let flat = on.reshape(&xs[0], &[6])?;
            Ok(vec![on.reshape(&flat, &[3, 2])?, on.neg(&flat)?])
        });
        for (at, step) in trace.steps.iter_mut() {
            step.origins.push(OriginId::at(at.position()));
        }
        assert_eq!(run(&mut trace, PassOptions::INTERPRETED).unwrap(), 1);
        let origins: Vec<_> = trace.steps.entries().map(|step| step.origins.as_slice().to_vec()).collect();
        assert_eq!(origins, [vec![OriginId::at(0)], vec![OriginId::at(1)], vec![OriginId::at(2)]]);
        trace.check().unwrap();
    }

    #[test]
    fn extents_that_are_expressions_stay_so() {
        let on = Tracer::default().symbolic(true);
        let x = on.input(InputIndex::at(0), "x", crate::DataType::F32, &[2, 3], &Varies::Everything, None);
        let extents = on.extents(&x);
        let flat = on.reshape_to(&x, &[product(&extents)]).unwrap();
        let back = on.reshape_to(&flat, &extents).unwrap();
        let mut trace = on.finish(vec![back.read()]);
        let symbolic = trace.steps.entries().last().unwrap().symbolic.clone();
        assert!(symbolic.is_some());
        assert_eq!(run(&mut trace, PassOptions::INTERPRETED).unwrap(), 1);
        let merged = trace.steps.entries().last().unwrap();
        assert_eq!(merged.symbolic, symbolic);
        // A run compares this expression with the maximum number of elements.
        assert!(trace.values.get(merged.outputs[0]).unwrap().elements.is_some());
        trace.check().unwrap();
    }

    #[test]
    fn an_unsqueeze_stays_because_its_extents_follow_from_its_operand() {
        let mut trace =
            traced(&[&[6]], |on, xs| Ok(vec![on.unsqueeze(&on.reshape(&xs[0], &[2, 3])?, &[0])?]));
        assert_eq!(run(&mut trace, PassOptions::INTERPRETED).unwrap(), 0);
    }
}
