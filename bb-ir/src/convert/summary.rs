//! Formats a tensor as one line of text.

use super::{Rounding, cast_into, format_elements, unpacked_size};
use crate::{DataType, Error, TensorData};
use std::fmt;

/// The number of elements that a summary shows.
const SHOWN: usize = 6;

/// The number of elements that are converted at a time for the statistics.
const CHUNK: usize = 1 << 14;

/// A tensor that is displayed as one line: its type, its shape, its minimum, maximum and mean, and
/// its first elements. See [`TensorData::summary`].
#[derive(Debug, Clone, Copy)]
pub struct Summary<'a>(&'a TensorData);

impl TensorData {
    /// Returns a value that [`Display`](fmt::Display) writes as one line, as in
    /// `f32[2, 2] min -1 max 2 mean 0.75: 1.0 1.0 2.0 -1.0`.
    ///
    /// NaN is ignored in the minimum, the maximum and the mean; the line contains the number of
    /// NaNs.
    pub fn summary(&self) -> Summary<'_> {
        Summary(self)
    }
}

impl fmt::Display for Summary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let x = self.0;
        write!(f, "{}{:?}", x.dtype(), x.shape())?;
        if x.is_empty() {
            return f.write_str(" empty");
        }
        if x.dtype() == DataType::String {
            f.write_str(":")?;
            x.iter_str().take(SHOWN).try_for_each(|s| match s.char_indices().nth(40) {
                Some((end, _)) => write!(f, " {:?}…", s.get(..end).unwrap_or(&s)),
                None => write!(f, " {s:?}"),
            })?;
        } else {
            let bytes = match x.unpacked() {
                Ok(bytes) => bytes,
                Err(Error::Memory { .. }) => {
                    return f.write_str(" too large for this machine's memory to be looked at");
                }
                Err(error) => return write!(f, " cannot be read: {error}"),
            };
            let size = unpacked_size(x.dtype());
            if !matches!(x.dtype(), DataType::C64 | DataType::C128) {
                statistics(x.dtype(), &bytes, size).fmt(f)?;
            }
            f.write_str(":")?;
            let first = bytes.get(..SHOWN.min(x.len()) * size).unwrap_or_default();
            match format_elements(x.dtype(), first) {
                Ok(texts) => texts.iter().try_for_each(|t| write!(f, " {t}"))?,
                Err(_) => complex(x.dtype(), first, f)?,
            }
        }
        if x.len() > SHOWN { f.write_str(" …") } else { Ok(()) }
    }
}

struct Statistics {
    least: f64,
    greatest: f64,
    sum: f64,
    counted: usize,
    nan: usize,
}

fn statistics(dtype: DataType, bytes: &[u8], size: usize) -> Statistics {
    let mut s =
        Statistics { least: f64::INFINITY, greatest: f64::NEG_INFINITY, sum: 0.0, counted: 0, nan: 0 };
    let mut wide = vec![0; CHUNK * size_of::<f64>()];
    for chunk in bytes.chunks(CHUNK * size) {
        let Some(out) = wide.get_mut(..chunk.len() / size * size_of::<f64>()) else {
            continue;
        };
        if cast_into(dtype, chunk, DataType::F64, Rounding::default(), out).is_err() {
            continue;
        }
        for &value in out.as_chunks().0 {
            let value = f64::from_le_bytes(value);
            if value.is_nan() {
                s.nan += 1;
            } else {
                s.counted += 1;
                s.sum += value;
                s.least = s.least.min(value);
                s.greatest = s.greatest.max(value);
            }
        }
    }
    s
}

impl fmt::Display for Statistics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.counted > 0 {
            let mean = self.sum / self.counted as f64;
            write!(f, " min {} max {} mean {}", short(self.least), short(self.greatest), short(mean))?;
        }
        if self.nan > 0 { write!(f, " NaN {}", self.nan) } else { Ok(()) }
    }
}

/// Formats a number with at most six significant digits.
fn short(x: f64) -> String {
    let rounded: f64 = format!("{x:.5e}").parse().unwrap_or(x);
    if rounded == 0.0 || (1e-4..1e16).contains(&rounded.abs()) || !rounded.is_finite() {
        format!("{rounded}")
    } else {
        format!("{rounded:e}")
    }
}

fn complex(dtype: DataType, bytes: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let part = if dtype == DataType::C64 { DataType::F32 } else { DataType::F64 };
    let parts = format_elements(part, bytes).unwrap_or_default();
    parts.as_chunks().0.iter().try_for_each(|[re, im]| {
        let sign = if im.starts_with('-') { "" } else { "+" };
        write!(f, " {re}{sign}{im}i")
    })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use num_complex::Complex;

    #[test]
    fn one_line_says_what_a_tensor_is() {
        let text = |t: Result<TensorData, crate::Error>| t.unwrap().summary().to_string();
        let x = TensorData::new(&[2, 2], &[1f32, 1.0, 2.0, -1.0]);
        assert_eq!(text(x), "f32[2, 2] min -1 max 2 mean 0.75: 1.0 1.0 2.0 -1.0");
        let x = TensorData::new(&[8], &[f64::NAN, 1e300, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
        assert_eq!(text(x), "f64[8] min 0 max 1e300 mean 1.42857e299 NaN 1: nan 1e+300 1.0 0.0 0.0 0.0 …");
        assert_eq!(text(TensorData::bools(&[2], &[true, false])), "bool[2] min 0 max 1 mean 0.5: True False");
        assert_eq!(text(TensorData::strings(&[1], &["a\n"])), "string[1]: \"a\\n\"");
        assert_eq!(text(TensorData::new(&[], &[Complex::new(1f32, -2.0)])), "c64[]: 1.0-2.0i");
        assert_eq!(
            text(TensorData::pack(DataType::I4, &[2], &[0xF8, 7])),
            "i4[2] min -8 max 7 mean -0.5: -8 7"
        );
        assert_eq!(text(TensorData::new::<i32>(&[0, 3], &[])), "i32[0, 3] empty");
    }
}
