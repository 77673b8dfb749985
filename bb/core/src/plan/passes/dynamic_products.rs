//! Replaces the operators that quantisers write for a dynamically quantised product by one
//! [`dynamic_matmul`](crate::ext::Quant::dynamic_matmul). These operators are `DynamicQuantizeLinear`, `MatMulInteger`, `Cast`,
//! and a `Mul` by the product of both scales. The results are bit-identical.
//!
//! Products that share a quantised tensor are left unchanged, because the operation would quantise it once per product.

use super::matching::Matching;
use super::pattern::Pattern;
use super::recognized::{Call, find, has_call, replace_by_calls};
use super::{Pass, PassOptions};
use crate::ext::{Quant, QuantOp};
use crate::plan::engine::Engine;
use crate::trace::Trace;
use crate::{Backend, DataType, Error};
use bb_ir::op::RoundMode;

pub(super) const PASS: Pass = Pass { name: "dynamic-products", engines: &[Engine::Interpreter], run };

fn run(trace: &mut Trace, options: PassOptions<'_>) -> Result<usize, Error> {
    let has_all = options.natives.has(QuantOp::DynamicMatMul.spec());
    if !has_all || !has_call(trace, &[QuantOp::DynamicQuantizeLinear.spec()]) {
        return Ok(0);
    }
    let patterns = [pattern(true)?, pattern(false)?];
    let found = find(trace, options, &patterns, |matching, _| accepted(matching))?;
    replace_by_calls(trace, found)
}

/// Returns the pattern of the product, with or without a zero point of the weights.
fn pattern(zero: bool) -> Result<Pattern, Error> {
    let types = [DataType::F32, DataType::I8, DataType::F32, DataType::I8];
    Pattern::of(types, |on, [x, w, w_scale, w_zero]| {
        let quantised = on.dynamic_quantize_linear(&x)?;
        let [q, scale, q_zero] = quantised.as_slice() else {
            return Err(Error::excluded("a dynamic quantisation to have three results").into());
        };
        let sums = on.matmul_integer(q, &w, Some(q_zero), zero.then_some(&w_zero))?;
        on.mul(&on.cast(&sums, DataType::F32, true, RoundMode::Up)?, &on.mul(scale, &w_scale)?)
    })
}

fn accepted(matching: &Matching<'_>) -> Result<Option<Call>, Error> {
    let [Some(x), Some(w), Some(scale), zero] = matching.operands() else { return Ok(None) };
    let values = &matching.view.trace.values;
    // Kernels take one scale per column. A scale with more dimensions could raise the rank of the product.
    let most = values.get(matching.result)?.shape.len().min(1);
    let fits = values.get(x)?.dtype == DataType::F32 && values.get(scale)?.shape.len() <= most;
    let inputs = vec![Some(x), Some(w), Some(scale), zero, None];
    Ok(fits.then(|| Call { spec: QuantOp::DynamicMatMul.spec(), params: Box::default(), inputs }))
}
