//! Reads tensors in models, dense and sparse, and `.npy` files.
#![no_main]

use bb_ir::convert::{Rounding, cast};
use bb_ir::proto::{SparseTensorProto, TensorProto};
use bb_ir::{DataType, TensorData};
use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use prost::Message;

/// The greatest size of a dense tensor made from a sparse one, in bytes.
const LIMIT: usize = 1 << 20;

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

fn check(tensor: &TensorData) {
    let _ = tensor.summary().to_string();
    let proto = tensor.to_proto("x").encode_to_vec();
    let proto = TensorProto::decode(&*proto).expect("a message");
    assert_eq!(&TensorData::from_proto(&proto).expect("what was written can be read"), tensor);
    // In `.npy`, strings are padded to the longest one, so a few bytes may require many.
    let longest = tensor.iter_str().map(str::len).max().unwrap_or(0);
    if longest.saturating_mul(tensor.len()) < LIMIT
        && let Ok(file) = tensor.to_npy()
    {
        let again = TensorData::from_npy(file.into()).expect("what was written can be read");
        // NumPy drops zeros at the end of a string.
        if tensor.iter_str().all(|s| !s.ends_with('\0')) {
            assert_eq!(&again, tensor);
        }
    }
    for to in [DataType::F32, DataType::U64, DataType::I4, DataType::F8E8M0, DataType::String] {
        if let Ok(cast) = cast(tensor, to, Rounding::default()) {
            assert_eq!((cast.dtype(), cast.shape()), (to, tensor.shape()));
        }
    }
}
