//! Kernels that search for operands that an operation must refuse. The result is one word, which becomes 1 if
//! there is one.

use super::{EACH, assembled, walk};

/// The condition that a scan searches for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum ScanKey {
    /// A divisor of zero in `x0`.
    Zero,
    /// An index in `x0` that is not from `-P.k` to `P.k - 1`.
    Index,
    /// A base of zero in `x0` with a negative exponent in `x1`.
    ZeroToNegative,
}

impl ScanKey {
    pub(crate) fn operands(self) -> usize {
        if self == ScanKey::ZeroToNegative { 2 } else { 1 }
    }

    pub(crate) fn source(self) -> String {
        let mut kernel = EACH.to_owned();
        kernel.push_str("    var p = P.off.x; var q = P.off.y;\n");
        kernel.push_str(&walk(&[("p", 'y'), ("q", 'z')], "i", "0u", "P.rank"));
        let found = match self {
            ScanKey::Zero => "x0[p] == 0u",
            ScanKey::Index => "bitcast<i32>(x0[p]) >= i32(P.k) || bitcast<i32>(x0[p]) < -i32(P.k)",
            ScanKey::ZeroToNegative => "x0[p] == 0u && bitcast<i32>(x1[q]) < 0",
        };
        kernel.push_str(&format!("    if ({found}) {{ atomicOr(&y[P.off.w], 1u); }}\n}}\n"));
        assembled(self.operands(), true, &kernel)
    }
}
