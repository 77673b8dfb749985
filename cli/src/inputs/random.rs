//! Generates random elements for inputs.

use super::uses::ElementChoice;
use crate::args::Range;
use crate::error::{Error, Result};
use crate::number::{self, NumberKind};
use bb::onnx::OnnxValue;
use bb::{DataType, Port, RunOptions, TensorData};
use bb_ir::convert::{Rounding, cast};
use bb_ir::graph::ValueType;
use bb_ir::{StringsBuilder, memory};

/// The ranges from the options.
pub(super) struct Ranges<'a>(&'a [Range]);

impl<'a> Ranges<'a> {
    /// Returns an error if a range is for an input that the model does not have, or if two ranges are for the same input.
    pub(super) fn new(ranges: &'a [Range], ports: &[Port]) -> Result<Ranges<'a>> {
        for (i, range) in ranges.iter().enumerate() {
            if ranges.iter().take(i).any(|other| other.input == range.input) {
                let name = range.input.clone().unwrap_or_else(|| "all inputs".to_owned());
                return Err(Error::Twice { option: "--range", name });
            }
            if let Some(name) = &range.input
                && !ports.iter().any(|port| port.name == *name)
            {
                return Err(super::unknown(name, ports.iter().map(|port| port.name.as_str())));
            }
        }
        Ok(Ranges(ranges))
    }

    fn of(&self, input: &str) -> Option<&'a Range> {
        let own = self.0.iter().find(|range| range.input.as_deref() == Some(input));
        own.or_else(|| self.0.iter().find(|range| range.input.is_none()))
    }
}

/// The number of elements of a generated sequence, and of entries of a generated map.
const SEVERAL: usize = 3;

/// The number of elements that are generated at a time. It is a multiple of 8, so that packed elements end at a byte boundary.
const CHUNK: usize = 1 << 14;

/// Generates a random input.
///
/// Shapes: `shape` is the shape of the tensor, or of each tensor in a sequence.
pub(super) fn item(
    name: &str,
    ty: &ValueType,
    shape: &[usize],
    seed: u64,
    ranges: &Ranges<'_>,
    fits: Option<&ElementChoice>,
) -> Result<OnnxValue<TensorData>> {
    let not_random = || Error::NotRandom { name: name.to_owned(), ty: crate::render::ty(ty) };
    let tensor = |dtype, shape: &[usize], seed| {
        let mut draw = Draw { state: seed };
        Filling { name, dtype, range: ranges.of(name), fits }.tensor(shape, &mut draw)
    };
    Ok(match ty {
        ValueType::Unknown => return Err(not_random()),
        ValueType::Tensor { dtype, .. } => OnnxValue::Tensor(tensor(*dtype, shape, seed)?),
        ValueType::Optional(of) => item(name, of, shape, seed, ranges, fits)?,
        ValueType::Sequence(of) => {
            // Different inputs have consecutive seeds, so the seeds of a sequence's elements differ in the upper half.
            let seeds = (1..=SEVERAL as u64).map(|i| seed.wrapping_add(i << 32));
            OnnxValue::Sequence(
                seeds.map(|seed| item(name, of, shape, seed, ranges, fits)).collect::<Result<_>>()?,
            )
        }
        ValueType::Map(key, of) => {
            let ValueType::Tensor { dtype, .. } = **of else { return Err(not_random()) };
            let keys = match (key, fits) {
                (DataType::String, Some(ElementChoice::Texts(texts))) => {
                    let texts: Vec<&String> = texts.iter().take(SEVERAL).collect();
                    TensorData::strings(&[texts.len()], &texts)?
                }
                (DataType::String, _) => TensorData::strings(&[SEVERAL], &["a", "b", "c"])?,
                (key, _) => cast(&TensorData::new(&[SEVERAL], &[0i64, 1, 2])?, *key, Rounding::default())?,
            };
            let values = tensor(dtype, &[keys.len()], seed)?;
            OnnxValue::Map { keys, values }
        }
    })
}

/// Returns an error if the element type of an input cannot represent its range. Called before any input is generated.
pub(super) fn check(port: &Port, ranges: &Ranges<'_>) -> Result<()> {
    let ValueType::Tensor { dtype, .. } = port.ty else { return Ok(()) };
    let dtype = match dtype {
        DataType::String => return Ok(()),
        other => drawn(other),
    };
    let filling = Filling { name: &port.name, dtype, range: ranges.of(&port.name), fits: None };
    filling.numbers(dtype).map(drop)
}

/// Returns the type of the drawn numbers. A complex number consists of two floats.
fn drawn(dtype: DataType) -> DataType {
    match dtype {
        DataType::C64 => DataType::F32,
        DataType::C128 => DataType::F64,
        other => other,
    }
}

/// The parameters for filling an input.
struct Filling<'a> {
    name: &'a str,
    dtype: DataType,
    range: Option<&'a Range>,
    fits: Option<&'a ElementChoice>,
}

