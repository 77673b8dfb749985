//! Reduces angles of any size to the distance from the nearest zero of the sine or the cosine. This distance is at most
//! a quarter turn.
//!
//! An angle is `m * 2^j` with an integer `m` of few digits. Its distance from a multiple of π therefore equals the
//! distance of `m * (2^j mod 2π)`. A table stores the second factor as several parts, which are so short that their
//! products with `m` are exact.
//! Source: Payne and Hanek, Radian Reduction for Trigonometric Functions, 1983.

use super::gate::exact_sum;
use super::math::{self, plus, times};
use crate::prelude::*;
use crate::trace::{TraceStop, TracedTensor, Tracer};
use crate::{Backend, DataType, Tensor};
use bb_ir::TensorData;
use bb_ir::convert::{Rounding, cast};
use std::sync::LazyLock;

/// The number of 64-bit words of a fraction. A thousand doublings lose digits at the end, but only digits that are not
/// used.
const WORDS: usize = 18;

/// A fixed-point number: its integral part, followed by the words of its fraction, the most significant word first.
type Fixed = [u64; WORDS + 1];

/// The number π.
const PI: Fixed = [
    3,
    0x243f_6a88_85a3_08d3,
    0x1319_8a2e_0370_7344,
    0xa409_3822_299f_31d0,
    0x082e_fa98_ec4e_6c89,
    0x4528_21e6_38d0_1377,
    0xbe54_66cf_34e9_0c6c,
    0xc0ac_29b7_c97c_50dd,
    0x3f84_d5b5_b547_0917,
    0x9216_d5d9_8979_fb1b,
    0xd131_0ba6_98df_b5ac,
    0x2ffd_72db_d01a_dfb7,
    0xb8e1_afed_6a26_7e96,
    0xba7c_9045_f12c_7f99,
    0x24a1_9947_b391_6cf7,
    0x0801_f2e2_858e_fc16,
    0x6369_20d8_7157_4e69,
    0xa458_fea3_f493_3d7e,
    0x0d95_748f_728e_b658,
];

/// The length of the tables: 971 exponents `j` of angles in `f64`, and 27 more for the high part of the integer.
const LEVELS: usize = 971 + 27;

/// The rules for splitting a number into parts of a compute type. Products of the angle's integer and the parts are
/// exact, and so are sums of three of these products.
struct Digits {
    /// The number of bits of the integer `m` of an angle.
    integer: u32,
    /// The bit at which this integer is split into two parts, if necessary.
    split: Option<i32>,
    /// The number of exponents `j` of angles.
    levels: usize,
    /// The fractional bits at which the parts of a number end. The first part also contains the integral bits, and the
    /// last part has the precision of a float.
    ends: &'static [u32],
    /// The number of parts that determine the nearest multiple of π. With one part, the error would be whole turns.
    rough: usize,
}

/// The rules for `f64` angles. They are up to 2^29 half turns, and may be within 2^-61 of a multiple of a quarter turn.
const DOUBLE: Digits =
    Digits { integer: 53, split: Some(27), levels: LEVELS - 27, ends: &[20, 42, 64, 86, 108, 161], rough: 2 };

/// The rules for `f32` angles that are computed in `f64`.
const SINGLE_IN_DOUBLE: Digits =
    Digits { integer: 24, split: None, levels: 105, ends: &[20, 42, 86], rough: 2 };

/// The rules for `f32` angles that are computed in `f32`. They are up to 2^15 half turns after their integer is split.
const SINGLE: Digits =
    Digits { integer: 24, split: Some(12), levels: 105, ends: &[6, 15, 24, 33, 42, 51, 60, 84], rough: 3 };

impl Digits {
    /// Returns how numbers are split for angles of the type `from` that are computed in the type `wide`.
    fn of(from: DataType, wide: DataType) -> &'static Digits {
        match (from, wide) {
            (DataType::F64, _) => &DOUBLE,
            (_, DataType::F64) => &SINGLE_IN_DOUBLE,
            _ => &SINGLE,
        }
    }

    /// Splits a number into the parts that end at `ends`.
    fn parts(&self, x: &Fixed) -> Vec<f64> {
        let [whole, first, second, third, ..] = *x;
        let low = u128::from(second) << 64 | u128::from(third);
        // Returns the fractional bits before the bit `end` as an integer, truncated to 64 bits.
        let before = |end: u32| match end {
            0..=64 => u64::try_from(u128::from(first) >> (64 - end)).unwrap_or_default(),
            _ => (u128::from(first) << (end - 64) | low >> (192 - end)) as u64,
        };
        let mut start = 0;
        let mut parts: Vec<f64> = Vec::with_capacity(self.ends.len());
        for &end in self.ends {
            let mask = (1 << (end - start)) - 1;
            let whole = if start == 0 { whole as f64 } else { 0.0 };
            parts.push((before(end) & mask) as f64 * 2f64.powi(-(end as i32)) + whole);
            start = end;
        }
        parts
    }
}

/// The values `2^j mod 2π` for each `j`.
static POWERS: LazyLock<Vec<Fixed>> = LazyLock::new(|| {
    let mut table = Vec::with_capacity(LEVELS);
    let mut power = [0; WORDS + 1];
    power[0] = 1;
    for _ in 0..LEVELS {
        table.push(power);
        power = doubled(&power);
    }
    table
});

/// Returns `2x`.
fn shifted(x: &Fixed) -> Fixed {
    let mut twice = *x;
    let mut carry = 0;
    for word in twice.iter_mut().rev() {
        (*word, carry) = (*word << 1 | carry, *word >> 63);
    }
    twice
}

