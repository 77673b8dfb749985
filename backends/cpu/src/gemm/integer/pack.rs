//! The right operand of integer products, packed in panels.

use std::ops::Range;
use std::sync::Arc;

use super::left::{Bytes, Ints};
use super::quads::{QuadKernels, kernels};
use crate::error::Result;
use crate::gemm::Strided;
use crate::kernels::dispatch::{VectorLoop, dispatch};
use crate::kernels::{Shared, walk};
use crate::pool::{Block, Pool};

/// The right operand.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Right<'a> {
    /// A matrix.
    Strided(Strided<u8>, Bytes),
    /// Contiguous rows that begin at these offsets from a pointer, in bytes.
    Lines(*const u8, &'a [usize], Bytes),
    /// Panels that were packed before.
    Packed(&'a Packed),
}

/// A right operand in panels, with the sums of its columns.
#[derive(Debug)]
pub(crate) struct Packed {
    panels: Block,
    /// The distance from a panel to the next one, in bytes.
    size: usize,
    sums: Ints,
    /// The number of columns of a panel.
    width: usize,
}

// SAFETY: nothing writes the panels after they are packed.
unsafe impl Send for Packed {}
// SAFETY: nothing writes the panels after they are packed.
unsafe impl Sync for Packed {}

impl Packed {
    /// Packs an operand of `k` rows and `n` columns.
    ///
    /// # Errors
    ///
    /// [`CpuError::Memory`](crate::CpuError::Memory) if the system has no memory left.
    ///
    /// # Safety
    ///
    /// The operand has `k` rows and `n` columns.
    pub(crate) unsafe fn new(pool: &Arc<Pool>, [k, n]: [usize; 2], right: &Right<'_>) -> Result<Packed> {
        let kernels = kernels();
        let width = kernels.panel();
        let size = distance(kernels, k);
        let panels = pool.take(size.saturating_mul(n.div_ceil(width)))?;
        let shared = Shared((right, panels.ptr()));
        walk::split(n.div_ceil(width), size, 1 << 18, |from, to| {
            let (right, panels) = shared.get();
            let (first, end) = (from * width, n.min(to * width));
            // SAFETY: the operand has these columns, and the block has room for each panel.
            unsafe {
                right.panels(kernels, k, first..end, || panels.add(from * size));
            }
        });
        let signed = match right {
            Right::Strided(_, bytes) | Right::Lines(_, _, bytes) => bytes.signed,
            Right::Packed(_) => true,
        };
        let block = pool.take(n.saturating_mul(4))?;
        let to = block.ptr().cast::<i32>();
        for panel in 0..n.div_ceil(width) {
            let first = panel * width;
            // SAFETY: the panels have been written, and the block has room for the sums of all columns.
            unsafe {
                let (bytes, size) = (panels.ptr().add(panel * size), kernels.depth(k) * width);
                let sums = std::slice::from_raw_parts_mut(to.add(first), width.min(n - first));
                macro_rules! add {
                    ($word:ty, $beside:literal) => {{
                        let words =
                            std::slice::from_raw_parts(bytes.cast::<$word>(), size / size_of::<$word>());
                        dispatch(PanelColumns::<_, $beside> { words, width, k, signed, sums });
                    }};
                }
                match kernels.group {
                    1 => add!(u8, 1),
                    2 => add!(u16, 1),
                    8 => add!(u32, 2),
                    _ => add!(u32, 1),
                }
            }
        }
        let sums = Ints(Some((block, n)));
        Ok(Packed { panels, size, sums, width })
    }

    /// Returns a panel.
    pub(super) fn panel(&self, i: usize) -> *const u8 {
        self.panels.ptr().wrapping_add(i * self.size)
    }

    /// Returns the sums of the columns.
    pub(crate) fn sums(&self) -> &[i32] {
        &self.sums
    }

    /// Returns the size of the packed operand in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let sums = self.sums.len();
        self.size * sums.div_ceil(self.width.max(1)) + 4 * sums
    }
}

/// Returns the distance from a panel to the next one, in bytes. A cache line of padding separates panels, because
/// panels at multiples of 4096 bytes would compete for the same cache lines while they are written together.
pub(super) fn distance(kernels: &QuadKernels, k: usize) -> usize {
    kernels.depth(k) * kernels.panel() + 64
}

