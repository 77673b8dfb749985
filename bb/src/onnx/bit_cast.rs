//! `BitCast`: the same bits as another type.

use super::call::{Answer, Call, one};
use crate::ext::{HostBody, Ops};
use crate::{DataType, Error, Tensor};
use bb_ir::TensorData;
use bb_ir::op::{Param, take};

static BIT_CAST: HostBody = HostBody { name: "bit_cast", random: false, run };

fn run(inputs: &[Option<&TensorData>], params: &[Param<'_>]) -> Result<Vec<TensorData>, Error> {
    let to = take::Type(BIT_CAST.name, params.first())?;
    let casts = inputs.iter().flatten().map(|x| Ok(TensorData::adopt(to, x.shape(), x.bytes().clone())?));
    casts.collect()
}

/// `BitCast`, between types of as many bits.
pub(super) fn bit_cast<B: Ops + ?Sized>(on: &B, call: &Call<'_, B::Tensor>) -> Answer<B> {
    let x = call.input(0)?;
    let to = call.dtype("to")?.ok_or_else(|| call.wrong("to", "is missing; the operator needs it"))?;
    let from = x.dtype();
    if from == DataType::String || to == DataType::String || from.bits() != to.bits() {
        return Err(call.wrong("to", format!("is {to}; the operand holds {from}, of other bits")).into());
    }
    if from == to {
        return Ok(one(on.identity(x)?));
    }
    let results = [(to, x.shape().into())];
    Ok(one(crate::call::only(
        BIT_CAST.name,
        on.on_host(&BIT_CAST, &[Some(x)], &[Param::Type(to)], &results)?,
    )?))
}
