//! Formats calls for messages, shortened to a maximum length.

use super::Call;
use super::show::{SHOWN, shown};
use bb_ir::op::{OpSpec, Param};
use std::fmt::{self, Display as _};

/// The maximum number of operands to print.
const OPERANDS: usize = 8;

/// A call that is displayed as in `reduce_sum(f32[2] {1.0, 2.0}; axes = [0], keepdims = true)`.
pub(super) struct ShownCall<'a> {
    pub(super) op: &'static OpSpec,
    pub(super) operands: Vec<String>,
    pub(super) params: &'a [Param<'static>],
}

impl fmt::Display for ShownCall<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}(", self.op.method)?;
        for (at, operand) in self.operands.iter().take(OPERANDS).enumerate() {
            write!(f, "{}{operand}", if at == 0 { "" } else { ", " })?;
        }
        if self.operands.len() > OPERANDS {
            write!(f, ", and {} more", self.operands.len() - OPERANDS)?;
        }
        for (at, (param, spec)) in self.params.iter().zip(self.op.params).enumerate() {
            let separator = match (at, self.operands.is_empty()) {
                (0, true) => "",
                (0, false) => "; ",
                _ => ", ",
            };
            write!(f, "{separator}{} = ", spec.name)?;
            value(param, f)?;
        }
        f.write_str(")")
    }
}

fn value(param: &Param<'_>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match param {
        Param::Int(v) => v.fmt(f),
        Param::OptInt(v) => write!(f, "{v:?}"),
        Param::Float(v) => v.fmt(f),
        Param::OptFloat(v) => write!(f, "{v:?}"),
        Param::Bool(v) => v.fmt(f),
        Param::Ints(v) => list(v, f),
        Param::Floats(v) => list(v, f),
        Param::Extents(v) => list(v, f),
        Param::Type(v) => v.fmt(f),
        Param::Round(v) => f.write_str(v.name()),
        Param::Text(v) => write!(f, "{v:?}"),
        Param::Data(v) => f.write_str(&shown(v)),
        other => write!(f, "{other:?}"),
    }
}

fn list<T: fmt::Display>(values: &[T], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_str("[")?;
    for (at, value) in values.iter().take(SHOWN).enumerate() {
        write!(f, "{}{value}", if at == 0 { "" } else { ", " })?;
    }
    f.write_str(if values.len() > SHOWN { ", …]" } else { "]" })
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let operands = self.inputs.iter().map(shown).collect();
        ShownCall { op: self.op.spec(), operands, params: &self.params }.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::super::show::element;
    use super::*;
    use bb_core::TensorData;
    use bb_ir::op::Primitive;
    use std::borrow::Cow;

    #[test]
    fn a_call_is_shown_with_numbers_and_cut() {
        let x = TensorData::new(&[2, 2], &[1f32, -2.5, f32::NAN, 1e20]).expect("four elements");
        let params = vec![Param::Ints(Cow::Owned(vec![0, -1])), Param::Bool(true)];
        let call = Call { op: Primitive::ReduceSum, inputs: vec![x], params };
        assert_eq!(
            call.to_string(),
            "reduce_sum(f32[2, 2] {1.0, -2.5, nan, 1e+20}; axes = [0, -1], keepdims = true)"
        );
        let long = TensorData::new(&[1000], &[7u8; 1000]).expect("a thousand elements");
        let text = shown(&long);
        assert!(
            text.starts_with("u8[1000] {7, 7, ") && text.ends_with(", 7, …}") && text.len() < 80,
            "{text}"
        );
        let call = Call { op: Primitive::Concat, inputs: vec![long; 1000], params: vec![Param::Int(0)] };
        assert!(call.to_string().len() < 1000);
        let words = TensorData::strings(&[2], &["a", "\"".repeat(99).as_str()]).expect("two strings");
        assert!(shown(&words).starts_with("string[2] {\"a\", \"\\\"") && shown(&words).len() < 120);
        assert_eq!(element(&words, 2), "nothing");
    }
}
