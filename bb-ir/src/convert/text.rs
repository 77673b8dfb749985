//! Numbers to strings and back.
//!
//! A float is written with the fewest digits that identify it in its own type (`bf16` and the small
//! floats as the `f32` that they equal), plain from 1e-4 up to 1e16 and scientific beyond, as NumPy
//! writes `float64`. A number is read as Rust's `parse` does, without regard to the case of `INF`
//! and `NaN` and to spaces around it.

use super::{Rounding, cast_into, unpacked_size};
use crate::tensor::StringsBuilder;
use crate::{DataType, Error, TensorData, memory};
use half::f16;

/// Writes each element in `src`, unpacked as the [module](super) describes, as a string.
///
/// # Errors
///
/// [`Error::Unsupported`] for complex numbers and strings; [`Error::ByteLength`] if `src` is not
/// whole elements; [`Error::Memory`] if there is no memory for the list.
pub fn format_elements(from: DataType, src: &[u8]) -> Result<Vec<String>, Error> {
    let mut texts = memory::room("format_elements", src.len() / unpacked_size(from).max(1))?;
    format_each(from, src, &mut |text| memory::push("format_elements", &mut texts, text.to_owned()))?;
    Ok(texts)
}

/// Makes a tensor of strings of the elements in `src`, written as [`format_elements`] writes them.
///
/// # Errors
///
/// As [`format_elements`]; [`Error::ByteLength`] if `shape` has another number of elements; [`Error::Memory`] if there
/// is no memory for the strings.
pub fn format_tensor(from: DataType, shape: &[usize], src: &[u8]) -> Result<TensorData, Error> {
    let mut strings = StringsBuilder::with_room("cast", src.len() / unpacked_size(from).max(1))?;
    format_each(from, src, &mut |text| strings.push(text))?;
    strings.finish(shape)
}

/// Takes each element as a string.
type Take<'a> = &'a mut dyn FnMut(&str) -> Result<(), Error>;

fn format_each(from: DataType, src: &[u8], take: Take<'_>) -> Result<(), Error> {
    match from {
        DataType::String | DataType::C64 | DataType::C128 => {
            Err(Error::Unsupported { op: "cast", dtype: from })
        }
        DataType::Bool => src.iter().try_for_each(|&b| take(if b == 0 { "False" } else { "True" })),
        DataType::U64 => through(from, src, DataType::U64, take, |b| u64::from_le_bytes(b).to_string()),
        DataType::F64 => through(from, src, DataType::F64, take, |b| {
            let x = f64::from_le_bytes(b);
            plain(x, || format!("{x:?}"), || format!("{x:e}"))
        }),
        DataType::F16 => through(from, src, DataType::F16, take, |b| {
            let x = shortest_half(f16::from_le_bytes(b));
            plain(x, || format!("{x:?}"), || format!("{x:e}"))
        }),
        float
            if float == DataType::F32 || float == DataType::BF16 || super::decode_table(float).is_some() =>
        {
            through(from, src, DataType::F32, take, |b| {
                let x = f32::from_le_bytes(b);
                plain(f64::from(x), || format!("{x:?}"), || format!("{x:e}"))
            })
        }
        _ => through(from, src, DataType::I64, take, |b| i64::from_le_bytes(b).to_string()),
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
        return Err(Error::Unsupported { op: "cast", dtype: to });
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

/// Casts elements to the type `carrier`, a few at a time, and formats each.
fn through<const N: usize>(
    from: DataType,
    src: &[u8],
    carrier: DataType,
    take: Take<'_>,
    format: impl Fn([u8; N]) -> String,
) -> Result<(), Error> {
    const CHUNK: usize = 256;
    let mut carried = [[0u8; N]; CHUNK];
    for chunk in src.chunks(CHUNK * unpacked_size(from)) {
        let count = chunk.len() / unpacked_size(from);
        let carried = carried.get_mut(..count).unwrap_or_default();
        cast_into(from, chunk, carrier, Rounding::default(), carried.as_flattened_mut())?;
        carried.iter().try_for_each(|&element| take(&format(element)))?;
    }
    Ok(())
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
