//! Convolutions as matrix products. The second factor is built from the windows while it is read.

use super::matmul::{SIDE, multiply_tiles};
use super::{assembled, put};

/// The key of a convolution of `f32` with at least some filters per group. The parameters are the same as for
/// [`WindowKey`](super::window::WindowKey); `P.k` is the number of groups, and `P.row` is the index of the first pair of
/// image and group.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct ConvKey {
    pub(crate) bias: bool,
    /// The number of results per thread in each direction: 1 or 4.
    pub(crate) each: u32,
}

impl ConvKey {
    pub(crate) fn source(&self) -> String {
        let each = self.each;
        let tile = SIDE * each;
        let mut kernel = format!(
            "var<workgroup> left: array<f32, {size}>;
var<workgroup> right: array<f32, {size}>;

@compute @workgroup_size({SIDE}, {SIDE})
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(local_invocation_id) lid: vec3<u32>) {{
    let m = P.e0.z; let k = P.e0.y * P.e1.y;
    let n = P.dims[0].y * P.dims[1].y * P.dims[2].y;
    let row = wid.y * {tile}u; let col = wid.x * {tile}u;
    let pair = wid.z + P.row;
    let image = pair / P.k; let group = pair % P.k;
    let weights = P.off.y + group * m * k;
    let first = image * P.e1.x + group * P.e0.y;
    let at = P.off.w + (image * P.e0.x + group * m) * n;
    let t = lid.y * {SIDE}u + lid.x;
",
            size = tile * SIDE
        );
        for part in 0..each {
            // The column that this thread loads is the same in all iterations, so compute it before the loop.
            put(
                &mut kernel,
                format_args!(
                    "    let w{part} = (t + {skip}u) % {tile}u; let q{part} = (t + {skip}u) / {tile}u;
    let c{part} = col + w{part};
    let o2{part} = c{part} % P.dims[2].y;
    let o1{part} = (c{part} / P.dims[2].y) % P.dims[1].y;
    let o0{part} = c{part} / P.dims[2].y / P.dims[1].y;
    let s0{part} = i32(o0{part} * P.dims[0].w) - i32(P.dims[3].y);
    let s1{part} = i32(o1{part} * P.dims[1].w) - i32(P.dims[4].y);
    let s2{part} = i32(o2{part} * P.dims[2].w) - i32(P.dims[5].y);
",
                    skip = part * SIDE * SIDE
                ),
            );
        }
        for i in 0..each {
            for j in 0..each {
                put(&mut kernel, format_args!("    var s{i}_{j} = 0.0;\n"));
            }
        }
        put(&mut kernel, format_args!("    for (var k0 = 0u; k0 < k; k0 += {SIDE}u) {{\n"));
        for part in 0..each {
            put(&mut kernel, format_args!(
                "        {{
            let e = t + {skip}u;
            let r = e / {SIDE}u; let c = e % {SIDE}u;
            var v = 0.0;
            if (row + r < m && k0 + c < k) {{ v = bitcast<f32>(x1[weights + (row + r) * k + k0 + c]); }}
            left[c * {tile}u + r] = v;
            let z = k0 + q{part};
            var u = 0.0;
            if (c{part} < n && z < k) {{
                let channel = z / P.e1.y;
                var place = z % P.e1.y;
                let k2 = place % P.dims[2].z; place = place / P.dims[2].z;
                let k1 = place % P.dims[1].z; let k0_ = place / P.dims[1].z;
                let i0 = s0{part} + i32(k0_ * P.dims[3].x);
                let i1 = s1{part} + i32(k1 * P.dims[4].x);
                let i2 = s2{part} + i32(k2 * P.dims[5].x);
                if (i0 >= 0 && i0 < i32(P.dims[0].x) && i1 >= 0 && i1 < i32(P.dims[1].x) && i2 >= 0 && i2 < i32(P.dims[2].x)) {{
                    u = bitcast<f32>(x0[P.off.x + (first + channel) * P.e0.w
                        + (u32(i0) * P.dims[1].x + u32(i1)) * P.dims[2].x + u32(i2)]);
                }}
            }}
            right[q{part} * {tile}u + w{part}] = u;
        }}
",
                skip = part * SIDE * SIDE
            ));
        }
        multiply_tiles(&mut kernel, each);
        for i in 0..each {
            let bias = if self.bias { "bitcast<f32>(x2[P.off.z + group * m + r])" } else { "0.0" };
            for j in 0..each {
                put(
                    &mut kernel,
                    format_args!(
                        "    {{ let r = row + lid.y + {}u; let c = col + lid.x + {}u;
      if (r < m && c < n) {{ y[at + r * n + c] = bitcast<u32>(s{i}_{j} + {bias}); }} }}\n",
                        i * SIDE,
                        j * SIDE
                    ),
                );
            }
        }
        kernel.push_str("}\n");
        assembled(if self.bias { 3 } else { 2 }, false, &kernel)
    }
}
