//! Reads tensors in models, dense and sparse, and `.npy` files.
#![no_main]

use bb_fuzz::tensor::{LIMIT, check};
use bb_ir::TensorData;
use bb_ir::proto::{SparseTensorProto, TensorProto};
use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use prost::Message;

fuzz_target!(|data: &[u8]| {
    if let Ok(proto) = TensorProto::decode(data)
        && let Ok(tensor) = TensorData::from_proto(&proto)
    {
        check(&tensor);
    }
    if let Ok(proto) = SparseTensorProto::decode(data)
        && let Ok(tensor) = TensorData::from_sparse_proto(&proto, LIMIT)
    {
        check(&tensor);
    }
    if let Ok(tensor) = TensorData::from_npy(Bytes::copy_from_slice(data)) {
        check(&tensor);
    }
});
