//! Numbers near both ends of a type's range, and the errors of results computed from them.

use bb::ir::convert::{Rounding, cast};
use bb::{DataType, TensorData};

/// The types of 16-bit floats, with the digits of a significand, and the exponents of the least normal number, the
/// greatest number and the least number.
pub(super) struct Half {
    pub(super) dtype: DataType,
    digits: i32,
    least_normal: i32,
    greatest: i32,
    least: i32,
}

pub(super) const HALVES: [Half; 2] = [
    Half { dtype: DataType::F16, digits: 11, least_normal: -14, greatest: 15, least: -24 },
    Half { dtype: DataType::BF16, digits: 8, least_normal: -126, greatest: 127, least: -133 },
];

/// Which numbers an operand has.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Range {
    /// Numbers near 1.
    Ordinary,
    /// From the least number to some that are normal.
    Small,
    /// Up to the greatest number.
    Large,
    /// Those of halves with few digits, which `f16` and `bf16` have both: sums and squares of them leave `f16`.
    Hundreds,
    /// Each element of another range.
    Mixed,
}

impl Range {
    /// Returns whether the numbers are far from both ends of the range of `f32`, so that steps stay there, too.
    pub(super) fn is_moderate(self) -> bool {
        matches!(self, Range::Ordinary | Range::Hundreds)
    }
}

/// The ranges of the first operand and of the others.
pub(super) const DRAWS: [[Range; 2]; 8] = [
    [Range::Ordinary, Range::Ordinary],
    [Range::Small, Range::Small],
    [Range::Large, Range::Large],
    [Range::Mixed, Range::Mixed],
    [Range::Small, Range::Ordinary],
    [Range::Large, Range::Ordinary],
    [Range::Hundreds, Range::Hundreds],
    [Range::Hundreds, Range::Ordinary],
];

/// Marsaglia's xorshift generator, with a multiplication.
pub(super) struct Random(u64);

impl Random {
    /// Starts from a text, so that each call draws the same numbers whatever was drawn before it.
    pub(super) fn of(text: &str) -> Random {
        Random(text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        }))
    }

    /// Draws a number from 0 to 1.
    fn unit(&mut self) -> f64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) as f64 / (1u64 << 53) as f64
    }
}

impl Half {
    fn exponents(&self, range: Range) -> [f64; 2] {
        match range {
            Range::Ordinary | Range::Mixed => [-3.0, 2.0],
            Range::Small => [f64::from(self.least), f64::from(self.least_normal + 2)],
            Range::Large => [f64::from(self.greatest - 3), f64::from(self.greatest + 1)],
            Range::Hundreds => [6.0, 10.0],
        }
    }

    /// Draws the elements of an operand. They are not negative if the vector's own elements are not negative.
    pub(super) fn draw(&self, random: &mut Random, range: Range, own: &TensorData) -> TensorData {
        let positive = numbers(own).iter().all(|x| *x >= 0.0);
        let mut one = || {
            let range = match range {
                Range::Mixed => [Range::Ordinary, Range::Small, Range::Large, Range::Hundreds]
                    [(random.unit() * 4.0) as usize],
                range => range,
            };
            let [low, high] = self.exponents(range);
            let size = 2f64.powf(low + random.unit() * (high - low));
            let negative = !positive && random.unit() < 0.5;
            let most = 2f64.powi(self.greatest) * (2.0 - 2f64.powi(1 - self.digits));
            if negative { -size.min(most) } else { size.min(most) }
        };
        let elements: Vec<f64> = (0..own.len()).map(|_| one()).collect();
        converted(&TensorData::new(own.shape(), &elements).unwrap(), self.dtype)
    }

    /// The distance of a number from its neighbours of greater magnitude.
    fn unit_at(&self, x: f64) -> f64 {
        let exponent = if x == 0.0 { i32::MIN } else { x.abs().log2().floor() as i32 };
        2f64.powi(exponent.clamp(self.least_normal, self.greatest) + 1 - self.digits)
    }

    /// Returns the greatest error of a result in units in the last place, less what computing in `f32` explains.
    ///
    /// `exact` is computed in `f64` on the reference backend, and `single` in `f32` on the same backend as the result, both with the
    /// same operands. Their difference shows the effects of summation order and of cancellation in `f32`. Four times this difference
    /// is excused; if `bounded`, at most 16 units, or the amount that `f32` may lose of the greatest result. Where `f32`
    /// overflows, so may `bf16`, which has its range.
    pub(super) fn error(
        &self,
        got: &TensorData,
        exact: &TensorData,
        single: &TensorData,
        bounded: bool,
    ) -> (f64, String) {
        let rounded = numbers(&converted(exact, self.dtype));
        let (got, exact, single) = (numbers(got), numbers(exact), numbers(single));
        let infinity = 2f64.powi(self.greatest + 1);
        // An infinity is the number that would follow the greatest one.
        let finite = |x: f64| if x.is_infinite() { infinity.copysign(x) } else { x };
        let greatest = exact.iter().filter(|x| x.is_finite()).fold(0.0, |most: f64, x| most.max(x.abs()));
        let mut worst = (0.0, String::new());
        for (((&got, &want), &exact), &single) in got.iter().zip(&rounded).zip(&exact).zip(&single) {
            if got == want || (got.is_nan() && want.is_nan()) {
                continue;
            }
            if self.dtype == DataType::BF16 && exact.is_finite() && !single.is_finite()
                || self.dtype == DataType::BF16 && single.is_nan()
            {
                continue;
            }
            let unit = self.unit_at(want);
            let lost = (greatest * 2f64.powi(-14)).max(LOST_BESIDE_ONE);
            let most = if bounded { (16.0 * unit).max(lost) } else { f64::INFINITY };
            let excuse = (4.0 * (single - exact).abs()).min(most) / unit;
            let excuse = if excuse.is_nan() { 0.0 } else { excuse };
            let off = (finite(got) - finite(want)).abs() / unit;
            let error = if off.is_nan() { f64::INFINITY } else { (off - excuse).max(0.0) };
            if error > worst.0 {
                worst = (error, format!("{got:e} in place of {exact:e} ({single:e} in f32)"));
            }
        }
        worst
    }
}

/// Error of a few operations in `f32` on numbers near 1, for example of the logarithm of a probability near 1.
const LOST_BESIDE_ONE: f64 = 1.0 / (1 << 22) as f64;

/// Converts a tensor to another type, rounding to the nearest number.
pub(super) fn converted(x: &TensorData, dtype: DataType) -> TensorData {
    cast(x, dtype, Rounding::default()).unwrap()
}

/// Reads the elements of a tensor as `f64`.
pub(super) fn numbers(x: &TensorData) -> Vec<f64> {
    converted(x, DataType::F64).as_slice::<f64>().unwrap().to_vec()
}
