//! Writes elements back to the positions where a pooling found them, on the host.

use crate::error::NodePart;
use crate::ext::{HostKernel, fail};
use crate::prelude::*;
use crate::trace::{TraceStop, TracedTensor, Tracer};
use crate::{DataType, Error, Tensor};
use bb_ir::op::Param;
use bb_ir::pace::Pace;
use bb_ir::{TensorData, memory};

/// The host kernel that writes elements to indexed positions in a tensor of zeros.
static UNPOOL: HostKernel = HostKernel { name: "max_unpool", random: false, run: unpool };

fn unpool(inputs: &[Option<&TensorData>], params: &[Param<'_>]) -> Result<Vec<TensorData>, Error> {
    let [x, indices] = crate::trace::host::operands("max_unpool", inputs)?;
    let shape = bb_ir::op::take::Extents("max_unpool", params.first())?;
    let width = x.dtype().bits() / 8;
    let zeros = TensorData::zeros(x.dtype(), shape, memory::at_most(1 << 32))?;
    let mut bytes = memory::copied("unpool", zeros.bytes()?)?;
    let mut pace = Pace::new();
    for (&index, element) in indices.as_slice::<i64>()?.iter().zip(x.bytes()?.chunks(width)) {
        pace.step(1);
        let at = usize::try_from(index).ok().and_then(|i| i.checked_mul(width));
        let slot = at.and_then(|at| bytes.get_mut(at..at.checked_add(width)?));
        let slot = slot.ok_or_else(|| Error::Operator {
            op: "MaxUnpool".to_owned(),
            part: NodePart::Operand(1),
            problem: format!("names element {index} of {}", zeros.len()),
        })?;
        slot.copy_from_slice(element);
    }
    Ok(vec![TensorData::adopt(x.dtype(), shape, bytes.into())?])
}

/// The body of [`Image::max_unpool`](super::Image::max_unpool).
pub fn max_unpool(
    on: &Tracer,
    x: &TracedTensor,
    indices: &TracedTensor,
    shape: &[usize],
) -> Result<TracedTensor, TraceStop> {
    let dtype = x.dtype();
    if x.shape() != indices.shape() {
        let (left, right) = (x.shape().into(), indices.shape().into());
        return fail(bb_ir::Error::Shapes { op: UNPOOL.name, left, right });
    }
    if !dtype.is_compute() {
        return fail(bb_ir::Error::Unsupported { op: UNPOOL.name, dtype });
    }
    if indices.dtype() != DataType::I64 {
        return fail(bb_ir::Error::DataType { expected: DataType::I64, got: indices.dtype() });
    }
    let params = [Param::Extents(shape.to_vec().into())];
    let y = on.on_host(&UNPOOL, &[Some(x), Some(indices)], &params, &[(dtype, shape.into())])?;
    Ok(crate::call::only(UNPOOL.name, y)?)
}
