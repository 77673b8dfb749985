//! Ranges of integers, and how operations change them.

use bb_ir::op::{Class, Param, Primitive, take};
use bb_ir::{DataType, TensorData, infer};

/// A range of integers. Sums and products saturate at the limits of `i128`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) least: i128,
    pub(crate) greatest: i128,
}

/// An operand of an operation: its range and its shape.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ranged<'a> {
    pub(crate) range: Range,
    pub(crate) shape: &'a [usize],
}

/// The ranges that an operation's intermediate values and results can reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reach {
    /// The range of all intermediate values and results.
    pub(crate) all: Range,
    /// The range of the results.
    pub(crate) result: Range,
}

impl Range {
    pub(crate) const ZERO: Range = Range { least: 0, greatest: 0 };

    /// Returns the range of all values of an integer type or of booleans; `None` for other types.
    pub(crate) const fn of(dtype: DataType) -> Option<Range> {
        let (least, greatest) = match dtype {
            DataType::I8 => (i8::MIN as i128, i8::MAX as i128),
            DataType::I16 => (i16::MIN as i128, i16::MAX as i128),
            DataType::I32 => (i32::MIN as i128, i32::MAX as i128),
            DataType::I64 => (i64::MIN as i128, i64::MAX as i128),
            DataType::U8 => (0, u8::MAX as i128),
            DataType::U16 => (0, u16::MAX as i128),
            DataType::U32 => (0, u32::MAX as i128),
            DataType::U64 => (0, u64::MAX as i128),
            DataType::Bool => (0, 1),
            _ => return None,
        };
        Some(Range { least, greatest })
    }

    /// Returns the range of a tensor's elements: 0 if it has none; `None` if they are not integers or booleans.
    pub(crate) fn of_elements(x: &TensorData) -> Option<Range> {
        fn over<T: Copy + Ord + Into<i128>>(elements: &[T]) -> Range {
            let all = elements.iter().copied();
            match (all.clone().min(), all.max()) {
                (Some(least), Some(greatest)) => Range { least: least.into(), greatest: greatest.into() },
                _ => Range::ZERO,
            }
        }
        Some(match x.dtype() {
            DataType::I8 => over(x.as_slice::<i8>().ok()?),
            DataType::I16 => over(x.as_slice::<i16>().ok()?),
            DataType::I32 => over(x.as_slice::<i32>().ok()?),
            DataType::I64 => over(x.as_slice::<i64>().ok()?),
            DataType::U8 => over(x.as_slice::<u8>().ok()?),
            DataType::U16 => over(x.as_slice::<u16>().ok()?),
            DataType::U32 => over(x.as_slice::<u32>().ok()?),
            DataType::U64 => over(x.as_slice::<u64>().ok()?),
            DataType::Bool => over(x.unaligned_bytes().ok()?),
            _ => return None,
        })
    }

    /// Returns whether this range contains the whole other range.
    pub(crate) fn contains(self, other: Range) -> bool {
        self.least <= other.least && other.greatest <= self.greatest
    }

    /// Returns the smallest range that contains both ranges.
    pub(crate) fn or(self, other: Range) -> Range {
        Range { least: self.least.min(other.least), greatest: self.greatest.max(other.greatest) }
    }

    /// Returns the intersection of two ranges that overlap.
    pub(crate) fn within(self, other: Range) -> Range {
        Range { least: self.least.max(other.least), greatest: self.greatest.min(other.greatest) }
    }

    fn plus(self, other: Range) -> Range {
        Range {
            least: self.least.saturating_add(other.least),
            greatest: self.greatest.saturating_add(other.greatest),
        }
    }

    fn negated(self) -> Range {
        Range { least: self.greatest.saturating_neg(), greatest: self.least.saturating_neg() }
    }

    fn times(self, other: Range) -> Range {
        let ends = [
            self.least.saturating_mul(other.least),
            self.least.saturating_mul(other.greatest),
            self.greatest.saturating_mul(other.least),
            self.greatest.saturating_mul(other.greatest),
        ];
        let fold = |pick: fn(i128, i128) -> i128| ends.into_iter().reduce(pick).unwrap_or(0);
        Range { least: fold(i128::min), greatest: fold(i128::max) }
    }

    /// Returns the range of sums of at most `count` elements.
    fn summed(self, count: usize) -> Range {
        let count = Range { least: 0, greatest: i128::try_from(count).unwrap_or(i128::MAX) };
        self.or(Range::ZERO).times(count)
    }

    /// Returns the maximum absolute value.
    fn size(self) -> i128 {
        self.least.saturating_abs().max(self.greatest.saturating_abs())
    }

    /// Returns the smallest range that contains this range and is symmetric about 0.
    fn symmetric(self) -> Range {
        Range { least: -self.size(), greatest: self.size() }
    }

    fn power(self, exponent: Range) -> Range {
        let exponent = u32::try_from(exponent.greatest.max(0)).unwrap_or(u32::MAX);
        let greatest = self.size().max(1).saturating_pow(exponent);
        Range { least: if self.least < 0 { -greatest } else { 0 }, greatest }
    }
}

