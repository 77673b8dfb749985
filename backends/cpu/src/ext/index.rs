//! Implements `Index`: arg-max and arg-min, top-k, and writes to indexed positions.

use crate::array::Array;
use crate::cpu::Cpu;
use crate::error::Result;
use crate::kernels::extremum::{self, Extremum};
use crate::kernels::ordered::Ordered;
use crate::kernels::scatter::Meeting;
use crate::kernels::top;
use crate::ops::{dense, indexed, made, views};
use bb::ext::{ScatterElementsOptions, ScatterReduction, TopKOptions};
use bb::ir::Axis;
use bb::{Backend, DataType, RoundMode, Shape, Tensor};
use half::{bf16, f16};

/// Evaluates an expression with `$name` bound to the Rust type of an ordered element type. Returns `None` for other
/// element types.
macro_rules! with_ordered {
    ($dtype:expr, $name:ident => $body:expr) => {
        with_ordered!(@each $dtype, $name => $body, F32 f32, F64 f64, F16 f16, BF16 bf16, I8 i8, I16 i16, I32 i32, I64 i64,
            U8 u8, U16 u16, U32 u32, U64 u64)
    };
    (@each $dtype:expr, $name:ident => $body:expr, $($variant:ident $t:ty),*) => {
        match $dtype {
            $( DataType::$variant => { type $name = $t; Some($body) } )*
            _ => None,
        }
    };
}

/// Returns whether updates are added to or multiplied with 16-bit floats. Several updates can combine with one element,
/// which must be rounded only once.
fn sums_halves(data: &Array, updates: &Array, reduction: ScatterReduction) -> bool {
    let halves = matches!(data.dtype(), DataType::F16 | DataType::BF16) && updates.dtype() == data.dtype();
    halves && matches!(reduction, ScatterReduction::Add | ScatterReduction::Mul)
}

/// A function that writes the positions of the extrema along one dimension. Its parameters are the kind of extremum, the
/// numbers of elements before and after the dimension, the extent of the dimension, the operand and the result.
type Positions = unsafe fn(Extremum, [usize; 2], u32, *const u8, *mut i64);

/// Computes the positions of extrema along an axis. Returns `None` if there is no kernel for the operand.
fn positions(on: &Cpu, x: &Array, axis: i64, which: Extremum) -> Result<Option<Array>> {
    let Ok(at) = Axis::new(axis, x.shape().len()).map(Axis::get) else { return Ok(None) };
    let Some(run) = with_ordered!(x.dtype(), T => positions_of::<T> as Positions) else { return Ok(None) };
    let mut shape = Shape::from_slice(x.shape());
    let Some(extent) = shape.get_mut(at) else { return Ok(None) };
    let (false, Ok(len)) = (x.is_empty(), u32::try_from(std::mem::replace(extent, 1))) else {
        return Ok(None);
    };
    let x = dense(on.pool(), x)?;
    let (outer, rest) = x.shape().split_at(at);
    let around = [outer, rest.get(1..).unwrap_or_default()].map(|part| part.iter().product::<usize>());
    // SAFETY: the operand has these extents and elements of this type, and `out` has a position for each row or column.
    made(on.pool(), DataType::I64, shape, |out| unsafe { run(which, around, len, x.ptr(), out.cast()) })
        .map(Some)
}

/// Writes the positions of extrema along the middle dimension of three.
///
/// # Safety
///
/// `x` has elements of type `T` with these extents, none of them zero; `out` has room for `outer * inner` positions.
unsafe fn positions_of<T: Ordered>(
    which: Extremum,
    [outer, inner]: [usize; 2],
    len: u32,
    x: *const u8,
    out: *mut i64,
) {
    // SAFETY: this function has the same contract.
    unsafe {
        if inner == 1 {
            extremum::rows::<T>(which, [outer, len as usize], x.cast(), out);
        } else {
            extremum::columns::<T>(which, [outer, inner], len, x.cast(), out);
        }
    }
}

