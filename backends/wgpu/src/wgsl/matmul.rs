//! Matrix products in tiles. A workgroup of 16 by 16 threads loads parts of both operands into shared memory, and each thread computes
//! a few results.

use super::{assembled, put, walk};
use crate::elem::Elem;

/// The number of threads of a workgroup in each direction.
pub(crate) const SIDE: u32 = 16;

/// The key of a matrix product. `P.e0` contains `m`, `n`, `k` and the row stride of the result; `P.e1` contains the row and column
/// strides of both operands. If `P.k` is 1, the product is added to the previous contents of the result. `P.dims` are the batch
/// dimensions, with the strides of both operands and of the result.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct MatMulKey {
    pub(crate) elem: Elem,
    /// The number of results per thread in each direction: 1 or 4.
    pub(crate) each: u32,
}

impl MatMulKey {
    pub(crate) fn source(&self) -> String {
        let (elem, name, each) = (self.elem, self.elem.kind().name(), self.each);
        let tile = SIDE * each;
        let zero = if name == "f32" {
            "0.0"
        } else if name == "i32" {
            "0"
        } else {
            "0u"
        };
        let mut kernel = format!(
            "var<workgroup> left: array<{name}, {size}>;
var<workgroup> right: array<{name}, {size}>;

@compute @workgroup_size({SIDE}, {SIDE})
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(local_invocation_id) lid: vec3<u32>) {{
    let m = P.e0.x; let n = P.e0.y; let k = P.e0.z;
    let row = wid.y * {tile}u; let col = wid.x * {tile}u;
    var a = P.off.x; var b = P.off.y; var at = P.off.w;
    let batch = wid.z + P.row;
",
            size = tile * SIDE
        );
        kernel.push_str(&walk(&[("a", 'y'), ("b", 'z'), ("at", 'w')], "batch", "0u", "P.rank"));
        put(&mut kernel, format_args!("    let t = lid.y * {SIDE}u + lid.x;\n"));
        for i in 0..each {
            for j in 0..each {
                put(&mut kernel, format_args!("    var s{i}_{j}: {name} = {zero};\n"));
            }
        }
        put(&mut kernel, format_args!("    for (var k0 = 0u; k0 < k; k0 += {SIDE}u) {{\n"));
        for part in 0..each {
            // Assign neighbouring threads to the direction with the smaller stride, so that they read neighbouring memory.
            put(
                &mut kernel,
                format_args!(
                    "        {{
            let e = t + {skip}u;
            var r = e / {SIDE}u; var c = e % {SIDE}u;
            if (P.e1.y != 1u) {{ r = e % {tile}u; c = e / {tile}u; }}
            var v: {name} = {zero};
            if (row + r < m && k0 + c < k) {{ v = {load_a}; }}
            left[c * {tile}u + r] = v;
            var q = e / {tile}u; var w = e % {tile}u;
            if (P.e1.w != 1u) {{ q = e % {SIDE}u; w = e / {SIDE}u; }}
            var u: {name} = {zero};
            if (col + w < n && k0 + q < k) {{ u = {load_b}; }}
            right[q * {tile}u + w] = u;
        }}
",
                    skip = part * SIDE * SIDE,
                    load_a = elem.load("x0[a + (row + r) * P.e1.x + (k0 + c) * P.e1.y]"),
                    load_b = elem.load("x1[b + (k0 + q) * P.e1.z + (col + w) * P.e1.w]"),
                ),
            );
        }
        multiply_tiles(&mut kernel, each);
        for i in 0..each {
            for j in 0..each {
                let stored = elem.store(&format!("s{i}_{j}"));
                let held = elem.load("y[p]");
                put(
                    &mut kernel,
                    format_args!(
                        "    {{ let r = row + lid.y + {}u; let c = col + lid.x + {}u; let p = at + r * P.e0.w + c;
      if (r < m && c < n) {{ if (P.k == 1u) {{ s{i}_{j} = s{i}_{j} + {held}; }} y[p] = {stored}; }} }}\n",
                        i * SIDE,
                        j * SIDE
                    ),
                );
            }
        }
        kernel.push_str("}\n");
        assembled(2, false, &kernel)
    }
}

/// Appends lines that multiply the tiles in shared memory, `left` and `right`, and add to a thread's sums `s0_0`, `s0_1`, …. There are
/// `each` sums in each direction. The lines end the loop over tiles.
pub(super) fn multiply_tiles(kernel: &mut String, each: u32) {
    let tile = SIDE * each;
    kernel.push_str("        workgroupBarrier();\n");
    put(kernel, format_args!("        for (var q = 0u; q < {SIDE}u; q++) {{\n"));
    for i in 0..each {
        put(
            kernel,
            format_args!(
                "            let a{i} = left[q * {tile}u + lid.y + {0}u]; let b{i} = right[q * {tile}u + lid.x + {0}u];\n",
                i * SIDE
            ),
        );
    }
    for i in 0..each {
        for j in 0..each {
            put(kernel, format_args!("            s{i}_{j} = s{i}_{j} + a{i} * b{j};\n"));
        }
    }
    kernel.push_str("        }\n        workgroupBarrier();\n    }\n");
}
