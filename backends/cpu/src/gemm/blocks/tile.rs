//! Tiles of products of quantised blocks: some rows times the columns of a panel.

use super::UNIT;
use super::left::{Round, Step};

/// The vector operations of an instruction set. A vector has one sum for each column of a panel.
///
/// # Safety
///
/// Every function needs the instruction set, and must be inlined into code that is compiled for it. Pointers may have
/// any alignment, and refer to memory for a whole vector.
pub(super) trait Unit {
    /// The number of columns.
    const LANES: usize;
    /// Whether 8-bit numbers are stored minus 128.
    const SIGNED: bool;
    /// Four bytes for each column.
    type Bytes: Copy;
    /// Four numbers for each column.
    type Numbers: Copy;
    /// [`UNIT`] bytes of a row of the left operand, or their address.
    type Left: Copy;
    /// Partial sums that are not yet part of [`Ints`](Self::Ints).
    type Open: Copy;
    /// One or several 32-bit integers for each column. Their sum is the column's sum.
    type Ints: Copy;
    /// A float for each column.
    type Floats: Copy;

    /// Reads a vector of bytes.
    unsafe fn load(from: *const u8) -> Self::Bytes;
    /// Prefetches memory that may be read soon.
    unsafe fn prefetch(_from: *const u8) {}
    /// Extracts the numbers of `BITS` bits at index `above` of their bytes, counted from the low bits.
    unsafe fn part<const BITS: usize>(bytes: Self::Bytes, above: usize) -> Self::Numbers;
    /// Reads [`UNIT`] bytes of a row of the left operand.
    unsafe fn left(from: *const u8) -> Self::Left;
    /// Returns the initial sums for the products of up to [`TOGETHER`] vectors. `close` adds the sums to `total`.
    unsafe fn open<const BITS: usize>(total: Self::Ints) -> Self::Open;
    /// Adds the products of four bytes of the left operand and the numbers of each column to `sums`. The four bytes are
    /// group `AT` since `open`, which is group `AT % 4` of `left`.
    unsafe fn add<const BITS: usize, const AT: usize>(
        sums: Self::Open,
        right: Self::Numbers,
        left: Self::Left,
    ) -> Self::Open;
    /// Returns `total` plus the products that were added to `sums`.
    unsafe fn close<const BITS: usize>(sums: Self::Open, total: Self::Ints) -> Self::Ints;

    /// Returns `x` as the sum of each column.
    unsafe fn ints(x: i32) -> Self::Ints;
    /// Converts integers to floats.
    unsafe fn converted(x: Self::Ints) -> Self::Floats;
    /// Returns a vector with `x` in each lane.
    unsafe fn floats(x: f32) -> Self::Floats;
    /// Reads floats of 32 bits.
    unsafe fn singles(from: *const u8) -> Self::Floats;
    /// Reads floats of 16 bits.
    unsafe fn halves(from: *const u8) -> Self::Floats;
    /// Reads integers of 8 bits and converts them to floats.
    unsafe fn bytes(from: *const u8) -> Self::Floats;
    /// Returns `a * b`.
    unsafe fn mul(a: Self::Floats, b: Self::Floats) -> Self::Floats;
    /// Returns `a * b + c`.
    unsafe fn mul_add(a: Self::Floats, b: Self::Floats, c: Self::Floats) -> Self::Floats;
    /// Writes floats.
    unsafe fn store(x: Self::Floats, to: *mut f32);
}

/// The number of vectors whose products are added before a unit widens their sums. Four vectors of 4-bit numbers have
/// sums of at most `4 * 2 * 2 * 15 * 127 = 30480`, which fit in 16 bits.
const TOGETHER: usize = 4;
/// The distance in bytes between a tile's loads and its prefetches.
const AHEAD: usize = 4096;

/// The kind of per-block numbers that a panel stores in addition to the scales.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Points {
    /// Nothing: the zero points are all the same.
    None = 0,
    /// Zero points. Before scaling, the zero point times the sum of the left operand's integers is subtracted from the
    /// sum.
    Zeros = 1,
    /// Offsets: the negated zero points times the scales. After scaling, the offset times the scaled sum of the left
    /// operand's integers is added.
    Offsets = 2,
}

const NONE: u8 = Points::None as u8;
const ZEROS: u8 = Points::Zeros as u8;

