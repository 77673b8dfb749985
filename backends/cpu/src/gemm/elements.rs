//! Inner loops of tiles of four registers by four to six rows, for 64-bit ARM processors.
//!
//! The processor's instructions multiply a register by one element of another register, so elements of the left operand
//! need no broadcast. The sums of six rows use 24 of the 32 registers, and the elements of the left operand use six
//! more. Two registers remain for the right operand. Compilers would load it too early and spill sums to memory; hence
//! the loops are assembly.

use std::arch::aarch64::*;
use std::arch::asm;

/// The operands of a loop. Distances are in bytes.
#[derive(Debug, Clone, Copy)]
pub(in crate::gemm) struct Operands {
    /// The number of 16-byte reads of each row of the left operand, which is not 0.
    pub(in crate::gemm) turns: usize,
    pub(in crate::gemm) left: *const u8,
    pub(in crate::gemm) left_row: isize,
    pub(in crate::gemm) right: *const u8,
    /// The distance between the right operand's rows for successive elements of the left operand.
    pub(in crate::gemm) right_row: isize,
}

/// Declares a function with one loop for each number of rows of sums. The identifiers name the assembly operands of
/// each row.
macro_rules! loops {
    ($(#[$doc:meta])* $name:ident, $register:ty, $step:ident $with:tt, $apart:tt, [$($at:literal)*]) => {
        $(#[$doc])*
        ///
        /// Returns whether there is a loop for this number of rows.
        ///
        /// # Safety
        ///
        /// The processor has the instructions, and the caller is compiled for them. Each row of the left operand has
        /// `16 * turns` bytes. The right operand has a row for each element of a left row, and its rows cover the
        /// columns of the sums.
        #[inline(always)]
        pub(in crate::gemm) unsafe fn $name(of: &Operands, sums: &mut [[$register; 4]]) -> bool {
            match sums {
                [q0, q1, q2, q3] => loops!(@ of $step $with $apart [$($at)*] a0 p0 0 q0 s0 t0 u0 w0, a1 p1 1 q1 s1 t1 u1 w1,
                    a2 p2 2 q2 s2 t2 u2 w2, a3 p3 3 q3 s3 t3 u3 w3),
                [q0, q1, q2, q3, q4] => loops!(@ of $step $with $apart [$($at)*] a0 p0 0 q0 s0 t0 u0 w0, a1 p1 1 q1 s1 t1 u1 w1,
                    a2 p2 2 q2 s2 t2 u2 w2, a3 p3 3 q3 s3 t3 u3 w3, a4 p4 4 q4 s4 t4 u4 w4),
                [q0, q1, q2, q3, q4, q5] => loops!(@ of $step $with $apart [$($at)*] a0 p0 0 q0 s0 t0 u0 w0, a1 p1 1 q1 s1 t1 u1 w1,
                    a2 p2 2 q2 s2 t2 u2 w2, a3 p3 3 q3 s3 t3 u3 w3, a4 p4 4 q4 s4 t4 u4 w4, a5 p5 5 q5 s5 t5 u5 w5),
                _ => return false,
            }
            true
        }
    };
    (@ $of:ident $step:ident $with:tt [$($apart:literal)?] $all:tt $($a:ident $p:ident $i:literal $q:ident $s:ident $t:ident $u:ident $w:ident),*) => {{
        let &Operands { turns, left, left_row, right, right_row } = $of;
        $(let [$s, $t, $u, $w] = $q;)*
        // SAFETY: this function's contract; the registers that change are named.
        unsafe {
            asm!(
                "2:",
                $(concat!("ldr {", stringify!($a), ":q}, [{", stringify!($p), "}], #16"),)*
                loops!(steps $step $with $all [$($a $s $t $u $w)*]),
                "subs {turns}, {turns}, #1",
                "b.ne 2b",
                turns = inout(reg) turns => _,
                low = inout(reg) right => _,
                $(high = inout(reg) right.wrapping_add($apart) => _,)?
                row = in(reg) right_row,
                $(
                    $p = inout(reg) left.wrapping_offset($i * left_row) => _,
                    $a = out(vreg_low16) _,
                    $s = inout(vreg) *$s,
                    $t = inout(vreg) *$t,
                    $u = inout(vreg) *$u,
                    $w = inout(vreg) *$w,
                )*
                out("v30") _,
                out("v31") _,
                options(readonly, nostack),
            );
        }
    }};
    (steps $step:ident $with:tt [$($at:literal)*] $rows:tt) => {
        concat!($($step!($at $with $rows),)*)
    };
}

/// Multiplies two pairs of registers of the right operand by one element of each left row.
macro_rules! whole {
    ($at:literal ($op:literal $of:literal $one:literal) [$($a:ident $s:ident $t:ident $u:ident $w:ident)*]) => {
        concat!(
            "ld1 {{v30.16b, v31.16b}}, [{low}], {row}\n",
            $($op, " {", stringify!($s), ":v}.4s, v30", $of, ", {", stringify!($a), ":v}", $one, "[", $at, "]\n",)*
            $($op, " {", stringify!($t), ":v}.4s, v31", $of, ", {", stringify!($a), ":v}", $one, "[", $at, "]\n",)*
            "ld1 {{v30.16b, v31.16b}}, [{high}], {row}\n",
            $($op, " {", stringify!($u), ":v}.4s, v30", $of, ", {", stringify!($a), ":v}", $one, "[", $at, "]\n",)*
            $($op, " {", stringify!($w), ":v}.4s, v31", $of, ", {", stringify!($a), ":v}", $one, "[", $at, "]\n",)*
        )
    };
}

/// Widens sixteen bytes of the right operand and multiplies them by one element of each left row.
macro_rules! long {
    ($at:literal ($widen:literal) [$($a:ident $s:ident $t:ident $u:ident $w:ident)*]) => {
        concat!(
            "ld1 {{v30.16b}}, [{low}], {row}\n",
            $widen, "2 v31.8h, v30.16b\n",
            $widen, " v30.8h, v30.8b\n",
            $("smlal {", stringify!($s), ":v}.4s, v30.4h, {", stringify!($a), ":v}.h[", $at, "]\n",)*
            $("smlal2 {", stringify!($t), ":v}.4s, v30.8h, {", stringify!($a), ":v}.h[", $at, "]\n",)*
            $("smlal {", stringify!($u), ":v}.4s, v31.4h, {", stringify!($a), ":v}.h[", $at, "]\n",)*
            $("smlal2 {", stringify!($w), ":v}.4s, v31.8h, {", stringify!($a), ":v}.h[", $at, "]\n",)*
        )
    };
}

loops!(
    /// Accumulates products of `f32` elements.
    floats, float32x4_t, whole ("fmla" ".4s" ".s"), [32], [0 1 2 3]
);
loops!(
    /// Accumulates dot products of four signed bytes.
    signed_dots, int32x4_t, whole ("sdot" ".16b" ".4b"), [32], [0 1 2 3]
);
loops!(
    /// Accumulates dot products of four unsigned bytes.
    unsigned_dots, int32x4_t, whole ("udot" ".16b" ".4b"), [32], [0 1 2 3]
);
loops!(
    /// Accumulates products of 16-bit integers on the left with signed bytes on the right.
    signed_long, int32x4_t, long ("sxtl"), [], [0 1 2 3 4 5 6 7]
);
loops!(
    /// Accumulates products of 16-bit integers on the left with unsigned bytes on the right.
    unsigned_long, int32x4_t, long ("uxtl"), [], [0 1 2 3 4 5 6 7]
);
