//! Walks two-dimensional strided operands and hands contiguous runs to a loop.
//!
//! Broadcast and strided operands are copied to small buffers on the stack, so that each loop is
//! compiled once, for contiguous memory. The copy stays in the first cache.

use super::{Shared, Strided};
use crate::threads;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Elements of a buffer on the stack.
const CHUNK: usize = 512;

type Chunk<T> = [MaybeUninit<T>; CHUNK];

const fn chunk<T: Copy>() -> Chunk<T> {
    [const { MaybeUninit::uninit() }; CHUNK]
}

/// Parts for each thread: one that comes late takes fewer.
pub(crate) const PARTS: usize = 4;

/// How much less work is worth sharing with threads that are awake.
const AWAKE: usize = 4;
/// How much more work is worth waking threads for.
const ASLEEP: usize = 4;

/// Shares `n` units among threads if the whole costs at least `grain` times two.
///
/// `weight` is the cost of one unit in the same measure as `grain`, of which less is enough where threads are awake, and
/// more is needed where they sleep. `f` gets half-open ranges, each once.
pub(crate) fn split(n: usize, weight: usize, grain: usize, f: impl Fn(usize, usize) + Sync) {
    split_into(PARTS, n, weight, grain, f);
}

/// As [`split`], with so many parts for each thread.
pub(crate) fn split_into(
    each: usize,
    n: usize,
    weight: usize,
    grain: usize,
    f: impl Fn(usize, usize) + Sync,
) {
    let total = n.saturating_mul(weight);
    let least = (grain / AWAKE).max(1);
    let count = if n < 2 || total / 2 < least { 1 } else { threads::count() };
    if count < 2 {
        return f(0, n);
    }
    let asleep = grain.saturating_mul(ASLEEP).max(1);
    let most = n.min(total / if threads::warm() { least } else { asleep });
    let count = count.min(most);
    if count < 2 {
        f(0, n);
        return threads::worked();
    }
    let parts = most.min(count * each);
    let (whole, rest) = (n / parts, n % parts);
    let start = |part: usize| match whole * part + rest * part / parts {
        // Boundaries on multiples of 64 keep threads out of each other's cache lines.
        at if whole > 256 && part < parts => at & !63,
        at => at,
    };
    let next = AtomicUsize::new(0);
    threads::share(count, &|| {
        loop {
            let part = next.fetch_add(1, Ordering::Relaxed);
            if part >= parts {
                return;
            }
            f(start(part), start(part + 1));
        }
    });
    threads::worked();
}

/// One operand of a walk, with the buffer that makes it contiguous.
struct Run<'a, T> {
    ptr: *const T,
    col: isize,
    copy: bool,
    buffer: &'a mut Chunk<T>,
}

impl<T: Copy> Run<'_, T> {
    /// Returns a pointer to `n` contiguous elements that begin at column `at`.
    ///
    /// # Safety
    ///
    /// The columns lie in the operand's allocation, and `n <= CHUNK` where a copy is needed.
    unsafe fn get(&mut self, at: usize, n: usize) -> *const T {
        if !self.copy {
            return self.ptr.wrapping_add(at);
        }
        if self.col == 0 {
            if at == 0 {
                // SAFETY: the operand has at least one column.
                let value = unsafe { *self.ptr };
                for slot in self.buffer.iter_mut().take(n) {
                    slot.write(value);
                }
            }
        } else {
            for (j, slot) in self.buffer.iter_mut().take(n).enumerate() {
                // SAFETY: as above.
                slot.write(unsafe { *self.ptr.offset((at + j) as isize * self.col) });
            }
        }
        self.buffer.as_ptr().cast()
    }
}

/// Whether all elements follow each other, or are one.
fn flat<T>(x: &Strided<T>, [rows, cols]: [usize; 2]) -> bool {
    if rows == 1 {
        return x.col == 0 || x.col == 1;
    }
    (x.row == 0 && x.col == 0) || (x.col == 1 && x.row == cols as isize)
}

