//! Integer sort keys of elements, and the type that minima and maxima are compared in.

use super::number::Number;
use half::{bf16, f16};

/// An element type with a total order. NaN is greater than all numbers, zeros of either sign are equal, and all NaN are
/// equal.
pub(crate) trait Ordered: Copy + Default + Send + Sync + 'static {
    /// The type of sort keys, an integer of the size of an element.
    type Key: Key;
    /// The type that minima and maxima are compared in: the element type if the processor compares it, otherwise a sort
    /// key.
    type Compared: Number;

    /// Returns the sort key of the element.
    fn key(self) -> Self::Key;
    /// Returns the value to compare. If it is a sort key, NaN becomes the minimum if `nan_is_least`, else the maximum.
    fn compared(self, nan_is_least: bool) -> Self::Compared;
}

/// An integer sort key of an element.
pub(crate) trait Key: Number + Ord {
    /// Returns the key itself or, if `reverse`, its complement, which reverses the order.
    fn turned(self, reverse: bool) -> Self;
    /// Returns an integer about half way from `self` to `greater`. It is below `greater` unless both are equal.
    fn halfway(self, greater: Self) -> Self;
}

macro_rules! keys {
    ($($t:ident)*) => {$(
        impl Key for $t {
            #[inline(always)]
            fn turned(self, reverse: bool) -> Self { self ^ if reverse { !0 } else { 0 } }
            #[inline(always)]
            fn halfway(self, greater: Self) -> Self { (self & greater) + ((self ^ greater) >> 1) }
        }

        impl Ordered for $t {
            type Key = $t;
            type Compared = $t;

            #[inline(always)]
            fn key(self) -> $t { self }
            #[inline(always)]
            fn compared(self, _: bool) -> $t { self }
        }
    )*};
}

keys! { i8 i16 i32 i64 u8 u16 u32 u64 }

/// Implements the traits for floats. The key of a float is its bits without the sign, negated if the float is negative.
macro_rules! floats {
    ($($t:ident, $key:ident, $compared:ident, |$x:ident, $nan_is_least:ident| $value:expr;)*) => {$(
        impl Ordered for $t {
            type Key = $key;
            type Compared = $compared;

            #[inline(always)]
            fn key(self) -> $key {
                const INFINITE: $key = $t::INFINITY.to_bits().cast_signed();
                let bits = self.to_bits().cast_signed();
                let size = bits & $key::MAX;
                let key = if bits < 0 { -size } else { size };
                if size > INFINITE { $key::MAX } else { key }
            }

            #[inline(always)]
            fn compared(self, $nan_is_least: bool) -> $compared {
                let $x = self;
                $value
            }
        }
    )*};
}

floats! {
    f32, i32, f32, |x, _nan| x;
    f64, i64, f64, |x, _nan| x;
    // Processors do not compare 16-bit floats, so their keys are compared.
    f16, i16, i16, |x, nan_is_least| half_key(x.key(), nan_is_least);
    bf16, i16, i16, |x, nan_is_least| half_key(x.key(), nan_is_least);
}

/// Returns the sort key of a 16-bit float. The key of NaN is the minimum integer if `nan_is_least`.
#[inline(always)]
fn half_key(key: i16, nan_is_least: bool) -> i16 {
    if nan_is_least & (key == i16::MAX) { i16::MIN } else { key }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bb::ir::convert::{bf16_from_f64, f16_from_f64};

    /// Asserts that the keys have the same order as the elements.
    fn in_order<T: Ordered + std::fmt::Debug>(ascending: &[T]) {
        for pair in ascending.windows(2) {
            let [less, greater] = pair else { unreachable!() };
            assert!(less.key() < greater.key(), "{pair:?}");
            assert!(greater.key().turned(true) < less.key().turned(true), "{pair:?}");
            assert!(less.key().turned(true).turned(true) == less.key(), "{pair:?}");
            let halfway = less.key().halfway(greater.key());
            assert!(less.key() <= halfway && halfway < greater.key(), "{pair:?}");
        }
    }

    #[test]
    fn keys_have_the_order_of_elements() {
        let floats = [f64::NEG_INFINITY, -2.0, -1.5, -1e-7, 0.0, 1e-7, 1.0, 3.0, f64::INFINITY, f64::NAN];
        in_order(&floats);
        in_order(&floats.map(|x| x as f32));
        in_order(&floats.map(f16_from_f64));
        in_order(&floats.map(bf16_from_f64));
        in_order(&[i8::MIN, -1, 0, 1, i8::MAX]);
        in_order(&[i64::MIN, -1, 0, 1, i64::MAX]);
        in_order(&[0, 1, 127, 128, u8::MAX]);
        in_order(&[0, 1, u64::MAX / 2, u64::MAX / 2 + 1, u64::MAX]);
    }

    #[test]
    fn equal_elements_have_one_key() {
        assert_eq!(
            (0f32.key(), 0f64.key(), f16::ZERO.key()),
            ((-0f32).key(), (-0f64).key(), f16::NEG_ZERO.key())
        );
        assert_eq!((f32::NAN.key(), f64::NAN.key()), ((-f32::NAN).key(), (-f64::NAN).key()));
        assert_eq!(
            (f16::NAN.key(), bf16::NAN.key()),
            (f16::from_bits(0xfe01).key(), bf16::from_bits(0xffff).key())
        );
    }
}
