//! Sorting on the host.

use crate::Error;
use bb_ir::op::{Param, take};
use bb_ir::pace::{Pace, STRETCH};
use bb_ir::{DataType, Element, TensorData, memory};
use std::cmp::Ordering;

/// Calls a generic function with the Rust type of a tensor's elements, which must be numbers or booleans.
macro_rules! by_dtype {
    ($dtype:expr, $op:literal, $call:ident ( $($argument:expr),* )) => {
        match $dtype {
            DataType::F16 => $call::<bb_ir::f16>($($argument),*),
            DataType::BF16 => $call::<bb_ir::bf16>($($argument),*),
            DataType::F32 => $call::<f32>($($argument),*),
            DataType::F64 => $call::<f64>($($argument),*),
            DataType::I8 => $call::<i8>($($argument),*),
            DataType::I16 => $call::<i16>($($argument),*),
            DataType::I32 => $call::<i32>($($argument),*),
            DataType::I64 => $call::<i64>($($argument),*),
            DataType::U8 => $call::<u8>($($argument),*),
            DataType::U16 => $call::<u16>($($argument),*),
            DataType::U32 => $call::<u32>($($argument),*),
            DataType::U64 => $call::<u64>($($argument),*),
            dtype => Err(bb_ir::Error::Unsupported { op: $op, dtype }.into()),
        }
    };
}

pub(crate) use by_dtype;

/// Compares numbers. NaN is greater than all numbers, and equal to itself.
pub(crate) fn by_size<T: PartialOrd>(a: &T, b: &T) -> Ordering {
    // Only NaN is not equal to itself.
    let nan = |x: &T| x.partial_cmp(x).is_none();
    a.partial_cmp(b).unwrap_or_else(|| nan(a).cmp(&nan(b)))
}

/// Returns the product of the extents before `axis`, the extent of `axis`, and the product of the extents after it.
pub fn around(shape: &[usize], axis: usize) -> [usize; 3] {
    let (before, rest) = shape.split_at(axis.min(shape.len()));
    let (extent, after) = rest.split_first().unwrap_or((&1, &[]));
    [before.iter().product(), *extent, after.iter().product()]
}

/// Returns an integer key for each element of a numeric tensor. The keys have the order of `by_size`. Sorting is
/// compiled only for these integers.
///
/// # Errors
///
/// [`bb_ir::Error::Unsupported`] if the element type is not numeric; [`bb_ir::Error`] if there is not enough memory.
pub fn keys(op: &'static str, x: &TensorData) -> Result<Vec<u64>, Error> {
    fn of<T: Element>(op: &'static str, x: &TensorData, key: fn(T) -> u64) -> Result<Vec<u64>, Error> {
        let mut keys = memory::room(op, x.len())?;
        let mut pace = Pace::new();
        for part in x.as_slice::<T>()?.chunks(STRETCH) {
            keys.extend(part.iter().map(|&v| key(v)));
            pace.step(part.len());
        }
        Ok(keys)
    }
    match x.dtype() {
        DataType::F16 => of(op, x, |v: bb_ir::f16| float(v.into())),
        DataType::BF16 => of(op, x, |v: bb_ir::bf16| float(v.into())),
        DataType::F32 => of(op, x, |v: f32| float(v.into())),
        DataType::F64 => of(op, x, float),
        DataType::I8 => of(op, x, |v: i8| integer(v.into())),
        DataType::I16 => of(op, x, |v: i16| integer(v.into())),
        DataType::I32 => of(op, x, |v: i32| integer(v.into())),
        DataType::I64 => of(op, x, integer),
        DataType::U8 => of(op, x, |v: u8| v.into()),
        DataType::U16 => of(op, x, |v: u16| v.into()),
        DataType::U32 => of(op, x, |v: u32| v.into()),
        DataType::U64 => of(op, x, |v: u64| v),
        dtype => Err(bb_ir::Error::Unsupported { op, dtype }.into()),
    }
}

/// Returns the key of an integer, by inverting the sign bit.
fn integer(v: i64) -> u64 {
    v as u64 ^ (1 << 63)
}

/// Returns the key of a float. All bits of a negative number are inverted, otherwise only the sign bit is. Zeros have
/// equal keys, and so have NaNs.
fn float(v: f64) -> u64 {
    if v.is_nan() {
        return u64::MAX;
    }
    // Adding 0 converts -0 to +0.
    let bits = (v + 0.0).to_bits();
    if bits >> 63 == 1 { !bits } else { bits | (1 << 63) }
}

