//! Removes steps that give back their operand: whoever reads the result reads the operand.

use super::{Pass, PassOptions};
use crate::plan::program::Engine;
use crate::trace::Trace;
use crate::{Error, Primitive};

pub(super) const PASS: Pass =
    Pass { name: "drop-identities", engines: &[Engine::Interpreter, Engine::WholeGraph], run };

fn run(trace: &mut Trace, _: PassOptions) -> Result<usize, Error> {
    let mut found = Vec::new();
    for (id, step) in trace.steps.iter() {
        if step.operation.primitive() == Some(Primitive::Identity)
            && let ([Some(operand)], [result]) = (step.inputs.as_slice(), step.outputs.as_slice())
        {
            found.push((id, *operand, *result));
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

#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
mod tests {
    use super::*;
    use crate::Backend;
    use crate::plan::passes::samples::traced;

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
}
