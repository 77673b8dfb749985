//! The operations. They determine types and shapes, allocate results, and call kernels in parts that the device
//! can bind.

pub(crate) mod arithmetic;
pub(crate) mod cast;
pub(crate) mod host;
pub(crate) mod index;
pub(crate) mod launch;
pub(crate) mod matmul;
pub(crate) mod reduce;
pub(crate) mod row;
pub(crate) mod scan;
pub(crate) mod shape;
pub(crate) mod window;

use crate::device::Gpu;
use crate::device::pool::Storage;
use crate::elem::Elem;
use crate::{Result, Tensor, WgpuError};
use bb::Shape;
use std::sync::Arc;

/// Returns an error if an operand belongs to another device.
pub(crate) fn own(gpu: &Arc<Gpu>, op: &'static str, operands: &[&Tensor]) -> Result<()> {
    match operands.iter().all(|x| Arc::ptr_eq(&x.0.gpu, gpu)) {
        true => Ok(()),
        false => Err(WgpuError::OtherDevice { op }),
    }
}

/// Allocates a result, which the caller must fill. It has no buffer if it has no elements.
pub(crate) fn result(gpu: &Arc<Gpu>, op: &'static str, elem: Elem, shape: Shape) -> Result<Tensor> {
    let storage = storage(gpu, op, &shape, None)?;
    Ok(Tensor::dense(gpu, elem, shape, storage))
}

/// Allocates a buffer for the elements of a shape; `None` if there are no elements. `upload` is the index of the
/// current batch if the host writes the buffer.
pub(crate) fn storage(
    gpu: &Arc<Gpu>,
    op: &'static str,
    shape: &[usize],
    upload: Option<u64>,
) -> Result<Option<Arc<Storage>>> {
    gpu.check()?;
    let overflow = || bb::ir::Error::Overflow { op, shape: shape.into() };
    let elements = bb::ir::element_count(shape).ok_or_else(overflow)?;
    if elements == 0 {
        return Ok(None);
    }
    if u32::try_from(elements).is_err() {
        return Err(WgpuError::Elements { op, elements });
    }
    gpu.pool.storage(elements as u64 * 4, upload).map(Some)
}
