//! Floats of at most 8 bits. Tables decode them; an encoder rounds from `f64` once.
//!
//! Sources: ONNX's "Float stored in 8 bits" and "4-bit" notes; the OCP microscaling formats
//! specification, version 1.0, for `f8e8m0`, `f6*` and `f4e2m1`.

use super::Rounding;
use crate::DataType;
use crate::op::RoundMode;

/// A float format with a sign, an exponent and a mantissa.
struct FloatFormat {
    exponent_bits: u32,
    mantissa_bits: u32,
    bias: i32,
    /// The code of the maximum finite value.
    max: u8,
    /// The code, without the sign, of an out-of-range value that is not saturated.
    overflow: u8,
    /// The code of NaN, or of the value that replaces NaN if the format has no NaN.
    nan: u8,
    /// Whether the code with only the sign bit set is NaN, so that there is no negative zero.
    unsigned_zero: bool,
}

const E4M3FN: FloatFormat = FloatFormat {
    exponent_bits: 4,
    mantissa_bits: 3,
    bias: 7,
    max: 0x7E,
    overflow: 0x7F,
    nan: 0x7F,
    unsigned_zero: false,
};
const E4M3FNUZ: FloatFormat = FloatFormat {
    exponent_bits: 4,
    mantissa_bits: 3,
    bias: 8,
    max: 0x7F,
    overflow: 0x80,
    nan: 0x80,
    unsigned_zero: true,
};
const E5M2: FloatFormat = FloatFormat {
    exponent_bits: 5,
    mantissa_bits: 2,
    bias: 15,
    max: 0x7B,
    overflow: 0x7C,
    nan: 0x7E,
    unsigned_zero: false,
};
const E5M2FNUZ: FloatFormat = FloatFormat {
    exponent_bits: 5,
    mantissa_bits: 2,
    bias: 16,
    max: 0x7F,
    overflow: 0x80,
    nan: 0x80,
    unsigned_zero: true,
};
const E2M3: FloatFormat = FloatFormat {
    exponent_bits: 2,
    mantissa_bits: 3,
    bias: 1,
    max: 0x1F,
    overflow: 0x1F,
    nan: 0x20,
    unsigned_zero: false,
};
const E3M2: FloatFormat = FloatFormat {
    exponent_bits: 3,
    mantissa_bits: 2,
    bias: 3,
    max: 0x1F,
    overflow: 0x1F,
    nan: 0x20,
    unsigned_zero: false,
};
const E2M1: FloatFormat = FloatFormat {
    exponent_bits: 2,
    mantissa_bits: 1,
    bias: 1,
    max: 0x07,
    overflow: 0x07,
    nan: 0x08,
    unsigned_zero: false,
};

impl FloatFormat {
    const fn sign_bit(&self) -> u8 {
        1 << (self.exponent_bits + self.mantissa_bits)
    }

    const fn decode(&self, code: u8) -> f32 {
        let sign_bit = self.sign_bit();
        let negative = code & sign_bit != 0;
        let magnitude = code & (sign_bit - 1);
        let value = if self.unsigned_zero && code == self.nan {
            return -f32::NAN;
        } else if magnitude > self.max {
            // The codes above the maximum finite value are NaN, or infinity if the format has infinity.
            if magnitude == self.overflow && self.overflow != self.nan { f32::INFINITY } else { f32::NAN }
        } else {
            let exponent = (magnitude >> self.mantissa_bits) as i32;
            let mantissa = magnitude & ((1 << self.mantissa_bits) - 1);
            let (significand, exponent) =
                if exponent == 0 { (mantissa, 1) } else { (mantissa | (1 << self.mantissa_bits), exponent) };
            significand as f32 * power_of_two(exponent - self.bias - self.mantissa_bits as i32)
        };
        if negative { -value } else { value }
    }

    const fn table(&self) -> [f32; 256] {
        let mut table = [0.0; 256];
        let mut code = 0;
        while code < 256 {
            #[expect(clippy::indexing_slicing, reason = "`code` is below 256 by the loop's condition")]
            {
                // Bits of the code that the format does not use are ignored.
                let mask = (self.sign_bit() as usize) * 2 - 1;
                table[code] = self.decode((code & mask) as u8);
            }
            code += 1;
        }
        table
    }

    /// Encodes a value, rounded to the nearest value of the format, ties to even.
    ///
    /// The distance between adjacent values is a power of two, so scaling by it is exact. Only the
    /// conversion to an integer rounds.
    #[inline]
    fn encode(&self, x: f64, saturate: bool) -> u8 {
        /// Adding and then subtracting this number rounds a smaller non-negative number to an integer.
        const ROUND: f64 = (1u64 << 52) as f64;
        let sign = if x.is_sign_negative() { self.sign_bit() } else { 0 };
        if x.is_nan() {
            return if self.unsigned_zero { self.nan } else { self.nan ^ sign };
        }
        let magnitude = x.abs();
        let exponent = ((magnitude.to_bits() >> 52) as i32 - 1023).max(1 - self.bias);
        let beyond = exponent + self.bias > 1 << self.exponent_bits;
        let code = if beyond {
            u32::MAX
        } else {
            let quantum = exponent - self.mantissa_bits as i32;
            let scaled = magnitude * f64::from_bits(((1023 - quantum) as u64) << 52);
            let rounded = ((scaled + ROUND) - ROUND) as u32;
            // If a significand rounds up to the next power of two, the carry increments the exponent.
            (((exponent + self.bias - 1) as u32) << self.mantissa_bits) + rounded
        };
        if code > u32::from(self.max) {
            let limit = if saturate { self.max } else { self.overflow };
            return limit | sign;
        }
        match code as u8 {
            0 if self.unsigned_zero => 0,
            code => code | sign,
        }
    }
}

