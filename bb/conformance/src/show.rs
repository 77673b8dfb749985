//! Formats tensors for messages, shortened to a maximum length.

use bb_core::{DataType, TensorData};
use bb_ir::convert::{format_elements, unpacked_size};
use std::borrow::Cow;

/// The maximum number of elements of a tensor to print.
pub(super) const SHOWN: usize = 16;

/// The maximum number of characters of a string to print.
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
    // ONNX defines no text form for complex numbers.
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
