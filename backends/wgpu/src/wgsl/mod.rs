//! Generates the WGSL source of the kernel for a key.
//!
//! A kernel's parameters are in `P`, its result in `y` and its operands in `x0`, `x1`, …. The result and the operands are arrays of
//! 32-bit words. WGSL allows an implementation to assume that no number is NaN or infinite, so kernels test the bits of a float where
//! NaN or infinity matters.

pub(crate) mod conv;
mod functions;
pub(crate) mod gather;
pub(crate) mod map;
mod math;
pub(crate) mod matmul;
pub(crate) mod reduce;
pub(crate) mod row;
pub(crate) mod scan;
pub(crate) mod window;

use std::fmt::Write as _;

/// The maximum number of dimensions of a kernel. More dimensions of at least two elements each would exceed 32-bit indices.
pub(crate) const MAX_DIMS: usize = 32;

/// The number of threads of a workgroup.
pub(crate) const GROUP: u32 = 128;

/// Returns the declaration of a kernel's parameters and bindings. The parameters are:
///
/// | words | name | |
/// |---|---|---|
/// | 0 | `n` | the number of results |
/// | 1 | `row` | the threads in a row of workgroups |
/// | 2 | `rank` | the number of `dims` that make up the index of a result |
/// | 3 | `k` | depends on the kernel |
/// | 4 to 7 | `off` | the first element of `x0`, `x1`, `x2`, and `y` in its binding |
/// | 8 to 15 | `e0`, `e1` | depend on the kernel |
/// | from 16 | `dims` | the dimensions, innermost first: an extent and three strides |
pub(crate) fn header(operands: usize, atomic: bool) -> String {
    let mut out = format!(
        "struct Params {{ n: u32, row: u32, rank: u32, k: u32, off: vec4<u32>, e0: vec4<u32>, e1: vec4<u32>, \
         dims: array<vec4<u32>, {MAX_DIMS}> }}\n@group(0) @binding(0) var<uniform> P: Params;\n"
    );
    let result = if atomic { "atomic<u32>" } else { "u32" };
    put(&mut out, format_args!("@group(0) @binding(1) var<storage, read_write> y: array<{result}>;\n"));
    for i in 0..operands {
        put(&mut out, format_args!("@group(0) @binding({}) var<storage, read> x{i}: array<u32>;\n", i + 2));
    }
    out
}

/// Returns a complete kernel: its declarations, the functions that it calls, and its own source.
pub(crate) fn assembled(operands: usize, atomic: bool, kernel: &str) -> String {
    let mut out = header(operands, atomic);
    functions::append(&mut out, kernel);
    out.push_str(kernel);
    out
}

/// The first lines of a kernel with one thread for each result. `i` is the index of the result.
pub(crate) const EACH: &str = "
@compute @workgroup_size(128)
fn main(@builtin(global_invocation_id) gid: vec3<u32>) {
    let i = gid.x + gid.y * P.row;
    if (i >= P.n) { return; }
";

/// Returns lines that convert the index of a result to the positions of operands. `positions` contains a variable for each operand,
/// and the component of `dim` that contains its stride.
pub(crate) fn walk(positions: &[(&str, char)], number: &str, from: &str, rank: &str) -> String {
    let positions: Vec<(&str, String)> =
        positions.iter().map(|(variable, component)| (*variable, format!("dim.{component}"))).collect();
    let row = if from == "0u" { "d".to_owned() } else { format!("{from} + d") };
    walk_rows(&positions, number, rank, &format!("let dim = P.dims[{row}];"))
}

/// Does the same as [`walk`] with arbitrary stride expressions. The line `read` loads the extent and the strides of dimension `d`.
pub(crate) fn walk_rows(positions: &[(&str, String)], number: &str, rank: &str, read: &str) -> String {
    let mut out =
        format!("    var rest = {number};\n    for (var d = 0u; d < {rank}; d++) {{\n        {read}\n");
    out.push_str("        let whole = rest / dim.x; let part = rest - whole * dim.x; rest = whole;\n");
    for (variable, stride) in positions {
        put(&mut out, format_args!("        {variable} += part * {stride};\n"));
    }
    out.push_str("    }\n");
    out
}

/// Appends formatted text to a string, which cannot fail.
pub(crate) fn put(out: &mut String, text: std::fmt::Arguments<'_>) {
    let _infallible = out.write_fmt(text);
}
