//! Moving elements between strided places, and choosing between two by a condition.
//!
//! Elements are moved by their size alone. What is neither rows nor a transposition is left to
//! ndarray, which orders the loops by the strides.

use crate::layout::{Dim, for_each_index};
use crate::simd::{Shared, transpose, walk};
use ndarray::{ArrayViewD, ArrayViewMutD, IxDyn, ShapeBuilder};
use smallvec::SmallVec;
use std::ptr;

/// Copies the elements at the second strides of `dims` to the first ones.
///
/// # Safety
///
/// `dst` and `src` have elements of `size` bytes, aligned for integers of that size (of 8 for 16),
/// at every index of `dims`; no two of `dst` overlap, nor do `dst` and `src`.
pub(crate) unsafe fn copy(dims: &[Dim<2>], size: usize, dst: *mut u8, src: *const u8) {
    // SAFETY: the caller's promise.
    unsafe {
        match size {
            1 => copy_as::<u8>(dims, dst.cast(), src.cast()),
            2 => copy_as::<u16>(dims, dst.cast(), src.cast()),
            4 => copy_as::<u32>(dims, dst.cast(), src.cast()),
            8 if src.addr().is_multiple_of(8) => copy_as::<u64>(dims, dst.cast(), src.cast()),
            8 => copy_as::<[u32; 2]>(dims, dst.cast(), src.cast()),
            _ => copy_as::<[u64; 2]>(dims, dst.cast(), src.cast()),
        }
    }
}

/// Elements below which a second thread costs more than it brings.
const GRAIN: usize = 1 << 17;

unsafe fn copy_as<T: Copy + Send + Sync>(dims: &[Dim<2>], dst: *mut T, src: *const T) {
    let [first, inner @ ..] = dims else {
        // SAFETY: without dimensions there is one element.
        return unsafe { dst.write(*src) };
    };
    let weight = inner.iter().map(|d| d.extent).product();
    let shared = Shared((dst, src));
    walk::split(first.extent, weight, GRAIN, |from, to| {
        let (dst, src) = shared.get();
        let [d, s] = first.strides.map(|s| s * from as isize);
        let mut part: SmallVec<[Dim<2>; 6]> = SmallVec::from_slice(dims);
        if let Some(first) = part.first_mut() {
            first.extent = to - from;
        }
        // SAFETY: the caller's promise covers every index of `dims`; each part has its own.
        unsafe { copy_part(&mut part, dst.offset(d), src.offset(s)) }
    });
}

unsafe fn copy_part<T: Copy + Send + Sync>(dims: &mut [Dim<2>], dst: *mut T, src: *const T) {
    // A dimension without gaps in the source belongs beside the one without gaps in the result.
    let last = dims.len().saturating_sub(1);
    if let Some(at) = dims.iter().position(|d| d.strides[1] == 1)
        && at < last
        && let Some(middle) = dims.get_mut(at..last)
    {
        middle.rotate_left(1);
    }
    // SAFETY: the caller's promise covers every index of `dims`.
    unsafe {
        match &*dims {
            [outer @ .., Dim { extent, strides: [1, 1] }] => for_each_index(outer, |[d, s]| {
                ptr::copy_nonoverlapping(src.offset(s), dst.offset(d), *extent);
            }),
            [outer @ .., Dim { extent: rows, strides: [dr, 1] }, Dim { extent: cols, strides: [1, sc] }]
                if *dr > 0 && *sc > 0 =>
            {
                let (dst_row, src_row) = (*dr as usize, *sc as usize);
                for_each_index(outer, |[d, s]| {
                    transpose::transpose(*cols, *rows, dst.offset(d), dst_row, src.offset(s), src_row);
                });
            }
            [line] => (0..line.extent as isize).for_each(|i| {
                let [d, s] = line.strides;
                dst.offset(i * d).write(*src.offset(i * s));
            }),
            _ if dims.iter().all(|d| d.strides.iter().all(|&s| s >= 0)) => {
                let extents: SmallVec<[usize; 6]> = dims.iter().map(|d| d.extent).collect();
                let strides = |of: fn(&Dim<2>) -> isize| {
                    let strides: SmallVec<[usize; 6]> = dims.iter().map(|d| of(d) as usize).collect();
                    IxDyn(&strides)
                };
                let shape = IxDyn(&extents);
                let from = ArrayViewD::from_shape_ptr(shape.clone().strides(strides(|d| d.strides[1])), src);
                ArrayViewMutD::from_shape_ptr(shape.strides(strides(|d| d.strides[0])), dst).assign(&from);
            }
            _ => for_each_index(dims, |[d, s]| dst.offset(d).write(*src.offset(s))),
        }
    }
}

