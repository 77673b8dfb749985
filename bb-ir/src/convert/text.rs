//! Converts numbers to strings and strings to numbers.
//!
//! A float is formatted with the minimum number of digits that identify it in its own type; `bf16` and floats
//! of at most 8 bits are formatted as the equal `f32`. The notation is plain from 1e-4 up to 1e16 and
//! scientific outside that range, as in NumPy for `float64`. Numbers are parsed by Rust's `parse`; spaces
//! around a number and the case of `INF` and `NaN` are ignored.

use super::decimal::f64_to_odd;
use super::{Rounding, cast_into, f16_from_f64, unpacked_size};
use crate::pace::Pace;
use crate::tensor::StringsBuilder;
use crate::{DataType, Error, TensorData, memory};
use half::f16;

/// Formats each element of `src` as a string. The elements are unpacked as the [module](super) describes.
///
/// # Errors
///
/// [`Error::Unsupported`] for complex numbers and strings; [`Error::ByteLength`] if `src` is not a whole
/// number of elements; [`Error::Memory`] if the system has no memory for the list.
pub fn format_elements(from: DataType, src: &[u8]) -> Result<Vec<String>, Error> {
    let mut texts = memory::room("format_elements", src.len() / unpacked_size(from).max(1))?;
    format_each(from, src, &mut |text| memory::push("format_elements", &mut texts, text.to_owned()))?;
    Ok(texts)
}

/// Creates a tensor of strings from the elements in `src`, formatted as by [`format_elements`].
///
/// # Errors
///
/// As [`format_elements`]; [`Error::ByteLength`] if `shape` has another number of elements; [`Error::Memory`]
/// if the system has no memory for the strings.
pub fn format_tensor(from: DataType, shape: &[usize], src: &[u8]) -> Result<TensorData, Error> {
    let mut strings = StringsBuilder::with_room("cast", src.len() / unpacked_size(from).max(1))?;
    format_each(from, src, &mut |text| strings.push(text))?;
    strings.finish(shape)
}

/// The cost of formatting or parsing a number, in the work units of [`Pace`].
const UNITS: usize = 32;

/// A callback that receives each formatted element.
type Emit<'a> = &'a mut dyn FnMut(&str) -> Result<(), Error>;

fn format_each(from: DataType, src: &[u8], emit: Emit<'_>) -> Result<(), Error> {
    match from {
        DataType::String | DataType::C64 | DataType::C128 => {
            Err(Error::Unsupported { op: "cast", dtype: from })
        }
        DataType::Bool => {
            let mut pace = Pace::new();
            src.iter().try_for_each(|&b| {
                pace.step(1);
                emit(if b == 0 { "False" } else { "True" })
            })
        }
        DataType::U64 => through(from, src, DataType::U64, emit, |b| u64::from_le_bytes(b).to_string()),
        DataType::F64 => through(from, src, DataType::F64, emit, |b| {
            let x = f64::from_le_bytes(b);
            plain(x, || format!("{x:?}"), || format!("{x:e}"))
        }),
        DataType::F16 => through(from, src, DataType::F16, emit, |b| {
            let x = shortest_half(f16::from_le_bytes(b));
            plain(x, || format!("{x:?}"), || format!("{x:e}"))
        }),
        float
            if float == DataType::F32 || float == DataType::BF16 || super::decode_table(float).is_some() =>
        {
            through(from, src, DataType::F32, emit, |b| {
                let x = f32::from_le_bytes(b);
                plain(f64::from(x), || format!("{x:?}"), || format!("{x:e}"))
            })
        }
        _ => through(from, src, DataType::I64, emit, |b| i64::from_le_bytes(b).to_string()),
    }
}

/// Parses each string as an element of the type `to`, and writes the element to `out`, unpacked as the
/// [module](super) documents.
///
/// # Errors
///
/// [`Error::CastText`] if a string is not a number of that type; [`Error::Unsupported`] for complex numbers
/// and strings; [`Error::ByteLength`] if `out` does not have the length of all elements.
pub fn parse_elements(
    texts: impl ExactSizeIterator<Item: AsRef<str>>,
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
    let mut pace = Pace::new();
    for (text, out) in texts.zip(out.chunks_mut(size)) {
        let text = text.as_ref();
        pace.step(UNITS + text.len());
        let refused = || Error::CastText { text: text.chars().take(64).collect(), to };
        if to == DataType::Bool {
            out.fill(u8::from(!text.is_empty()));
        } else if to == DataType::F32 {
            out.copy_from_slice(&text.trim().parse::<f32>().map_err(|_| refused())?.to_le_bytes());
        } else if let Some((least, most)) = integer_range(to) {
            let value =
                parse_integer(text.trim()).filter(|v| (least..=most).contains(v)).ok_or_else(refused)?;
            // In two's complement, the low bytes of the integer are the element, for every width.
            out.copy_from_slice(value.to_le_bytes().get(..size).unwrap_or_default());
        } else {
            let text = text.trim();
            let value = if to == DataType::F64 { text.parse().ok() } else { f64_to_odd(text) };
            let value: f64 = value.ok_or_else(refused)?;
            cast_into(DataType::F64, &value.to_le_bytes(), to, rounding, out)?;
        }
    }
    Ok(())
}

/// Casts elements to the type `carrier` in chunks, formats each element, and passes it to `emit`.
fn through<const N: usize>(
    from: DataType,
    src: &[u8],
    carrier: DataType,
    emit: Emit<'_>,
    format: impl Fn([u8; N]) -> String,
) -> Result<(), Error> {
    const CHUNK: usize = 256;
    let mut carried = [[0u8; N]; CHUNK];
    let mut pace = Pace::new();
    for chunk in src.chunks(CHUNK * unpacked_size(from)) {
        let count = chunk.len() / unpacked_size(from);
        let carried = carried.get_mut(..count).unwrap_or_default();
        cast_into(from, chunk, carrier, Rounding::default(), carried.as_flattened_mut())?;
        carried.iter().try_for_each(|&element| emit(&format(element)))?;
        pace.step(count * UNITS);
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
        // C writes the exponent with its sign and with at least two digits.
        match text.split_once('e') {
            Some((digits, exponent)) => match exponent.strip_prefix('-') {
                Some(exponent) => format!("{digits}e-{exponent:0>2}"),
                None => format!("{digits}e+{exponent:0>2}"),
            },
            None => text,
        }
    }
}

/// Returns the shortest decimal number that rounds to `x`.
fn shortest_half(x: f16) -> f64 {
    let exact = x.to_f64();
    // If `x` is halfway between two decimals, only the decimal that is farther from zero may identify `x`,
    // because below a power of two, adjacent floats are closer together.
    let beyond = exact * (1.0 + f64::EPSILON);
    // Five significant digits identify every `f16`.
    (0..5)
        .flat_map(|digits| [format!("{exact:.digits$e}"), format!("{beyond:.digits$e}")])
        .find(|text| f64_to_odd(text).is_some_and(|decimal| f16_from_f64(decimal) == x))
        .and_then(|text| text.parse().ok())
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
