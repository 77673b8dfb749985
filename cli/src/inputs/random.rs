//! Random elements for inputs.

use crate::args::Range;
use crate::error::{Error, Result};
use bb::{DataType, Port, TensorData};
use bb_ir::convert::Rounding;
use bb_ir::graph::ValueType;

/// Where the options say that numbers are drawn from.
pub(super) struct Ranges<'a>(&'a [Range]);

impl<'a> Ranges<'a> {
    /// Refuses a range for an input that the model does not have, and two for one.
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

/// Makes random elements for an input: floats in [0, 1), integers and truth values 0 or 1, which are valid as
/// indices and tokens almost everywhere.
pub(super) fn tensor(
    name: &str,
    ty: &ValueType,
    shape: &[usize],
    seed: u64,
    ranges: &Ranges<'_>,
) -> Result<TensorData> {
    let not_random = || Error::NotRandom { name: name.to_owned(), ty: crate::render::ty(ty) };
    let ValueType::Tensor { dtype, .. } = ty else { return Err(not_random()) };
    if *dtype == DataType::String {
        return Err(not_random());
    }
    let elements = bb_ir::element_count(shape).filter(|n| *n <= 1 << 30).ok_or_else(not_random)?;
    let mut state = seed;
    let whole = !dtype.is_float();
    let (low, high) = ranges.of(name).map_or((0.0, 1.0), |range| (range.low, range.high));
    let told = ranges.of(name).is_some();
    let values: Vec<f64> = (0..elements)
        .map(|_| {
            let unit = f64::from(unit(&mut state));
            match (whole, told) {
                (true, true) => (low.ceil() + unit * (high.ceil() - low.ceil())).floor(),
                (true, false) => unit.round(),
                (false, _) => low + unit * (high - low),
            }
        })
        .collect();
    Ok(bb_ir::convert::cast(&TensorData::new(shape, &values)?, *dtype, Rounding::default())?)
}

/// Draws from [0, 1) with SplitMix64 (Steele, Lea, Flood 2014).
fn unit(state: &mut u64) -> f32 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((z ^ (z >> 31)) >> 40) as f32 / (1u32 << 24) as f32
}
