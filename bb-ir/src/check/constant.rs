//! Decodes the tensors of a model within the limits.

use super::build::Builder;
use crate::limits::within;
use crate::proto::tensor_proto::DataLocation;
use crate::proto::{SparseTensorProto, TensorProto};
use crate::{Error, TensorData, element_count};

impl<'p> Builder<'p> {
    /// Decodes a tensor. External data is read only if the options allow it.
    ///
    /// A tensor of a function is decoded once, even if the function is inlined several times.
    pub(super) fn tensor(&mut self, proto: &'p TensorProto) -> Result<TensorData, Error> {
        let key = std::ptr::from_ref(proto) as usize;
        if let Some(data) = self.decoded.get(&key) {
            return Ok(data.clone());
        }
        self.header(proto, &proto.dims)?;
        let data = if proto.data_location() == DataLocation::External
            && let Some(folder) = self.external
        {
            TensorData::from_proto_in(proto, folder)?
        } else {
            TensorData::from_proto(proto)?
        };
        self.meter.tensor(data.byte_len())?;
        self.keep(key, &data);
        Ok(data)
    }

    /// Decodes a sparse tensor to a dense one.
    pub(super) fn sparse(&mut self, proto: &'p SparseTensorProto) -> Result<TensorData, Error> {
        let key = std::ptr::from_ref(proto) as usize;
        if let Some(data) = self.decoded.get(&key) {
            return Ok(data.clone());
        }
        for part in proto.values.iter().chain(&proto.indices) {
            self.header(part, &part.dims)?;
        }
        let (left, limit_name) = self.meter.sparse_left();
        let data = TensorData::from_sparse_proto_in(proto, left, self.external).map_err(|mut error| {
            if let Error::InTensor { source, .. } = &mut error
                && let Error::TooLarge { name, .. } = &mut **source
            {
                *name = Some(limit_name);
            }
            error
        })?;
        self.meter.sparse(data.byte_len())?;
        self.keep(key, &data);
        Ok(data)
    }

    /// Caches a decoded tensor by the address of its message, which outlives the builder.
    fn keep(&mut self, key: usize, data: &TensorData) {
        if !self.calls.is_empty() {
            self.decoded.insert(key, data.clone());
        }
    }

    /// Checks the number of elements and the rank against the limits before anything is decoded.
    fn header(&mut self, proto: &TensorProto, dims: &[i64]) -> Result<(), Error> {
        self.meter.text(8 * dims.len())?;
        let at = |source| Error::InTensor { name: proto.name().to_owned(), source: Box::new(source) };
        let (_, shape) = proto.dtype_and_shape().map_err(at)?;
        let elements = element_count(&shape).unwrap_or(usize::MAX);
        within("tensor_elements", "elements of a constant", elements, self.meter.limits.tensor_elements)
            .map_err(at)
    }
}
