//! Angles brought to within a quarter of a turn of a zero of the sine or the cosine, however great they are.
//!
//! An angle is `m * 2^j` with an integer `m` of few digits, so its distance from a multiple of π is that of
//! `m * (2^j mod 2π)`, where the second factor comes from a table in parts short enough for exact products.
//! Source: Payne and Hanek, Radian Reduction for Trigonometric Functions, 1983.

use super::math::{plus, times};
use crate::ext::Ops;
use crate::{Backend, DataType};
use std::sync::LazyLock;

/// Words of 64 bits of a fraction; what doubling a thousand times loses is beyond the parts that are used.
const WORDS: usize = 18;

/// A number: its integral part, and its fraction with the greatest word first.
type Fixed = [u64; WORDS + 1];

/// π.
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

/// The greatest `j` of an angle in `f64`, with the part of it that is split off.
const LEVELS: usize = 971 + SPLIT as usize;

/// Where the integer of an angle in `f64` is cut in two.
const SPLIT: i32 = 27;

/// A number in three parts: 23 bits, whose products with the integers here are exact, 23 bits, and as many as a float has.
type Parts = [f64; 3];

static PI_PARTS: LazyLock<Parts> = LazyLock::new(|| parts(&PI));

/// `2^j mod 2π` for each `j`, each part in a table of its own.
static POWERS: LazyLock<[Vec<f64>; 3]> = LazyLock::new(|| {
    let mut tables = [const { Vec::new() }; 3];
    let mut power = [0; WORDS + 1];
    power[0] = 1;
    for _ in 0..LEVELS {
        for (table, part) in tables.iter_mut().zip(parts(&power)) {
            table.push(part);
        }
        power = doubled(&power);
    }
    tables
});

fn parts(x: &Fixed) -> Parts {
    let [whole, first, second, ..] = *x;
    let high = whole << 20 | first >> 44;
    let middle = first >> 21 & 0x7f_ffff;
    let low = (first & 0x1f_ffff) << 32 | second >> 32;
    [high as f64 * 2f64.powi(-20), middle as f64 * 2f64.powi(-43), low as f64 * 2f64.powi(-96)]
}

/// `2x`.
fn shifted(x: &Fixed) -> Fixed {
    let mut twice = *x;
    let mut carry = 0;
    for word in twice.iter_mut().rev() {
        (*word, carry) = (*word << 1 | carry, *word >> 63);
    }
    twice
}

/// `2x mod 2π`, for `x` below 2π.
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

/// Finds the multiple of π, plus `offset` times π, that is nearest to the angles `x` in `f64`, which were of the type
/// `from`; returns the distance from it and a number as
/// even as the multiple.
pub(super) fn nearest<B: Ops + ?Sized>(
    on: &B,
    x: &B::Tensor,
    from: DataType,
    offset: f64,
) -> Result<(B::Tensor, B::Tensor), B::Error> {
    let pieces = pieces(on, x, from)?;
    let mut rough = None;
    // The first part alone is off by turns.
    let products = pieces.iter().flat_map(|(factor, powers)| powers.iter().take(2).map(move |p| (factor, p)));
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
    let mut distance = None;
    for (i, pi) in PI_PARTS.iter().enumerate() {
        let mut part = on.neg(&times(on, &zero, *pi)?)?;
        for (factor, powers) in &pieces {
            if let Some(power) = powers.get(i) {
                part = on.add(&part, &on.mul(factor, power)?)?;
            }
        }
        distance = Some(match distance {
            Some(sum) => on.add(&sum, &part)?,
            None => part,
        });
    }
    Ok((distance.map_or_else(|| on.identity(x), Ok)?, turns))
}

/// A factor, and what it multiplies, in parts.
type Piece<T> = (T, Vec<T>);

/// Writes angles as sums of products.
fn pieces<B: Ops + ?Sized>(
    on: &B,
    x: &B::Tensor,
    from: DataType,
) -> Result<Vec<Piece<<B as Backend>::Tensor>>, B::Error> {
    // The bits of an integer of the type's digits; log2 may be off by a unit.
    let (digits, levels) = match from {
        DataType::F64 => (53, LEVELS - SPLIT as usize),
        // No half is great enough to lose digits.
        DataType::F16 => return Ok(vec![(x.clone(), vec![on.scalar_like(x, 1.0)?])]),
        _ => (24, 105),
    };
    let exponent = times(on, &on.log(&on.abs(x)?)?, std::f64::consts::LOG2_E)?;
    let exponent = plus(on, &exponent, -f64::from(digits))?;
    // NaN is less than nothing, and so is put at the end, too.
    let last = on.scalar_like(x, (levels - 1) as f64)?;
    let bounded = on.r#where(&on.less(&exponent, &last)?, &exponent, &last)?;
    let zero = on.scalar_like(x, 0.0)?;
    let bounded = on.r#where(&on.less(&bounded, &zero)?, &zero, &bounded)?;
    let level = super::math::to(on, &bounded, DataType::I64)?;
    let scales: Vec<f64> = (0..levels as i32).map(|j| 2f64.powi(-j)).collect();
    let integer = on.mul(x, &on.gather(&on.host(&[levels], &scales)?, &level, 0)?)?;
    let powers = |from: usize| -> Result<Vec<B::Tensor>, B::Error> {
        POWERS
            .iter()
            .map(|table| {
                let rows: Vec<f64> = table.iter().skip(from).take(levels).copied().collect();
                on.gather(&on.host(&[levels], &rows)?, &level, 0)
            })
            .collect()
    };
    if from != DataType::F64 {
        return Ok(vec![(integer, powers(0)?)]);
    }
    let high = on.trunc(&times(on, &integer, 2f64.powi(-SPLIT))?)?;
    let low = on.sub(&integer, &times(on, &high, 2f64.powi(SPLIT))?)?;
    Ok(vec![(high, powers(SPLIT as usize)?), (low, powers(0)?)])
}