impl Right<'_> {
    /// Returns the sums of columns, from column `col` on, if they are known.
    pub(super) fn sums(&self, col: usize) -> Option<&[i32]> {
        match self {
            Right::Packed(packed) => packed.sums.get(col..),
            _ => None,
        }
    }

    /// Returns the panels of the columns `cols`, which start at a panel boundary. If the operand is not packed, the
    /// panels are written to `room`.
    ///
    /// # Safety
    ///
    /// The operand has `k` rows and these columns. `room` has memory for the panels.
    pub(super) unsafe fn panels(
        &self,
        kernels: &QuadKernels,
        k: usize,
        cols: Range<usize>,
        room: impl FnOnce() -> *mut u8,
    ) -> *const u8 {
        let col = cols.start;
        // SAFETY: this function has the same contract.
        unsafe {
            match *self {
                Right::Packed(packed) => {
                    debug_assert_eq!(packed.width, kernels.panel());
                    packed.panels.ptr().add(col / packed.width * packed.size)
                }
                Right::Lines(base, offsets, bytes) => {
                    let to = room();
                    let line = |p: usize| base.wrapping_add(offsets.get(p).copied().unwrap_or(0) + col);
                    interleave(kernels, k, cols.len(), bytes, line, to);
                    to
                }
                Right::Strided(b, bytes) => {
                    let to = room();
                    let b = Strided { ptr: b.ptr.offset(col.cast_signed() * b.col), ..b };
                    if b.col == 1 {
                        let line = |p: usize| b.ptr.wrapping_offset(p.cast_signed() * b.row);
                        interleave(kernels, k, cols.len(), bytes, line, to);
                    } else {
                        gather(kernels, k, cols.len(), bytes, b, to);
                    }
                    to
                }
            }
        }
    }
}

/// A loop that computes the sums of a panel's columns.
struct PanelColumns<'a, W, const BESIDE: usize> {
    /// The panel: each word has some bytes of a column, and `BESIDE` words of a column are adjacent.
    words: &'a [W],
    width: usize,
    /// The number of rows. The bytes after them are ignored.
    k: usize,
    signed: bool,
    sums: &'a mut [i32],
}

impl<W: Copy + Into<u32>, const BESIDE: usize> VectorLoop for PanelColumns<'_, W, BESIDE> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let PanelColumns { words, width, k, signed, sums } = self;
        // A signed byte equals the unsigned byte with its top bit flipped, minus 128.
        let (flip, moved) = if signed { (0x8080_8080, 128 * k.cast_signed() as i32) } else { (0, 0) };
        sums.fill(0i32.wrapping_sub(moved));
        let (words, _) = words.as_chunks::<BESIDE>();
        for (p, words) in words.chunks(width).enumerate() {
            let masks: [u32; BESIDE] = std::array::from_fn(|i| {
                match k.saturating_sub(size_of::<W>() * (p * BESIDE + i)).min(size_of::<W>()) {
                    0 => 0,
                    1 => 0xff,
                    2 => 0xffff,
                    3 => 0x00ff_ffff,
                    _ => u32::MAX,
                }
            });
            for (sum, words) in sums.iter_mut().zip(words) {
                for (&word, mask) in words.iter().zip(masks) {
                    let word = (word.into() ^ flip) & mask;
                    let pairs = (word & 0x00ff_00ff) + (word >> 8 & 0x00ff_00ff);
                    *sum = sum.wrapping_add(((pairs & 0xffff) + (pairs >> 16)).cast_signed());
                }
            }
        }
    }
}

/// A loop that packs rows with contiguous columns. `GROUP` bytes of a column are adjacent in a panel.
struct Lines<F, const GROUP: usize> {
    k: usize,
    cols: usize,
    /// The number of columns of a panel, and the distance from a panel to the next one in words.
    width: usize,
    distance: usize,
    mask: u32,
    line: F,
    to: *mut u32,
}

/// The number of columns that are packed in one step.
const AT_ONCE: usize = 16;

impl<F: Fn(usize) -> *const u8, const GROUP: usize> VectorLoop for Lines<F, GROUP> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        if GROUP == 8 { self.taken::<2>() } else { self.taken::<1>() }
    }
}

