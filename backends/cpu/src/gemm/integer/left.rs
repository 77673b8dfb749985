//! The left operand of integer products, stored by rows.

use std::sync::Arc;

use super::quads::kernels;
use crate::error::Result;
use crate::gemm::Strided;
use crate::kernels::dispatch::{VectorLoop, dispatch};
use crate::pace::Pace;
use crate::pool::{Block, Pool};

/// A list of integers in a block of the pool.
#[derive(Debug)]
pub(crate) struct Ints(pub(super) Option<(Block, usize)>);

impl Ints {
    /// Creates a list of `n` integers, where `f(i)` returns integer `i`.
    ///
    /// # Errors
    ///
    /// [`CpuError::Memory`](crate::CpuError::Memory) if the system has no memory left.
    pub(crate) fn new(pool: &Arc<Pool>, n: usize, f: impl FnMut(usize) -> i32) -> Result<Ints> {
        let block = pool.take(n.saturating_mul(4))?;
        let to = block.ptr().cast::<i32>();
        // SAFETY: the block has room for `n` aligned numbers.
        (0..n).map(f).enumerate().for_each(|(i, v)| unsafe { to.add(i).write(v) });
        Ok(Ints(Some((block, n))))
    }

    /// Replaces the integers of the list.
    fn rewrite(&mut self, f: impl FnMut(usize) -> i32) {
        let Some((block, n)) = &self.0 else { return };
        let to = block.ptr().cast::<i32>();
        // SAFETY: the block has room for `n` aligned numbers, and this is the only reference to it.
        (0..*n).map(f).enumerate().for_each(|(i, v)| unsafe { to.add(i).write(v) });
    }

    /// Creates an empty list.
    pub(crate) const fn none() -> Ints {
        Ints(None)
    }
}

impl std::ops::Deref for Ints {
    type Target = [i32];

    fn deref(&self) -> &[i32] {
        match &self.0 {
            // SAFETY: `new` wrote `n` numbers to the block.
            Some((block, n)) => unsafe { std::slice::from_raw_parts(block.ptr().cast(), *n) },
            None => &[],
        }
    }
}

/// The left operand: rows of bytes, padded with zeros to a multiple of the bytes that kernels read in one step. If the
/// kernels read widened bytes, each byte is stored in 16 bits.
#[derive(Debug)]
pub(crate) struct Left {
    ptr: *const u8,
    stride: usize,
    /// The number of rows and the number of columns.
    extents: [usize; 2],
    bytes: Bytes,
    /// The sums of the rows, if they were requested.
    sums: Ints,
    ones: Block,
    /// Memory for a row whose bytes are not contiguous.
    line: Option<Block>,
    /// The memory of the rows, unless they are read in place.
    rows: Option<Block>,
}

/// The conversion of an operand's bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bytes {
    /// Whether the converted bytes are signed.
    pub(crate) signed: bool,
    /// Whether 128 is added or subtracted, which converts signed bytes to unsigned ones or back. `signed` applies after
    /// the conversion.
    pub(crate) flipped: bool,
}

impl Bytes {
    pub(super) const fn mask(self) -> u8 {
        if self.flipped { 0x80 } else { 0 }
    }

    /// Returns the number that the conversion adds to the zero point.
    pub(crate) const fn shift(self) -> i32 {
        match (self.flipped, self.signed) {
            (false, _) => 0,
            (true, true) => -128,
            (true, false) => 128,
        }
    }
}

impl Left {
    /// Prepares a matrix of `m` rows and `k` columns. If `summed`, also computes the sums of the rows, which are needed
    /// if columns have zero points.
    ///
    /// # Errors
    ///
    /// [`CpuError::Memory`](crate::CpuError::Memory) if the system has no memory left.
    ///
    /// # Safety
    ///
    /// `a` has these extents and stays valid as long as the result is used.
    pub(crate) unsafe fn new(
        pool: &Arc<Pool>,
        [m, k]: [usize; 2],
        a: Strided<u8>,
        bytes: Bytes,
        summed: bool,
    ) -> Result<Left> {
        let (depth, widened) = (kernels().depth(k), kernels().widened());
        let size = depth.saturating_mul(if widened { 2 } else { 1 });
        let in_place = depth == k && a.col == 1 && a.row >= 0 && !bytes.flipped && !widened;
        let rows = if in_place { None } else { Some(pool.take(m.saturating_mul(size))?) };
        // The bytes of a row that is not contiguous are gathered first.
        let line = if in_place || a.col == 1 { None } else { Some(pool.take(k)?) };
        let ones = pool.take(size)?;
        // SAFETY: the block has room for a row.
        unsafe {
            if widened {
                fill_with_ones::<i16>(k, std::slice::from_raw_parts_mut(ones.ptr().cast(), depth));
            } else {
                fill_with_ones::<u8>(k, std::slice::from_raw_parts_mut(ones.ptr(), depth));
            }
        }
        let sums = if summed { Ints::new(pool, m, |_| 0)? } else { Ints::none() };
        let mut left = Left { ptr: a.ptr, stride: size, extents: [m, k], bytes, sums, ones, line, rows };
        // SAFETY: this function has the same contract.
        unsafe { left.read(a) };
        Ok(left)
    }

