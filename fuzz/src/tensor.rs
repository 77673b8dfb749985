//! Invariants of every tensor that was read.

use bb_ir::convert::{Rounding, cast};
use bb_ir::proto::TensorProto;
use bb_ir::{DataType, TensorData};
use prost::Message;

/// The greatest size of a tensor that is made from few bytes, in bytes.
pub const LIMIT: usize = 1 << 20;

/// Shows, writes, reads again and converts a tensor.
pub fn check(tensor: &TensorData) {
    let _ = tensor.summary().to_string();
    let proto = tensor.to_proto("x").encode_to_vec();
    let proto = TensorProto::decode(&*proto).expect("a message");
    assert_eq!(&TensorData::from_proto(&proto).expect("what was written can be read"), tensor);
    // In `.npy`, strings are padded to the longest one, so a few bytes may require many.
    let longest = tensor.iter_str().map(|s| s.len()).max().unwrap_or(0);
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