/// Writes to `out`, row-major, the element of `x` where the condition is true, else of `y`; the
/// strides of `dims` are of the condition, of `x` and of `y`.
///
/// # Safety
///
/// The operands have elements at every index of `dims` (the condition's of one byte, the others' of
/// `size`, aligned as for [`copy`]), and `out` has room for as many.
pub(crate) unsafe fn select(
    dims: &[Dim<3>],
    size: usize,
    condition: *const u8,
    x: *const u8,
    y: *const u8,
    out: *mut u8,
) {
    // SAFETY: the caller's promise.
    unsafe {
        match size {
            1 => select_as::<u8>(dims, condition, x.cast(), y.cast(), out.cast()),
            2 => select_as::<u16>(dims, condition, x.cast(), y.cast(), out.cast()),
            4 => select_as::<u32>(dims, condition, x.cast(), y.cast(), out.cast()),
            8 if x.addr().is_multiple_of(8) && y.addr().is_multiple_of(8) => {
                select_as::<u64>(dims, condition, x.cast(), y.cast(), out.cast());
            }
            8 => select_as::<[u32; 2]>(dims, condition, x.cast(), y.cast(), out.cast()),
            _ => select_as::<[u64; 2]>(dims, condition, x.cast(), y.cast(), out.cast()),
        }
    }
}

unsafe fn select_as<T: Copy>(dims: &[Dim<3>], condition: *const u8, x: *const T, y: *const T, out: *mut T) {
    let (outer, row) = match dims {
        [outer @ .., row] => (outer, *row),
        [] => (dims, Dim { extent: 1, strides: [0; 3] }),
    };
    let mut out = out;
    for_each_index(outer, |[c, a, b]| {
        // SAFETY: the caller's promise covers every index of `dims`.
        unsafe {
            let (c, a, b) = (condition.offset(c), x.offset(a), y.offset(b));
            let [sc, sa, sb] = row.strides;
            if row.strides == [1, 1, 1] {
                for i in 0..row.extent {
                    out.add(i).write(if *c.add(i) != 0 { *a.add(i) } else { *b.add(i) });
                }
            } else {
                for i in 0..row.extent as isize {
                    out.offset(i).write(if *c.offset(i * sc) != 0 {
                        *a.offset(i * sa)
                    } else {
                        *b.offset(i * sb)
                    });
                }
            }
            out = out.add(row.extent);
        }
    });
}

/// Copies the run of `run` elements at each position to `out`, one after another; positions are
/// `step` elements apart.
///
/// # Safety
///
/// A run of elements of `size` bytes, aligned as for [`copy`], lies at each position after `base`,
/// and `out` has room for all of them.
pub(crate) unsafe fn pick(at: &[usize], run: usize, size: usize, base: *const u8, step: isize, out: *mut u8) {
    // SAFETY: the caller's promise.
    unsafe {
        match (run, size) {
            (1, 1) => pick_as::<u8>(at, base.cast(), step, out.cast()),
            (1, 2) => pick_as::<u16>(at, base.cast(), step, out.cast()),
            (1, 4) => pick_as::<u32>(at, base.cast(), step, out.cast()),
            (1, 8) => pick_as::<[u32; 2]>(at, base.cast(), step, out.cast()),
            _ => {
                let bytes = run * size;
                for (i, &at) in at.iter().enumerate() {
                    let from = base.offset(at as isize * step * size as isize);
                    ptr::copy_nonoverlapping(from, out.add(i * bytes), bytes);
                }
            }
        }
    }
}

unsafe fn pick_as<T: Copy>(at: &[usize], base: *const T, step: isize, out: *mut T) {
    for (i, &at) in at.iter().enumerate() {
        // SAFETY: the caller's promise.
        unsafe { out.add(i).write(*base.offset(at as isize * step)) }
    }
}
