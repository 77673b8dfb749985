//! Copies elements between memory with any strides. The copies depend on the size of the elements, not on their type,
//! and need no alignment.

use super::dispatch::{VectorLoop, dispatch};
use super::element_loop::GRAIN;
use super::{Shared, transpose, walk};
use crate::layout::{Dim, for_each_index, innermost};
use crate::pace::{Pace, STRETCH};
use smallvec::SmallVec;
use std::ptr;

/// Copies `n` elements of `size` bytes. The steps between elements are in bytes.
///
/// # Safety
///
/// `src` has `n` elements at its steps, and `dst` has room for `n` elements; they do not overlap.
#[inline]
pub(crate) unsafe fn line(
    size: usize,
    n: usize,
    dst: *mut u8,
    dst_step: isize,
    src: *const u8,
    src_step: isize,
) {
    /// # Safety
    ///
    /// Same as for [`line`], with elements of type `T`.
    unsafe fn each<T: Copy>(n: usize, dst: *mut u8, dst_step: isize, src: *const u8, src_step: isize) {
        // SAFETY: the caller guarantees that the elements are valid and there is enough room; no access here needs an alignment.
        unsafe {
            let (size, n) = (size_of::<T>().cast_signed(), n.cast_signed());
            let read = |i: isize| src.offset(i * src_step).cast::<T>().read_unaligned();
            if src_step == 0 && dst_step == size && n > 0 {
                let (value, dst) = (read(0), dst.cast::<T>());
                // Bytes are set by the C library.
                if size > 1 && n >= MANY {
                    return dispatch(Repeat { value, n, dst });
                }
                (0..n).for_each(|i| dst.offset(i).write_unaligned(value));
            } else if dst_step == size {
                (0..n).for_each(|i| dst.cast::<T>().offset(i).write_unaligned(read(i)));
            } else {
                (0..n).for_each(|i| dst.offset(i * dst_step).cast::<T>().write_unaligned(read(i)));
            }
        }
    }
    // SAFETY: this function has the same contract.
    unsafe {
        if dst_step == src_step && dst_step == size.cast_signed() {
            return ptr::copy_nonoverlapping(src, dst, n * size);
        }
        match size {
            1 => each::<u8>(n, dst, dst_step, src, src_step),
            2 => each::<u16>(n, dst, dst_step, src, src_step),
            4 => each::<u32>(n, dst, dst_step, src, src_step),
            8 => each::<u64>(n, dst, dst_step, src, src_step),
            _ => each::<u128>(n, dst, dst_step, src, src_step),
        }
    }
}

/// The minimum number of copies of a value that [`Repeat`] writes.
const MANY: isize = 64;

/// A loop that writes `n` copies of a value, one after another.
struct Repeat<T> {
    value: T,
    n: isize,
    dst: *mut T,
}

impl<T: Copy> VectorLoop for Repeat<T> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        // SAFETY: the creator of this value guarantees the room.
        (0..self.n).for_each(|i| unsafe { self.dst.offset(i).write_unaligned(self.value) });
    }
}

/// The maximum length in bytes of a row that [`Rows`] copies. For longer rows, the function of the C library is as fast.
const SHORT: usize = 1 << 12;

/// A loop that copies rows of contiguous bytes.
struct Rows<I> {
    /// The length of a row in bytes, which is not zero.
    bytes: usize,
    dst: *mut u8,
    dst_step: isize,
    /// The source of each row.
    src: I,
}

impl<I: Iterator<Item = *const u8>> Rows<I> {
    /// Copies the rows in blocks. The last block of a row overlaps the block before it.
    ///
    /// # Safety
    ///
    /// The rows are valid, `dst` has room for them, and they do not overlap. A row has at least the size of a block.
    #[inline(always)]
    unsafe fn copy<B: Copy>(self) {
        let (last, mut dst) = (self.bytes - size_of::<B>(), self.dst);
        for src in self.src {
            // SAFETY: the block is in the row, and no access here needs an alignment.
            let block = |at| unsafe {
                dst.add(at).cast::<B>().write_unaligned(src.add(at).cast::<B>().read_unaligned());
            };
            let mut at = 0;
            while at < last {
                block(at);
                at += size_of::<B>();
            }
            block(last);
            dst = dst.wrapping_offset(self.dst_step);
        }
    }
}