    /// Reads another matrix with the same extents and strides as the first one.
    ///
    /// # Safety
    ///
    /// `a` has these extents and stays valid as long as `self` is used.
    pub(crate) unsafe fn read(&mut self, a: Strided<u8>) {
        let ([m, k], bytes) = (self.extents, self.bytes);
        let (depth, widened) = (kernels().depth(k), kernels().widened());
        if let Some(block) = &self.rows {
            let size = self.stride;
            let mut pace = Pace::new();
            for i in 0..m {
                pace.step(k);
                // SAFETY: row `i` is in the operand, `line` has room for its bytes, and `block` has room for each row.
                unsafe {
                    let (from, to) = (a.at_row(i), block.ptr().add(i * size));
                    if let Some(line) = &self.line {
                        let byte = |p: usize| *from.ptr.offset(p.cast_signed() * from.col);
                        (0..k).for_each(|p| line.ptr().add(p).write(byte(p)));
                    }
                    let x = self.line.as_ref().map_or(from.ptr, |line| line.ptr().cast_const());
                    let x = std::slice::from_raw_parts(x, k);
                    let (mask, wide) = (bytes.mask(), to.cast::<i16>());
                    if !widened {
                        let to = std::slice::from_raw_parts_mut(to, depth);
                        dispatch(Copied { x, to, f: |byte: u8| byte ^ mask });
                    } else if bytes.signed {
                        let to = std::slice::from_raw_parts_mut(wide, depth);
                        dispatch(Copied { x, to, f: |byte: u8| (byte ^ mask).cast_signed().into() });
                    } else {
                        let to = std::slice::from_raw_parts_mut(wide, depth);
                        dispatch(Copied { x, to, f: |byte: u8| (byte ^ mask).into() });
                    }
                }
            }
            self.ptr = block.ptr();
        } else {
            (self.ptr, self.stride) = (a.ptr, a.row.unsigned_abs());
        }
        let (ptr, stride) = (self.ptr, self.stride);
        self.sums.rewrite(|i| {
            let row = ptr.wrapping_add(i * stride);
            // SAFETY: the rows have been written, or are the operand's own.
            unsafe {
                if widened {
                    dispatch(Sum(std::slice::from_raw_parts(row.cast::<i16>(), depth)))
                } else if bytes.signed {
                    dispatch(Sum(std::slice::from_raw_parts(row.cast::<i8>(), k)))
                } else {
                    dispatch(Sum(std::slice::from_raw_parts(row, k)))
                }
            }
        });
    }

    /// Returns the size in bytes of the copied rows and the sums.
    pub(crate) fn bytes(&self) -> usize {
        let rows =
            if self.rows.is_some() { self.extents.into_iter().next().unwrap_or(0) * self.stride } else { 0 };
        rows + self.sums.len() * size_of::<i32>()
    }

    pub(super) fn row(&self, i: usize) -> *const u8 {
        self.ptr.wrapping_add(i * self.stride)
    }

    /// Returns a row of ones.
    pub(super) fn ones(&self) -> *const u8 {
        self.ones.ptr()
    }

    pub(super) fn stride(&self) -> usize {
        self.stride
    }

    pub(super) fn signed(&self) -> bool {
        self.bytes.signed
    }

    /// Returns the sums of the rows.
    pub(crate) fn sums(&self) -> &[i32] {
        &self.sums
    }
}

/// Fills the first `k` elements of a row with ones, and the rest with zeros.
fn fill_with_ones<T: Copy + From<bool>>(k: usize, to: &mut [T]) {
    to.iter_mut().enumerate().for_each(|(p, to)| *to = T::from(p < k));
}

/// A loop that writes the bytes of a row, which `f` may flip and widen, and zeros after them.
struct Copied<'a, T, F> {
    x: &'a [u8],
    to: &'a mut [T],
    f: F,
}

impl<T: Default, F: Fn(u8) -> T> VectorLoop for Copied<'_, T, F> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Copied { x, to, f } = self;
        let (row, rest) = to.split_at_mut(x.len());
        row.iter_mut().zip(x).for_each(|(to, &byte)| *to = f(byte));
        rest.fill_with(T::default);
    }
}

/// A loop that computes the sum of the numbers.
struct Sum<'a, T>(&'a [T]);

impl<T: Copy + Into<i32>> VectorLoop for Sum<'_, T> {
    type Output = i32;

    #[inline(always)]
    fn run<const FMA: bool>(self) -> i32 {
        self.0.iter().fold(0, |sum: i32, &x| sum.wrapping_add(x.into()))
    }
}
