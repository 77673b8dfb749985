//! Kernels for windows that slide over up to three spatial dimensions, with one thread for each result.

use super::{EACH, assembled, put};

/// The operation on a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Window {
    /// A convolution with the filters `x1`, and with the bias `x2` if `bias`.
    Conv {
        bias: bool,
    },
    Max,
    /// The mean. If `count_pad`, padding counts as zeros.
    Mean {
        count_pad: bool,
    },
}

/// The key of a kernel for windows of `f32`. The operands are contiguous in row-major order. Results are `[n, m,
/// o0, o1, o2]`.
///
/// | words | |
/// |---|---|
/// | `P.e0` | `m`, the channels of a group, the filters of a group, the elements of a channel |
/// | `P.e1` | the channels of the operand, the places of a window |
/// | `P.dims[s]` | for spatial dimension `s`: its extent, that of the result, that of the window, the stride |
/// | `P.dims[3 + s]` | the dilation, the padding in front, and how many places come from behind the end at most |
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct WindowKey(pub(crate) Window);

impl Window {
    pub(crate) fn operands(self) -> usize {
        match self {
            Window::Conv { bias: true } => 3,
            Window::Conv { bias: false } => 2,
            Window::Max | Window::Mean { .. } => 1,
        }
    }
}

impl WindowKey {
    pub(crate) fn source(&self) -> String {
        let mut kernel = EACH.to_owned();
        kernel.push_str("    var rest = i;\n");
        for s in (0..3).rev() {
            put(
                &mut kernel,
                format_args!(
                    "    let o{s} = rest % P.dims[{s}].y; rest = rest / P.dims[{s}].y;
    let s{s} = i32(o{s} * P.dims[{s}].w) - i32(P.dims[{}].y);\n",
                    3 + s
                ),
            );
        }
        kernel.push_str("    let m = rest % P.e0.x; let image = rest / P.e0.x;\n");
        let conv = matches!(self.0, Window::Conv { .. });
        let (start, channels) = match self.0 {
            Window::Conv { bias } => {
                kernel.push_str(
                    "    let group = m / P.e0.z;
    let first = image * P.e1.x + group * P.e0.y;
    var w = P.off.y + m * P.e0.y * P.e1.y;
",
                );
                (if bias { "bitcast<f32>(x2[P.off.z + m])" } else { "0.0" }, "P.e0.y")
            }
            Window::Max => ("-inf_()", "1u"),
            Window::Mean { .. } => ("0.0", "1u"),
        };
        if !conv {
            kernel.push_str("    let first = image * P.e1.x + m;\n    var count = 0u;\n");
        }
        put(&mut kernel, format_args!("    var acc = {start};\n"));
        put(&mut kernel, format_args!("    for (var c = 0u; c < {channels}; c++) {{\n"));
        kernel.push_str("    let plane = P.off.x + (first + c) * P.e0.w;\n");
        for s in 0..3 {
            put(
                &mut kernel,
                format_args!(
                    "    for (var k{s} = 0u; k{s} < P.dims[{s}].z; k{s}++) {{
    let i{s} = s{s} + i32(k{s} * P.dims[{}].x);
",
                    3 + s
                ),
            );
        }
        kernel.push_str(
            "    let inside = i0 >= 0 && i0 < i32(P.dims[0].x) && i1 >= 0 && i1 < i32(P.dims[1].x) && i2 >= 0 && i2 < i32(P.dims[2].x);
    if (inside) {
        let v = bitcast<f32>(x0[plane + (u32(i0) * P.dims[1].x + u32(i1)) * P.dims[2].x + u32(i2)]);
",
        );
        kernel.push_str(match self.0 {
            Window::Conv { .. } => "        acc = acc + v * bitcast<f32>(x1[w]);\n    }\n    w++;\n",
            Window::Max => "        acc = max_(acc, v);\n    }\n",
            Window::Mean { .. } => "        acc = acc + v; count++;\n    }\n",
        });
        kernel.push_str("    }}}\n    }\n");
        let value = match self.0 {
            Window::Mean { count_pad: true } => "acc / f32(P.e1.y)",
            Window::Mean { count_pad: false } => "acc / f32(count)",
            _ => "acc",
        };
        put(&mut kernel, format_args!("    y[P.off.w + i] = bitcast<u32>({value});\n}}\n"));
        assembled(self.0.operands(), false, &kernel)
    }
}