/// Returns the range that an operation on integers reaches. Returns `None` if its result is not computed from integers, or if
/// the operation only moves elements of one operand, as `gather` does.
pub(crate) fn reach(op: Primitive, operands: &[Ranged<'_>], params: &[Param<'_>]) -> Option<Reach> {
    use Primitive as P;
    let same = |range| Some(Reach { all: range, result: range });
    match (op, operands) {
        (P::Add, [a, b]) => same(a.range.plus(b.range)),
        (P::Sub, [a, b]) => same(a.range.plus(b.range.negated())),
        (P::Mul, [a, b]) => same(a.range.times(b.range)),
        (P::Div, [a, _]) => same(a.range.symmetric()),
        (P::Neg, [a]) => same(a.range.negated()),
        (P::Abs, [a]) => same(Range { least: 0, greatest: a.range.size() }),
        (P::Pow, [a, b]) => same(a.range.power(b.range)),
        (P::MatMul, [a, b]) => {
            let inner = a.shape.last().copied().unwrap_or(1);
            same(a.range.times(b.range).summed(inner))
        }
        (P::ReduceSum | P::ReduceMean | P::ReduceMax | P::ReduceMin, [x]) => {
            let axes = take::Ints(op.spec().method, params.first()).ok()?;
            let reduction = infer::reduce(op.spec().method, x.shape, axes, true).ok()?;
            let count = reduction.count(x.shape);
            match op {
                P::ReduceSum => same(x.range.summed(count)),
                P::ReduceMean => Some(Reach { all: x.range.summed(count), result: x.range.or(Range::ZERO) }),
                // The extremum of no elements is the minimum or maximum of the type.
                _ if count == 0 => same(Range { least: i128::MIN, greatest: i128::MAX }),
                _ => same(x.range),
            }
        }
        // A wrong number of operands is reported elsewhere.
        (P::Add | P::Sub | P::Mul | P::Div | P::Neg | P::Abs | P::Pow | P::MatMul, _)
        | (P::ReduceSum | P::ReduceMean | P::ReduceMax | P::ReduceMin, _) => None,
        // These primitives move elements, or their results are not computed from integers.
        (P::Reshape | P::Transpose | P::Concat | P::Slice | P::Split | P::Squeeze | P::Unsqueeze, _)
        | (P::Identity | P::Cast | P::Where | P::Constant | P::Gather, _)
        | (P::Sqrt | P::Exp | P::Log | P::Equal | P::Greater | P::Less, _) => None,
    }
}

/// Returns whether an operation only moves or selects elements, so that their ranges do not matter.
pub(crate) fn only_moves(op: Primitive) -> bool {
    matches!(op.spec().class, Class::Moves | Class::Creates)
        || matches!(op, Primitive::Identity | Primitive::Where)
}

/// Returns the indices of the operands whose elements appear in the result. These exclude the condition of `where` and the indices of
/// `gather`.
pub(crate) fn values(op: Primitive, operands: usize) -> std::ops::Range<usize> {
    match op {
        Primitive::Where => 1..operands,
        Primitive::Gather => 0..1,
        _ => 0..operands,
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn range(least: i128, greatest: i128) -> Range {
        Range { least, greatest }
    }

    /// Checks that the range computed from each pair of ranges contains the results for all pairs of numbers in these ranges.
    #[test]
    fn results_are_in_the_range_that_is_told() {
        let compute = |op: Primitive, a: i128, b: i128| match op {
            Primitive::Add => a + b,
            Primitive::Sub => a - b,
            Primitive::Mul => a * b,
            Primitive::Div => a.checked_div(b).unwrap_or(0),
            Primitive::Pow => a.pow(u32::try_from(b.max(0)).unwrap()),
            _ => unreachable!("{op:?}"),
        };
        let ranges: Vec<Range> = (-4..4).flat_map(|a| (a..4).map(move |b| range(a, b))).collect();
        for op in [Primitive::Add, Primitive::Sub, Primitive::Mul, Primitive::Div, Primitive::Pow] {
            for (&x, &y) in ranges.iter().flat_map(|x| ranges.iter().map(move |y| (x, y))) {
                let operands = [x, y].map(|range| Ranged { range, shape: &[] });
                let told = reach(op, &operands, &[]).unwrap().result;
                for a in x.least..=x.greatest {
                    for b in y.least..=y.greatest {
                        let c = compute(op, a, b);
                        assert!(told.contains(range(c, c)), "{op:?} {a} {b}: {c} is not in {told:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn sums_count_their_elements() {
        let x = Ranged { range: range(-2, 3), shape: &[2, 5] };
        let params = [Param::Ints(vec![1].into()), Param::Bool(true)];
        let sum = reach(Primitive::ReduceSum, &[x], &params).unwrap();
        assert_eq!(sum.result, range(-10, 15));
        let mean = reach(Primitive::ReduceMean, &[x], &params).unwrap();
        assert_eq!((mean.all, mean.result), (range(-10, 15), range(-2, 3)));
        let w = Ranged { range: range(-1, 1), shape: &[5, 7] };
        assert_eq!(reach(Primitive::MatMul, &[x, w], &[]).unwrap().result, range(-15, 15));
        let none = Ranged { shape: &[2, 0], ..x };
        assert!(!range(-10, 10).contains(reach(Primitive::ReduceMax, &[none], &params).unwrap().result));
    }

    #[test]
    fn the_range_of_elements_is_that_of_the_least_and_the_greatest() {
        let x = TensorData::new(&[3], &[5i64, -7, 2]).unwrap();
        assert_eq!(Range::of_elements(&x), Some(range(-7, 5)));
        let none = TensorData::new::<u8>(&[0], &[]).unwrap();
        assert_eq!(Range::of_elements(&none), Some(Range::ZERO));
        assert_eq!(Range::of_elements(&TensorData::scalar(1f32)), None);
    }
}
