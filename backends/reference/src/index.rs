//! `gather`.

use crate::{Error, Tensor};
use bb::ir::{Error as IrError, infer};
use bb::{DataType, Primitive, Tensor as _};
use ndarray::{Axis, IxDyn};

pub(crate) fn gather(data: &Tensor, indices: &Tensor, axis: i64) -> Result<Tensor, Error> {
    infer::dtype(Primitive::Gather, &[data.dtype(), indices.dtype()], &[])?;
    let joined = infer::gather(data.shape(), indices.shape(), axis)?;
    let axis = joined.axis.get();
    let extent = data.shape().get(axis).copied().unwrap_or(0);
    let resolve = |index: i64| position(index, extent);
    let indices: Result<Vec<usize>, IrError> = match indices.dtype() {
        DataType::I32 => indices.array::<i32>(DataType::I32)?.iter().map(|&i| resolve(i.into())).collect(),
        _ => indices.array::<i64>(DataType::I64)?.iter().map(|&i| resolve(i)).collect(),
    };
    let indices = indices?;
    any!("gather", data.dtype(), T => {
        let chosen = data.array::<T>(data.dtype())?.select(Axis(axis), &indices);
        let shaped = chosen.into_shape_clone(IxDyn(&joined.shape));
        let array = shaped.map_err(|source| Error::Extents { shape: joined.shape.as_slice().into(), source })?;
        Ok(Tensor::new(data.dtype(), array.into_shared()))
    })
}

/// Resolves an index, which counts from the end if negative.
fn position(index: i64, extent: usize) -> Result<usize, IrError> {
    let from_start = if index < 0 { i128::from(index) + extent as i128 } else { index.into() };
    match usize::try_from(from_start) {
        Ok(position) if position < extent => Ok(position),
        _ => Err(IrError::Index { op: "gather", index, extent }),
    }
}
