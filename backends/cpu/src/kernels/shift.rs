//! Shifts of integers.

use super::element_loop::{Run, zip};
use super::op::Binary;
use bb::DataType;

/// Returns the loop of a shift, if the type is an integer type, or `None` for other operations. A shift by the bit
/// width or more clears all bits, except that a right shift of a signed number fills all bits with its sign. Negative
/// counts are treated as large counts.
pub(super) fn kernel(op: Binary, dtype: DataType) -> Option<Run<2>> {
    macro_rules! shifts {
        ($t:ident $unsigned:ident) => {{
            const LAST: $unsigned = (size_of::<$t>() * 8 - 1) as $unsigned;
            const SIGNED: bool = $t::MIN != 0;
            // SAFETY of each loop: `zip` has the contract of `Run`, for elements of this type.
            let run: Run<2> = unsafe {
                match op {
                    Binary::ShiftLeft => |out, x, n| {
                        zip(out, x, n, |a: $unsigned, b: $unsigned| if b <= LAST { a << b } else { 0 })
                    },
                    Binary::ShiftRight => |out, x, n| {
                        zip(out, x, n, |a: $t, b: $t| {
                            let b = $unsigned::from_ne_bytes(b.to_ne_bytes());
                            let shifted = a >> b.min(LAST);
                            if SIGNED || b <= LAST { shifted } else { 0 }
                        })
                    },
                    _ => return None,
                }
            };
            run
        }};
    }
    Some(match dtype {
        DataType::I8 => shifts!(i8 u8),
        DataType::I16 => shifts!(i16 u16),
        DataType::I32 => shifts!(i32 u32),
        DataType::I64 => shifts!(i64 u64),
        DataType::U8 => shifts!(u8 u8),
        DataType::U16 => shifts!(u16 u16),
        DataType::U32 => shifts!(u32 u32),
        DataType::U64 => shifts!(u64 u64),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::level::{at, levels};

    /// Shifts numbers by counts of every kind, and compares with the definition, which is computed in 128 bits.
    fn check<T: Copy + Default + PartialEq + std::fmt::Debug>(
        dtype: DataType,
        width: u32,
        of: impl Fn(i128) -> T,
        number: impl Fn(T) -> i128,
    ) {
        for n in [1, 9, 64, 2_000] {
            let counts = [0, 1, 3, 7, 8, 15, 16, 31, 32, 63, 64, 100, -1, -128];
            let a: Vec<T> = (0..n).map(|i| of(i * 0x1357_9bdf_0246_8ace + 5)).collect();
            let b: Vec<T> =
                (0..n).map(|i| of(counts.get(i as usize * 5 % 14).copied().unwrap_or(0))).collect();
            for op in [Binary::ShiftLeft, Binary::ShiftRight] {
                let expected: Vec<T> = a
                    .iter()
                    .zip(&b)
                    .map(|(&a, &b)| match u32::try_from(number(b)) {
                        Ok(count) if count < width && op == Binary::ShiftLeft => of(number(a) << count),
                        Ok(count) if count < width => of(number(a) >> count),
                        _ if op == Binary::ShiftRight && number(a) < 0 => of(-1),
                        _ => of(0),
                    })
                    .collect();
                let run = kernel(op, dtype).expect("integers");
                for level in levels() {
                    let mut out = vec![T::default(); a.len()];
                    // SAFETY: there are as many elements of each.
                    at(level, || unsafe {
                        run(out.as_mut_ptr().cast(), [a.as_ptr().cast(), b.as_ptr().cast()], a.len());
                    });
                    assert_eq!(out, expected, "{op:?} of {dtype:?} at {level:?}");
                }
            }
        }
    }

    #[test]
    fn shifts_are_those_of_the_definition() {
        check(DataType::I8, 8, |x| x as i8, i128::from);
        check(DataType::I16, 16, |x| x as i16, i128::from);
        check(DataType::I32, 32, |x| x as i32, i128::from);
        check(DataType::I64, 64, |x| x as i64, i128::from);
        check(DataType::U8, 8, |x| x as u8, i128::from);
        check(DataType::U16, 16, |x| x as u16, i128::from);
        check(DataType::U32, 32, |x| x as u32, i128::from);
        check(DataType::U64, 64, |x| x as u64, i128::from);
    }
}
