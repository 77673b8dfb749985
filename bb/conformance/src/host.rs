//! Creates, reads and rearranges host tensors of any element type.
//!
//! These functions compute the expected values of the tests. So they convert and move elements one by one, and share
//! no code with the tested crates.

use bb_core::{DataType, TensorData, bf16, f16};
use bb_ir::convert::{bf16_from_f64, f16_from_f64};

/// A Rust type for the values in a test case.
pub trait Value: Clone + std::fmt::Debug {
    /// The element type.
    const DTYPE: DataType;

    /// Creates a host tensor.
    ///
    /// # Panics
    ///
    /// If the number of values does not match the shape.
    fn host(shape: &[usize], values: &[Self]) -> TensorData;
}

macro_rules! values {
    ($($type:ty = $variant:ident),*) => { $(
        impl Value for $type {
            const DTYPE: DataType = DataType::$variant;

            #[track_caller]
            fn host(shape: &[usize], values: &[Self]) -> TensorData {
                TensorData::new(shape, values).expect("the case states as many values as its shape has")
            }
        }
    )* };
}

values! {
    f16 = F16, bf16 = BF16, f32 = F32, f64 = F64,
    i8 = I8, i16 = I16, i32 = I32, i64 = I64, u8 = U8, u16 = U16, u32 = U32, u64 = U64
}

impl Value for bool {
    const DTYPE: DataType = DataType::Bool;

    #[track_caller]
    fn host(shape: &[usize], values: &[Self]) -> TensorData {
        TensorData::bools(shape, values).expect("the case states as many values as its shape has")
    }
}

impl Value for &str {
    const DTYPE: DataType = DataType::String;

    #[track_caller]
    fn host(shape: &[usize], values: &[Self]) -> TensorData {
        TensorData::strings(shape, values).expect("the case states as many values as its shape has")
    }
}

/// Creates a host tensor of a compute type from numbers. For bools, every nonzero number is true.
///
/// # Panics
///
/// If `dtype` is a storage type, or the number of values does not match the shape.
#[track_caller]
pub fn host_numbers(dtype: DataType, shape: &[usize], values: &[f64]) -> TensorData {
    macro_rules! by {
        ($type:ty, $convert:expr) => {{
            let convert = $convert;
            let values: Vec<$type> = values.iter().map(|&v| convert(v)).collect();
            <$type as Value>::host(shape, &values)
        }};
    }
    match dtype {
        DataType::F16 => by!(f16, f16_from_f64),
        DataType::BF16 => by!(bf16, bf16_from_f64),
        DataType::F32 => by!(f32, |v| v as f32),
        DataType::F64 => by!(f64, |v| v),
        DataType::I8 => by!(i8, |v| v as i8),
        DataType::I16 => by!(i16, |v| v as i16),
        DataType::I32 => by!(i32, |v| v as i32),
        DataType::I64 => by!(i64, |v| v as i64),
        DataType::U8 => by!(u8, |v| v as u8),
        DataType::U16 => by!(u16, |v| v as u16),
        DataType::U32 => by!(u32, |v| v as u32),
        DataType::U64 => by!(u64, |v| v as u64),
        DataType::Bool => by!(bool, |v| v != 0.0),
        other => panic!("{other} is no compute type"),
    }
}

/// Reads a host tensor of a compute type as numbers. Integers beyond 2^53 are rounded.
///
/// # Panics
///
/// If `x` has a storage type.
pub fn numbers_of(x: &TensorData) -> Vec<f64> {
    macro_rules! by {
        ($type:ty, $convert:expr) => {{
            let convert = $convert;
            x.as_slice::<$type>().expect("the element type was matched").iter().map(|&v| convert(v)).collect()
        }};
    }
    match x.dtype() {
        DataType::F16 => by!(f16, f16::to_f64),
        DataType::BF16 => by!(bf16, bf16::to_f64),
        DataType::F32 => by!(f32, f64::from),
        DataType::F64 => by!(f64, f64::from),
        DataType::I8 => by!(i8, f64::from),
        DataType::I16 => by!(i16, f64::from),
        DataType::I32 => by!(i32, f64::from),
        DataType::I64 => by!(i64, |v| v as f64),
        DataType::U8 => by!(u8, f64::from),
        DataType::U16 => by!(u16, f64::from),
        DataType::U32 => by!(u32, f64::from),
        DataType::U64 => by!(u64, |v| v as f64),
        DataType::Bool => x.bytes().expect("ready elements").iter().map(|&b| f64::from(b)).collect(),
        other => panic!("{other} is no compute type"),
    }
}

/// Creates a host tensor of any element type, including storage types. The elements differ, if the type has enough
/// values.
pub fn sample(dtype: DataType, shape: &[usize]) -> TensorData {
    let n: usize = shape.iter().product();
    if dtype.is_compute() {
        let values: Vec<f64> = (0..n).map(|i| (i % 101) as f64).collect();
        return host_numbers(dtype, shape, &values);
    }
    if dtype == DataType::String {
        let values: Vec<String> = (0..n).map(|i| "ab".repeat(i % 3) + &i.to_string()).collect();
        return TensorData::strings(shape, &values).expect("a string for each element");
    }
    // Every bit pattern of a storage type is a value. Only the low bits of a code are used.
    let size = dtype.bits().div_ceil(8);
    let codes: Vec<u8> = (0..n).flat_map(|i| (0..size).map(move |byte| (i + 3 * byte) as u8)).collect();
    TensorData::pack(dtype, shape, &codes).expect("a code for each element")
}

/// Lists the elements of a host tensor, each as its bytes.
pub fn elements(x: &TensorData) -> Vec<Vec<u8>> {
    if x.dtype() == DataType::String {
        return x.iter_bytes().map(<[u8]>::to_vec).collect();
    }
    x.unpacked().expect("memory").chunks(x.dtype().bits().div_ceil(8)).map(<[u8]>::to_vec).collect()
}

/// Creates a host tensor from the elements of `x` whose row-major indices are in `order`.
///
/// # Panics
///
/// If an index is out of range, or if the number of indices does not match `shape`.
#[track_caller]
pub fn rearranged(x: &TensorData, shape: &[usize], order: &[usize]) -> TensorData {
    let all = elements(x);
    let chosen: Vec<&[u8]> =
        order.iter().map(|&i| all.get(i).expect("`order` names elements of `x`").as_slice()).collect();
    if x.dtype() == DataType::String {
        return TensorData::strings(shape, &chosen).expect("`order` has an entry for each element");
    }
    TensorData::pack(x.dtype(), shape, &chosen.concat()).expect("`order` has an entry for each element")
}
