//! Walks operands of any layout and passes contiguous runs of them to a loop.
//!
//! Broadcast and strided operands are copied to small buffers on the stack, so that each loop is compiled once, for
//! contiguous memory. The copies stay in the first-level cache. A buffer holds many short rows, because a call of the
//! loop for each row would cost more than its elements. Only the size of elements matters here, so that this code is
//! compiled once for each number of operands.

use super::element_loop::Kernel;
use super::moves::line;
use super::{Shared, transpose};
use crate::layout::{Dim, for_each_index};
use crate::pace::{self, Pace};
use crate::threads::{self, Units};
use std::mem::MaybeUninit;

/// The number of parts for each thread. There are several, so that a thread that starts late takes fewer.
pub(crate) const PARTS: usize = 4;

/// The divisor of the grain while threads are awake, because sharing work then costs less.
const AWAKE: usize = 4;
/// The multiplier of the grain while threads sleep, because waking them costs more.
const ASLEEP: usize = 4;

/// The number of grains of work between checks whether the run must end. They take a few milliseconds.
const LOOK: usize = 64;

/// Divides `n` units among threads if they cost at least `2 * grain` in total.
///
/// `weight` is the cost of one unit, in the same measure as `grain`. Less work is enough while threads are awake, and
/// more is needed while they sleep. `f` is called once for each half-open range of units.
pub(crate) fn split(n: usize, weight: usize, grain: usize, f: impl Fn(usize, usize) + Sync) {
    split_into(PARTS, n, weight, grain, &f);
}

/// Divides units as [`split`] does, into `each` parts for each thread.
pub(crate) fn split_into(
    each: usize,
    n: usize,
    weight: usize,
    grain: usize,
    f: &(dyn Fn(usize, usize) + Sync),
) {
    if let Some(threads) = threads::forced() {
        return in_parts(n, threads * each, f);
    }
    let total = n.saturating_mul(weight);
    // Long work is divided into more parts than threads need, because a thread checks before each part whether the run
    // must end.
    let stretch = grain.saturating_mul(LOOK).max(1);
    let looks = if total > stretch { total / stretch } else { 0 };
    let least = (grain / AWAKE).max(1);
    let count = if n < 2 || total / 2 < least { 1 } else { threads::count() };
    if count < 2 {
        return in_parts(n, looks, f);
    }
    let asleep = grain.saturating_mul(ASLEEP).max(1);
    let most = n.min(total / if threads::warm() { least } else { asleep });
    let count = count.min(most);
    if count < 2 {
        in_parts(n, looks, f);
        return threads::worked();
    }
    let parts = most.min((count * each).max(looks));
    let units = Units::new(parts, count);
    threads::share(count, &|| {
        units.each(|part| {
            if looks > 0 {
                pace::look();
            }
            f(boundary(n, parts, part), boundary(n, parts, part + 1));
        });
    });
    threads::worked();
}

/// Returns the first unit of a part, if `n` units are divided into `parts` parts.
fn boundary(n: usize, parts: usize, part: usize) -> usize {
    match threads::edge(n, parts, part) {
        // Boundaries on multiples of 64 keep threads out of each other's cache lines.
        at if n / parts > 256 && part < parts => at & !63,
        at => at,
    }
}

/// Calls `f` for `n` units on this thread, in up to `looks` parts. Checks before each part whether the run must end.
fn in_parts(n: usize, looks: usize, f: &(dyn Fn(usize, usize) + Sync)) {
    if looks == 0 {
        return f(0, n);
    }
    let parts = n.min(looks).max(1);
    for part in 0..parts {
        pace::look();
        f(boundary(n, parts, part), boundary(n, parts, part + 1));
    }
}

/// One operand of a plane: element `(i, j)` is `i * row + j * col` bytes after `ptr`.
#[derive(Debug, Clone, Copy)]
struct PlaneOperand {
    ptr: *const u8,
    row: isize,
    col: isize,
    /// The size of an element in bytes.
    size: usize,
}

impl PlaneOperand {
    /// Returns a pointer to element `(i, j)`.
    fn at(&self, i: usize, j: usize) -> *const u8 {
        self.ptr.wrapping_offset(i.cast_signed() * self.row).wrapping_offset(j.cast_signed() * self.col)
    }

    /// Returns the operand whose first element is element `(i, j)` of this one.
    fn from(&self, i: usize, j: usize) -> PlaneOperand {
        PlaneOperand { ptr: self.at(i, j), ..*self }
    }

