//! Converts `SparseTensorProto` to a dense [`TensorData`].

use super::tensor::{extents, in_tensor};
use super::{ExternalData, SparseTensorProto, TensorProto};
use crate::{DataType, Error, TensorData, element_count, memory};

/// The name of the operation in errors about memory.
const READING: &str = "reading a sparse tensor";

impl TensorData {
    /// Converts a sparse tensor to a dense one. Elements without a value become zero or the empty string.
    ///
    /// Units: `limit` counts the bytes of the dense tensor.
    ///
    /// # Errors
    ///
    /// [`Error::InTensor`] with the name of the values. Its source is [`Error::TooLarge`] if the dense
    /// tensor exceeds `limit`; [`Error::SparseIndex`] if an index is out of range, or not greater than the
    /// previous index; [`Error::SparseShapes`] if the numbers of values and indices differ; or an error of
    /// [`from_proto`](Self::from_proto).
    pub fn from_sparse_proto(proto: &SparseTensorProto, limit: usize) -> Result<TensorData, Error> {
        TensorData::from_sparse_proto_in(proto, limit, None)
    }

    /// Converts a sparse tensor whose values and indices are in the message, or in files that `external`
    /// allows.
    ///
    /// # Errors
    ///
    /// Those of [`from_sparse_proto`](Self::from_sparse_proto) and of [`ExternalData::read`].
    pub fn from_sparse_proto_in(
        proto: &SparseTensorProto,
        limit: usize,
        external: Option<&ExternalData>,
    ) -> Result<TensorData, Error> {
        let missing = TensorProto::default();
        let parts = [&proto.values, &proto.indices].map(|part| part.as_ref().unwrap_or(&missing));
        let [values, indices] = parts.map(|part| match external {
            Some(external) => TensorData::from_proto_in(part, external),
            None => TensorData::from_proto(part),
        });
        let named = |source| in_tensor(proto.values.as_ref().unwrap_or(&missing), source);
        dense(&values.map_err(named)?, &indices.map_err(named)?, &proto.dims, limit).map_err(named)
    }
}

fn dense(values: &TensorData, indices: &TensorData, dims: &[i64], limit: usize) -> Result<TensorData, Error> {
    let shape = extents(dims)?;
    let dtype = values.dtype();
    let too_large = || Error::TooLarge { dtype, shape: shape.as_slice().into(), limit, name: None };
    let elements = element_count(&shape).ok_or_else(too_large)?;
    let n = values.len();
    let linear = match *indices.shape() {
        [count] => count == n,
        [count, rank] if count == n && rank == shape.len() => false,
        _ => {
            return Err(Error::SparseShapes {
                values: values.shape().into(),
                indices: indices.shape().into(),
            });
        }
    };
    if values.shape().len() != 1 || indices.shape().first() != Some(&n) {
        return Err(Error::SparseShapes { values: values.shape().into(), indices: indices.shape().into() });
    }
    let rank = if linear { 1 } else { shape.len() };
    let bounds: &[usize] = if linear { &[elements] } else { &shape };
    let all = indices.as_slice::<i64>()?;
    let mut places = memory::room(READING, n)?;
    for position in 0..n {
        // Horner's scheme computes the offset of a value from its index tuple.
        let index = all.get(position * rank..(position + 1) * rank).unwrap_or_default();
        let mut place = 0usize;
        for (&i, &extent) in index.iter().zip(bounds) {
            let i = usize::try_from(i).ok().filter(|&i| i < extent).ok_or(Error::SparseIndex { position })?;
            place = place * extent + i;
        }
        if places.last().is_some_and(|&last| last >= place) || place >= elements {
            return Err(Error::SparseIndex { position });
        }
        places.push(place);
    }
    if dtype == DataType::String {
        let size = elements.checked_mul(2 * size_of::<&[u8]>()).filter(|&size| size <= limit);
        let mut texts = memory::filled(READING, &b""[..], size.map(|_| elements).ok_or_else(too_large)?)?;
        for (&place, text) in places.iter().zip(values.iter_bytes()) {
            if let Some(t) = texts.get_mut(place) {
                *t = text;
            }
        }
        return TensorData::strings(&shape, &texts);
    }
    let width = crate::convert::unpacked_size(dtype);
    let size = elements.checked_mul(width).filter(|&size| size <= limit).ok_or_else(too_large)?;
    let mut bytes = memory::filled(READING, 0u8, size)?;
    for (&place, value) in places.iter().zip(values.unpacked()?.chunks_exact(width)) {
        if let Some(b) = bytes.get_mut(place * width..(place + 1) * width) {
            b.copy_from_slice(value);
        }
    }
    TensorData::pack(dtype, &shape, &bytes)
}