/// Returns `2x mod 2π`, for `x` below 2π.
fn doubled(x: &Fixed) -> Fixed {
    let mut twice = shifted(x);
    let turn = shifted(&PI);
    if twice < turn {
        return twice;
    }
    let mut borrow = false;
    for (word, part) in twice.iter_mut().zip(&turn).rev() {
        let (difference, under) = word.overflowing_sub(*part);
        let (difference, again) = difference.overflowing_sub(u64::from(borrow));
        (*word, borrow) = (difference, under || again);
    }
    twice
}

/// Finds, for each angle of `x`, the nearest multiple `(n - offset) π` with an integer `n`. The angles were converted
/// from the type `from`. Returns the distance of each angle from this multiple, and `n`.
pub(super) fn nearest(
    on: &Tracer,
    x: &TracedTensor,
    from: DataType,
    offset: f64,
) -> Result<(TracedTensor, TracedTensor), TraceStop> {
    let digits = Digits::of(from, x.dtype());
    let pieces = pieces(on, x, from, digits)?;
    let mut rough = None;
    let products =
        pieces.iter().flat_map(|(factor, powers)| powers.iter().take(digits.rough).map(move |p| (factor, p)));
    for (factor, power) in products {
        let product = on.mul(factor, power)?;
        rough = Some(match rough {
            Some(sum) => on.add(&sum, &product)?,
            None => product,
        });
    }
    let rough = rough.map_or_else(|| on.identity(x), Ok)?;
    let turns = on.round(&plus(on, &times(on, &rough, std::f64::consts::FRAC_1_PI)?, offset)?)?;
    let zero = plus(on, &turns, -offset)?;
    let mut distance: Option<TracedTensor> = None;
    let mut lost: Option<TracedTensor> = None;
    let pi = digits.parts(&PI);
    for (i, part_of_pi) in pi.iter().enumerate() {
        let mut part = on.neg(&times(on, &zero, *part_of_pi)?)?;
        for (factor, powers) in &pieces {
            if let Some(power) = powers.get(i) {
                part = on.add(&part, &on.mul(factor, power)?)?;
            }
        }
        let is_last = i + 1 == pi.len();
        if let (true, Some(lost)) = (is_last, &lost) {
            part = on.add(&part, lost)?;
        }
        distance = Some(match distance {
            None => part,
            // The first sums are exact, because the large parts cancel. The last sum is rounded to the result.
            Some(sum) if i < digits.rough || is_last => on.add(&sum, &part)?,
            Some(sum) => {
                let [sum, rest] = exact_sum(on, &sum, &part)?;
                lost = Some(match lost {
                    Some(lost) => on.add(&lost, &rest)?,
                    None => rest,
                });
                sum
            }
        });
    }
    Ok((distance.map_or_else(|| on.identity(x), Ok)?, turns))
}

/// A factor, with the parts of the number that it is multiplied with.
type Piece = (TracedTensor, Vec<TracedTensor>);

/// Writes angles as sums of products.
fn pieces(on: &Tracer, x: &TracedTensor, from: DataType, digits: &Digits) -> Result<Vec<Piece>, TraceStop> {
    // Even the greatest `f16` value loses no digits in `f64`, so no reduction is needed.
    if from == DataType::F16 && digits.split.is_none() {
        return Ok(vec![(x.clone(), vec![on.scalar_like(x, 1.0)?])]);
    }
    let levels = digits.levels;
    let table = |column: &[f64]| -> Result<TracedTensor, TraceStop> {
        let column = TensorData::new(&[levels], column).map_err(crate::Error::from)?;
        on.constant(&cast(&column, x.dtype(), Rounding::default()).map_err(crate::Error::from)?)
    };
    // The logarithm may be off by one.
    let exponent = times(on, &on.log(&on.abs(x)?)?, std::f64::consts::LOG2_E)?;
    let exponent = plus(on, &exponent, -f64::from(digits.integer))?;
    // Comparisons with NaN are false, so a NaN exponent becomes `last` too.
    let last = on.scalar_like(x, (levels - 1) as f64)?;
    let bounded = on.r#where(&on.less(&exponent, &last)?, &exponent, &last)?;
    let zero = on.scalar_like(x, 0.0)?;
    let bounded = on.r#where(&on.less(&bounded, &zero)?, &zero, &bounded)?;
    let level = math::to(on, &bounded, math::index(on))?;
    let scales: Vec<f64> = (0..levels as i32).map(|j| 2f64.powi(-j)).collect();
    let integer = on.mul(x, &on.gather(&table(&scales)?, &level, 0)?)?;
    let powers = |skipped: usize| -> Result<Vec<TracedTensor>, TraceStop> {
        let rows: Vec<Vec<f64>> =
            POWERS.iter().skip(skipped).take(levels).map(|power| digits.parts(power)).collect();
        (0..digits.ends.len())
            .map(|i| {
                let column: Vec<f64> = rows.iter().filter_map(|row| row.get(i).copied()).collect();
                on.gather(&table(&column)?, &level, 0)
            })
            .collect()
    };
    let Some(split) = digits.split else { return Ok(vec![(integer, powers(0)?)]) };
    let high = on.trunc(&times(on, &integer, 2f64.powi(-split))?)?;
    let low = on.sub(&integer, &times(on, &high, 2f64.powi(split))?)?;
    Ok(vec![(high, powers(usize::try_from(split).unwrap_or(0))?), (low, powers(0)?)])
}