impl Filling<'_> {
    fn tensor(&self, shape: &[usize], draw: &mut Draw) -> Result<TensorData> {
        let too_large = || Error::TooLarge { name: self.name.to_owned(), shape: shape.to_vec() };
        let elements = bb_ir::element_count(shape).ok_or_else(too_large)?;
        if self.dtype == DataType::String {
            let mut texts = StringsBuilder::with_room("--random", elements)?;
            (0..elements).try_for_each(|_| texts.push(self.text(draw)))?;
            return Ok(texts.finish(shape)?);
        }
        let drawn = drawn(self.dtype);
        let parts = if drawn == self.dtype { 1 } else { 2 };
        let elements = elements.checked_mul(parts).ok_or_else(too_large)?;
        let size = drawn.bytes_for(elements).ok_or_else(too_large)?;
        let mut bytes: Vec<u8> = memory::room("--random", size)?;
        let numbers = self.numbers(drawn)?;
        let mask = self.masks().then(|| shape.last().copied().unwrap_or(1));
        let mut at = 0;
        while at < elements {
            RunOptions::check_current()?;
            let count = CHUNK.min(elements - at);
            let chunk = if number::is_float(drawn) {
                let chunk: Vec<f64> = (0..count).map(|_| numbers.float(draw)).collect();
                TensorData::new(&[count], &chunk)?
            } else {
                let one = |i: usize| match mask {
                    // Each row of a mask begins with a 1, because a mask without any 1 would give no meaningful result.
                    Some(row) if (at + i).is_multiple_of(row.max(1)) => 1,
                    _ => numbers.whole(draw),
                };
                // Only `u64` has larger integers than `i64`, and they are not drawn.
                let chunk: Vec<i64> = (0..count).map(one).collect();
                TensorData::new(&[count], &chunk)?
            };
            bytes.extend_from_slice(cast(&chunk, drawn, Rounding::default())?.bytes()?);
            at += count;
        }
        Ok(TensorData::adopt(self.dtype, shape, bytes.into())?)
    }

    /// Returns whether the input's name suggests a mask, whose rows must each contain a 1.
    fn masks(&self) -> bool {
        self.range.is_none()
            && self.fits.is_none()
            && !number::is_float(self.dtype)
            && self.name.to_ascii_lowercase().contains("mask")
    }

    fn numbers(&self, dtype: DataType) -> Result<Numbers<'_>> {
        let Some(range) = self.range.filter(|_| dtype != DataType::Bool) else {
            return Ok(match self.fits {
                _ if number::is_float(dtype) => Numbers::Floats(0.0, 1.0),
                Some(ElementChoice::Indices(low, high)) => {
                    let (low, high) = clamped(dtype, *low, *high);
                    Numbers::Whole(low, high)
                }
                Some(ElementChoice::Numbers(numbers)) if !numbers.is_empty() => Numbers::Choice(numbers),
                _ => Numbers::Whole(0, 2),
            });
        };
        let refused = || Error::Range { name: self.name.to_owned(), dtype, low: range.low, high: range.high };
        if number::is_float(dtype) {
            // A bound beyond the range of the type would become infinite, so it is refused.
            let bounds = cast(&TensorData::new(&[2], &[range.low, range.high])?, dtype, Rounding::default())?;
            let back = cast(&bounds, DataType::F64, Rounding::default())?;
            let finite = back.as_slice::<f64>()?.iter().all(|x| x.is_finite());
            return if finite { Ok(Numbers::Floats(range.low, range.high)) } else { Err(refused()) };
        }
        let (low, high) = (range.low.ceil(), range.high.ceil());
        let (least, most) = bounds(dtype);
        // A whole `f64` of magnitude below 2^63 converts to `i64` exactly.
        if low >= high || low < least as f64 || high - 1.0 > most as f64 {
            return Err(refused());
        }
        Ok(Numbers::Whole(low as i64, high as i64))
    }

    fn text(&self, draw: &mut Draw) -> String {
        if let Some(ElementChoice::Texts(texts)) = self.fits
            && let Some(text) = texts.get(draw.below(texts.len() as u64) as usize)
        {
            return text.clone();
        }
        let length = 1 + draw.below(8);
        (0..length).map(|_| char::from(b'a' + draw.below(26) as u8)).collect()
    }
}

/// Returns the minimum and maximum integer of a type, limited to `i64`.
fn bounds(dtype: DataType) -> (i64, i64) {
    let bits = dtype.bits().clamp(1, 64) as u32;
    match number::of(dtype) {
        Some(NumberKind::Signed) => (i64::MIN >> (64 - bits), i64::MAX >> (64 - bits)),
        Some(NumberKind::Unsigned) => (0, i64::try_from(u64::MAX >> (64 - bits)).unwrap_or(i64::MAX)),
        Some(NumberKind::Float) | None => (0, 1),
    }
}

/// Returns the part of a range that a type can represent, or 0 and 1 if there is none.
fn clamped(dtype: DataType, low: i64, high: i64) -> (i64, i64) {
    let (least, most) = bounds(dtype);
    let (low, high) = (low.max(least), high.min(most.saturating_add(1)));
    if low < high { (low, high) } else { (0, 2) }
}

/// The numbers to draw from. The upper bounds are exclusive.
enum Numbers<'a> {
    Floats(f64, f64),
    Whole(i64, i64),
    Choice(&'a [i64]),
}

impl Numbers<'_> {
    fn float(&self, draw: &mut Draw) -> f64 {
        match self {
            Numbers::Floats(low, high) => low + draw.unit() * (high - low),
            Numbers::Whole(..) | Numbers::Choice(_) => self.whole(draw) as f64,
        }
    }

    fn whole(&self, draw: &mut Draw) -> i64 {
        match self {
            Numbers::Floats(low, _) => *low as i64,
            Numbers::Whole(low, high) => low.wrapping_add(draw.below(high.abs_diff(*low)) as i64),
            Numbers::Choice(numbers) => {
                numbers.get(draw.below(numbers.len() as u64) as usize).copied().unwrap_or(0)
            }
        }
    }
}

/// A generator of random numbers, SplitMix64 (Steele, Lea, Flood 2014).
struct Draw {
    state: u64,
}

impl Draw {
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Draws a number in [0, 1).
    fn unit(&mut self) -> f64 {
        (self.next() >> 40) as f64 / (1u64 << 24) as f64
    }

    /// Draws an integer in [0, `bound`). `bound` must not be 0.
    fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound.max(1))) >> 64) as u64
    }
}
