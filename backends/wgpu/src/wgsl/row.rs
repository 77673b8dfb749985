//! Kernels for functions of rows, with one workgroup for each row.

use super::{GROUP, assembled, put, walk};
use crate::elem::Elem;
use crate::wgsl::reduce::Join;

/// A function of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Row {
    /// Softmax. If `masked`, a row that contains only minus infinities gives zeros.
    Softmax {
        masked: bool,
    },
    LogSoftmax,
    /// Layer normalisation: to mean 0 and variance 1, times a scale, and plus a bias if `bias`.
    Layer {
        bias: bool,
    },
    /// RMS normalisation: divided by the root of the mean square, times a scale.
    Rms,
}

/// The key of a kernel for rows of `f32`. `P.k` is the length of a row, `P.e0.x` and `P.e0.y` are the strides of its elements in the
/// operand and in the result, and `P.e0.z` is the number that is added to a variance. `P.dims` are the dimensions of rows, with the
/// strides of the operand and of the result.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct RowKey(pub(crate) Row);

impl Row {
    pub(crate) fn operands(self) -> usize {
        match self {
            Row::Softmax { .. } | Row::LogSoftmax => 1,
            Row::Layer { bias: true } => 3,
            Row::Layer { bias: false } | Row::Rms => 2,
        }
    }
}

/// Appends lines that combine a value of each thread into `to`, for all threads of the workgroup.
fn joined(kernel: &mut String, join: Join, to: &str) {
    let both = join.of(Elem::F32, "parts[t]", "parts[t + s]");
    put(
        kernel,
        format_args!(
            "    workgroupBarrier();
    parts[t] = acc;
    workgroupBarrier();
    for (var s = {}u; s > 0u; s = s >> 1u) {{
        if (t < s) {{ parts[t] = {both}; }}
        workgroupBarrier();
    }}
    let {to} = parts[0];
",
            GROUP / 2
        ),
    );
}

/// Appends lines that run `body` for each element of the row, as `v`.
fn visit(kernel: &mut String, body: &str) {
    put(
        kernel,
        format_args!(
            "    for (var j = t; j < P.k; j += {GROUP}u) {{
        let v = bitcast<f32>(x0[base + j * P.e0.x]);
        {body}
    }}
"
        ),
    );
}

impl RowKey {
    pub(crate) fn source(&self) -> String {
        let mut kernel = format!(
            "var<workgroup> parts: array<f32, {GROUP}>;\n
@compute @workgroup_size({GROUP})
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(local_invocation_index) t: u32) {{
    let i = wid.x + wid.y * P.row;
    if (i >= P.n) {{ return; }}
    var base = P.off.x; var at = P.off.w; var acc = 0.0;
"
        );
        kernel.push_str(&walk(&[("base", 'y'), ("at", 'z')], "i", "0u", "P.rank"));
        match self.0 {
            Row::Softmax { .. } | Row::LogSoftmax => {
                kernel.push_str("    acc = -inf_();\n");
                visit(&mut kernel, "acc = max_(acc, v);");
                joined(&mut kernel, Join::Max, "most");
                kernel.push_str("    acc = 0.0;\n");
                visit(&mut kernel, "acc = acc + exp_(v - most);");
                joined(&mut kernel, Join::Sum, "total");
                match self.0 {
                    Row::LogSoftmax => {
                        kernel.push_str("    let less = log_(total);\n");
                        visit(&mut kernel, "y[at + j * P.e0.y] = bitcast<u32>((v - most) - less);");
                    }
                    Row::Softmax { masked: true } => {
                        kernel.push_str("    let none = bitcast<u32>(most) == 0xff800000u;\n");
                        visit(
                            &mut kernel,
                            "y[at + j * P.e0.y] = select(bitcast<u32>(exp_(v - most) / total), 0u, none);",
                        );
                    }
                    _ => visit(&mut kernel, "y[at + j * P.e0.y] = bitcast<u32>(exp_(v - most) / total);"),
                }
            }
            Row::Layer { bias } => {
                visit(&mut kernel, "acc = acc + v;");
                joined(&mut kernel, Join::Sum, "total");
                kernel.push_str("    let mean = total / f32(P.k);\n    acc = 0.0;\n");
                visit(&mut kernel, "acc = acc + (v - mean) * (v - mean);");
                joined(&mut kernel, Join::Sum, "squares");
                kernel.push_str("    let by = sqrt_(squares / f32(P.k) + bitcast<f32>(P.e0.z));\n");
                let plus = if bias { " + bitcast<f32>(x2[P.off.z + j])" } else { "" };
                let value = format!("(v - mean) / by * bitcast<f32>(x1[P.off.y + j]){plus}");
                visit(&mut kernel, &format!("y[at + j * P.e0.y] = bitcast<u32>({value});"));
            }
            Row::Rms => {
                visit(&mut kernel, "acc = acc + v * v;");
                joined(&mut kernel, Join::Sum, "squares");
                kernel.push_str("    let by = sqrt_(squares / f32(P.k) + bitcast<f32>(P.e0.z));\n");
                visit(
                    &mut kernel,
                    "y[at + j * P.e0.y] = bitcast<u32>(v / by * bitcast<f32>(x1[P.off.y + j]));",
                );
            }
        }
        kernel.push_str("}\n");
        assembled(self.0.operands(), false, &kernel)
    }
}
