//! Scatters elements to indexed positions, on the host.

use super::sort::{by_dtype, by_size};
use crate::Error;
use bb_ir::convert::{Rounding, cast};
use bb_ir::op::{Param, ScatterReduction, take};
use bb_ir::pace::{Pace, STRETCH};
use bb_ir::{DataType, Element, TensorData, bf16, f16, memory};
use std::cmp::Ordering;

/// A number type that can be added and multiplied. Integers wrap.
trait Number: Element + PartialOrd {
    fn sum(self, b: Self) -> Self;
    fn product(self, b: Self) -> Self;
}

macro_rules! numbers {
    ($($ty:ty: |$a:ident, $b:ident| $sum:expr, $product:expr;)*) => {$(
        impl Number for $ty {
            fn sum(self, b: $ty) -> $ty { let ($a, $b) = (self, b); $sum }
            fn product(self, b: $ty) -> $ty { let ($a, $b) = (self, b); $product }
        }
    )*};
}

numbers! {
    f16: |a, b| f16::from_f32(a.to_f32() + b.to_f32()), f16::from_f32(a.to_f32() * b.to_f32());
    bf16: |a, b| bf16::from_f32(a.to_f32() + b.to_f32()), bf16::from_f32(a.to_f32() * b.to_f32());
    f32: |a, b| a + b, a * b;
    f64: |a, b| a + b, a * b;
    i8: |a, b| a.wrapping_add(b), a.wrapping_mul(b);
    i16: |a, b| a.wrapping_add(b), a.wrapping_mul(b);
    i32: |a, b| a.wrapping_add(b), a.wrapping_mul(b);
    i64: |a, b| a.wrapping_add(b), a.wrapping_mul(b);
    u8: |a, b| a.wrapping_add(b), a.wrapping_mul(b);
    u16: |a, b| a.wrapping_add(b), a.wrapping_mul(b);
    u32: |a, b| a.wrapping_add(b), a.wrapping_mul(b);
    u64: |a, b| a.wrapping_add(b), a.wrapping_mul(b);
}

/// Returns the maximum or the minimum of two values; NaN if one is NaN.
fn extremum<T: PartialOrd>(a: T, b: T, wanted: Ordering) -> T {
    let nan = |x: &T| x.partial_cmp(x).is_none();
    if nan(&a) || !nan(&b) && by_size(&a, &b) == wanted { a } else { b }
}

/// Reads indices of type `i32` or `i64`.
pub(crate) fn indices(x: &TensorData) -> Result<Vec<i64>, Error> {
    Ok(match x.dtype() {
        DataType::I32 => memory::collected("indices", x.as_slice::<i32>()?.iter().map(|&i| i.into()))?,
        _ => memory::copied("indices", x.as_slice::<i64>()?)?,
    })
}

/// Converts an index that counts from the end if it is negative to an index that counts from the start.
pub(crate) fn from_start(op: &'static str, index: i64, extent: usize) -> Result<usize, Error> {
    let from_start = if index < 0 { index.saturating_add(extent as i64) } else { index };
    let place = usize::try_from(from_start).ok().filter(|&i| i < extent);
    Ok(place.ok_or(bb_ir::Error::Index { op, index, extent })?)
}

/// Returns the row-major strides of a shape, in elements.
pub(crate) fn strides(shape: &[usize]) -> Vec<usize> {
    let mut strides = vec![1; shape.len()];
    let mut step = 1usize;
    for (stride, &extent) in strides.iter_mut().zip(shape).rev() {
        *stride = step;
        // The product overflows only if the tensor has no elements.
        step = step.wrapping_mul(extent);
    }
    strides
}

fn mismatch(op: &'static str, left: &TensorData, right: &TensorData) -> Error {
    bb_ir::Error::Shapes { op, left: left.shape().into(), right: right.shape().into() }.into()
}

