//! The left operand of integer products, by rows.

use std::sync::Arc;

use crate::error::Result;
use crate::gemm::Strided;
use crate::kernels::dispatch::{VectorLoop, dispatch};
use crate::pace::Pace;
use crate::pool::{Block, Pool};

/// Numbers in a block of the pool.
#[derive(Debug)]
pub(crate) struct Ints(pub(super) Option<(Block, usize)>);

impl Ints {
    /// Makes a list of `n` numbers.
    ///
    /// # Errors
    ///
    /// [`CpuError::Memory`](crate::CpuError::Memory) if the system has no memory.
    pub(crate) fn new(pool: &Arc<Pool>, n: usize, f: impl FnMut(usize) -> i32) -> Result<Ints> {
        let block = pool.take(n.saturating_mul(4))?;
        let to = block.ptr().cast::<i32>();
        // SAFETY: the block has room for `n` aligned numbers.
        (0..n).map(f).enumerate().for_each(|(i, v)| unsafe { to.add(i).write(v) });
        Ok(Ints(Some((block, n))))
    }

    /// Makes a list without numbers.
    pub(crate) const fn none() -> Ints {
        Ints(None)
    }
}

impl std::ops::Deref for Ints {
    type Target = [i32];

    fn deref(&self) -> &[i32] {
        match &self.0 {
            // SAFETY: `new` wrote so many numbers to the block.
            Some((block, n)) => unsafe { std::slice::from_raw_parts(block.ptr().cast(), *n) },
            None => &[],
        }
    }
}

/// The left operand: rows of bytes, whose number is a multiple of four. Zeros follow the bytes of the matrix.
#[derive(Debug)]
pub(crate) struct Left {
    ptr: *const u8,
    stride: usize,
    signed: bool,
    sums: Ints,
    ones: Block,
    /// What owns the rows, unless they are read in place.
    _rows: Option<Block>,
}

/// What is done to the bytes of an operand.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bytes {
    /// Whether they are signed.
    pub(crate) signed: bool,
    /// Whether they are moved by 128, from signed to unsigned or back. `signed` is what they are afterwards.
    pub(crate) flipped: bool,
}

impl Bytes {
    pub(super) const fn mask(self) -> u8 {
        if self.flipped { 0x80 } else { 0 }
    }

    /// Returns how much more the zero point is because of the move.
    pub(crate) const fn shift(self) -> i32 {
        match (self.flipped, self.signed) {
            (false, _) => 0,
            (true, true) => -128,
            (true, false) => 128,
        }
    }
}

impl Left {
    /// Prepares a matrix of `m` rows and `k` columns. `summed` asks for the sums of rows, which zero points of columns
    /// need.
    ///
    /// # Errors
    ///
    /// [`CpuError::Memory`](crate::CpuError::Memory) if the system has no memory.
    ///
    /// # Safety
    ///
    /// `a` has these extents, as long as the result is used.
    pub(crate) unsafe fn new(
        pool: &Arc<Pool>,
        [m, k]: [usize; 2],
        a: Strided<u8>,
        bytes: Bytes,
        summed: bool,
    ) -> Result<Left> {
        let padded = k.next_multiple_of(4);
        let ones = pool.take(padded)?;
        // SAFETY: the block has room for `padded` bytes.
        unsafe {
            ones.ptr().write_bytes(1, k);
            ones.ptr().add(k).write_bytes(0, padded - k);
        }
        let in_place = padded == k && a.col == 1 && a.row >= 0 && !bytes.flipped;
        let (ptr, stride, rows) = if in_place {
            (a.ptr, a.row.unsigned_abs(), None)
        } else {
            let block = pool.take(m.saturating_mul(padded))?;
            let mut pace = Pace::new();
            for i in 0..m {
                pace.step(k);
                // SAFETY: row `i` is in the operand, and the block has room for each row.
                unsafe {
                    let (from, to) = (a.at_row(i), block.ptr().add(i * padded));
                    if from.col == 1 {
                        let from = std::slice::from_raw_parts(from.ptr, k);
                        let to = std::slice::from_raw_parts_mut(to, k);
                        to.iter_mut().zip(from).for_each(|(to, &from)| *to = from ^ bytes.mask());
                    } else {
                        for p in 0..k {
                            to.add(p).write(*from.ptr.offset(p.cast_signed() * from.col) ^ bytes.mask());
                        }
                    }
                    to.add(k).write_bytes(0, padded - k);
                }
            }
            (block.ptr().cast_const(), padded, Some(block))
        };
        let sums = if summed {
            Ints::new(pool, m, |i| {
                // SAFETY: the rows have been written, or are the operand's own.
                dispatch(Sum { x: unsafe { std::slice::from_raw_parts(ptr.add(i * stride), k) }, bytes })
            })?
        } else {
            Ints::none()
        };
        Ok(Left { ptr, stride, signed: bytes.signed, sums, ones, _rows: rows })
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
        self.signed
    }

    /// Returns the sums of the rows.
    pub(crate) fn sums(&self) -> &[i32] {
        &self.sums
    }
}

/// The sum of bytes.
struct Sum<'a> {
    x: &'a [u8],
    bytes: Bytes,
}

impl VectorLoop for Sum<'_> {
    type Output = i32;

    #[inline(always)]
    fn run<const FMA: bool>(self) -> i32 {
        if self.bytes.signed {
            self.x.iter().fold(0, |sum: i32, &v| sum.wrapping_add(v.cast_signed().into()))
        } else {
            self.x.iter().fold(0, |sum: i32, &v| sum.wrapping_add(v.into()))
        }
    }
}
