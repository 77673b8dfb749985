//! Layers whose weights are 8-bit floats, with one scale for each square block of a matrix, or one for each expert.

use super::biases;
use super::layers::Layer;
use bb_core::error::NodePart;
use bb_core::ext::math;
use bb_core::operator::Call;
use bb_core::prelude::*;
use bb_core::trace::{TraceStop, TracedTensor, Tracer};
use bb_core::{DataType, Error, Tensor};
use bb_ir::memory;

/// Reads the size of blocks; 0 means that there are no blocks.
pub(super) fn block<T>(call: &Call<'_, T>) -> Result<usize, Error> {
    Ok(usize::try_from(call.int_or("block_size", 0)?).unwrap_or(0))
}

/// Reads a layer. The operands from `at` on are weights `[experts, outer, inner]`, scales of blocks and biases; the operand `global`
/// has scales of experts.
pub(super) fn narrow_floats(
    on: &Tracer,
    call: &Call<'_, TracedTensor>,
    at: usize,
    global: Option<usize>,
    experts: usize,
) -> Result<Layer, TraceStop> {
    let all = call.input(at)?;
    let (outer, inner) = match *all.shape() {
        [count, outer, inner] if count == experts && all.dtype() == DataType::F8E4M3FN => (outer, inner),
        _ => {
            let problem = format!(
                "has elements of {} and the extents {:?}, expected {} and [{experts}, …, …]",
                all.dtype(),
                all.shape(),
                DataType::F8E4M3FN
            );
            return Err(call.wrong(NodePart::Operand(at), problem).into());
        }
    };
    let block = block(call)?;
    let (index, expected) = match (block, global) {
        (0, Some(global)) => (global, vec![experts]),
        (0, None) => {
            let problem = "is 0; without blocks, the third layer has no scale";
            return Err(call.wrong("block_size", problem).into());
        }
        _ => (at + 1, vec![experts, outer.div_ceil(block), inner.div_ceil(block)]),
    };
    let scales = call.input(index)?;
    if *scales.shape() != expected {
        let problem = format!("has the extents {:?}, expected {expected:?}", scales.shape());
        return Err(call.wrong(NodePart::Operand(index), problem).into());
    }
    let scales = math::to(on, scales, DataType::F32)?;
    let scales = match block {
        0 => on.reshape(&scales, &[experts, 1, 1])?,
        _ => {
            // Repeat each scale for the rows and columns of its block. Blocks at the edges are smaller.
            let places = |extent: usize| -> Result<TracedTensor, TraceStop> {
                let places = (0..extent).map(|place| (place / block) as i64);
                on.host(&[extent], &memory::collected("QMoE", places).map_err(Error::from)?)
            };
            on.gather(&on.gather(&scales, &places(outer)?, 1)?, &places(inner)?, 2)?
        }
    };
    let weights = on.mul(&math::to(on, all, DataType::F32)?, &scales)?;
    let weights = math::to(on, &weights, call.input(0)?.dtype())?;
    Ok(Layer { weights, bias: biases(on, call, at + 2, [experts, outer])?, few: None, inner, outer })
}