/// The host kernel of `scatter_elements`. Its parameters are the reduction and the axis.
pub(super) fn elements(
    inputs: &[Option<&TensorData>],
    params: &[Param<'_>],
) -> Result<Vec<TensorData>, Error> {
    const OP: &str = "scatter_elements";
    let [data, places, updates] = super::host::operands(OP, inputs)?;
    let axis = usize::try_from(take::Int(OP, params.get(1))?).unwrap_or(usize::MAX);
    let shape = places.shape();
    let fits = shape.len() == data.shape().len()
        && shape.iter().zip(data.shape()).enumerate().all(|(at, (n, most))| at == axis || n <= most);
    if !fits {
        return Err(mismatch(OP, data, places));
    }
    if updates.shape() != shape {
        return Err(mismatch(OP, updates, places));
    }
    let extent = data.shape().get(axis).copied().unwrap_or(0);
    let mut steps = strides(data.shape());
    // The index replaces the coordinate along the axis.
    let along = steps.get_mut(axis).map_or(0, std::mem::take);
    let list = indices(places)?;
    let (mut positions, mut pace) = (memory::room(OP, list.len())?, Pace::new());
    let (mut coordinates, mut others) = (vec![0; shape.len()], 0usize);
    for index in list {
        pace.step(1);
        positions.push(from_start(OP, index, extent)? * along + others);
        for ((coordinate, &end), &step) in coordinates.iter_mut().zip(shape).zip(&steps).rev() {
            *coordinate += 1;
            others += step;
            if *coordinate < end {
                break;
            }
            others -= step * end;
            *coordinate = 0;
        }
    }
    Ok(vec![written(OP, data, updates, &positions, 1, take::ScatterReduction(OP, params.first())?)?])
}

/// The host kernel of `scatter_nd`. Its parameter is the reduction.
pub(super) fn slices(inputs: &[Option<&TensorData>], params: &[Param<'_>]) -> Result<Vec<TensorData>, Error> {
    const OP: &str = "scatter_nd";
    let [data, places, updates] = super::host::operands(OP, inputs)?;
    let Some((&tuple, lead)) = places.shape().split_last() else {
        return Err(mismatch(OP, data, places));
    };
    let Some((named, slice)) = data.shape().split_at_checked(tuple) else {
        return Err(mismatch(OP, data, places));
    };
    if !lead.iter().chain(slice).eq(updates.shape()) {
        return Err(mismatch(OP, updates, places));
    }
    let size: usize = slice.iter().product();
    let steps = strides(named);
    let count: usize = lead.iter().product();
    let list = indices(places)?;
    let (mut positions, mut pace) = (memory::room(OP, count)?, Pace::new());
    for row in 0..count {
        let tuple = list.get(row * tuple..(row + 1) * tuple).unwrap_or_default();
        let mut at = 0;
        pace.step(tuple.len().max(1));
        for ((&index, &extent), &step) in tuple.iter().zip(named).zip(&steps) {
            at += from_start(OP, index, extent)? * step;
        }
        positions.push(at * size);
    }
    Ok(vec![written(OP, data, updates, &positions, size, take::ScatterReduction(OP, params.first())?)?])
}

/// Writes runs of `size` updates to offsets in `data`.
fn written(
    op: &'static str,
    data: &TensorData,
    updates: &TensorData,
    positions: &[usize],
    size: usize,
    reduction: ScatterReduction,
) -> Result<TensorData, Error> {
    let dtype = data.dtype();
    if updates.dtype() != dtype {
        return Err(bb_ir::Error::DataType { expected: dtype, got: updates.dtype() }.into());
    }
    match (reduction, dtype) {
        // An element may get many updates. So 16-bit floats are accumulated in `f32` and rounded once at the
        // end.
        (ScatterReduction::Add | ScatterReduction::Mul, DataType::F16 | DataType::BF16) => {
            let wide = |x| cast(x, DataType::F32, Rounding::default());
            let joined = written(op, &wide(data)?, &wide(updates)?, positions, size, reduction)?;
            Ok(cast(&joined, dtype, Rounding::default())?)
        }
        (ScatterReduction::None, DataType::String) => {
            let mut texts = memory::collected(op, data.iter_bytes())?;
            let new = memory::collected(op, updates.iter_bytes())?;
            replace(&mut texts, &new, positions, size);
            Ok(TensorData::strings(data.shape(), &texts)?)
        }
        (ScatterReduction::None, _) if dtype.bits().is_multiple_of(8) => {
            let width = dtype.bits() / 8;
            let mut bytes = memory::copied(op, data.bytes()?)?;
            let from = updates.bytes()?;
            match (size, width) {
                (1, 2) => replace(bytes.as_chunks_mut::<2>().0, from.as_chunks::<2>().0, positions, 1),
                (1, 4) => replace(bytes.as_chunks_mut::<4>().0, from.as_chunks::<4>().0, positions, 1),
                (1, 8) => replace(bytes.as_chunks_mut::<8>().0, from.as_chunks::<8>().0, positions, 1),
                _ => {
                    let starts = memory::collected(op, positions.iter().map(|at| at * width))?;
                    replace(&mut bytes, from, &starts, size * width);
                }
            }
            Ok(TensorData::adopt(dtype, data.shape(), bytes.into())?)
        }
        (_, DataType::Bool) => {
            // For booleans, a sum is a logical OR and a product is a logical AND.
            let any = matches!(reduction, ScatterReduction::Add | ScatterReduction::Max);
            let join = |a: u8, b: u8| if any { a | b } else { a & b };
            let mut bytes = memory::copied(op, data.bytes()?)?;
            update(&mut bytes, updates.bytes()?, positions, size, join);
            Ok(TensorData::adopt(dtype, data.shape(), bytes.into())?)
        }
        _ => match op {
            "scatter_nd" => {
                by_dtype!(dtype, "scatter_nd", reduced(data, updates, positions, size, reduction))
            }
            _ => by_dtype!(dtype, "scatter_elements", reduced(data, updates, positions, size, reduction)),
        },
    }
}

/// Copies runs of `size` elements to the offsets `positions`.
fn replace<T: Copy>(into: &mut [T], from: &[T], positions: &[usize], size: usize) {
    // A run of one element is assigned directly, because a copy of variable length would need a function call
    // per element.
    let mut pace = Pace::new();
    if size == 1 {
        for (positions, from) in positions.chunks(STRETCH).zip(from.chunks(STRETCH)) {
            pace.step(positions.len());
            for (&at, &value) in positions.iter().zip(from) {
                if let Some(place) = into.get_mut(at) {
                    *place = value;
                }
            }
        }
        return;
    }
    for (&at, run) in positions.iter().zip(from.chunks(size.max(1))) {
        pace.step(1 + run.len() / 16);
        if let Some(place) = into.get_mut(at..at + run.len()) {
            place.copy_from_slice(run);
        }
    }
}

/// Combines runs of `size` updates with the elements at the offsets `positions`.
fn update<T: Copy>(into: &mut [T], from: &[T], positions: &[usize], size: usize, join: impl Fn(T, T) -> T) {
    let mut pace = Pace::new();
    if size == 1 {
        for (positions, from) in positions.chunks(STRETCH).zip(from.chunks(STRETCH)) {
            pace.step(positions.len());
            for (&at, &value) in positions.iter().zip(from) {
                if let Some(place) = into.get_mut(at) {
                    *place = join(*place, value);
                }
            }
        }
        return;
    }
    for (&at, run) in positions.iter().zip(from.chunks(size.max(1))) {
        pace.step(1 + run.len());
        let places = into.get_mut(at..at + run.len()).into_iter().flatten();
        for (place, &value) in places.zip(run) {
            *place = join(*place, value);
        }
    }
}

fn reduced<T: Number>(
    data: &TensorData,
    updates: &TensorData,
    positions: &[usize],
    size: usize,
    reduction: ScatterReduction,
) -> Result<TensorData, Error> {
    let join = |a: T, b: T| match reduction {
        ScatterReduction::None => b,
        ScatterReduction::Add => a.sum(b),
        ScatterReduction::Mul => a.product(b),
        ScatterReduction::Max => extremum(a, b, Ordering::Greater),
        ScatterReduction::Min => extremum(a, b, Ordering::Less),
    };
    let mut elements = memory::copied("scatter", data.as_slice::<T>()?)?;
    update(&mut elements, updates.as_slice::<T>()?, positions, size, join);
    Ok(TensorData::new(data.shape(), &elements)?)
}