/// Finds the `k` largest or smallest elements along an axis, in order. Returns `None` if there is no kernel for the
/// operands.
fn first(on: &Cpu, x: &Array, k: i64, axis: i64, largest: bool) -> Result<Option<Vec<Array>>> {
    let rank = x.shape().len();
    let Ok(at) = Axis::new(axis, rank).map(Axis::get) else { return Ok(None) };
    if at + 1 < rank && !x.is_empty() {
        // The kernel works along the last axis, so swap the axis with it, and swap the results back.
        let swapped: Vec<i64> = (0..rank)
            .map(|d| {
                if d == at {
                    rank - 1
                } else if d + 1 == rank {
                    at
                } else {
                    d
                }
                .cast_signed() as i64
            })
            .collect();
        let found = first(on, &views::transpose(x, &swapped)?, k, -1, largest)?;
        return found.map(|found| found.iter().map(|y| views::transpose(y, &swapped)).collect()).transpose();
    }
    let extent = x.shape().last().copied().unwrap_or(0);
    let k = usize::try_from(k).ok().filter(|k| (1..=extent).contains(k));
    let (Some(k), Ok(len), false) = (k, u32::try_from(extent), x.is_empty()) else { return Ok(None) };
    let Some(run) = with_ordered!(x.dtype(), T => top_of::<T> as Top) else { return Ok(None) };
    let x = dense(on.pool(), x)?;
    let mut shape = Shape::from_slice(x.shape());
    if let Some(extent) = shape.last_mut() {
        *extent = k;
    }
    let (mut values, mut done) = (None, false);
    let positions = made(on.pool(), DataType::I64, shape.clone(), |positions| {
        values = Some(made(on.pool(), x.dtype(), shape, |values| {
            // SAFETY: the operand has rows of this length and elements of this type, and both results have `k` for each.
            done = unsafe { run(largest, [x.len() / extent, k], len, x.ptr(), values, positions.cast()) }
        }));
    })?;
    let Some(values) = values.transpose()?.filter(|_| done) else { return Ok(None) };
    Ok(Some(vec![values, positions]))
}

/// A function that writes the top-k elements of rows. Its first parameters are whether the largest elements are
/// selected, the numbers of rows and of results per row, and the length of a row.
type Top = unsafe fn(bool, [usize; 2], u32, *const u8, *mut u8, *mut i64) -> bool;

/// Writes the first elements of each row in order, and their positions.
///
/// # Safety
///
/// As for [`top::run`], with elements of type `T`.
unsafe fn top_of<T: Ordered>(
    largest: bool,
    extents: [usize; 2],
    len: u32,
    x: *const u8,
    values: *mut u8,
    positions: *mut i64,
) -> bool {
    // SAFETY: this function has the same contract.
    unsafe { top::run::<T>(largest, extents, len, x.cast(), values.cast(), positions) }
}

#[bb::native]
impl bb::ext::Index for Cpu {
    fn top_k(&self, x: &Array, k: i64, options: TopKOptions) -> Result<Vec<Array>> {
        match first(self, x, k, options.axis, options.largest)? {
            Some(found) => Ok(found),
            None => self.body().top_k(x, k, options),
        }
    }

    fn arg_max(&self, x: &Array, axis: i64, select_last_index: bool) -> Result<Array> {
        match positions(self, x, axis, Extremum { least: false, last: select_last_index })? {
            Some(found) => Ok(found),
            None => self.body().arg_max(x, axis, select_last_index),
        }
    }

    fn arg_min(&self, x: &Array, axis: i64, select_last_index: bool) -> Result<Array> {
        match positions(self, x, axis, Extremum { least: true, last: select_last_index })? {
            Some(found) => Ok(found),
            None => self.body().arg_min(x, axis, select_last_index),
        }
    }

    fn scatter_elements(
        &self,
        data: &Array,
        indices: &Array,
        updates: &Array,
        options: ScatterElementsOptions,
    ) -> Result<Array> {
        let ScatterElementsOptions { axis, reduction } = options;
        if sums_halves(data, updates, reduction) {
            let wide = |x: &Array| self.cast(x, DataType::F32, true, RoundMode::Up);
            let y = self.scatter_elements(&wide(data)?, indices, &wide(updates)?, options)?;
            return self.cast(&y, data.dtype(), true, RoundMode::Up);
        }
        let scatter =
            |meeting| indexed::scatter_elements(self.pool(), [data, indices, updates], axis, meeting);
        match scatter(Meeting::of(reduction))? {
            Some(y) => Ok(y),
            None => self.body().scatter_elements(data, indices, updates, options),
        }
    }

    fn scatter_nd(
        &self,
        data: &Array,
        indices: &Array,
        updates: &Array,
        reduction: ScatterReduction,
    ) -> Result<Array> {
        if sums_halves(data, updates, reduction) {
            let wide = |x: &Array| self.cast(x, DataType::F32, true, RoundMode::Up);
            let y = self.scatter_nd(&wide(data)?, indices, &wide(updates)?, reduction)?;
            return self.cast(&y, data.dtype(), true, RoundMode::Up);
        }
        let scatter = |meeting| indexed::scatter_nd(self.pool(), [data, indices, updates], meeting);
        match scatter(Meeting::of(reduction))? {
            Some(y) => Ok(y),
            None => self.body().scatter_nd(data, indices, updates, reduction),
        }
    }
}
