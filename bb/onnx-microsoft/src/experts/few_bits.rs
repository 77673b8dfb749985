//! Layers whose weights are integers of few bits.

use super::biases;
use super::layers::{Few, Layer};
use bb_core::error::NodePart;
use bb_core::ext::{math, n_bits::unpacked};
use bb_core::operator::Call;
use bb_core::prelude::*;
use bb_core::trace::{TraceStop, TracedTensor, Tracer};
use bb_core::{DataType, Error, Tensor};

/// Reads the number of bits of a weight.
pub(super) fn bits<T>(call: &Call<'_, T>, own: &'static str) -> Result<i64, Error> {
    let all = call.int_or("expert_weight_bits", 4)?;
    let bits = call.int_if_given(own)?.unwrap_or(all);
    if matches!(bits, 2 | 4 | 8) {
        return Ok(bits);
    }
    Err(call.wrong(own, format!("is {bits}, expected 2, 4 or 8")))
}

/// Reads a layer of few bits. The operands from `at` on are weights, scales and biases; the operand
/// `zeros_at` has zero points.
pub(super) fn few_bits(
    on: &Tracer,
    call: &Call<'_, TracedTensor>,
    [at, zeros_at]: [usize; 2],
    own: &'static str,
    experts: usize,
    inner: usize,
) -> Result<Layer, TraceStop> {
    let bits = bits(call, own)?;
    let all = call.input(at)?;
    let row = inner.saturating_mul(bits as usize) / 8;
    let elements: usize = all.shape().iter().product();
    let each = experts.saturating_mul(row).max(1);
    let block = call.int_or("block_size", 0)?;
    let block = if block > 0 { usize::try_from(block).unwrap_or(usize::MAX) } else { inner };
    let whole = row * 8 == inner.saturating_mul(bits as usize)
        && block.saturating_mul(bits as usize).is_multiple_of(8);
    if all.dtype() != DataType::U8
        || all.rank() != 3
        || elements == 0
        || !elements.is_multiple_of(each)
        || !whole
    {
        let problem = format!(
            "has elements of {} and the extents {:?}, expected bytes of [{experts}, …, {row}] for {inner} numbers of {bits} bits",
            all.dtype(),
            all.shape()
        );
        return Err(call.wrong(NodePart::Operand(at), problem).into());
    }
    if block == 0 || !inner.is_multiple_of(block) {
        return Err(call.wrong("block_size", format!("is {block}; rows have {inner} numbers")).into());
    }
    let (outer, blocks) = (elements / each, inner / block);
    let shaped = |index: usize, expected: [usize; 3]| -> Result<Option<TracedTensor>, TraceStop> {
        let Some(x) = call.optional(index) else { return Ok(None) };
        if x.shape().iter().product::<usize>() != expected.iter().product::<usize>() {
            let problem = format!("has the extents {:?}, expected {expected:?}", x.shape());
            return Err(call.wrong(NodePart::Operand(index), problem).into());
        }
        on.reshape(x, &expected).map(Some)
    };
    let scales = shaped(at + 1, [experts, outer, blocks])?;
    let scales = scales.ok_or_else(|| call.wrong(NodePart::Operand(at + 1), "is missing"))?;
    let blockwise = call.int_or("block_size", 0)? > 0;
    let zeros = if blockwise {
        shaped(zeros_at, [experts, outer, (blocks * bits as usize).div_ceil(8)])?
    } else {
        // One zero point per row, packed along the rows.
        match shaped(zeros_at, [experts, 1, (outer * bits as usize).div_ceil(8)])? {
            None => None,
            Some(packed) => {
                let single = on.slice(&unpacked(on, &packed, bits)?, &[0], &[outer as i64], &[2], &[])?;
                Some(math::to(on, &on.reshape(&single, &[experts, outer, 1])?, DataType::F32)?)
            }
        }
    };
    Ok(Layer {
        weights: on.reshape(all, &[experts, outer, row])?,
        bias: biases(on, call, at + 2, [experts, outer])?,
        few: Some(Few { bits, block, scales, zeros }),
        inner,
        outer,
    })
}
