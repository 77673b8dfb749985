//! The memory layout of panels of columns.
//!
//! For each block, a panel has the scales of its columns, their zero points or offsets if they differ, and the numbers.
//! A vector of numbers has four bytes for each column. The lowest bits of these bytes are four successive numbers of
//! the column, and the bits above are the next four. So a mask or a shift extracts four bytes to multiply with four
//! numbers of the left operand.

use super::tile::{Kernels, Points};
use super::{Format, Zeros};
use bb::ir::convert::f16_from_f64;
use half::f16;

/// The types of the per-block numbers of a panel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stored {
    /// Whether scales have 16 bits.
    pub(super) halves: bool,
    pub(super) points: Points,
    /// Whether zero points are bytes.
    pub(super) bytes: bool,
    /// The zero point of all blocks, if they have the same one.
    pub(super) zero: u8,
}

/// Converts a float to 16 bits, if the conversion is exact.
fn half(x: f32) -> Option<f16> {
    let short = f16::from_f32(x);
    (short.to_f32().to_bits() == x.to_bits()).then_some(short)
}

/// Returns the offset that a zero point adds to a block's scaled sums, if it equals a 16-bit float within the rounding
/// error of the zero point.
///
/// Quantisation with a minimum stores the minimum in 16 bits. A model stores it as a zero point, which is the negated
/// minimum divided by the scale.
fn offset(zero: f32, scale: f32) -> Option<f16> {
    let exact = -f64::from(zero) * f64::from(scale);
    let short = f16_from_f64(exact);
    ((f64::from(short) - exact).abs() <= exact.abs() * f64::from(f32::EPSILON)).then_some(short)
}

/// Converts a zero point to a byte, if the conversion is exact.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the cast saturates, and what it changes is no byte"
)]
fn byte(zero: f32) -> Option<u8> {
    let byte = zero as u8;
    (f32::from(byte).to_bits() == zero.to_bits()).then_some(byte)
}

impl Stored {
    /// Chooses the smallest types that represent all numbers without changing a result.
    pub(super) fn of(scales: &[f32], zeros: Zeros<'_>) -> Stored {
        let halves = scales.iter().all(|&scale| half(scale).is_some());
        let (points, bytes, zero) = match zeros {
            Zeros::One(zero) => (Points::None, false, zero),
            Zeros::Bytes(list) => match list {
                [zero, rest @ ..] if rest.iter().all(|other| other == zero) => (Points::None, false, *zero),
                _ => (Points::Zeros, true, 0),
            },
            Zeros::Floats(list) => {
                let first = list.first().copied().unwrap_or(0.0);
                if list.iter().all(|&zero| byte(zero).is_some()) {
                    match byte(first).filter(|_| list.iter().all(|&zero| zero.to_bits() == first.to_bits())) {
                        Some(zero) => (Points::None, false, zero),
                        None => (Points::Zeros, true, 0),
                    }
                } else if list.iter().zip(scales).all(|(&zero, &scale)| offset(zero, scale).is_some()) {
                    (Points::Offsets, false, 0)
                } else {
                    (Points::Zeros, false, 0)
                }
            }
        };
        Stored { halves, points, bytes, zero }
    }

    /// Returns the sizes in bytes of a scale and of a zero point or offset.
    fn sizes(self) -> [usize; 2] {
        let point = match self.points {
            Points::None => 0,
            Points::Zeros if self.bytes => 1,
            Points::Zeros => 4,
            Points::Offsets => 2,
        };
        [if self.halves { 2 } else { 4 }, point]
    }

    /// Returns the size in bytes of a panel.
    pub(super) fn panel(self, format: Format, lanes: usize) -> usize {
        let [scale, point] = self.sizes();
        let block = scale + point + 4 * format.vectors();
        lanes.saturating_mul(block).saturating_mul(format.count)
    }
}

