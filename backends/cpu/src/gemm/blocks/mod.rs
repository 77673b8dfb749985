//! Products of rows that are rounded to 8 bits with columns of integers of 2, 4 or 8 bits. Both are quantised in
//! blocks.
//!
//! Each row is rounded once ([`Left`]): each of its blocks becomes integers from -127 to 127, with a scale and the sum
//! of the integers. The product with a block of a column is then an exact sum of products of bytes, followed by one
//! multiplication and one addition. The zero point is multiplied only by the sum of the integers. The results of blocks
//! are added in `f32`, in the order of the blocks, so that a result depends on neither the number of threads nor the
//! other rows.
//!
//! Columns are packed once ([`Weights`]), in panels with one column per lane, block after block, so that a product
//! reads one stream of memory and each load feeds all columns of the panel. The layout of a panel does not depend on
//! the number of rows.

mod left;
#[cfg(target_arch = "aarch64")]
mod neon;
mod pack;
#[cfg(not(any(target_arch = "aarch64", all(target_arch = "wasm32", target_feature = "simd128"))))]
mod portable;
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
mod simd128;
#[cfg(test)]
mod tests;
mod tile;
#[cfg(target_arch = "x86_64")]
mod x86;

use crate::error::Result;
use crate::kernels::{Shared, walk};
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use crate::level::Level;
#[cfg(target_arch = "x86_64")]
use crate::level::extras;
use crate::level::level;
use crate::pool::{Block, Pool};
use std::sync::Arc;

pub(crate) use self::left::Left;
use self::tile::{Args, Kernels, Points};

/// Blocks are padded to a multiple of this length: the count of 2-bit numbers that a vector holds for each column.
const UNIT: usize = 16;
/// The maximum length of a block. It keeps sums of products of two bytes within 32 bits.
const LONGEST: usize = 1 << 15;
/// The number of multiplications below which a second thread costs more than it saves, if there is one row.
const GRAIN: usize = 1 << 16;
/// The maximum size in bytes of rounded rows that stay in the cache together with a panel.
const CACHE: usize = 1 << 18;

/// The quantisation of a matrix's columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Format {
    /// The bits of a number: 2, 4 or 8.
    pub(crate) bits: usize,
    /// The length of a block, in numbers.
    pub(crate) block: usize,
    /// The number of blocks of a column.
    pub(crate) count: usize,
    /// The length of a column, in numbers. The last block is padded.
    pub(crate) inner: usize,
    pub(crate) columns: usize,
}

impl Format {
    /// Returns whether there are kernels for the format.
    pub(crate) fn is_served(self) -> bool {
        matches!(self.bits, 2 | 4 | 8)
            && (1..=LONGEST).contains(&self.block)
            && (self.block * self.bits).is_multiple_of(8)
            && self.inner > 0
            && self.inner.div_ceil(self.block) == self.count
    }

    /// Returns the number of bytes of a block.
    pub(crate) fn bytes(self) -> usize {
        self.block * self.bits / 8
    }

    /// Returns the length of a padded block, in numbers.
    fn padded(self) -> usize {
        self.block.next_multiple_of(UNIT)
    }

    /// Returns the number of vectors of a block.
    fn vectors(self) -> usize {
        self.padded() * self.bits / 32
    }
}

