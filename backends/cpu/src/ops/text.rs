//! Operations on strings. Elements are ranges (two `u64`) of a text, which arrays share.

use super::convert::elements;
use super::elementwise::joint;
use super::{dense, made};
use crate::array::Array;
use crate::error::Result;
use crate::layout::for_each_index;
use crate::pace::Pace;
use crate::pool::Pool;
use bb::ir::convert::{Rounding, format_tensor, parse_elements, unpacked_size};
use bb::ir::{infer, memory};
use bb::{DataType, Shape, Tensor, TensorData};
use bytes::Bytes;
use std::slice;
use std::sync::Arc;

/// The cost of comparing or parsing a string, in elements of a cheap operation.
const TEXT: usize = 16;

/// The range of one string in the text.
type Range = [u64; 2];

/// Creates an array from a host tensor of strings. It shares the characters.
pub(crate) fn from_host(pool: &Arc<Pool>, value: &TensorData) -> Result<Array> {
    let bytes = value.bytes()?;
    let head = (value.len() + 1) * size_of::<u64>();
    let (offsets, _) = bytes.split_at_checked(head).unwrap_or_default();
    let offsets = offsets.as_chunks::<8>().0;
    let out = made(pool, DataType::String, Shape::from_slice(value.shape()), |out| {
        let out = out.cast::<Range>();
        let mut pace = Pace::new();
        for (i, pair) in offsets.windows(2).enumerate() {
            pace.step(1);
            if let &[start, end] = pair {
                // SAFETY: there is one pair of neighbouring offsets for each element.
                unsafe { out.add(i).write([u64::from_le_bytes(start), u64::from_le_bytes(end)]) }
            }
        }
    })?;
    let text = if bytes.len() > head { bytes.slice(head..) } else { Bytes::new() };
    Ok(out.with_text(Some(Arc::new(text))))
}

/// Copies strings to the host.
pub(crate) fn to_host(pool: &Arc<Pool>, x: &Array) -> Result<TensorData> {
    let x = dense(pool, x)?;
    Ok(TensorData::strings(x.shape(), &list(&x)?)?)
}

/// Returns the strings of a contiguous array.
fn list(x: &Array) -> Result<Vec<&[u8]>> {
    let text: &[u8] = x.text().map(|t| &t[..]).unwrap_or_default();
    // SAFETY: the array is contiguous, and its elements are ranges.
    let ranges = unsafe { slice::from_raw_parts(x.ptr().cast::<Range>(), x.len()) };
    Ok(memory::collected("to_host", ranges.iter().map(|&range| piece(text, range)))?)
}

fn piece(text: &[u8], [start, end]: Range) -> &[u8] {
    let range = usize::try_from(start).ok().zip(usize::try_from(end).ok());
    range.and_then(|(start, end)| text.get(start..end)).unwrap_or_default()
}

/// Compares the strings of two arrays for equality, with broadcasting.
pub(crate) fn equal(pool: &Arc<Pool>, a: &Array, b: &Array) -> Result<Array> {
    let shape = infer::broadcast("equal", &[a.shape(), b.shape()])?;
    let dims = joint([a, b], &shape);
    let [left, right] = [a, b].map(|x| x.text().map(|t| &t[..]).unwrap_or_default());
    made(pool, DataType::Bool, shape, |mut out| {
        let mut pace = Pace::new();
        for_each_index(&dims, |[i, j]| {
            pace.step(TEXT);
            // SAFETY: `i` and `j` are indices of the operands, and there is room for every result.
            unsafe {
                let (i, j) = (*a.ptr().cast::<Range>().offset(i), *b.ptr().cast::<Range>().offset(j));
                out.write(u8::from(piece(left, i) == piece(right, j)));
                out = out.add(1);
            }
        });
    })
}

/// Parses strings as numbers.
pub(crate) fn parse(pool: &Arc<Pool>, x: &Array, to: DataType, rounding: Rounding) -> Result<Array> {
    let x = dense(pool, x)?;
    let mut bytes = memory::filled("cast", 0, x.len() * unpacked_size(to))?;
    let strings = list(&x)?;
    let mut pace = Pace::new();
    let strings = strings.into_iter().inspect(|_| pace.step(TEXT)).map(String::from_utf8_lossy);
    pool.run(|| parse_elements(strings, to, rounding, &mut bytes))??;
    made(pool, to, Shape::from_slice(x.shape()), |out| {
        // SAFETY: `out` has room for that many elements of that type.
        unsafe { out.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) }
    })
}

/// Formats numbers as strings.
pub(crate) fn print(pool: &Arc<Pool>, from: DataType, shape: &[usize], numbers: &[u8]) -> Result<Array> {
    from_host(pool, &pool.run(|| format_tensor(from, shape, numbers))??)
}

/// Returns `y` with ranges that refer to a text shared with `x`, and that text. The text begins with the text of `x`,
/// so the ranges of `x` stay valid. If the operands are not strings, returns `y` unchanged and `None`.
pub(crate) fn under_one(pool: &Arc<Pool>, x: &Array, y: &Array) -> Result<(Array, Option<Arc<Bytes>>)> {
    let (Some(first), Some(second)) = (x.text(), y.text()) else {
        return Ok((y.clone(), None));
    };
    if Arc::ptr_eq(first, second) {
        return Ok((y.clone(), Some(first.clone())));
    }
    let mut text = memory::room("concat", first.len().saturating_add(second.len()))?;
    text.extend_from_slice(first);
    text.extend_from_slice(second);
    let text = Bytes::from(text);
    let moved = shifted(pool, y, first.len() as u64)?;
    Ok((moved, Some(Arc::new(text))))
}

/// Returns strings with `by` added to the bounds of their ranges.
pub(crate) fn shifted(pool: &Arc<Pool>, x: &Array, by: u64) -> Result<Array> {
    let x = dense(pool, x)?;
    // SAFETY: `x` is contiguous.
    let bytes = unsafe { elements(&x) };
    made(pool, DataType::String, Shape::from_slice(x.shape()), |out| {
        let out = out.cast::<u64>();
        for (i, &bound) in bytes.as_chunks::<8>().0.iter().enumerate() {
            // SAFETY: `out` has room for as many bounds.
            unsafe { out.add(i).write(u64::from_le_bytes(bound) + by) }
        }
    })
}
