//! Sorting on the host.

use crate::Error;
use bb_ir::op::{Param, take};
use bb_ir::pace::{Pace, STRETCH};
use bb_ir::{DataType, Element, TensorData, memory};
use std::cmp::Ordering;

/// Calls a generic function with the Rust type of a tensor's elements, which are numbers or booleans.
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

/// Compares by size. NaN is greater than all numbers, and equal to itself.
pub(crate) fn by_size<T: PartialOrd>(a: &T, b: &T) -> Ordering {
    // Only NaN is not equal to itself.
    let nan = |x: &T| x.partial_cmp(x).is_none();
    a.partial_cmp(b).unwrap_or_else(|| nan(a).cmp(&nan(b)))
}

/// Returns the product of the extents before `axis`, the extent of `axis`, and the product of those after it.
pub(crate) fn around(shape: &[usize], axis: usize) -> [usize; 3] {
    let (before, rest) = shape.split_at(axis.min(shape.len()));
    let (extent, after) = rest.split_first().unwrap_or((&1, &[]));
    [before.iter().product(), *extent, after.iter().product()]
}

/// The host kernel of `top_k`. Its parameters are `k`, the axis and whether the greatest elements are taken.
pub(super) fn top_k(inputs: &[Option<&TensorData>], params: &[Param<'_>]) -> Result<Vec<TensorData>, Error> {
    let [x] = super::host::operands("top_k", inputs)?;
    let index = |i| -> Result<usize, Error> {
        Ok(usize::try_from(take::Int("top_k", params.get(i))?).unwrap_or(usize::MAX))
    };
    let (k, axis, largest) = (index(0)?, index(1)?, take::Bool("top_k", params.get(2))?);
    by_dtype!(x.dtype(), "top_k", taken(x, k, axis, largest))
}

fn taken<T: Element + PartialOrd>(
    x: &TensorData,
    k: usize,
    axis: usize,
    largest: bool,
) -> Result<Vec<TensorData>, Error> {
    let [outer, extent, inner] = around(x.shape(), axis);
    let k = k.min(extent);
    let elements = x.as_slice::<T>()?;
    let mut shape = x.shape().to_vec();
    if let Some(slot) = shape.get_mut(axis) {
        *slot = k;
    }
    let places = outer * k * inner;
    let Some(&first) = elements.first() else {
        let none = TensorData::zeros(x.dtype(), &shape, usize::MAX)?;
        return Ok(vec![none, TensorData::zeros(DataType::I64, &shape, usize::MAX)?]);
    };
    let mut values = memory::filled("top_k", first, places)?;
    let mut positions = memory::filled("top_k", 0i64, places)?;
    let mut row: Vec<(T, usize)> = memory::room("top_k", extent)?;
    let mut pace = Pace::new();
    for (o, i) in (0..outer).flat_map(|o| (0..inner).map(move |i| (o, i))) {
        row.clear();
        let start = o * extent * inner + i;
        for part in 0..extent.div_ceil(STRETCH) {
            let (from, count) = (part * STRETCH, STRETCH.min(extent - part * STRETCH));
            let part = elements.iter().skip(start + from * inner).step_by(inner.max(1)).take(count);
            row.extend(part.copied().zip(from..));
            pace.step(count);
        }
        let mut compare = |a: &(T, usize), b: &(T, usize)| {
            pace.step(1);
            let order = by_size(&a.0, &b.0);
            (if largest { order.reverse() } else { order }).then(a.1.cmp(&b.1))
        };
        if k > 0 && k < extent {
            row.select_nth_unstable_by(k - 1, &mut compare);
            row.truncate(k);
        }
        row.sort_unstable_by(&mut compare);
        pace.step(k);
        for (rank, &(value, position)) in row.iter().take(k).enumerate() {
            let at = (o * k + rank) * inner + i;
            if let (Some(slot), Some(place)) = (values.get_mut(at), positions.get_mut(at)) {
                (*slot, *place) = (value, position as i64);
            }
        }
    }
    Ok(vec![TensorData::new(&shape, &values)?, TensorData::new(&shape, &positions)?])
}
