//! AMX tiles. A register has sixteen rows by sixteen columns, and one instruction adds 64 products of bytes to each
//! sum.

use std::arch::asm;
use std::arch::x86_64::__cpuid_count;
use std::sync::OnceLock;

use super::{AVX512, QuadArgs, Tile};

/// Up to eight rows use the tiles of AVX-512, because an AMX tile reads the same amount of the right operand for one
/// row as for sixteen.
pub(super) static TILES: [&[&[Tile]]; 2] = {
    let [few, few_signed] = AVX512.tiles;
    [
        &[&after(few, 0, one::<false>), &after(few, 1, two::<false>), &after(few, 2, three::<false>)],
        &[
            &after(few_signed, 0, one::<true>),
            &after(few_signed, 1, two::<true>),
            &after(few_signed, 2, three::<true>),
        ],
    ]
};

/// Returns the tiles of 1 to 16 rows. The tiles of few rows are copied from `few[index]`.
#[expect(clippy::indexing_slicing, reason = "it is called while the program is compiled")]
const fn after(few: &[&[Tile]], index: usize, tile: Tile) -> [Tile; 16] {
    let mut all = [tile; 16];
    let few = few[index];
    all.split_at_mut(few.len()).0.copy_from_slice(few);
    all
}

/// Returns whether this process may use the instructions. Requests them from the system only once, because the system
/// then reserves memory for the registers of each thread.
pub(super) fn allowed() -> bool {
    static ALLOWED: OnceLock<bool> = OnceLock::new();
    *ALLOWED.get_or_init(|| found() && permitted())
}

/// Returns whether the processor has tiles and instructions for products of bytes on them.
fn found() -> bool {
    const TILE: u32 = 1 << 24;
    const INT8: u32 = 1 << 25;
    // Leaf 7 exists, because it was read to detect AVX-512.
    let edx = __cpuid_count(7, 0).edx;
    edx & TILE != 0 && edx & INT8 != 0
}

/// Requests the tile registers from Linux; the call fails if the kernel is too old to save them.
#[cfg(target_os = "linux")]
fn permitted() -> bool {
    const ARCH_PRCTL: i64 = 158;
    const REQUEST: i64 = 0x1023;
    const TILE_DATA: i64 = 18;
    let answer: i64;
    // SAFETY: the call takes two numbers, changes what this process may use and nothing in its memory.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") ARCH_PRCTL => answer,
            in("rdi") REQUEST,
            in("rsi") TILE_DATA,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    answer == 0
}

/// Returns `false`: other systems are not known to grant the registers by this call.
#[cfg(not(target_os = "linux"))]
fn permitted() -> bool {
    false
}

/// The shapes of the registers, in the layout that `ldtilecfg` reads.
#[repr(C, align(64))]
struct TileConfig {
    palette: u8,
    start: u8,
    reserved: [u8; 14],
    /// The size of a row of each register in bytes.
    bytes: [u16; 16],
    rows: [u8; 16],
}

impl TileConfig {
    /// Returns the shapes for tiles of `rows` rows. Registers 0 to 2 store sums, register 3 stores rows of the left
    /// operand, and registers 4 and 7 store rows of the right operand. Registers 5 and 6 store the rest of both
    /// operands at the end of the inner dimension, which is `rest` groups of four bytes.
    fn new(rows: usize, rest: usize) -> TileConfig {
        let (rows, rest) = (rows.min(16) as u8, rest.min(15) as u8);
        let mut extents =
            TileConfig { palette: 1, start: 0, reserved: [0; 14], bytes: [0; 16], rows: [0; 16] };
        let left = if rest > 0 { rows } else { 0 };
        let bytes = [64, 64, 64, 64, 64, 4 * u16::from(rest), if rest > 0 { 64 } else { 0 }, 64];
        let of_rows = [rows, rows, rows, rows, 16, left, rest, 16];
        extents.bytes.iter_mut().zip(bytes).for_each(|(to, bytes)| *to = bytes);
        extents.rows.iter_mut().zip(of_rows).for_each(|(to, rows)| *to = rows);
        extents
    }
}

/// Declares a tile of vectors. Each vector has a register of sums, a register of the right operand, and the offset of
/// its columns in bytes.
macro_rules! tile {
    ($name:ident, $vectors:tt) => {
        /// # Safety
        ///
        /// The process may use the instructions. The operands have `quads` groups of four bytes for `rows` rows, which are at most 16, and
        /// for the vectors, and `sums` has room for the tile.
        unsafe fn $name<const SIGNED: bool>(args: &QuadArgs) {
            // SAFETY: this function has the same contract.
            unsafe {
                if SIGNED {
                    tile!(@ args, "tdpbsud", $vectors);
                } else {
                    tile!(@ args, "tdpbusd", $vectors);
                }
            }
        }
    };
    (@ $args:ident, $multiply:literal, [$($to:literal $from:literal $place:literal),*]) => {{
        let &QuadArgs { quads, rows, left, left_row, right, right_row, sums, sums_row } = $args;
        let extents = TileConfig::new(rows, quads % 16);
        // The compiler keeps nothing in these registers, which are released at the end.
        asm!(
            "ldtilecfg [{extents}]",
            $(concat!("tilezero ", $to),)*
            "test {steps}, {steps}",
            "jz 3f",
            "2:",
            "tileloadd tmm3, [{left} + 1*{left_row}]",
            $(
                concat!("tileloadd ", $from, ", [{right} + 1*{right_row} + ", $place, "]"),
                concat!($multiply, " ", $to, ", tmm3, ", $from),
            )*
            "add {left}, 64",
            "add {right}, {step}",
            "dec {steps}",
            "jnz 2b",
            "3:",
            "test {rest}, {rest}",
            "jz 4f",
            "tileloadd tmm5, [{left} + 1*{left_row}]",
            $(
                concat!("tileloadd tmm6, [{right} + 1*{right_row} + ", $place, "]"),
                concat!($multiply, " ", $to, ", tmm5, tmm6"),
            )*
            "4:",
            $(concat!("tilestored [{sums} + 1*{sums_row} + ", $place, "], ", $to),)*
            "tilerelease",
            extents = in(reg) &raw const extents,
            steps = inout(reg) quads / 16 => _,
            rest = in(reg) quads % 16,
            left = inout(reg) left => _,
            left_row = in(reg) left_row,
            right = inout(reg) right => _,
            right_row = in(reg) right_row,
            step = in(reg) 16 * right_row,
            sums = in(reg) sums,
            sums_row = in(reg) 4 * sums_row,
            options(nostack),
        );
    }};
}

tile!(one, ["tmm0" "tmm4" "0"]);
tile!(two, ["tmm0" "tmm4" "0", "tmm1" "tmm7" "64"]);
tile!(three, ["tmm0" "tmm4" "0", "tmm1" "tmm7" "64", "tmm2" "tmm4" "128"]);