/// Columns in the layout of the caller.
#[derive(Debug, Clone, Copy)]
pub(super) struct Columns<'a> {
    pub(super) format: Format,
    pub(super) numbers: &'a [u8],
    pub(super) scales: &'a [f32],
    pub(super) zeros: Zeros<'a>,
}

impl Columns<'_> {
    /// Writes the panel whose first column is `first`. Columns beyond the matrix are zeros.
    pub(super) fn pack(&self, stored: Stored, kernels: &Kernels, first: usize, room: &mut [u8]) {
        let Columns { format, numbers, .. } = *self;
        let [scale, point] = stored.sizes();
        let (lanes, size) = (kernels.lanes, format.bytes());
        room.fill(0);
        let own = lanes.min(format.columns.saturating_sub(first));
        let blocks = room.chunks_exact_mut(stored.panel(format, lanes) / format.count.max(1));
        for (block, room) in blocks.enumerate() {
            let (scales, room) = room.split_at_mut(lanes * scale);
            let (points, room) = room.split_at_mut(lanes * point);
            for lane in 0..own {
                let at = (first + lane) * format.count + block;
                if let Some(to) = scales.chunks_exact_mut(scale).nth(lane) {
                    self.scale(stored, at, to);
                }
                if point > 0
                    && let Some(to) = points.chunks_exact_mut(point).nth(lane)
                {
                    self.point(stored, at, to);
                }
                let numbers = numbers.get(at * size..(at + 1) * size).unwrap_or_default();
                for (vector, four) in numbers.chunks(4).enumerate() {
                    let mut bytes = [0; 4];
                    for (byte, from) in bytes.iter_mut().zip(four) {
                        *byte = *from;
                    }
                    let arranged = match format.bits {
                        2 => quarters(bytes),
                        4 => halves(bytes),
                        _ if kernels.signed => bytes.map(|byte| byte ^ 0x80),
                        _ => bytes,
                    };
                    let to = (vector * lanes + lane) * 4;
                    if let Some(to) = room.get_mut(to..to + 4) {
                        to.copy_from_slice(&arranged);
                    }
                }
            }
        }
    }

    /// Writes the scale of a block.
    fn scale(&self, stored: Stored, at: usize, to: &mut [u8]) {
        let scale = self.scales.get(at).copied().unwrap_or(0.0);
        if stored.halves {
            to.copy_from_slice(&half(scale).unwrap_or_default().to_ne_bytes());
        } else {
            to.copy_from_slice(&scale.to_ne_bytes());
        }
    }

    /// Writes the zero point or the offset of a block.
    fn point(&self, stored: Stored, at: usize, to: &mut [u8]) {
        let zero = match self.zeros {
            Zeros::One(zero) => f32::from(zero),
            Zeros::Bytes(list) => list.get(at).copied().unwrap_or(0).into(),
            Zeros::Floats(list) => list.get(at).copied().unwrap_or(0.0),
        };
        match stored.points {
            Points::None => {}
            Points::Zeros if stored.bytes => to.copy_from_slice(&[byte(zero).unwrap_or(0)]),
            Points::Zeros => to.copy_from_slice(&zero.to_ne_bytes()),
            Points::Offsets => {
                let scale = self.scales.get(at).copied().unwrap_or(0.0);
                to.copy_from_slice(&offset(zero, scale).unwrap_or_default().to_ne_bytes());
            }
        }
    }
}

/// Rearranges eight numbers of 4 bits for a vector: the first four numbers are in the low halves of the bytes.
fn halves([a, b, c, d]: [u8; 4]) -> [u8; 4] {
    [a & 15 | c << 4, a >> 4 | c & 0xf0, b & 15 | d << 4, b >> 4 | d & 0xf0]
}

/// Rearranges 16 numbers of 2 bits for a vector: each four successive numbers have the same bits of the bytes.
fn quarters(bytes: [u8; 4]) -> [u8; 4] {
    let of =
        |number: usize| bytes.iter().rev().fold(0, |above: u8, byte| above << 2 | byte >> (2 * number) & 3);
    [of(0), of(1), of(2), of(3)]
}
