//! Removes steps whose result equals their operand: the readers of the result read the operand.
//!
//! Besides `identity`, these steps are casts to the operand's own element type, and transposes that leave every dimension where
//! it is.

use super::permutation::Transpose;
use super::{Pass, PassOptions};
use crate::plan::engine::Engine;
use crate::trace::{Step, Trace, TraceValue};
use crate::{Error, Primitive};
use std::collections::HashMap;

pub(super) const PASS: Pass =
    Pass { name: "drop-identities", engines: &[Engine::Interpreter, Engine::WholeGraph], run };

fn run(trace: &mut Trace, _: PassOptions<'_>) -> Result<usize, Error> {
    let mut found = Vec::new();
    // Maps each dropped result to the value that replaces it, so that a long chain is followed only once instead of once per
    // reader.
    let mut same: HashMap<TraceValue, TraceValue> = HashMap::new();
    for (id, step) in trace.steps.iter() {
        if let ([Some(operand)], [result]) = (step.inputs.as_slice(), step.outputs.as_slice())
            && gives_back(trace, step, *operand, *result)?
        {
            let first = same.get(operand).copied().unwrap_or(*operand);
            same.insert(*result, first);
            found.push((id, first, *result));
        }
    }
    let mut edit = trace.edit();
    for (id, operand, result) in &found {
        edit.replace(*result, *operand)?;
        edit.remove(*id)?;
    }
    edit.finish()?;
    Ok(found.len())
}

/// Returns whether the result of a step equals its only operand.
fn gives_back(trace: &Trace, step: &Step, operand: TraceValue, result: TraceValue) -> Result<bool, Error> {
    Ok(match step.operation.primitive() {
        Some(Primitive::Identity) => true,
        Some(Primitive::Cast) => trace.values.get(operand)?.dtype == trace.values.get(result)?.dtype,
        Some(Primitive::Transpose) => {
            Transpose::of(trace, step)?.is_some_and(|transpose| transpose.perm.is_identity())
        }
        _ => false,
    })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
mod tests {
    use super::*;
    use crate::plan::passes::samples::traced;
    use crate::trace::TableIndex;
    use crate::{Backend, DataType, RoundMode};

    #[test]
    fn readers_read_the_operand_and_so_does_the_caller() {
        let mut trace = traced(&[&[2]], |on, xs| {
            let same = on.identity(&on.identity(&xs[0])?)?;
            Ok(vec![on.neg(&same)?, same])
        });
        assert_eq!(run(&mut trace, PassOptions::INTERPRETED).unwrap(), 2);
        assert_eq!(trace.to_string(), "%3: f32[2] = neg(input0)\nreturn %3, input0\n");
        trace.check().unwrap();
    }

    #[test]
    fn a_cast_to_the_own_type_goes_and_every_other_stays() {
        let mut trace = traced(&[&[2]], |on, xs| {
            let mut x = xs[0].clone();
            for to in [DataType::F32, DataType::F16, DataType::F16, DataType::F32] {
                x = on.cast(&x, to, true, RoundMode::Up)?;
            }
            Ok(vec![x])
        });
        assert_eq!(run(&mut trace, PassOptions::INTERPRETED).unwrap(), 2);
        assert_eq!(
            trace.to_string(),
            "%2: f16[2] = cast(input0) {to=f16, saturate=true, round_mode=up}\n\
             %4: f32[2] = cast(%2) {to=f32, saturate=true, round_mode=up}\nreturn %4\n"
        );
        trace.check().unwrap();
    }

    #[test]
    fn a_transpose_that_moves_no_dimension_goes() {
        let mut trace = traced(&[&[2, 2], &[3]], |on, xs| {
            let kept = on.transpose(&xs[0], &[0, 1])?;
            // An empty permutation reverses the dimensions: this is the identity for one dimension, but not for two.
            Ok(vec![on.transpose(&kept, &[])?, on.neg(&on.transpose(&xs[1], &[])?)?])
        });
        assert_eq!(run(&mut trace, PassOptions::INTERPRETED).unwrap(), 2);
        assert_eq!(
            trace.to_string(),
            "%3: f32[2, 2] = transpose(input0) {perm=[]}\n%5: f32[3] = neg(input1)\nreturn %3, %5\n"
        );
        trace.check().unwrap();
    }

    #[test]
    fn a_long_chain_that_is_read_everywhere_goes_at_once() {
        let mut trace = traced(&[&[2]], |on, xs| {
            let mut same = xs[0].clone();
            let mut read = Vec::new();
            for _ in 0..20_000 {
                same = on.identity(&same)?;
                read.push(on.neg(&same)?);
            }
            Ok(read)
        });
        assert_eq!(run(&mut trace, PassOptions::INTERPRETED).unwrap(), 20_000);
        assert!(trace.steps.entries().all(|step| step.reads().eq([TraceValue::at(0)])));
    }
}