/// The operands of a tile.
#[derive(Debug)]
pub(super) struct Args {
    /// For each block: the scales of all columns, their points, and the numbers, vector by vector.
    pub(super) panel: *const u8,
    /// The number of blocks.
    pub(super) blocks: usize,
    /// The number of vectors of a block.
    pub(super) vectors: usize,
    /// The number of bytes of a block of the left operand.
    pub(super) block: usize,
    /// Whether scales have 16 bits.
    pub(super) halves: bool,
    /// Whether zero points are bytes.
    pub(super) bytes: bool,
    /// The integers of the first row.
    pub(super) left: *const u8,
    /// The distance between rows, in bytes.
    pub(super) left_row: usize,
    /// The steps of the blocks of the first row, followed by the steps of the next rows.
    pub(super) steps: *const Step,
    pub(super) out: *mut f32,
    /// The distance between rows of the result, in elements.
    pub(super) out_row: usize,
    /// The number of columns to write.
    pub(super) columns: usize,
}

/// Adds the products of `N` vectors to `sums`. Returns the pointers to the next vector and to the next bytes of the
/// left operand.
///
/// # Safety
///
/// `from` has `N` vectors, which have a multiple of [`UNIT`] numbers for each column, and each row has the same number of bytes.
#[inline(always)]
unsafe fn add<U: Unit, const BITS: usize, const ROWS: usize, const N: usize>(
    sums: &mut [U::Open; ROWS],
    mut from: *const u8,
    mut left: *const u8,
    left_row: usize,
) -> [*const u8; 2] {
    // SAFETY: this function's contract.
    unsafe {
        // A macro instead of a loop, because some instructions encode the index of the four bytes.
        let mut lefts = [U::left(left); ROWS];
        let mut bytes = U::load(from);
        macro_rules! four {
            ($($at:literal)*) => {
                $(
                    if $at % (UNIT / 4) == 0 {
                        for (i, slot) in lefts.iter_mut().enumerate() {
                            *slot = U::left(left.add(i * left_row));
                        }
                        left = left.add(UNIT);
                    }
                    if $at * BITS % 8 == 0 {
                        bytes = U::load(from);
                        U::prefetch(from.wrapping_add(AHEAD));
                        from = from.add(4 * U::LANES);
                    }
                    let right = U::part::<BITS>(bytes, $at % (8 / BITS));
                    for (sums, left) in sums.iter_mut().zip(lefts) {
                        *sums = U::add::<BITS, $at>(*sums, right, left);
                    }
                )*
            };
        }
        four!(0 1 2 3);
        if N > BITS / 2 {
            four!(4 5 6 7);
        }
        if N > 2 * (BITS / 2) {
            four!(8 9 10 11);
        }
        if N > 3 * (BITS / 2) {
            four!(12 13 14 15);
        }
    }
    [from, left]
}

/// Computes a tile of `ROWS` rows and the columns of a panel.
///
/// # Safety
///
/// The operands are as `args` describes them, and the result has room for the rows and columns.
#[inline(always)]
pub(super) unsafe fn tile<U: Unit, const BITS: usize, const POINTS: u8, const ROWS: usize>(args: &Args) {
    let &Args { mut panel, blocks, vectors, mut left, left_row, mut steps, .. } = args;
    // SAFETY: this function's contract.
    unsafe {
        let mut totals = [U::floats(0.0); ROWS];
        for _ in 0..blocks {
            let scale;
            if args.halves {
                scale = U::halves(panel);
                panel = panel.add(2 * U::LANES);
            } else {
                scale = U::singles(panel);
                panel = panel.add(4 * U::LANES);
            }
            let mut point = scale;
            if POINTS == ZEROS && args.bytes {
                point = U::bytes(panel);
                panel = panel.add(U::LANES);
            } else if POINTS == ZEROS {
                point = U::singles(panel);
                panel = panel.add(4 * U::LANES);
            } else if POINTS != NONE {
                point = U::halves(panel);
                panel = panel.add(2 * U::LANES);
            }
            let mut sums = [U::ints(0); ROWS];
            for (i, sums) in sums.iter_mut().enumerate() {
                *sums = U::ints((*steps.add(i * blocks)).start);
            }
            let (mut numbers, mut rest) = (left, vectors);
            while rest > 0 {
                let mut open = [U::open::<BITS>(U::ints(0)); ROWS];
                for (open, sums) in open.iter_mut().zip(sums) {
                    *open = U::open::<BITS>(sums);
                }
                let together = rest.min(TOGETHER);
                // Blocks consist of whole units: one vector of 2-bit numbers, two of 4-bit numbers or four of 8-bit
                // numbers.
                [panel, numbers] = match together {
                    1 if BITS == 2 => add::<U, BITS, ROWS, 1>(&mut open, panel, numbers, left_row),
                    2 if BITS < 8 => add::<U, BITS, ROWS, 2>(&mut open, panel, numbers, left_row),
                    3 if BITS == 2 => add::<U, BITS, ROWS, 3>(&mut open, panel, numbers, left_row),
                    _ => add::<U, BITS, ROWS, TOGETHER>(&mut open, panel, numbers, left_row),
                };
                rest -= together;
                for (sums, open) in sums.iter_mut().zip(open) {
                    *sums = U::close::<BITS>(open, *sums);
                }
            }
            for (i, (total, sums)) in totals.iter_mut().zip(sums).enumerate() {
                let step = steps.add(i * blocks);
                let mut sums = U::converted(sums);
                if POINTS == ZEROS {
                    sums = U::mul_add(point, U::floats((*step).sum), sums);
                }
                *total = U::mul_add(sums, U::mul(scale, U::floats((*step).scale)), *total);
                if POINTS != NONE && POINTS != ZEROS {
                    *total = U::mul_add(point, U::floats((*step).sum), *total);
                }
            }
            left = left.add(args.block);
            steps = steps.add(1);
        }
        for (i, total) in totals.into_iter().enumerate() {
            let out = args.out.add(i * args.out_row);
            if args.columns == U::LANES {
                U::store(total, out);
            } else {
                let mut all = [0f32; WIDEST];
                U::store(total, all.as_mut_ptr());
                out.copy_from_nonoverlapping(all.as_ptr(), args.columns);
            }
        }
    }
}