    /// Returns whether the elements of a row are contiguous.
    fn contiguous(&self) -> bool {
        self.col == self.size.cast_signed()
    }

    /// Returns whether the elements of a block, whose rows have `cols` elements, are contiguous.
    fn dense(&self, [rows, cols]: [usize; 2]) -> bool {
        self.contiguous() && (rows == 1 || self.row == cols.cast_signed() * self.col)
    }

    /// Returns whether a block can be read as a single row.
    fn flat(&self, block: [usize; 2]) -> bool {
        let one = self.col == 0 && (block[0] == 1 || self.row == 0);
        one || self.dense(block)
    }

    /// Copies the first rows and columns to `dst` without gaps.
    ///
    /// # Safety
    ///
    /// The operand has these rows and columns, and `dst` has room for their elements. They do not overlap.
    unsafe fn gather(&self, [rows, cols]: [usize; 2], dst: *mut u8) {
        let &PlaneOperand { ptr, row, col, size } = self;
        let width = size.cast_signed();
        // SAFETY: the caller guarantees that the elements are valid and there is enough room; each copy has its own part of both.
        unsafe {
            if rows > 1 && cols > 1 && row == width && col > 0 {
                // The columns are contiguous, so this is a transposition.
                transpose::transpose(size, cols, rows, dst, cols, ptr, col.unsigned_abs() / size);
            } else if cols < rows {
                let step = cols.cast_signed() * width;
                (0..cols).for_each(|j| line(size, rows, dst.add(j * size), step, self.at(0, j), row));
            } else {
                (0..rows).for_each(|i| {
                    line(size, cols, dst.add(i * cols * size), width, self.at(i, 0), col);
                });
            }
        }
    }
}

/// Writes the results of a kernel for each index of `dims`, one after another.
///
/// # Safety
///
/// Each operand points to an element, of the type that the kernel was chosen for, at every index of `dims`, whose strides are
/// in elements; `out` points to room for a result for each index, and overlaps no operand.
pub(crate) unsafe fn walk<const N: usize>(
    kernel: &Kernel<N>,
    dims: &[Dim<N>],
    out: *mut u8,
    operands: [*const u8; N],
) {
    let one = Dim { extent: 1, strides: [0; N] };
    let (outer, rows, cols) = match dims {
        [] => (dims, one, one),
        [cols] => (&[][..], one, *cols),
        [outer @ .., rows, cols] => (outer, *rows, *cols),
    };
    let sizes = kernel.operands;
    let bytes = |i: usize, strides: [isize; N]| {
        strides.get(i).copied().unwrap_or(0) * sizes.get(i).map_or(0, |s| s.cast_signed())
    };
    let plane: [PlaneOperand; N] = std::array::from_fn(|i| PlaneOperand {
        ptr: operands.get(i).copied().unwrap_or_default(),
        row: bytes(i, rows.strides),
        col: bytes(i, cols.strides),
        size: sizes.get(i).copied().unwrap_or(0),
    });
    let extents = [rows.extent, cols.extent];
    if outer.is_empty() {
        // SAFETY: the caller guarantees that the elements of this plane are valid and there is enough room.
        return unsafe { walk_plane(kernel, extents, out, plane) };
    }
    let mut out = out;
    let mut pace = Pace::new();
    for_each_index(outer, |at| {
        pace.step(rows.extent * cols.extent);
        let mut operands = plane;
        for (i, operand) in operands.iter_mut().enumerate() {
            operand.ptr = operand.ptr.wrapping_offset(bytes(i, at));
        }
        // SAFETY: the caller guarantees that the elements of this plane are valid; the results are written one after another.
        unsafe { walk_plane(kernel, extents, out, operands) };
        out = out.wrapping_add(rows.extent * cols.extent * kernel.result);
    });
}

/// Writes the results of a kernel for one plane.
///
/// # Safety
///
/// Each operand has elements in `rows` rows and `cols` columns, and `out` points to room for `rows * cols` results.
unsafe fn walk_plane<const N: usize>(
    kernel: &Kernel<N>,
    [rows, cols]: [usize; 2],
    out: *mut u8,
    operands: [PlaneOperand; N],
) {
    if rows == 0 || cols == 0 {
        return;
    }
    let flat = operands.iter().all(|x| x.flat([rows, cols]));
    let [rows, cols] = if flat { [1, rows * cols] } else { [rows, cols] };
    let shared = Shared((out, operands));
    let run = |i: usize, j: usize, block: [usize; 2]| {
        let (out, operands) = shared.get();
        // SAFETY: the block, from element `(i, j)` on, is part of the plane; no other call writes these results.
        unsafe {
            let out = out.add((i * cols + j) * kernel.result);
            walk_rows(kernel, block, out, operands.map(|x| x.from(i, j)));
        }
    };
    if rows == 1 {
        split(cols, 1, kernel.grain, |from, to| run(0, from, [1, to - from]));
    } else {
        split(rows, cols, kernel.grain, |from, to| run(from, 0, [to - from, cols]));
    }
}