/// The zero points of blocks, column by column.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Zeros<'a> {
    /// One zero point for all blocks.
    One(u8),
    Bytes(&'a [u8]),
    Floats(&'a [f32]),
}

/// Columns in blocks, packed for the kernels of one instruction set.
#[derive(Debug)]
pub(crate) struct Weights {
    format: Format,
    kernels: &'static Kernels,
    stored: pack::Stored,
    memory: Block,
    bytes: usize,
}

impl Weights {
    /// Packs columns. `numbers` has the bytes of each block in the layout of `format`; `scales` has a scale for each
    /// block.
    ///
    /// # Errors
    ///
    /// [`CpuError::Memory`](crate::CpuError::Memory) if the system has no memory left.
    pub(crate) fn new(
        pool: &Arc<Pool>,
        format: Format,
        numbers: &[u8],
        scales: &[f32],
        zeros: Zeros<'_>,
    ) -> Result<Weights> {
        let kernels = kernels();
        let stored = pack::Stored::of(scales, zeros);
        let size = stored.panel(format, kernels.lanes);
        let panels = format.columns.div_ceil(kernels.lanes);
        let bytes = panels.saturating_mul(size);
        let memory = pool.take(bytes)?;
        let to = Shared(memory.ptr());
        let all = pack::Columns { format, numbers, scales, zeros };
        walk::split(panels, size, GRAIN, |from, until| {
            for panel in from..until {
                // SAFETY: the memory has room for each panel, and no other call writes this one.
                let room = unsafe { std::slice::from_raw_parts_mut(to.get().add(panel * size), size) };
                all.pack(stored, kernels, panel * kernels.lanes, room);
            }
        });
        Ok(Weights { format, kernels, stored, memory, bytes })
    }

    /// Returns the quantisation of the columns.
    pub(crate) fn format(&self) -> Format {
        self.format
    }

    /// Returns the size in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Rounds rows of [`Format::inner`] numbers.
    ///
    /// # Errors
    ///
    /// [`CpuError::Memory`](crate::CpuError::Memory) if the system has no memory left.
    pub(crate) fn left(&self, pool: &Arc<Pool>, rows: &[f32]) -> Result<Left> {
        let sums = match self.stored.points {
            // `f32` represents the sum of a block exactly, or rounds it like any other number.
            Points::None | Points::Zeros => left::Sums::Integers,
            Points::Offsets => left::Sums::Scaled,
        };
        let low = if self.kernels.signed && self.format.bits == 8 { 128 } else { 0 };
        Left::new(pool, self.format, self.kernels, rows, low - i32::from(self.stored.zero), sums)
    }

    /// Multiplies rows that [`left`](Self::left) rounded.
    ///
    /// # Safety
    ///
    /// `out` has room for [`Format::columns`] numbers for each row.
    pub(crate) unsafe fn product(&self, left: &Left, out: *mut f32) {
        let Weights { format, kernels, stored, .. } = self;
        let size = stored.panel(*format, kernels.lanes);
        let panels = format.columns.div_ceil(kernels.lanes);
        let wide = format.count * format.padded();
        // Estimates the work: a row costs less if more rows share a panel.
        let weight = (kernels.lanes * wide).saturating_mul(left.rows() + 3) / 4;
        let together = (CACHE / wide.max(1)).max(kernels.rows).next_multiple_of(kernels.rows);
        let (from, out) = (Shared(self.memory.ptr()), Shared(out));
        walk::split(panels, weight, GRAIN, |first, until| {
            for top in (0..left.rows()).step_by(together) {
                let below = left.rows().min(top + together);
                for panel in first..until {
                    let columns = kernels.lanes.min(format.columns - panel * kernels.lanes);
                    let mut row = top;
                    while row < below {
                        let tile = kernels.tile(format.bits, stored.points, below - row);
                        // SAFETY: the panel and the rows match the format, which the kernel was chosen for, and the result has room for
                        // these rows and columns, which no other call writes.
                        unsafe {
                            (tile.run)(&Args {
                                panel: from.get().add(panel * size),
                                blocks: format.count,
                                vectors: format.vectors(),
                                block: format.padded(),
                                halves: stored.halves,
                                bytes: stored.bytes,
                                left: left.numbers(row),
                                left_row: left.stride(),
                                steps: left.steps(row),
                                out: out.get().add(row * format.columns + panel * kernels.lanes),
                                out_row: format.columns,
                                columns,
                            });
                        }
                        row += tile.rows;
                    }
                }
            }
        });
    }
}

/// Returns the kernels for this processor.
fn kernels() -> &'static Kernels {
    match level() {
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 if extras() && is_x86_feature_detected!("avx512vnni") => &x86::AVX512_VNNI,
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 | Level::Avx2 if extras() && is_x86_feature_detected!("avxvnni") => &x86::AVX_VNNI,
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 | Level::Avx2 => &x86::AVX2,
        #[cfg(target_arch = "aarch64")]
        Level::Dotprod | Level::I8mm => &neon::DOTPROD,
        #[cfg(target_arch = "aarch64")]
        _ => &neon::NEON,
        #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
        _ => &simd128::SIMD128,
        #[cfg(not(any(target_arch = "aarch64", all(target_arch = "wasm32", target_feature = "simd128"))))]
        _ => &portable::PORTABLE,
    }
}
