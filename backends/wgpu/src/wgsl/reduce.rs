//! Reduction kernels, with one thread or one workgroup for each result.

use super::{EACH, GROUP, assembled, put, walk};
use crate::elem::{Elem, Kind};

/// The operation that combines elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Join {
    Sum,
    Mean,
    Max,
    Min,
}

/// The key of a reduction. `P.k` is the number of elements of each result. `P.e0.x` is the number of reduced dimensions,
/// which follow the other dimensions in `P.dims`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct ReduceKey {
    pub(crate) join: Join,
    pub(crate) elem: Elem,
    /// Whether a whole workgroup computes each result.
    pub(crate) shared: bool,
    /// Whether only one dimension is reduced. Its stride is `P.e0.y`.
    pub(crate) one: bool,
}

impl Join {
    /// Returns the expression for the result of no elements.
    pub(crate) fn initial(self, elem: Elem) -> String {
        match (self, elem.kind()) {
            (Join::Sum | Join::Mean, Kind::Float) => "0.0".to_owned(),
            (Join::Sum | Join::Mean, Kind::Signed) => "0".to_owned(),
            (Join::Sum | Join::Mean, _) => "0u".to_owned(),
            (Join::Max, Kind::Float) => "-inf_()".to_owned(),
            (Join::Min, Kind::Float) => "inf_()".to_owned(),
            (Join::Max, Kind::Signed) => format!("i32({} - 1)", 1 + signed_limits(elem).0),
            (Join::Min, Kind::Signed) => signed_limits(elem).1.to_string(),
            (Join::Max, _) => "0u".to_owned(),
            (Join::Min, Kind::Truth) => "1u".to_owned(),
            (Join::Min, _) => format!(
                "{}u",
                match elem {
                    Elem::U8 => u32::from(u8::MAX),
                    Elem::U16 => u32::from(u16::MAX),
                    _ => u32::MAX,
                }
            ),
        }
    }

    /// Returns the expression that combines two values.
    pub(crate) fn of(self, elem: Elem, a: &str, b: &str) -> String {
        match (self, elem.kind()) {
            (Join::Sum | Join::Mean, _) => format!("{a} + {b}"),
            (Join::Max, Kind::Float) => format!("max_({a}, {b})"),
            (Join::Min, Kind::Float) => format!("min_({a}, {b})"),
            (Join::Max, _) => format!("max({a}, {b})"),
            (Join::Min, _) => format!("min({a}, {b})"),
        }
    }

    fn last(self, elem: Elem, value: &str) -> String {
        match self {
            Join::Mean if elem.kind() == Kind::Float => format!("{value} / f32(P.k)"),
            Join::Mean => format!("{value} / {}(P.k)", elem.kind().name()),
            _ => value.to_owned(),
        }
    }
}

fn signed_limits(elem: Elem) -> (i64, i64) {
    match elem {
        Elem::I8 => (i8::MIN.into(), i8::MAX.into()),
        Elem::I16 => (i16::MIN.into(), i16::MAX.into()),
        _ => (i32::MIN.into(), i32::MAX.into()),
    }
}

impl ReduceKey {
    pub(crate) fn source(&self) -> String {
        let (elem, name) = (self.elem, self.elem.kind().name());
        let initial = self.join.initial(elem);
        let mut kernel = String::new();
        if self.shared {
            put(
                &mut kernel,
                format_args!(
                    "var<workgroup> parts: array<{name}, {GROUP}>;\n
@compute @workgroup_size({GROUP})
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(local_invocation_index) t: u32) {{
    let i = wid.x + wid.y * P.row;
"
                ),
            );
        } else {
            kernel.push_str(EACH);
        }
        kernel.push_str("    var base = P.off.x;\n");
        kernel.push_str(&walk(&[("base", 'y')], "i", "0u", "P.rank"));
        put(&mut kernel, format_args!("    var acc: {name} = {initial};\n"));
        if self.shared {
            put(&mut kernel, format_args!("    for (var j = t; j < P.k; j += {GROUP}u) {{\n"));
        } else {
            kernel.push_str("    for (var j = 0u; j < P.k; j++) {\n");
        }
        if self.one {
            kernel.push_str("    let p = base + j * P.e0.y;\n");
        } else {
            kernel.push_str("    var p = base;\n");
            kernel.push_str(&walk(&[("p", 'y')], "j", "P.rank", "P.e0.x").replace("rest", "left"));
        }
        let loaded = elem.load("x0[p]");
        put(&mut kernel, format_args!("    let v = {loaded};\n"));
        put(&mut kernel, format_args!("    acc = {};\n    }}\n", self.join.of(elem, "acc", "v")));
        if self.shared {
            let joined = self.join.of(elem, "parts[t]", "parts[t + s]");
            put(
                &mut kernel,
                format_args!(
                    "    parts[t] = acc;
    workgroupBarrier();
    for (var s = {}u; s > 0u; s = s >> 1u) {{
        if (t < s) {{ parts[t] = {joined}; }}
        workgroupBarrier();
    }}
    if (t > 0u || i >= P.n) {{ return; }}
    acc = parts[0];
",
                    GROUP / 2
                ),
            );
        }
        let stored = elem.store(&self.join.last(elem, "acc"));
        put(&mut kernel, format_args!("    y[P.off.w + i] = {stored};\n}}\n"));
        assembled(1, false, &kernel)
    }
}
