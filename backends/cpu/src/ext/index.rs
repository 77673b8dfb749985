//! `Index`: positions of extrema, and the first elements in order.

use crate::array::Array;
use crate::backend::Cpu;
use crate::error::Result;
use crate::kernels::extremum::{self, Extremum};
use crate::kernels::number::Number;
use crate::kernels::top;
use crate::ops::{dense, made};
use bb::ext::TopKOptions;
use bb::ir::Axis;
use bb::{DataType, Shape, Tensor};

/// Computes the positions; `None` if there is no kernel for the operand.
fn positions(on: &Cpu, x: &Array, axis: i64, which: Extremum) -> Result<Option<Array>> {
    let Ok(at) = Axis::new(axis, x.shape().len()).map(Axis::get) else { return Ok(None) };
    let served = matches!(
        x.dtype(),
        DataType::F32 | DataType::F64 | DataType::I32 | DataType::I64 | DataType::I8 | DataType::U8
    );
    if !served || x.is_empty() {
        return Ok(None);
    }
    let x = dense(on.pool(), x)?;
    let mut shape = Shape::from_slice(x.shape());
    let (outer, rest) = x.shape().split_at(at);
    let [outer, inner] =
        [outer, rest.get(1..).unwrap_or_default()].map(|part| part.iter().product::<usize>());
    let Some(extent) = shape.get_mut(at) else { return Ok(None) };
    let len = std::mem::replace(extent, 1);
    let run = match x.dtype() {
        DataType::F64 => run::<f64>,
        DataType::I32 => run::<i32>,
        DataType::I64 => run::<i64>,
        DataType::I8 => run::<i8>,
        DataType::U8 => run::<u8>,
        _ => run::<f32>,
    };
    // SAFETY: the operand has these extents and elements of this type, and `out` has a position for each row or column.
    made(on.pool(), DataType::I64, shape, |out| unsafe {
        run(which, [outer, len, inner], x.ptr(), out.cast())
    })
    .map(Some)
}

/// Writes the positions along the middle one of three dimensions.
///
/// # Safety
///
/// `x` holds elements of type `T` with these extents, none of which is zero; `out` has room for `outer * inner` positions.
unsafe fn run<T: Number>(which: Extremum, [outer, len, inner]: [usize; 3], x: *const u8, out: *mut i64) {
    // SAFETY: this function has the same contract.
    unsafe {
        if inner == 1 {
            extremum::rows::<T>(which, [outer, len], x.cast(), out);
        } else {
            extremum::columns::<T>(which, [outer, len, inner], x.cast(), out);
        }
    }
}

/// Finds the first elements of rows in order; `None` if there is no kernel for the operands.
fn first(on: &Cpu, x: &Array, k: i64, axis: i64, largest: bool) -> Result<Option<Vec<Array>>> {
    let rank = x.shape().len();
    let last = Axis::new(axis, rank).is_ok_and(|axis| axis.get() + 1 == rank);
    let len = x.shape().last().copied().unwrap_or(0);
    let Some(k) = usize::try_from(k).ok().filter(|k| (1..=len.min(top::MOST)).contains(k) && last) else {
        return Ok(None);
    };
    let run = match x.dtype() {
        DataType::F32 => top_of::<f32>,
        DataType::F64 => top_of::<f64>,
        DataType::I32 => top_of::<i32>,
        DataType::I64 => top_of::<i64>,
        _ => return Ok(None),
    };
    let x = dense(on.pool(), x)?;
    let mut shape = Shape::from_slice(x.shape());
    if let Some(extent) = shape.last_mut() {
        *extent = k;
    }
    let mut values = None;
    let positions = made(on.pool(), DataType::I64, shape.clone(), |positions| {
        values = Some(made(on.pool(), x.dtype(), shape, |values| {
            // SAFETY: the operand has rows of this length and elements of this type, and both results have `k` for each.
            unsafe { run(largest, [x.len() / len, len, k], x.ptr(), values, positions.cast()) }
        }));
    })?;
    let Some(values) = values.transpose()? else { return Ok(None) };
    Ok(Some(vec![values, positions]))
}

/// Writes the first elements of rows, and their positions.
///
/// # Safety
///
/// That of [`top::run`], with elements of type `T`.
unsafe fn top_of<T: Number>(
    largest: bool,
    extents: [usize; 3],
    x: *const u8,
    values: *mut u8,
    positions: *mut i64,
) {
    // SAFETY: this function has the same contract.
    unsafe { top::run::<T>(largest, extents, x.cast(), values.cast(), positions) }
}

#[bb::native]
impl bb::ext::Index for Cpu {
    fn top_k(&self, x: &Array, k: i64, options: TopKOptions) -> Result<Vec<Array>> {
        match first(self, x, k, options.axis, options.largest)? {
            Some(found) => Ok(found),
            None => bb::ext::index::top_k(self, x, k, options),
        }
    }

    fn arg_max(&self, x: &Array, axis: i64, select_last_index: bool) -> Result<Array> {
        match positions(self, x, axis, Extremum { least: false, last: select_last_index })? {
            Some(found) => Ok(found),
            None => bb::ext::index::arg_max(self, x, axis, select_last_index),
        }
    }

    fn arg_min(&self, x: &Array, axis: i64, select_last_index: bool) -> Result<Array> {
        match positions(self, x, axis, Extremum { least: true, last: select_last_index })? {
            Some(found) => Ok(found),
            None => bb::ext::index::arg_min(self, x, axis, select_last_index),
        }
    }
}