/// Calls `f(out, a, n)` on runs that cover `dims`.
///
/// # Safety
///
/// The operands cover `dims`; `out` has room for `rows * cols` elements and is either disjoint from
/// `a` or the same dense memory with elements of the same size. `f` accepts any such run.
pub(crate) unsafe fn map<T: Copy, U: Copy>(
    dims: [usize; 2],
    out: *mut U,
    a: Strided<T>,
    grain: usize,
    f: impl Fn(*mut U, *const T, usize) + Sync,
) {
    // SAFETY: the second operand is the first again, and ignored.
    unsafe {
        zip(dims, out, a, Strided::scalar(a.ptr), grain, |out, a, _: *const T, n| f(out, a, n), false);
    }
}

/// Calls `f(out, a, b, n)` on runs that cover `dims`.
///
/// # Safety
///
/// As for [`map`], for both operands. `f` does not read `b` unless `reads_b`.
pub(crate) unsafe fn zip<T: Copy, V: Copy, U: Copy>(
    dims: [usize; 2],
    out: *mut U,
    a: Strided<T>,
    b: Strided<V>,
    grain: usize,
    f: impl Fn(*mut U, *const T, *const V, usize) + Sync,
    reads_b: bool,
) {
    let [rows, cols] = dims;
    if rows == 0 || cols == 0 {
        return;
    }
    let flat = flat(&a, dims) && (!reads_b || flat(&b, dims));
    let [rows, cols] = if flat { [1, rows * cols] } else { dims };
    let shared = Shared((out, a, b));
    let run = |i: usize, from: usize, to: usize| {
        let (out, a, b) = shared.get();
        // SAFETY: row `i` and columns `from..to` lie in the operands; each call writes its own part.
        unsafe {
            let (a, b) = (a.at_row(i), b.at_row(i));
            row(
                to - from,
                out.add(i * cols + from),
                (a.ptr.offset(from as isize * a.col), a.col),
                (b.ptr.offset(from as isize * b.col), b.col),
                &f,
                reads_b,
            );
        }
    };
    if rows == 1 {
        split(cols, 1, grain, |from, to| run(0, from, to));
    } else {
        split(rows, cols, grain, |from, to| {
            for i in from..to {
                run(i, 0, cols);
            }
        });
    }
}

/// Walks one row.
///
/// # Safety
///
/// As for [`zip`].
#[inline]
unsafe fn row<T: Copy, V: Copy, U: Copy>(
    n: usize,
    out: *mut U,
    (a, a_col): (*const T, isize),
    (b, b_col): (*const V, isize),
    f: &impl Fn(*mut U, *const T, *const V, usize),
    reads_b: bool,
) {
    // A loop assumes that its output is no input, so an operand computed in place is copied.
    let copy_a = (a_col != 1 && n > 1) || a.addr() == out.addr();
    let copy_b = reads_b && ((b_col != 1 && n > 1) || b.addr() == out.addr());
    if !copy_a && !copy_b {
        return f(out, a, b, n);
    }
    // SAFETY: this function's contract.
    unsafe { row_copied(n, out, (a, a_col, copy_a), (b, b_col, copy_b), f) }
}

/// Walks one row through buffers.
///
/// # Safety
///
/// As for [`zip`].
unsafe fn row_copied<T: Copy, V: Copy, U: Copy>(
    n: usize,
    out: *mut U,
    (a, a_col, copy_a): (*const T, isize, bool),
    (b, b_col, copy_b): (*const V, isize, bool),
    f: &impl Fn(*mut U, *const T, *const V, usize),
) {
    let (mut buffer_a, mut buffer_b) = (chunk(), chunk());
    let mut a = Run { ptr: a, col: a_col, copy: copy_a, buffer: &mut buffer_a };
    let mut b = Run { ptr: b, col: b_col, copy: copy_b, buffer: &mut buffer_b };
    let mut at = 0;
    while at < n {
        let len = CHUNK.min(n - at);
        // SAFETY: the run lies in the row, and `len` fits the buffers.
        unsafe { f(out.add(at), a.get(at, len), b.get(at, len), len) };
        at += len;
    }
}
