//! `gather`.

use crate::tensor::blank;
use crate::{Error, Tensor};
use bb::Shape;
use bb::ir::{Error as IrError, infer, memory};
use bb::{DataType, Primitive, Tensor as _};
use ndarray::{Axis, IxDyn};

pub(crate) fn gather(data: &Tensor, indices: &Tensor, axis: i64) -> Result<Tensor, Error> {
    let dtype = data.dtype();
    infer::dtype(Primitive::Gather, &[dtype, indices.dtype()], &[])?;
    let joined = infer::gather(data.shape(), indices.shape(), axis)?;
    let axis = joined.axis.get();
    let extent = data.shape().get(axis).copied().unwrap_or(0);
    let resolve = |index: i64| position(index, extent);
    let indices: Vec<usize> = match indices.dtype() {
        DataType::I32 => {
            let indices = indices.array::<i32>(DataType::I32)?;
            memory::try_collected("gather", indices.iter().map(|&i| resolve(i.into())))?
        }
        _ => {
            let indices = indices.array::<i64>(DataType::I64)?;
            memory::try_collected("gather", indices.iter().map(|&i| resolve(i)))?
        }
    };
    // Select the entries with all indices along the one axis first, and reshape the result
    // afterwards.
    let mut along: Shape = data.shape().into();
    if let Some(extent) = along.get_mut(axis) {
        *extent = indices.len();
    }
    any!("gather", dtype, T => {
        let data = data.array::<T>(dtype)?;
        let mut chosen = blank("gather", &along)?;
        for (mut entry, &index) in chosen.axis_iter_mut(Axis(axis)).zip(&indices) {
            entry.assign(&data.index_axis(Axis(axis), index));
        }
        let shaped = chosen.into_shape_clone(IxDyn(&joined.shape));
        let array = shaped.map_err(|source| Error::Extents { shape: joined.shape.as_slice().into(), source })?;
        Ok(Tensor::new(dtype, array.into_shared()))
    })
}

/// Converts an index to a position. A negative index counts from the end.
fn position(index: i64, extent: usize) -> Result<usize, IrError> {
    let from_start = if index < 0 { i128::from(index) + extent as i128 } else { index.into() };
    match usize::try_from(from_start) {
        Ok(position) if position < extent => Ok(position),
        _ => Err(IrError::Index { op: "gather", index, extent }),
    }
}