impl<I: Iterator<Item = *const u8>> VectorLoop for Rows<I> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        // SAFETY: the creator of this value guarantees that the rows are valid.
        unsafe {
            match self.bytes {
                64.. => self.copy::<[u8; 64]>(),
                32.. => self.copy::<[u8; 32]>(),
                16.. => self.copy::<u128>(),
                8.. => self.copy::<u64>(),
                4.. => self.copy::<u32>(),
                2.. => self.copy::<u16>(),
                _ => self.copy::<u8>(),
            }
        }
    }
}

/// Copies each element from its offset by the second strides of `dims` to its offset by the first strides.
///
/// # Safety
///
/// `dst` and `src` have elements of `size` bytes at every index of `dims`. No two elements of `dst` overlap, and `dst`
/// does not overlap with `src`.
pub(crate) unsafe fn copy(dims: &[Dim<2>], size: usize, dst: *mut u8, src: *const u8) {
    let [first, inner @ ..] = dims else {
        // SAFETY: without dimensions there is one element.
        return unsafe { ptr::copy_nonoverlapping(src, dst, size) };
    };
    let weight = inner.iter().map(|d| d.extent).product();
    let shared = Shared((dst, src));
    walk::split(first.extent, weight, GRAIN, |from, to| {
        let (dst, src) = shared.get();
        let [d, s] = first.strides.map(|s| s * from.cast_signed() * size.cast_signed());
        let mut part: SmallVec<[Dim<2>; 6]> = SmallVec::from_slice(dims);
        if let Some(first) = part.first_mut() {
            first.extent = to - from;
        }
        // SAFETY: the caller guarantees an element at every index of `dims`; each part has its own elements.
        unsafe { copy_part(&mut part, size, dst.offset(d), src.offset(s)) }
    });
}

/// The minimum number of repetitions of an element that justifies the setup of a loop over them.
const FEW_REPEATS: usize = 8;

