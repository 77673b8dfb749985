//! Formats calls and tensors for people, cut to a length.

use super::Call;
use bb_core::{DataType, TensorData};
use bb_ir::convert::{format_elements, unpacked_size};
use bb_ir::op::{OpSpec, Param};
use std::borrow::Cow;
use std::fmt::{self, Display as _};

/// The maximum number of elements of a tensor to print.
const SHOWN: usize = 16;

/// The maximum number of operands to print, and of bytes of a string.
const OPERANDS: usize = 8;
const TEXT: usize = 40;

/// Formats type, shape and elements, as in `f32[2, 2] {1.0, 2.0, 3.0, 4.0}`. If there are many elements, only the first
/// ones are printed.
pub(super) fn shown(x: &TensorData) -> String {
    let more = if x.len() > SHOWN { ", …" } else { "" };
    format!("{}{:?} {{{}{more}}}", x.dtype(), x.shape(), texts(x, 0, SHOWN).join(", "))
}

/// Formats one element.
pub(super) fn element(x: &TensorData, at: usize) -> String {
    texts(x, at, 1).pop().unwrap_or_else(|| "nothing".to_owned())
}

/// Formats `count` elements, from `from` on.
fn texts(x: &TensorData, from: usize, count: usize) -> Vec<String> {
    if x.dtype() == DataType::String {
        let cut = |text: Cow<'_, str>| match text.char_indices().nth(TEXT) {
            Some((end, _)) => format!("{:?}…", text.get(..end).unwrap_or(&text)),
            None => format!("{text:?}"),
        };
        return x.iter_str().skip(from).take(count).map(cut).collect();
    }
    let (bytes, size) = (x.unpacked().unwrap_or_default(), unpacked_size(x.dtype()));
    let end = (from + count).min(x.len());
    let some = bytes.get(from.min(end) * size..end * size).unwrap_or_default();
    let part = |dtype, bytes| format_elements(dtype, bytes).unwrap_or_default();
    // ONNX defines no text for complex numbers.
    let complex = |half: DataType| {
        let parts = part(half, some);
        parts.chunks(2).map(|pair| pair.join("+i·")).collect()
    };
    match x.dtype() {
        DataType::C64 => complex(DataType::F32),
        DataType::C128 => complex(DataType::F64),
        dtype => part(dtype, some),
    }
}

/// A call as text, as in `reduce_sum(f32[2] {1.0, 2.0}; axes = [0], keepdims = true)`.
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
    use super::*;
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