/// Writes the results of a kernel for some rows, one after another.
///
/// # Safety
///
/// Each operand has elements in these rows and columns, and `out` points to room for `rows * cols` results.
#[inline]
unsafe fn walk_rows<const N: usize>(
    kernel: &Kernel<N>,
    [rows, cols]: [usize; 2],
    out: *mut u8,
    operands: [PlaneOperand; N],
) {
    if kernel.half.is_none() && rows == 1 && (cols == 1 || operands.iter().all(PlaneOperand::contiguous)) {
        // SAFETY: the elements are contiguous, and the caller guarantees the rest.
        return unsafe { (kernel.run)(out, operands.map(|x| x.ptr), cols) };
    }
    // SAFETY: this function has the same contract.
    unsafe { walk_buffered(kernel, [rows, cols], out, operands) }
}

/// The size of a buffer on the stack, in bytes.
const BUFFER: usize = 4096;

/// Memory for some elements, aligned for vectors.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Buffer(MaybeUninit<[u8; BUFFER]>);

impl Buffer {
    const fn new() -> Buffer {
        Buffer(MaybeUninit::uninit())
    }

    fn ptr(&mut self) -> *mut u8 {
        self.0.as_mut_ptr().cast()
    }
}

/// Writes the results of a kernel for some rows, through buffers.
///
/// # Safety
///
/// As for [`walk_rows`].
unsafe fn walk_buffered<const N: usize>(
    kernel: &Kernel<N>,
    [rows, cols]: [usize; 2],
    out: *mut u8,
    operands: [PlaneOperand; N],
) {
    let mut buffers = [const { Buffer::new() }; N];
    let (mut gathered, mut results) = (Buffer::new(), Buffer::new());
    let widest = operands.iter().map(|x| x.size).max().unwrap_or(1);
    let most = BUFFER / if kernel.half.is_some() { size_of::<f32>() } else { widest };
    // A block is a part of one row, or all whole rows that fit in a buffer. Long contiguous rows are not copied.
    let whole = kernel.half.is_none() && cols > most / 2 && operands.iter().all(PlaneOperand::contiguous);
    let [height, width] = if whole { [1, cols] } else { [(most / cols).clamp(1, rows), cols.min(most)] };
    for i in (0..rows).step_by(height) {
        for j in (0..cols).step_by(width) {
            let block = [height.min(rows - i), width.min(cols - j)];
            let len = block[0] * block[1];
            let mut runs = [std::ptr::null(); N];
            for ((run, x), buffer) in runs.iter_mut().zip(&operands).zip(&mut buffers) {
                let x = x.from(i, j);
                // Whether the buffer already has the elements: the previous block was not smaller, and the operand
                // repeats it.
                let same = match j {
                    0 => i > 0 && x.row == 0 && (x.col == 0 || width == cols),
                    _ => x.col == 0,
                };
                if kernel.half.is_none() && x.dense(block) {
                    *run = x.ptr;
                    continue;
                }
                *run = buffer.ptr();
                if same {
                    continue;
                }
                // SAFETY: the elements of a copied block fit in a buffer, even if they are widened, and the operand has
                // them.
                unsafe {
                    match kernel.half {
                        None => x.gather(block, buffer.ptr()),
                        Some(half) if x.dense(block) => (half.widen)(buffer.ptr(), [x.ptr], len),
                        Some(half) => {
                            x.gather(block, gathered.ptr());
                            (half.widen)(buffer.ptr(), [gathered.ptr()], len);
                        }
                    }
                }
            }
            // SAFETY: the runs are contiguous now, and `out` has room for the results from element `(i, j)` on.
            unsafe {
                let out = out.add((i * cols + j) * kernel.result);
                match kernel.half {
                    None => (kernel.run)(out, runs, len),
                    Some(half) => {
                        (kernel.run)(results.ptr(), runs, len);
                        (half.narrow)(out, [results.ptr()], len);
                    }
                }
            }
        }
    }
}