/// The maximum number of columns of a panel.
pub(super) const WIDEST: usize = 16;

/// A tile of a fixed number of rows.
#[derive(Debug)]
pub(super) struct Tile {
    pub(super) rows: usize,
    pub(super) run: unsafe fn(&Args),
}

/// The kernels of one instruction set.
#[derive(Debug)]
pub(super) struct Kernels {
    /// The number of columns of a panel.
    pub(super) lanes: usize,
    /// Whether 8-bit numbers are stored minus 128.
    pub(super) signed: bool,
    /// The maximum number of rows of a tile.
    pub(super) rows: usize,
    /// The tiles for numbers of 2, 4 and 8 bits and for each kind of points, by descending number of rows. The last
    /// tile has one row.
    pub(super) tiles: [[&'static [Tile]; 3]; 3],
    /// Rounds a row.
    pub(super) round: Round,
}

impl Kernels {
    /// Returns the highest tile with at most `rows` rows.
    #[expect(clippy::indexing_slicing, reason = "each list ends with a tile of one row")]
    pub(super) fn tile(&self, bits: usize, points: Points, rows: usize) -> &'static Tile {
        let [two, four, eight] = &self.tiles;
        let of_bits = match bits {
            2 => two,
            4 => four,
            _ => eight,
        };
        let [none, zeros, offsets] = of_bits;
        let tiles = match points {
            Points::None => none,
            Points::Zeros => zeros,
            Points::Offsets => offsets,
        };
        tiles.iter().find(|tile| tile.rows <= rows).unwrap_or(&tiles[tiles.len() - 1])
    }
}

/// Lists the tiles of a function that is generic over bits, points and rows.
macro_rules! tiles {
    ($f:ident, $rows:tt) => {
        [
            tiles!(@bits $f, 2, $rows),
            tiles!(@bits $f, 4, $rows),
            tiles!(@bits $f, 8, $rows),
        ]
    };
    (@bits $f:ident, $bits:literal, $rows:tt) => {
        [
            tiles!(@rows $f, $bits, 0, $rows),
            tiles!(@rows $f, $bits, 1, $rows),
            tiles!(@rows $f, $bits, 2, $rows),
        ]
    };
    (@rows $f:ident, $bits:literal, $points:literal, [$($rows:literal)*]) => {
        &[$( $crate::gemm::blocks::tile::Tile { rows: $rows, run: $f::<$bits, $points, $rows> } ),*]
    };
}

/// Declares the kernels of an instruction set.
macro_rules! kernels {
    ($name:ident, $f:ident, $round:ident, $unit:ty, [$($feature:literal)?], $most:literal, $rows:tt) => {
        $(#[target_feature(enable = $feature)])?
        unsafe fn $f<const BITS: usize, const POINTS: u8, const ROWS: usize>(
            args: &$crate::gemm::blocks::tile::Args,
        ) {
            // SAFETY: this function has the same contract, and the instruction set.
            unsafe { $crate::gemm::blocks::tile::tile::<$unit, BITS, POINTS, ROWS>(args) }
        }

        $(#[target_feature(enable = $feature)])?
        unsafe fn $round(row: $crate::gemm::blocks::left::Row<'_>) {
            // SAFETY: this function has the same contract, and the instruction set.
            unsafe { $crate::gemm::blocks::left::round(row) }
        }

        pub(in $crate::gemm::blocks) static $name: $crate::gemm::blocks::tile::Kernels =
            $crate::gemm::blocks::tile::Kernels {
                lanes: <$unit as $crate::gemm::blocks::tile::Unit>::LANES,
                signed: <$unit as $crate::gemm::blocks::tile::Unit>::SIGNED,
                rows: $most,
                tiles: tiles!($f, $rows),
                round: $round,
            };
    };
}

pub(super) use {kernels, tiles};