/// Copies as [`copy`] does, on this thread.
///
/// # Safety
///
/// Same as for [`copy`].
unsafe fn copy_part(dims: &mut [Dim<2>], size: usize, dst: *mut u8, src: *const u8) {
    // Moves the dimension that is contiguous in the source next to the dimension that is contiguous in the result, so
    // that both form a matrix to transpose.
    let last = dims.len().saturating_sub(1);
    if let Some(at) = dims.iter().position(|d| d.strides[1] == 1)
        && at < last
        && let Some(middle) = dims.get_mut(at..last)
    {
        middle.rotate_left(1);
    }
    // If elements repeat only a few times, an inner loop over different elements is faster.
    if let [.., rows, repeats] = dims
        && repeats.strides[1] == 0
        && repeats.extent < FEW_REPEATS.min(rows.extent)
    {
        std::mem::swap(rows, repeats);
    }
    // Matrices are transposed together along the dimension next to them, which should not be short.
    if let [.., outer, matrices, Dim { strides: [_, 1], .. }, Dim { strides: [1, _], .. }] = dims
        && matrices.extent < FEW_REPEATS.min(outer.extent)
    {
        std::mem::swap(outer, matrices);
    }
    // A short contiguous run is moved as one larger element.
    if let [outer @ .., Dim { extent, strides: [1, 1] }] = dims
        && let run = extent.cast_signed()
        && matches!(*extent * size, 2 | 4 | 8 | 16)
        && !outer.is_empty()
        && outer.iter().all(|dim| dim.strides.iter().all(|s| s % run == 0))
    {
        let bytes = *extent * size;
        outer.iter_mut().for_each(|dim| dim.strides = dim.strides.map(|s| s / run));
        // SAFETY: a run at every index of the other dimensions is an element of `bytes` bytes.
        return unsafe { copy_part(outer, bytes, dst, src) };
    }
    let width = size.cast_signed();
    let at = |[d, s]: [isize; 2]| (dst.wrapping_offset(d * width), src.wrapping_offset(s * width));
    let mut pace = Pace::new();
    match &*dims {
        [outer @ .., Dim { extent: rows, strides: [dr, 1] }, Dim { extent: cols, strides: [1, sc] }]
            if *dr > 0 && *sc > 0 =>
        {
            let (dst_row, src_row) = (dr.unsigned_abs(), sc.unsigned_abs());
            let (outer, matrices) = innermost(outer);
            for_each_index(outer, |index| {
                let (dst, src) = at(index);
                pace.step(rows * cols * matrices.extent);
                // SAFETY: the caller guarantees an element at every index of `dims`.
                unsafe {
                    transpose::transpose_each(size, *cols, *rows, dst, dst_row, src, src_row, matrices)
                };
            });
        }
        [outer @ .., Dim { extent, strides: [1, 1] }] if (1..=SHORT).contains(&(extent * size)) => {
            let (outer, rows) = innermost(outer);
            let [dst_step, src_step] = rows.strides.map(|s| s * width);
            for_each_index(outer, |index| {
                let (dst, src) = at(index);
                for first in (0..rows.extent).step_by(STRETCH / SHORT) {
                    let last = rows.extent.min(first + STRETCH / SHORT);
                    pace.step((last - first) * extent);
                    let dst = dst.wrapping_offset(first.cast_signed() * dst_step);
                    let src = (first..last).map(|i| src.wrapping_offset(i.cast_signed() * src_step));
                    dispatch(Rows { bytes: extent * size, dst, dst_step, src });
                }
            });
        }
        [outer @ .., Dim { extent, strides: [d, s] }] => {
            // Rows may be short, so this function loops over them instead of `for_each_index`.
            let (outer, rows) = innermost(outer);
            for_each_index(outer, |index| {
                for i in 0..rows.extent.cast_signed() {
                    let from = [index[0] + i * rows.strides[0], index[1] + i * rows.strides[1]];
                    let mut done = 0;
                    while done < *extent {
                        let n = STRETCH.min(extent - done);
                        let first = done.cast_signed();
                        let (dst, src) = at([from[0] + first * d, from[1] + first * s]);
                        pace.step(n);
                        // SAFETY: the caller guarantees an element at every index of `dims`.
                        unsafe { line(size, n, dst, d * width, src, s * width) };
                        done += n;
                    }
                }
            });
        }
        // SAFETY: without dimensions there is one element.
        [] => unsafe { ptr::copy_nonoverlapping(src, dst, size) },
    }
}

/// Copies the run of `run` elements at each index in `at` to `out`, one after another. Neighbouring indices are `step`
/// elements apart.
///
/// # Safety
///
/// There is a run of elements of `size` bytes at each index after `base`, and `out` has room for all runs.
pub(crate) unsafe fn pick(at: &[usize], run: usize, size: usize, base: *const u8, step: isize, out: *mut u8) {
    /// # Safety
    ///
    /// Same as for [`pick`], with runs that are as long as a value of type `T`; the step is in bytes.
    unsafe fn each<T: Copy>(at: &[usize], base: *const u8, step: isize, out: *mut u8) {
        let out = out.cast::<T>();
        for (i, &at) in at.iter().enumerate() {
            // SAFETY: the caller guarantees a run at each index, and no access here needs an alignment.
            unsafe {
                let run = base.offset(at.cast_signed() * step).cast::<T>();
                out.add(i).write_unaligned(run.read_unaligned());
            }
        }
    }
    let (bytes, step) = (run * size, step * size.cast_signed());
    // SAFETY: this function has the same contract.
    unsafe {
        match bytes {
            1 => each::<u8>(at, base, step, out),
            2 => each::<u16>(at, base, step, out),
            4 => each::<u32>(at, base, step, out),
            8 => each::<u64>(at, base, step, out),
            16 => each::<u128>(at, base, step, out),
            _ if (1..=SHORT).contains(&bytes) => {
                let src = at.iter().map(|&at| base.wrapping_offset(at.cast_signed() * step));
                dispatch(Rows { bytes, dst: out, dst_step: bytes.cast_signed(), src });
            }
            _ => {
                for (i, &at) in at.iter().enumerate() {
                    let from = base.offset(at.cast_signed() * step);
                    ptr::copy_nonoverlapping(from, out.add(i * bytes), bytes);
                }
            }
        }
    }
}

