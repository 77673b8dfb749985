//! `BitCast`: reinterprets the bits as another type.

use super::rows::operators;
use bb_core::operator::{Call, OpResult, one};
use bb_core::prelude::*;
use bb_core::trace::{TracedTensor, Tracer};
use bb_core::{DataType, Tensor};
use bb_ir::infer::rule::{NodeFacts, Types};

operators! {
    "" {
        BitCast => HostByDefault(bit_cast), infer: By(bit_cast_types), becomes: BitsOp::BitCast, halves: Moves;
    }
}

/// Infers the type of `BitCast`: the type in `to`, with the operand's shape.
fn bit_cast_types(at: NodeFacts<'_>) -> Option<Types> {
    at.one(at.type_attribute("to", None), at.same())
}

/// `BitCast`, between types with the same number of bits.
pub(super) fn bit_cast(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    let x = call.input(0)?;
    let to = call.dtype("to")?.ok_or_else(|| call.wrong("to", "is missing; the operator needs it"))?;
    let from = x.dtype();
    if from == DataType::String || to == DataType::String || from.bits() != to.bits() {
        return Err(call.wrong("to", format!("is {to}; the operand holds {from}, of other bits")).into());
    }
    Ok(one(on.bit_cast(x, to)?))
}