impl<F: Fn(usize) -> *const u8, const GROUP: usize> Lines<F, GROUP> {
    /// Packs `FOURS` groups of four rows per iteration.
    #[inline(always)]
    fn taken<const FOURS: usize>(self) {
        let Lines { k, cols, width, distance, mask, line, to } = self;
        for p in (0..k).step_by(4 * FOURS) {
            // The last row is repeated after the end, where the left operand has zeros.
            let mut fours = [[std::ptr::null(); 4]; FOURS];
            for (rows, p) in fours.iter_mut().zip((p..).step_by(4)) {
                for (row, p) in rows.iter_mut().zip(p..) {
                    *row = line(p.min(k - 1));
                }
            }
            let to = to.wrapping_add(p / 4 * width);
            // Most panels are whole, so they have a separate loop.
            let panels = if width.is_multiple_of(AT_ONCE) { cols / width } else { 0 };
            for panel in 0..panels {
                let to = to.wrapping_add(panel * distance);
                for j in (0..width).step_by(AT_ONCE) {
                    let columns = panel * width + j;
                    let fours = ahead(fours, columns);
                    // SAFETY: the users of this loop guarantee that the columns are valid and there is enough room.
                    unsafe { transposed::<GROUP, FOURS>(fours, mask, to, j, width) };
                }
            }
            for first in (panels * width..cols).step_by(width) {
                let to = to.wrapping_add(first / width * distance);
                let fours = ahead(fours, first);
                let cols = width.min(cols - first);
                let whole = cols / AT_ONCE * AT_ONCE;
                for j in (0..whole).step_by(AT_ONCE) {
                    let fours = ahead(fours, j);
                    // SAFETY: the users of this loop guarantee that the columns are valid and there is enough room.
                    unsafe { transposed::<GROUP, FOURS>(fours, mask, to, j, width) };
                }
                for j in whole..cols {
                    for (i, rows) in fours.iter().enumerate() {
                        // SAFETY: as above.
                        unsafe {
                            let word = u32::from_ne_bytes(rows.map(|row| *row.add(j)));
                            put::<GROUP>(to, i, j, width, word ^ mask);
                        }
                    }
                }
            }
        }
    }
}

/// Skips some columns of the rows. This is a loop, because array methods that take closures would be calls, compiled
/// without the instruction set.
#[inline(always)]
fn ahead<const FOURS: usize>(mut fours: [[*const u8; 4]; FOURS], columns: usize) -> [[*const u8; 4]; FOURS] {
    for rows in &mut fours {
        for row in rows {
            *row = row.wrapping_add(columns);
        }
    }
    fours
}

/// Writes four bytes of column `j` to a panel of `width` columns, whose words for these rows begin at `to`. If eight
/// bytes are adjacent, `half` selects the first or the second four; otherwise it is 0.
///
/// # Safety
///
/// `to` has room for `width` words, or for `2 * width` if eight bytes are adjacent, and `j` is below `width`.
#[inline(always)]
unsafe fn put<const GROUP: usize>(to: *mut u32, half: usize, j: usize, width: usize, word: u32) {
    // SAFETY: this function has the same contract.
    unsafe {
        match GROUP {
            1 => {
                for (i, byte) in word.to_ne_bytes().into_iter().enumerate() {
                    to.cast::<u8>().add(i * width + j).write(byte);
                }
            }
            2 => {
                let [a, b, c, d] = word.to_ne_bytes();
                let to = to.cast::<[u8; 2]>();
                to.add(j).write([a, b]);
                to.add(width + j).write([c, d]);
            }
            4 => to.add(j).write(word),
            _ => to.add(2 * j + half).write(word),
        }
    }
}