/// The minimum number of columns that makes a loop over columns efficient.
pub(crate) const COLUMNS: usize = 64;

/// Copies the element at each index in `at` of each row to `out`, one after another. Neighbouring rows are `row`
/// elements apart, and neighbouring indices are `step` elements apart. For [`COLUMNS`] indices or more, calling
/// [`pick`] for each row is equally fast.
///
/// # Safety
///
/// There is an element of `size` bytes at each index of each row, and `out` has room for all elements.
pub(crate) unsafe fn pick_columns(
    at: &[usize],
    [rows, size]: [usize; 2],
    base: *const u8,
    [row, step]: [isize; 2],
    out: *mut u8,
) {
    /// # Safety
    ///
    /// Same as for [`pick_columns`], with elements of type `T`.
    unsafe fn each<T: Copy>(
        at: &[usize],
        rows: usize,
        base: *const u8,
        [row, step]: [isize; 2],
        out: *mut u8,
    ) {
        /// The number of elements of the rows that are copied together. They stay in the cache until all columns are
        /// written.
        const NEAR: usize = 1 << 12;
        let (base, out, columns) = (base.cast::<T>(), out.cast::<T>(), at.len());
        let mut pace = Pace::new();
        let together = (NEAR / columns.max(1)).max(1);
        for first in (0..rows).step_by(together) {
            let last = rows.min(first + together);
            pace.step((last - first) * columns);
            // The loop over rows is the inner one, because there are more rows than columns.
            for (column, &at) in at.iter().enumerate() {
                let base = base.wrapping_offset(at.cast_signed() * step);
                let out = out.wrapping_add(column);
                for i in first..last {
                    // SAFETY: the caller guarantees an element of each row, and no access here needs an alignment.
                    unsafe {
                        let x = base.offset(i.cast_signed() * row).read_unaligned();
                        out.add(i * columns).write_unaligned(x);
                    }
                }
            }
        }
    }
    // SAFETY: this function has the same contract.
    unsafe {
        match size {
            1 => each::<u8>(at, rows, base, [row, step], out),
            2 => each::<u16>(at, rows, base, [row, step], out),
            4 => each::<u32>(at, rows, base, [row, step], out),
            8 => each::<u64>(at, rows, base, [row, step], out),
            _ => each::<u128>(at, rows, base, [row, step], out),
        }
    }
}

#[cfg(test)]
#[expect(clippy::indexing_slicing, reason = "tests")]
mod tests {
    use super::*;
    use crate::level::{at, levels};

