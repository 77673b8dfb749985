//! Numbers to strings and back.
//!
//! A float is written with the fewest digits that identify it in its own type (`bf16` and the small
//! floats as the `f32` that they equal), plain from 1e-4 up to 1e16 and scientific beyond, as NumPy
//! writes `float64`. A number is read as Rust's `parse` does, without regard to the case of `INF`
//! and `NaN` and to spaces around it.

use super::{Rounding, cast_into, unpacked_size};
use crate::{DataType, Error};
use half::f16;

/// Writes each element in `src`, unpacked as the [module](super) describes, as a string.
///
/// # Errors
///
/// [`Error::Unsupported`] for complex numbers and strings; [`Error::ByteLength`] if `src` is not
/// whole elements.
pub fn format_elements(from: DataType, src: &[u8]) -> Result<Vec<String>, Error> {
    match from {
        DataType::String | DataType::C64 | DataType::C128 => {
            Err(Error::Unsupported { op: "format_elements", dtype: from })
        }
        DataType::Bool => Ok(src.iter().map(|&b| if b == 0 { "False" } else { "True" }.to_owned()).collect()),
        DataType::U64 => through(from, src, DataType::U64, |b| u64::from_le_bytes(b).to_string()),
        DataType::F64 => through(from, src, DataType::F64, |b| {
            let x = f64::from_le_bytes(b);
            plain(x, || format!("{x:?}"), || format!("{x:e}"))
        }),
        DataType::F16 => through(from, src, DataType::F16, |b| {
            let x = shortest_half(f16::from_le_bytes(b));
            plain(x, || format!("{x:?}"), || format!("{x:e}"))
        }),
        float
            if float == DataType::F32 || float == DataType::BF16 || super::decode_table(float).is_some() =>
        {
            through(from, src, DataType::F32, |b| {
                let x = f32::from_le_bytes(b);
                plain(f64::from(x), || format!("{x:?}"), || format!("{x:e}"))
            })
        }
        _ => through(from, src, DataType::I64, |b| i64::from_le_bytes(b).to_string()),
    }
}

/// Reads each string as an element of type `to`, writing it to `out` as the [module](super)
/// describes.
///
/// # Errors
///
/// [`Error::CastText`] for a string that is no number of that type; [`Error::Unsupported`] for
/// complex numbers and strings; [`Error::ByteLength`] if `out` has not room for exactly as many
/// elements as there are strings.
pub fn parse_elements<'a>(
    texts: impl ExactSizeIterator<Item = &'a str>,
    to: DataType,
    rounding: Rounding,
    out: &mut [u8],
) -> Result<(), Error> {
    if matches!(to, DataType::String | DataType::C64 | DataType::C128) {
        return Err(Error::Unsupported { op: "parse_elements", dtype: to });
    }
    let size = unpacked_size(to);
    let (n, got) = (texts.len(), out.len());
    if n.checked_mul(size) != Some(got) {
        return Err(Error::ByteLength {
            dtype: to,
            shape: [n].as_slice().into(),
            expected: n.saturating_mul(size),
            got,
        });
    }
    for (text, out) in texts.zip(out.chunks_mut(size)) {
        let refused = || Error::CastText { text: text.chars().take(64).collect(), to };
        if to == DataType::Bool {
            out.fill(u8::from(!text.is_empty()));
        } else if to == DataType::F32 {
            out.copy_from_slice(&text.trim().parse::<f32>().map_err(|_| refused())?.to_le_bytes());
        } else if let Some((least, most)) = integer_range(to) {
            let value =
                parse_integer(text.trim()).filter(|v| (least..=most).contains(v)).ok_or_else(refused)?;
            // Two's complement: the low bytes are the element, whatever its width.
            out.copy_from_slice(value.to_le_bytes().get(..size).unwrap_or_default());
        } else {
            let value: f64 = text.trim().parse().map_err(|_| refused())?;
            cast_into(DataType::F64, &value.to_le_bytes(), to, rounding, out)?;
        }
    }
    Ok(())
}

fn through<const N: usize>(
    from: DataType,
    src: &[u8],
    carrier: DataType,
    format: impl Fn([u8; N]) -> String,
) -> Result<Vec<String>, Error> {
    let mut bytes = vec![0; (src.len() / unpacked_size(from)).saturating_mul(N)];
    cast_into(from, src, carrier, Rounding::default(), &mut bytes)?;
    Ok(bytes.as_chunks::<N>().0.iter().map(|&b| format(b)).collect())
}

fn plain(x: f64, positional: impl Fn() -> String, scientific: impl Fn() -> String) -> String {
    if x.is_nan() {
        "nan".to_owned()
    } else if x.is_infinite() {
        if x > 0.0 { "inf" } else { "-inf" }.to_owned()
    } else if x == 0.0 || (1e-4..1e16).contains(&x.abs()) {
        positional()
    } else {
        let text = scientific();
        // C writes an exponent with its sign and two digits.
        match text.split_once('e') {
            Some((digits, exponent)) => match exponent.strip_prefix('-') {
                Some(exponent) => format!("{digits}e-{exponent:0>2}"),
                None => format!("{digits}e+{exponent:0>2}"),
            },
            None => text,
        }
    }
}

/// Returns the decimal of fewest digits that rounds to `x`.
fn shortest_half(x: f16) -> f64 {
    let exact = x.to_f64();
    // Halfway between two decimals, only the one farther from zero may identify `x`: below a power
    // of two the neighbours are closer.
    let beyond = exact * (1.0 + f64::EPSILON);
    // Five significant digits identify every `f16`.
    (0..5)
        .flat_map(|digits| [format!("{exact:.digits$e}"), format!("{beyond:.digits$e}")])
        .filter_map(|text| text.parse::<f64>().ok())
        .find(|&decimal| f16::from_f64(decimal) == x)
        .unwrap_or(exact)
}

fn parse_integer(text: &str) -> Option<i128> {
    if let Ok(value) = text.parse() {
        return Some(value);
    }
    let value: f64 = text.parse().ok()?;
    value.is_finite().then_some(value.trunc() as i128)
}

const fn integer_range(dtype: DataType) -> Option<(i128, i128)> {
    let bits = dtype.bits();
    match dtype {
        DataType::U2 | DataType::U4 | DataType::U8 | DataType::U16 | DataType::U32 | DataType::U64 => {
            Some((0, (1 << bits) - 1))
        }
        DataType::I2 | DataType::I4 | DataType::I8 | DataType::I16 | DataType::I32 | DataType::I64 => {
            Some((-(1 << (bits - 1)), (1 << (bits - 1)) - 1))
        }
        _ => None,
    }
}
