//! Lets matrix products with weights of few bits compute in integers, even if the model does not request it. Their left operand
//! is then rounded to 8 bits.
//!
//! [`PassSwitches::round_rows`](crate::PassSwitches::round_rows) switches the pass on.

use super::quantised::calls;
use super::recognized::{Call, Found, replace_by_calls};
use super::{Pass, PassOptions};
use crate::Error;
use crate::ext::QuantOp;
use crate::plan::engine::Engine;
use crate::trace::Trace;
use bb_ir::op::Param;

pub(super) const PASS: Pass = Pass { name: "round-rows", engines: &[Engine::Interpreter], run };

fn run(trace: &mut Trace, options: PassOptions<'_>) -> Result<usize, Error> {
    let spec = QuantOp::MatMulNBits.spec();
    if !options.switches.round_rows || !options.natives.has(spec) {
        return Ok(0);
    }
    let mut found = Vec::new();
    for (id, own) in trace.steps.iter() {
        if let ([others @ .., Param::Bool(false)], &[result], true) =
            (&own.params[..], own.outputs.as_slice(), calls(own, spec))
        {
            let params = others.iter().cloned().chain([Param::Bool(true)]).collect();
            let replacement = Call { spec, params, inputs: own.inputs.to_vec() };
            found.push(Found { replacement, steps: vec![id], last: id, result });
        }
    }
    replace_by_calls(trace, found)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::DataType;
    use crate::ext::{MatMulNBitsOptions, OpSet, Quant};
    use crate::plan::passes::{NativeOps, samples};
    use crate::contract::PassSwitches;
    use bb_ir::op::Family;

    #[test]
    fn products_are_asked_for_integers_if_the_switch_is_on() {
        let natives = [(Family::Quant, OpSet::NONE.with(QuantOp::MatMulNBits as u16))];
        for (round_rows, own) in [(true, false), (false, false), (true, true)] {
            let mut trace = samples::native(&natives, &[&[3, 64]], |on, inputs| {
                let b = crate::TensorData::zeros(DataType::U8, &[300, 2, 16], usize::MAX).unwrap();
                let b = crate::Backend::constant(on, &b)?;
                let scales = samples::zeros(on, &[300, 2]);
                let options = MatMulNBitsOptions { integers: own, ..Default::default() };
                Ok(vec![on.matmul_n_bits(inputs.first().unwrap(), &b, &scales, None, None, options)?])
            });
            let switches = PassSwitches { round_rows, ..PassSwitches::default() };
            let options =
                PassOptions { switches, natives: NativeOps::of(&natives), ..PassOptions::INTERPRETED };
            assert_eq!(run(&mut trace, options).unwrap(), usize::from(round_rows && !own));
            trace.check().unwrap();
            let asked = trace.steps.iter().any(|(_, step)| {
                calls(step, QuantOp::MatMulNBits.spec()) && step.params.last() == Some(&Param::Bool(true))
            });
            assert_eq!(asked, round_rows || own);
        }
    }
}
