//! Reads decimal numbers that are rounded to short floats afterwards.

use std::cmp::Ordering;

/// Reads a number as an `f64` that rounds to a float of 32 bits or fewer like the number itself. If the nearest `f64` is inexact and may
/// be halfway between two short floats, the result is the next `f64` towards the number. Returns `None` for a text that is not a number.
pub(super) fn f64_to_odd(text: &str) -> Option<f64> {
    /// Short floats, and the numbers halfway between them, leave these low bits of an `f64` zero.
    const ZEROS: u32 = f64::MANTISSA_DIGITS - f32::MANTISSA_DIGITS - 1;
    /// The numbers halfway between short floats have magnitudes within these bounds.
    const LEAST: f64 = 1.0 / (1u128 << 127) as f64 / 1e12;
    const GREATEST: f64 = 4.0 * (1u128 << 127) as f64;
    let near: f64 = text.parse().ok()?;
    if near.to_bits().trailing_zeros() < ZEROS || !(LEAST..GREATEST).contains(&near.abs()) {
        return Some(near);
    }
    // The bits of floats of one sign are in the order of their magnitudes.
    Some(f64::from_bits(match compare(text, near)? {
        Ordering::Equal => near.to_bits(),
        Ordering::Greater => near.to_bits() + 1,
        Ordering::Less => near.to_bits() - 1,
    }))
}

/// Compares the exact magnitudes of a decimal number and of its nearest `f64`, which is within the bounds of [`f64_to_odd`].
fn compare(text: &str, near: f64) -> Option<Ordering> {
    let text = text.trim_start_matches(['+', '-']);
    let (digits, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let digits = whole.bytes().chain(fraction.bytes());
    let zeros = digits.clone().take_while(|&digit| digit == b'0').count();
    let place = exponent.parse::<i64>().ok()? + whole.len() as i64 - zeros as i64 - 1;
    // These are all digits of a number within the bounds that ends in zero bits.
    let exact = format!("{:.220e}", near.abs());
    let (exact, exponent) = exact.split_once('e')?;
    let order = place.cmp(&exponent.parse().ok()?);
    let exact = exact.bytes().filter(|&digit| digit != b'.');
    Some(order.then_with(|| compare_digits(digits.skip(zeros), exact)))
}

/// Compares two numbers by their digits behind the point; the shorter list goes on with zeros.
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
