//! Decodes the tensors that a model carries, within the limits.

use super::build::Builder;
use super::types;
use crate::limits::within;
use crate::proto::{SparseTensorProto, TensorProto};
use crate::{DataType, Error, Shape, TensorData, element_count};
use bytes::Bytes;

impl Builder<'_> {
    /// Decodes a tensor.
    pub(super) fn tensor(&mut self, proto: &TensorProto) -> Result<TensorData, Error> {
        let (_, shape) = self.header(proto, &proto.dims)?;
        within(
            "elements of a constant",
            element_count(&shape).unwrap_or(usize::MAX),
            self.meter.limits.tensor_elements,
        )?;
        let data = decode(proto, &shape)?;
        self.meter.tensor(data.bytes().len())?;
        Ok(data)
    }

    /// Decodes a sparse tensor to a dense one.
    ///
    /// # Errors
    ///
    /// [`Error::Sparse`] if the indices are not increasing positions within the tensor;
    /// [`Error::Unsupported`] if the elements are not whole bytes.
    pub(super) fn sparse(&mut self, proto: &SparseTensorProto) -> Result<TensorData, Error> {
        let (Some(values), Some(indices)) = (&proto.values, &proto.indices) else {
            return Err(Error::Sparse {
                problem: "values or indices are missing",
            });
        };
        let (dtype, shape) = self.header(values, &proto.dims)?;
        let elements = element_count(&shape).unwrap_or(usize::MAX);
        let bytes = dtype.bytes_for(elements).unwrap_or(usize::MAX);
        if dtype.bits() < 8 {
            return Err(Error::Unsupported {
                op: "sparse tensor",
                dtype,
            });
        }
        within(
            "bytes of a sparse tensor made dense",
            bytes,
            self.meter.limits.sparse_bytes,
        )?;
        self.meter.tensor(bytes)?;
        let values = self.tensor(values)?;
        let indices = self.tensor(indices)?;
        let positions = positions(
            indices.as_slice::<i64>()?,
            indices.shape(),
            &shape,
            values.len(),
        )?;
        let width = dtype.bits() / 8;
        let mut dense = vec![0u8; bytes];
        let mut last = None;
        for (position, value) in positions
            .into_iter()
            .zip(values.bytes().chunks_exact(width))
        {
            if last.is_some_and(|l| l >= position) {
                return Err(Error::Sparse {
                    problem: "the indices do not increase",
                });
            }
            last = Some(position);
            match dense.get_mut(position * width..(position + 1) * width) {
                Some(slot) => slot.copy_from_slice(value),
                None => {
                    return Err(Error::Sparse {
                        problem: "an index is out of range",
                    });
                }
            }
        }
        TensorData::adopt(dtype, &shape, Bytes::from(dense))
    }

    /// Reads the element type and the extents.
    fn header(&mut self, proto: &TensorProto, dims: &[i64]) -> Result<(DataType, Shape), Error> {
        let number = proto.data_type();
        let dtype = types::element(number)?.ok_or(Error::UnknownDataType { number })?;
        let extent = |&d: &i64| usize::try_from(d).map_err(|_| Error::Extent { extent: d });
        let shape: Shape = dims.iter().map(extent).collect::<Result<_, _>>()?;
        self.meter.text(8 * dims.len())?;
        Ok((dtype, shape))
    }
}

/// Returns the position of each value of a sparse tensor of `shape` in row-major order.
fn positions(
    indices: &[i64],
    extents: &[usize],
    shape: &[usize],
    values: usize,
) -> Result<Vec<usize>, Error> {
    let out_of_range = Error::Sparse {
        problem: "an index is out of range",
    };
    let flat = |i: &i64| usize::try_from(*i).ok();
    let positions: Option<Vec<usize>> = match extents {
        [n] if *n == values => indices.iter().map(flat).collect(),
        [n, rank] if *n == values && *rank == shape.len() && *rank > 0 => indices
            .chunks_exact(*rank)
            .map(|index| {
                index
                    .iter()
                    .zip(shape)
                    .try_fold(0usize, |at, (i, &extent)| {
                        let i = flat(i).filter(|i| *i < extent)?;
                        at.checked_mul(extent)?.checked_add(i)
                    })
            })
            .collect(),
        _ => {
            return Err(Error::Sparse {
                problem: "the indices have other extents than the values",
            });
        }
    };
    positions.ok_or(out_of_range)
}

/// Decodes the elements in whatever field they are.
fn decode(proto: &TensorProto, shape: &[usize]) -> Result<TensorData, Error> {
    let number = proto.data_type();
    let dtype = types::element(number)?.ok_or(Error::UnknownDataType { number })?;
    if proto.data_location() == crate::proto::tensor_proto::DataLocation::External {
        return Err(Error::Unsupported {
            op: "external data",
            dtype,
        });
    }
    if let Some(raw) = &proto.raw_data {
        return TensorData::adopt(dtype, shape, raw.clone());
    }
    let ints = |width: usize| {
        proto
            .int32_data
            .iter()
            .flat_map(move |v| v.to_le_bytes().into_iter().take(width))
            .collect::<Vec<u8>>()
    };
    let bytes: Vec<u8> = match dtype {
        DataType::F32 | DataType::C64 => proto
            .float_data
            .iter()
            .flat_map(|v| v.to_le_bytes())
            .collect(),
        DataType::F64 | DataType::C128 => proto
            .double_data
            .iter()
            .flat_map(|v| v.to_le_bytes())
            .collect(),
        DataType::I64 => proto
            .int64_data
            .iter()
            .flat_map(|v| v.to_le_bytes())
            .collect(),
        DataType::U64 => proto
            .uint64_data
            .iter()
            .flat_map(|v| v.to_le_bytes())
            .collect(),
        DataType::U32 => proto
            .uint64_data
            .iter()
            .flat_map(|v| (*v as u32).to_le_bytes())
            .collect(),
        DataType::String => {
            return Err(Error::Unsupported {
                op: "string constant",
                dtype,
            });
        }
        other => ints(other.bits().div_ceil(8)),
    };
    TensorData::adopt(dtype, shape, Bytes::from(bytes))
}