    #[test]
    fn runs_of_any_length_move_to_their_places() {
        for size in [1, 2, 4, 8, 16] {
            for run in [1, 2, 3, 4, 5, 8, 16, 17, 67, 300] {
                for gap in [0, 1, 2, run] {
                    for [rows, cols] in [[3, 5], [2, 40], [33, 1], [19, 18]] {
                        let row = run + gap;
                        let src: Vec<u8> =
                            (0..rows * cols * row * size).map(|i| (i * 31 % 251) as u8).collect();
                        let strides = |list: [usize; 2]| list.map(usize::cast_signed);
                        let dims = [
                            Dim { extent: rows, strides: strides([cols * run, row]) },
                            Dim { extent: cols, strides: strides([run, rows * row]) },
                            Dim { extent: run, strides: [1, 1] },
                        ];
                        let mut want = Vec::new();
                        for (i, j) in (0..rows).flat_map(|i| (0..cols).map(move |j| (i, j))) {
                            let first = (j * rows + i) * row * size;
                            want.extend_from_slice(&src[first..first + run * size]);
                        }
                        for level in levels() {
                            let mut dst = vec![0u8; want.len()];
                            // SAFETY: both vectors have an element at every index of the dimensions.
                            at(level, || unsafe { copy(&dims, size, dst.as_mut_ptr(), src.as_ptr()) });
                            assert_eq!(dst, want, "{level:?} {size} {run} {gap} {rows} {cols}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn an_element_is_repeated() {
        for size in [1, 2, 4, 8, 16] {
            for n in [0, 1, 2, 63, 64, 65, 200] {
                let element: Vec<u8> = (0..size as u8).map(|i| i + 1).collect();
                for level in levels() {
                    let mut dst = vec![0u8; n * size + 1];
                    let (out, step) = (dst.as_mut_ptr(), size.cast_signed());
                    // SAFETY: there is room for all copies.
                    at(level, || unsafe { line(size, n, out, step, element.as_ptr(), 0) });
                    assert_eq!(dst.pop(), Some(0), "wrote behind the copies");
                    assert_eq!(dst, element.repeat(n), "{level:?} {size} {n}");
                }
            }
        }
    }

    #[test]
    fn picked_runs_come_in_the_order_of_their_indices() {
        for size in [1, 2, 4, 8, 16] {
            for run in [1, 2, 3, 5, 7, 9, 16, 21, 70, 300] {
                let (count, step) = (9, run + 2);
                let src: Vec<u8> = (0..count * step * size).map(|i| (i * 31 % 251) as u8).collect();
                for picks in [&[][..], &[4], &[8, 0, 3, 3, 7]] {
                    let runs = picks.iter().map(|at| &src[at * step * size..][..run * size]);
                    let want: Vec<u8> = runs.flatten().copied().collect();
                    for level in levels() {
                        let mut out = vec![0u8; want.len() + 1];
                        let (base, step) = (src.as_ptr(), step.cast_signed());
                        // SAFETY: the source has a run at each index, and there is room for all of them.
                        at(level, || unsafe { pick(picks, run, size, base, step, out.as_mut_ptr()) });
                        assert_eq!(out.pop(), Some(0), "wrote behind the runs");
                        assert_eq!(out, want, "{level:?} {size} {run} {picks:?}");
                    }
                }
            }
        }
    }

    /// Returns all orders of the numbers below `count`.
    fn orders(count: usize) -> Vec<Vec<usize>> {
        if count == 0 {
            return vec![Vec::new()];
        }
        let longer = |shorter: Vec<usize>| {
            (0..count).map(move |at| {
                let mut order = shorter.clone();
                order.insert(at, count - 1);
                order
            })
        };
        orders(count - 1).into_iter().flat_map(longer).collect()
    }

    #[test]
    fn dimensions_in_any_order_move_to_their_places() {
        let shapes: [&[usize]; 5] = [&[2, 3, 9, 4, 17], &[3, 10, 2, 8], &[2, 700, 3], &[1, 1], &[12, 0, 2]];
        for (shape, size) in shapes.into_iter().flat_map(|shape| [1, 2, 4, 8, 16].map(|size| (shape, size))) {
            let count: usize = shape.iter().product();
            let src: Vec<u8> = (0..count * size).map(|i| (i * 31 % 251) as u8).collect();
            for order in orders(shape.len()) {
                let stride = |axis: usize| shape[axis + 1..].iter().product::<usize>();
                let mut dims: Vec<Dim<2>> = Vec::new();
                let mut step = 1;
                for &axis in order.iter().rev() {
                    let strides = [step, stride(axis)].map(usize::cast_signed);
                    dims.insert(0, Dim { extent: shape[axis], strides });
                    step *= shape[axis];
                }
                let mut want = Vec::new();
                for mut at in 0..count {
                    let mut from = 0;
                    for &axis in order.iter().rev() {
                        from += at % shape[axis] * stride(axis);
                        at /= shape[axis];
                    }
                    want.extend_from_slice(&src[from * size..][..size]);
                }
                for level in levels() {
                    let mut dst = vec![0u8; want.len()];
                    // SAFETY: both vectors have an element at every index of the dimensions.
                    at(level, || unsafe { copy(&dims, size, dst.as_mut_ptr(), src.as_ptr()) });
                    assert_eq!(dst, want, "{level:?} {size} {shape:?} {order:?}");
                }
            }
        }
    }
}
