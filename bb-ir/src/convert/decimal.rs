//! Parses decimal numbers that are rounded to floats of at most 32 bits afterwards.

use std::cmp::Ordering;

/// Parses a number to an `f64` that rounds to a float of at most 32 bits like the exact number. If the nearest `f64` is inexact and may
/// be halfway between two short floats, the result is the next `f64` in the direction of the exact number. Returns `None` for a string
/// that is not a number.
pub(super) fn f64_to_odd(text: &str) -> Option<f64> {
    /// The number of low bits of an `f64` that are zero for short floats, and for the numbers halfway between them.
    const ZEROS: u32 = f64::MANTISSA_DIGITS - f32::MANTISSA_DIGITS - 1;
    /// The bounds of the magnitudes of numbers that are halfway between short floats.
    const LEAST: f64 = 1.0 / (1u128 << 127) as f64 / 1e12;
    const GREATEST: f64 = 4.0 * (1u128 << 127) as f64;
    let near: f64 = text.parse().ok()?;
    if near.to_bits().trailing_zeros() < ZEROS || !(LEAST..GREATEST).contains(&near.abs()) {
        return Some(near);
    }
    // As integers, the bits of floats of the same sign are in the order of their magnitudes, so adding 1 gives the next `f64`.
    Some(f64::from_bits(match compare(text, near)? {
        Ordering::Equal => near.to_bits(),
        Ordering::Greater => near.to_bits() + 1,
        Ordering::Less => near.to_bits() - 1,
    }))
}

/// Compares the exact magnitude of a decimal number with its nearest `f64`, which is within the bounds of [`f64_to_odd`].
fn compare(text: &str, near: f64) -> Option<Ordering> {
    let text = text.trim_start_matches(['+', '-']);
    let (digits, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let digits = whole.bytes().chain(fraction.bytes());
    let zeros = digits.clone().take_while(|&digit| digit == b'0').count();
    let place = exponent.parse::<i64>().ok()? + whole.len() as i64 - zeros as i64 - 1;
    // 220 digits represent exactly every number within the bounds that has this many zero bits.
    let exact = format!("{:.220e}", near.abs());
    let (exact, exponent) = exact.split_once('e')?;
    let order = place.cmp(&exponent.parse().ok()?);
    let exact = exact.bytes().filter(|&digit| digit != b'.');
    Some(order.then_with(|| compare_digits(digits.skip(zeros), exact)))
}

/// Compares two fractions by their digits after the point. The shorter one is padded with zeros.
fn compare_digits(mut a: impl Iterator<Item = u8>, mut b: impl Iterator<Item = u8>) -> Ordering {
    loop {
        match (a.next(), b.next()) {
            (None, None) => return Ordering::Equal,
            (a, b) => match a.unwrap_or(b'0').cmp(&b.unwrap_or(b'0')) {
                Ordering::Equal => {}
                order => return order,
            },
        }
    }
}
