//! Removes the steps whose results are not read.

use super::{Pass, PassOptions};
use crate::Error;
use crate::plan::engine::Engine;
use crate::trace::Trace;

pub(super) const PASS: Pass =
    Pass { name: "dead-steps", engines: &[Engine::Interpreter, Engine::WholeGraph], run };

fn run(trace: &mut Trace, _: PassOptions<'_>) -> Result<usize, Error> {
    trace.drop_dead()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
mod tests {
    use super::*;
    use crate::Backend;
    use crate::plan::passes::samples::traced;

    #[test]
    fn a_chain_that_nobody_reads_goes_and_the_rest_stays() {
        let mut trace = traced(&[&[2]], |on, xs| {
            let kept = on.neg(&xs[0])?;
            on.exp(&on.abs(&kept)?)?;
            Ok(vec![kept])
        });
        assert_eq!(
            trace.to_string(),
            "%1: f32[2] = neg(input0)\n%2: f32[2] = abs(%1)\n%3: f32[2] = exp(%2)\nreturn %1\n"
        );
        assert_eq!(run(&mut trace, PassOptions::INTERPRETED).unwrap(), 2);
        assert_eq!(trace.to_string(), "%1: f32[2] = neg(input0)\nreturn %1\n");
        trace.check().unwrap();
        assert_eq!(run(&mut trace, PassOptions::INTERPRETED).unwrap(), 0);
    }
}