/// Writes the bytes of [`AT_ONCE`] columns from `j` on, in the layout of [`put`].
///
/// # Safety
///
/// Each row has [`AT_ONCE`] bytes, and `to` has room for `width` words for each four rows, which are enough for these columns.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn transposed<const GROUP: usize, const FOURS: usize>(
    fours: [[*const u8; 4]; FOURS],
    mask: u32,
    to: *mut u32,
    j: usize,
    width: usize,
) {
    use std::arch::x86_64::*;
    // On x86-64, `GROUP` is 2 or 4.
    for [a, b, c, d] in fours {
        // SAFETY: this function has the same contract, and every processor of the target has the instructions.
        unsafe {
            let (a, b) = (_mm_loadu_si128(a.cast()), _mm_loadu_si128(b.cast()));
            let (c, d) = (_mm_loadu_si128(c.cast()), _mm_loadu_si128(d.cast()));
            let mask = _mm_set1_epi32(mask.cast_signed());
            let put = |to: *mut u32, words| _mm_storeu_si128(to.cast(), _mm_xor_si128(words, mask));
            let (ab, cd) = (_mm_unpacklo_epi8(a, b), _mm_unpacklo_epi8(c, d));
            let (ab_high, cd_high) = (_mm_unpackhi_epi8(a, b), _mm_unpackhi_epi8(c, d));
            if GROUP == 2 {
                // A vector has the pairs of eight columns, which are as large as four words.
                let (first, second) = (to.add(j / 2), to.add((width + j) / 2));
                put(first, ab);
                put(first.add(4), ab_high);
                put(second, cd);
                put(second.add(4), cd_high);
            } else {
                let to = to.add(j);
                put(to, _mm_unpacklo_epi16(ab, cd));
                put(to.add(4), _mm_unpackhi_epi16(ab, cd));
                put(to.add(8), _mm_unpacklo_epi16(ab_high, cd_high));
                put(to.add(12), _mm_unpackhi_epi16(ab_high, cd_high));
            }
        }
    }
}

/// Writes the bytes of [`AT_ONCE`] columns from `j` on, in the layout of [`put`].
///
/// # Safety
///
/// Each row has [`AT_ONCE`] bytes, and `to` has room for `width` words for each four rows, which are enough for these columns.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
unsafe fn transposed<const GROUP: usize, const FOURS: usize>(
    fours: [[*const u8; 4]; FOURS],
    mask: u32,
    to: *mut u32,
    j: usize,
    width: usize,
) {
    use std::arch::aarch64::*;
    // SAFETY: this function has the same contract, and every processor of the target has the instructions.
    unsafe {
        let mask = vreinterpretq_u8_u32(vdupq_n_u32(mask));
        let read = fours.map(|rows| rows.map(|row| veorq_u8(vld1q_u8(row), mask)));
        if let ([first], 1) = (&read[..], GROUP) {
            for (i, &row) in first.iter().enumerate() {
                vst1q_u8(to.cast::<u8>().add(i * width + j), row);
            }
        } else if let [[a, b, c, d]] = read[..] {
            // The instruction interleaves the bytes of the four registers.
            vst4q_u8(to.add(j).cast(), uint8x16x4_t(a, b, c, d));
        } else if let [first, second] = &read[..] {
            let to = to.add(2 * j);
            // Returns the words of four rows. Each register has the words of four columns.
            let words = |[a, b, c, d]: [uint8x16_t; 4]| {
                let pairs =
                    |x, y| [vreinterpretq_u16_u8(vzip1q_u8(x, y)), vreinterpretq_u16_u8(vzip2q_u8(x, y))];
                let [[ab, ab_high], [cd, cd_high]] = [pairs(a, b), pairs(c, d)];
                let low = [vzip1q_u16(ab, cd), vzip2q_u16(ab, cd)];
                let [x, y] = low.map(|x| vreinterpretq_u32_u16(x));
                let high = [vzip1q_u16(ab_high, cd_high), vzip2q_u16(ab_high, cd_high)];
                let [z, w] = high.map(|x| vreinterpretq_u32_u16(x));
                [x, y, z, w]
            };
            for (i, (x, y)) in words(*first).into_iter().zip(words(*second)).enumerate() {
                vst1q_u32(to.add(8 * i), vzip1q_u32(x, y));
                vst1q_u32(to.add(8 * i + 4), vzip2q_u32(x, y));
            }
        }
    }
}