/// The host kernel of `top_k`. Its parameters are `k`, the axis and whether to select the greatest elements.
pub(super) fn top_k(inputs: &[Option<&TensorData>], params: &[Param<'_>]) -> Result<Vec<TensorData>, Error> {
    let [x] = super::host::operands("top_k", inputs)?;
    let index = |i| -> Result<usize, Error> {
        Ok(usize::try_from(take::Int("top_k", params.get(i))?).unwrap_or(usize::MAX))
    };
    let (k, axis, largest) = (index(0)?, index(1)?, take::Bool("top_k", params.get(2))?);
    let [outer, extent, inner] = around(x.shape(), axis);
    let k = k.min(extent);
    let mut shape = x.shape().to_vec();
    if let Some(slot) = shape.get_mut(axis) {
        *slot = k;
    }
    let places = outer.saturating_mul(k).saturating_mul(inner);
    let keys = keys("top_k", x)?;
    let elements = x.bytes()?;
    let width = x.dtype().bits() / 8;
    let mut values = memory::filled("top_k", 0u8, places.saturating_mul(width))?;
    let mut positions = memory::filled("top_k", 0i64, places)?;
    let mut row: Vec<(u64, usize)> = memory::room("top_k", extent)?;
    let mut pace = Pace::new();
    for (o, i) in (0..outer).flat_map(|o| (0..inner).map(move |i| (o, i))) {
        row.clear();
        let start = o * extent * inner + i;
        for part in 0..extent.div_ceil(STRETCH) {
            let (from, count) = (part * STRETCH, STRETCH.min(extent - part * STRETCH));
            let part = keys.iter().skip(start + from * inner).step_by(inner.max(1)).take(count);
            row.extend(part.map(|&key| if largest { !key } else { key }).zip(from..));
            pace.step(count);
        }
        let mut compare = |a: &(u64, usize), b: &(u64, usize)| {
            pace.step(1);
            a.cmp(b)
        };
        if k > 0 && k < extent {
            row.select_nth_unstable_by(k - 1, &mut compare);
            row.truncate(k);
        }
        row.sort_unstable_by(&mut compare);
        pace.step(k);
        for (rank, &(_, position)) in row.iter().take(k).enumerate() {
            let at = (o * k + rank) * inner + i;
            let from = (start + position * inner) * width;
            let value = elements.get(from..from + width);
            let slot = values.get_mut(at * width..(at + 1) * width);
            if let (Some(slot), Some(value), Some(place)) = (slot, value, positions.get_mut(at)) {
                slot.copy_from_slice(value);
                *place = position as i64;
            }
        }
    }
    Ok(vec![TensorData::adopt(x.dtype(), &shape, values.into())?, TensorData::new(&shape, &positions)?])
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::{by_size, keys};
    use bb_ir::{Element, TensorData};

    /// Asserts that keys have the same order as their elements, for each pair of elements.
    fn assert_ordered<T: Element + PartialOrd + std::fmt::Debug>(elements: &[T]) {
        let keys = keys("test", &TensorData::new(&[elements.len()], elements).unwrap()).unwrap();
        for (a, x) in elements.iter().zip(&keys) {
            for (b, y) in elements.iter().zip(&keys) {
                assert_eq!(x.cmp(y), by_size(a, b), "{a:?} and {b:?} of {}", T::DTYPE);
            }
        }
    }

    #[test]
    fn keys_are_in_the_order_of_the_elements() {
        let tiny = f64::from_bits(1);
        let floats =
            [f64::NEG_INFINITY, f64::MIN, -1.5, -tiny, -0.0, 0.0, tiny, 1.5, f64::MAX, f64::INFINITY];
        let floats: Vec<f64> = floats.into_iter().chain([f64::NAN, -f64::NAN]).collect();
        let singles: Vec<f32> =
            floats.iter().map(|&v| v as f32).chain([f32::from_bits(1), f32::MAX]).collect();
        assert_ordered(&floats);
        assert_ordered(&singles);
        assert_ordered(&singles.iter().map(|&v| bb_ir::f16::from_f32(v)).collect::<Vec<_>>());
        assert_ordered(&singles.iter().map(|&v| bb_ir::bf16::from_f32(v)).collect::<Vec<_>>());
        assert_ordered(&[i64::MIN, i64::MIN + 1, -1, 0, 1, i64::MAX]);
        assert_ordered(&[i32::MIN, -1, 0, i32::MAX]);
        assert_ordered(&[i16::MIN, -1, 0, i16::MAX]);
        assert_ordered(&[i8::MIN, -1, 0, i8::MAX]);
        assert_ordered(&[0, 1, u64::MAX / 2, u64::MAX / 2 + 1, u64::MAX]);
        assert_ordered(&[0, u32::MAX]);
        assert_ordered(&[0, u16::MAX]);
        assert_ordered(&[0, u8::MAX]);
    }
}
