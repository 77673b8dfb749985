//! Kernels that select entries by indices. The indices must be checked before.

use super::{EACH, assembled, walk};

/// The key of a gather: `x0` is the data and `x1` the indices. `P.e0` contains the stride and the extent of the axis,
/// and the first index and the number of indices of the bound part of the data.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct GatherKey;

impl GatherKey {
    pub(crate) fn source(&self) -> String {
        let mut kernel = EACH.to_owned();
        kernel.push_str("    var p = P.off.x; var q = P.off.y;\n");
        kernel.push_str(&walk(&[("p", 'y'), ("q", 'z')], "i", "0u", "P.rank"));
        kernel.push_str(
            "    var j = x1[q];
    if (bitcast<i32>(j) < 0) { j = j + P.e0.y; }
    j = j - P.e0.z;
    if (j < P.e0.w) { y[P.off.w + i] = x0[p + j * P.e0.x]; }
}
",
        );
        assembled(2, false, &kernel)
    }
}