/// Writes the bytes of [`AT_ONCE`] columns from `j` on, in the layout of [`put`].
///
/// # Safety
///
/// Each row has [`AT_ONCE`] bytes, and `to` has room for `width` words for each four rows, which are enough for these columns.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
#[inline(always)]
unsafe fn transposed<const GROUP: usize, const FOURS: usize>(
    fours: [[*const u8; 4]; FOURS],
    mask: u32,
    to: *mut u32,
    j: usize,
    width: usize,
) {
    for (half, rows) in fours.into_iter().enumerate() {
        // SAFETY: this function has the same contract.
        unsafe {
            let [a, b, c, d] = rows.map(|row| row.cast::<[u8; AT_ONCE]>().read());
            let all = a.into_iter().zip(b).zip(c.into_iter().zip(d));
            for (j, ((a, b), (c, d))) in (j..).zip(all) {
                put::<GROUP>(to, half, j, width, u32::from_ne_bytes([a, b, c, d]) ^ mask);
            }
        }
    }
}

/// Calls a function that is generic over the number of adjacent bytes of a column.
macro_rules! by_group {
    ($kernels:expr, |$group:ident| $call:expr) => {
        match $kernels.group {
            #[cfg(target_arch = "aarch64")]
            1 => {
                const $group: usize = 1;
                $call
            }
            #[cfg(target_arch = "x86_64")]
            2 => {
                const $group: usize = 2;
                $call
            }
            #[cfg(target_arch = "aarch64")]
            8 => {
                const $group: usize = 8;
                $call
            }
            _ => {
                const $group: usize = 4;
                $call
            }
        }
    };
}

/// Returns the offset in words of group `p` of four rows in a panel, and which half of a group of eight rows it is.
#[inline(always)]
fn place(kernels: &QuadKernels, p: usize) -> (usize, usize) {
    let half = if kernels.group == 8 { p % 2 } else { 0 };
    ((p - half) * kernels.panel(), half)
}

/// Packs rows with contiguous columns into panels.
///
/// # Safety
///
/// Each of the `k` lines has `cols` bytes, and `to` has room for the panels.
unsafe fn interleave(
    kernels: &QuadKernels,
    k: usize,
    cols: usize,
    bytes: Bytes,
    line: impl Fn(usize) -> *const u8,
    to: *mut u8,
) {
    let (width, distance, to) = (kernels.panel(), distance(kernels, k) / 4, to.cast::<u32>());
    let mask = u32::from_ne_bytes([bytes.mask(); 4]);
    let (quads, rest) = (kernels.depth(k) / 4, cols.next_multiple_of(kernels.lanes) - cols);
    if rest > 0 {
        let last = cols / width * width;
        for p in 0..quads {
            let (at, half) = place(kernels, p);
            let to = to.wrapping_add(last / width * distance + at);
            for j in cols - last..cols - last + rest {
                // SAFETY: this function has the same contract.
                unsafe { by_group!(kernels, |GROUP| put::<GROUP>(to, half, j, width, 0)) };
            }
        }
    }
    by_group!(kernels, |GROUP| dispatch(Lines::<_, GROUP> { k, cols, width, distance, mask, line, to }));
}

/// Packs a matrix with any strides into panels.
///
/// # Safety
///
/// The matrix has `k` rows and `cols` columns, and `to` has room for the panels.
unsafe fn gather(kernels: &QuadKernels, k: usize, cols: usize, bytes: Bytes, b: Strided<u8>, to: *mut u8) {
    let (width, distance, to) = (kernels.panel(), distance(kernels, k) / 4, to.cast::<u32>());
    let mask = u32::from_ne_bytes([bytes.mask(); 4]);
    let whole = if b.row == 1 { k / 4 } else { 0 };
    for j in 0..cols.next_multiple_of(kernels.lanes) {
        // SAFETY: this function has the same contract; columns beyond the matrix are not read.
        unsafe {
            let column = b.ptr.wrapping_offset(j.cast_signed() * b.col);
            let to = to.add(j / width * distance);
            for p in 0..kernels.depth(k) / 4 {
                let word = if j >= cols {
                    0
                } else if p < whole {
                    column.add(p * 4).cast::<u32>().read_unaligned() ^ mask
                } else {
                    let byte = |i: usize| {
                        let at = p * 4 + i;
                        if at < k { *column.offset(at.cast_signed() * b.row) } else { 0 }
                    };
                    u32::from_ne_bytes([byte(0), byte(1), byte(2), byte(3)]) ^ mask
                };
                let ((at, half), j) = (place(kernels, p), j % width);
                by_group!(kernels, |GROUP| put::<GROUP>(to.add(at), half, j, width, word));
            }
        }
    }
}