const fn power_of_two(exponent: i32) -> f32 {
    f32::from_bits(((exponent + 127) as u32) << 23)
}

/// Returns the decoding table of `f8e8m0`, which consists only of the exponent of a binary32.
const fn powers_table() -> [f32; 256] {
    let mut table = [f32::NAN; 256];
    // 2^-127 is subnormal in binary32.
    table[0] = f32::from_bits(0x0040_0000);
    let mut code = 1;
    while code < 255 {
        #[expect(clippy::indexing_slicing, reason = "`code` is below 255 by the loop's condition")]
        {
            table[code] = power_of_two(code as i32 - 127);
        }
        code += 1;
    }
    table
}

fn encode_power(x: f64, rounding: Rounding) -> u8 {
    const NAN: u8 = 0xFF;
    const MAX: i32 = 0xFE;
    if x.is_nan() {
        return NAN;
    }
    // ONNX rounds the value to binary32 first, so a value whose binary32 is a power of two is not rounded
    // up.
    let bits = f64::from(x as f32).abs().to_bits();
    let fraction = bits & ((1 << 52) - 1);
    let up = match rounding.mode {
        RoundMode::Up => fraction > 0,
        RoundMode::Down => false,
        RoundMode::Nearest => fraction >= 1 << 51,
    };
    let code = (bits >> 52) as i32 - 1023 + 127 + i32::from(up);
    if x != 0.0 && (0..=MAX).contains(&code) {
        code as u8
    } else if rounding.saturate {
        code.clamp(0, MAX) as u8
    } else {
        NAN
    }
}

static E4M3FN_TABLE: [f32; 256] = E4M3FN.table();
static E4M3FNUZ_TABLE: [f32; 256] = E4M3FNUZ.table();
static E5M2_TABLE: [f32; 256] = E5M2.table();
static E5M2FNUZ_TABLE: [f32; 256] = E5M2FNUZ.table();
static E2M3_TABLE: [f32; 256] = E2M3.table();
static E3M2_TABLE: [f32; 256] = E3M2.table();
static E2M1_TABLE: [f32; 256] = E2M1.table();
static E8M0_TABLE: [f32; 256] = powers_table();

/// Returns a table of the exact value of each code of a float type of at most 8 bits; `None` for other
/// types.
///
/// Bits of the code that the type does not use are ignored.
pub fn decode_table(dtype: DataType) -> Option<&'static [f32; 256]> {
    Some(match dtype {
        DataType::F8E4M3FN => &E4M3FN_TABLE,
        DataType::F8E4M3FNUZ => &E4M3FNUZ_TABLE,
        DataType::F8E5M2 => &E5M2_TABLE,
        DataType::F8E5M2FNUZ => &E5M2FNUZ_TABLE,
        DataType::F8E8M0 => &E8M0_TABLE,
        DataType::F6E2M3 => &E2M3_TABLE,
        DataType::F6E3M2 => &E3M2_TABLE,
        DataType::F4E2M1 => &E2M1_TABLE,
        _ => return None,
    })
}

/// Encodes `x` as the nearest value of a float type of at most 8 bits; `None` for other types.
pub fn encode_small_float(dtype: DataType, x: f64, rounding: Rounding) -> Option<u8> {
    let mut code = [0];
    encode_slice(dtype, &[x], rounding, &mut code).then_some(code[0])
}

/// Encodes each element. Returns false, and writes nothing, if `dtype` is not a float type of at most 8
/// bits.
pub(super) fn encode_slice<T: Copy + Into<f64>>(
    dtype: DataType,
    src: &[T],
    rounding: Rounding,
    out: &mut [u8],
) -> bool {
    fn each<T: Copy + Into<f64>>(src: &[T], out: &mut [u8], f: impl Fn(f64) -> u8) {
        for (&x, o) in src.iter().zip(out) {
            *o = f(x.into());
        }
    }
    let saturate = rounding.saturate;
    match dtype {
        DataType::F8E4M3FN => each(src, out, |x| E4M3FN.encode(x, saturate)),
        DataType::F8E4M3FNUZ => each(src, out, |x| E4M3FNUZ.encode(x, saturate)),
        DataType::F8E5M2 => each(src, out, |x| E5M2.encode(x, saturate)),
        DataType::F8E5M2FNUZ => each(src, out, |x| E5M2FNUZ.encode(x, saturate)),
        DataType::F8E8M0 => each(src, out, |x| encode_power(x, rounding)),
        DataType::F6E2M3 => each(src, out, |x| E2M3.encode(x, true)),
        DataType::F6E3M2 => each(src, out, |x| E3M2.encode(x, true)),
        DataType::F4E2M1 => each(src, out, |x| E2M1.encode(x, true)),
        _ => return false,
    }
    true
}
