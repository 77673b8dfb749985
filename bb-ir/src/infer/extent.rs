//! The arithmetic of shape rules, over numbers or over expressions of symbolic dimensions.
//!
//! A rule uses a comparison ([`equals`](Extent::equals), [`at_least`](Extent::at_least)) only if its result depends on the
//! answer. A tracer's extent records the answer, and the plan is then valid only for inputs with the same answer. A check
//! whose failure is an error uses [`current`](Extent::current) instead, which records nothing, because kernels check their
//! operands again when they run.

use crate::graph::{Dim, DimExpr};
use crate::{Error, Shape};
use smallvec::SmallVec;

/// The extents of a shape.
pub type Extents<E> = SmallVec<[E; 6]>;

/// An extent: a number, or an expression whose value is known only when inputs arrive.
///
/// All arithmetic is exact. Operations return `None` if the result is not an extent of this type (a `usize` is not
/// negative), if it overflows, or if it is unknown; [`unknown`](Extent::unknown) returns the placeholder for an unknown
/// extent.
pub trait Extent: Clone + std::fmt::Display {
    /// Converts a number to an extent; `None` if this type cannot represent it.
    fn of(number: i64) -> Option<Self>;

    /// Returns the number, if it is the same for all inputs.
    fn number(&self) -> Option<i64>;

    /// Returns the number for the current inputs, which may differ in the next run. Rules use it only to decide whether
    /// there is an error, and in error messages.
    fn current(&self) -> Option<i64>;

    /// Returns the placeholder for an unknown extent, if this type has one.
    fn unknown() -> Option<Self>;

    /// Returns the sum.
    fn plus(&self, other: &Self) -> Option<Self>;

    /// Returns the difference.
    fn minus(&self, other: &Self) -> Option<Self>;

    /// Returns the product.
    fn times(&self, other: &Self) -> Option<Self>;

    /// Returns the quotient of this extent and a positive number, rounded down.
    fn floor_div(&self, by: i64) -> Option<Self>;

    /// Returns the quotient of this extent and an extent other than 0; `None` if there is, or may be, a remainder.
    fn exact_div(&self, by: &Self) -> Option<Self>;

    /// Returns the maximum of both extents.
    fn max(&self, other: &Self) -> Option<Self>;

    /// Returns the minimum of both extents.
    fn min(&self, other: &Self) -> Option<Self>;

    /// Returns whether both extents are equal for all inputs; `false` if this is not certain.
    fn same(&self, other: &Self) -> bool;

    /// Returns whether the extent is at least `least` for all inputs; `false` if this is not certain.
    fn surely_at_least(&self, least: i64) -> bool;

    /// Returns whether both extents are equal; `None` if this is unknown.
    fn equals(&self, other: &Self) -> Option<bool>;

    /// Returns whether the extent is at least `least`; `None` if this is unknown.
    fn at_least(&self, least: i64) -> Option<bool>;

    /// Returns the sum of this extent and a number, which may be negative.
    fn shifted(&self, by: i64) -> Option<Self> {
        match by {
            0 => Some(self.clone()),
            1.. => self.plus(&Self::of(by)?),
            _ => self.minus(&Self::of(by.checked_neg()?)?),
        }
    }

    /// Returns the product of this extent and a number.
    fn scaled(&self, by: i64) -> Option<Self> {
        if by == 1 { Some(self.clone()) } else { self.times(&Self::of(by)?) }
    }

    /// Returns the quotient of this extent and a positive number, rounded up.
    fn ceil_div(&self, by: i64) -> Option<Self> {
        self.shifted(by.checked_sub(1)?)?.floor_div(by)
    }

    /// Returns the difference if this extent exceeds `other`, otherwise 0.
    fn beyond(&self, other: &Self) -> Option<Self> {
        // Subtracting from the maximum ensures that no intermediate result is negative.
        self.max(other)?.minus(other)
    }

    /// Returns whether this extent is the minimum of `whole` and another extent that is not 0. Then it broadcasts with
    /// `whole` to `whole`: if this extent is smaller than `whole`, it must be 1 to broadcast, and is stretched.
    fn is_cut_of(&self, _whole: &Self) -> bool {
        false
    }

    /// Returns one of two extents that must be equal, preferably a number; `None` if the current numbers differ.
    ///
    /// This records no answer, because each run compares the extents again.
    fn agreed(&self, other: &Self) -> Option<Self> {
        match (self.current(), other.current()) {
            (Some(a), Some(b)) if a != b => None,
            _ if self.number().is_none() && other.number().is_some() => Some(other.clone()),
            _ => Some(self.clone()),
        }
    }

    /// Returns `result`; if it is `None`, the unknown extent, or `error` if this type has no unknown extent.
    fn or_unknown(result: Option<Self>, error: impl FnOnce() -> Error) -> Result<Self, Error> {
        result.or_else(Self::unknown).ok_or_else(error)
    }
}

/// For numbers, every comparison has an answer, and operations return `None` on overflow.
macro_rules! numbers {
    ($($ty:ident),*) => {$(
        impl Extent for $ty {
            #[inline]
            fn of(number: i64) -> Option<Self> {
                number.try_into().ok()
            }

            #[inline]
            fn number(&self) -> Option<i64> {
                // Tensors have no extents that do not fit in an `i64`.
                Some(i64::try_from(*self).unwrap_or(i64::MAX))
            }

            #[inline]
            fn current(&self) -> Option<i64> {
                self.number()
            }

            #[inline]
            fn unknown() -> Option<Self> {
                None
            }

            #[inline]
            fn plus(&self, other: &Self) -> Option<Self> {
                self.checked_add(*other)
            }

            #[inline]
            fn minus(&self, other: &Self) -> Option<Self> {
                self.checked_sub(*other)
            }

            #[inline]
            fn times(&self, other: &Self) -> Option<Self> {
                self.checked_mul(*other)
            }

            #[inline]
            fn floor_div(&self, by: i64) -> Option<Self> {
                let by = Self::of(by).filter(|by| *by > 0)?;
                self.checked_div_euclid(by)
            }

            #[inline]
            fn exact_div(&self, by: &Self) -> Option<Self> {
                (self.checked_rem(*by)? == 0).then(|| *self / *by)
            }

            #[inline]
            fn max(&self, other: &Self) -> Option<Self> {
                Some(Ord::max(*self, *other))
            }

            #[inline]
            fn min(&self, other: &Self) -> Option<Self> {
                Some(Ord::min(*self, *other))
            }

            #[inline]
            fn same(&self, other: &Self) -> bool {
                self == other
            }

            #[inline]
            fn surely_at_least(&self, least: i64) -> bool {
                self.number().is_some_and(|n| n >= least)
            }

            #[inline]
            fn equals(&self, other: &Self) -> Option<bool> {
                Some(self == other)
            }

            #[inline]
            fn at_least(&self, least: i64) -> Option<bool> {
                Some(self.surely_at_least(least))
            }
        }
    )*};
}

numbers!(usize, i64);

/// Expressions may be negative. A comparison has an answer only if the answer is the same for all values of the symbols.
impl Extent for DimExpr {
    fn of(number: i64) -> Option<Self> {
        Some(number.into())
    }

    fn number(&self) -> Option<i64> {
        self.constant()
    }

    fn current(&self) -> Option<i64> {
        self.constant()
    }

    fn unknown() -> Option<Self> {
        None
    }

    fn plus(&self, other: &Self) -> Option<Self> {
        DimExpr::plus(self, other)
    }

    fn minus(&self, other: &Self) -> Option<Self> {
        DimExpr::minus(self, other)
    }

    fn times(&self, other: &Self) -> Option<Self> {
        DimExpr::times(self, other)
    }

    fn floor_div(&self, by: i64) -> Option<Self> {
        DimExpr::floor_div(self, by)
    }

    fn exact_div(&self, by: &Self) -> Option<Self> {
        DimExpr::exact_div(self, by)
    }

    fn max(&self, other: &Self) -> Option<Self> {
        self.greater(other)
    }

    fn min(&self, other: &Self) -> Option<Self> {
        self.lesser(other)
    }

    fn same(&self, other: &Self) -> bool {
        self == other
    }

    fn surely_at_least(&self, least: i64) -> bool {
        DimExpr::at_least(self, least)
    }

    fn equals(&self, other: &Self) -> Option<bool> {
        let more = DimExpr::minus(self, other)?;
        match more.constant() {
            Some(more) => Some(more == 0),
            None if more.surely_at_least(1) || more.scaled(-1)?.surely_at_least(1) => Some(false),
            None => None,
        }
    }

    fn at_least(&self, least: i64) -> Option<bool> {
        if self.surely_at_least(least) {
            return Some(true);
        }
        let less = DimExpr::from(least).minus(self)?;
        less.surely_at_least(1).then_some(false)
    }

    fn scaled(&self, by: i64) -> Option<Self> {
        DimExpr::scaled(self, by)
    }

    fn ceil_div(&self, by: i64) -> Option<Self> {
        DimExpr::ceil_div(self, by)
    }

    fn beyond(&self, other: &Self) -> Option<Self> {
        DimExpr::minus(self, other)?.greater(&0.into())
    }

    fn is_cut_of(&self, whole: &Self) -> bool {
        let Some((a, b)) = self.as_lesser() else { return false };
        (a == whole && b.surely_at_least(1)) || (b == whole && a.surely_at_least(1))
    }
}

/// Extents before inputs arrive. An unknown extent is [`Dim::Unknown`].
impl Extent for Dim {
    fn of(number: i64) -> Option<Self> {
        usize::of(number).map(Dim::Known)
    }

    fn number(&self) -> Option<i64> {
        match self {
            Dim::Known(n) => n.number(),
            Dim::Symbol(_) | Dim::Computed(_) | Dim::Unknown => None,
        }
    }

    fn current(&self) -> Option<i64> {
        self.number()
    }

    fn unknown() -> Option<Self> {
        Some(Dim::Unknown)
    }

    fn plus(&self, other: &Self) -> Option<Self> {
        computed(self, other, usize::plus, DimExpr::plus)
    }

    fn minus(&self, other: &Self) -> Option<Self> {
        computed(self, other, usize::minus, DimExpr::minus)
    }

    fn times(&self, other: &Self) -> Option<Self> {
        match (self, other) {
            // 0 × unknown = 0.
            (Dim::Known(0), _) | (_, Dim::Known(0)) => Some(Dim::Known(0)),
            (Dim::Known(1), other) | (other, Dim::Known(1)) => Some(other.clone()),
            _ => computed(self, other, usize::times, DimExpr::times),
        }
    }

    fn floor_div(&self, by: i64) -> Option<Self> {
        match self {
            Dim::Known(n) => n.floor_div(by).map(Dim::Known),
            _ => extent(self.formula()?.floor_div(by)?),
        }
    }

    fn exact_div(&self, by: &Self) -> Option<Self> {
        computed(self, by, usize::exact_div, DimExpr::exact_div)
    }

    fn max(&self, other: &Self) -> Option<Self> {
        computed(self, other, Extent::max, DimExpr::greater)
    }

    fn min(&self, other: &Self) -> Option<Self> {
        match (self, other) {
            (Dim::Known(0), _) | (_, Dim::Known(0)) => Some(Dim::Known(0)),
            _ => computed(self, other, Extent::min, DimExpr::lesser),
        }
    }

    fn same(&self, other: &Self) -> bool {
        self == other && *self != Dim::Unknown
    }

    fn surely_at_least(&self, least: i64) -> bool {
        match self {
            Dim::Known(n) => n.surely_at_least(least),
            Dim::Symbol(_) | Dim::Unknown => least <= 0,
            Dim::Computed(formula) => least <= 0 || formula.at_least(least),
        }
    }

    fn equals(&self, other: &Self) -> Option<bool> {
        match (self, other) {
            (Dim::Known(a), Dim::Known(b)) => Some(a == b),
            _ => self.formula()?.equals(&other.formula()?),
        }
    }

    fn at_least(&self, least: i64) -> Option<bool> {
        if self.surely_at_least(least) { Some(true) } else { Extent::at_least(&self.formula()?, least) }
    }

    fn beyond(&self, other: &Self) -> Option<Self> {
        match (self, other) {
            (Dim::Known(0), _) => Some(Dim::Known(0)),
            (whole, Dim::Known(0)) => Some(whole.clone()),
            _ => computed(self, other, usize::beyond, DimExpr::beyond),
        }
    }

    fn agreed(&self, other: &Self) -> Option<Self> {
        match (self, other) {
            (Dim::Known(a), Dim::Known(b)) if a != b => None,
            (Dim::Known(_), _) | (_, Dim::Unknown) => Some(self.clone()),
            (Dim::Unknown, _) | (_, Dim::Known(_)) | (Dim::Computed(_), Dim::Symbol(_)) => {
                Some(other.clone())
            }
            (Dim::Symbol(_) | Dim::Computed(_), _) => Some(self.clone()),
        }
    }

    fn is_cut_of(&self, whole: &Self) -> bool {
        match (self, whole.formula()) {
            (Dim::Computed(formula), Some(whole)) => formula.is_cut_of(&whole),
            _ => false,
        }
    }
}

/// Applies an operation to two numbers, or to the expressions of two known extents.
fn computed(
    a: &Dim,
    b: &Dim,
    numbers: fn(&usize, &usize) -> Option<usize>,
    expressions: fn(&DimExpr, &DimExpr) -> Option<DimExpr>,
) -> Option<Dim> {
    match (a, b) {
        (Dim::Known(a), Dim::Known(b)) => numbers(a, b).map(Dim::Known),
        _ => extent(expressions(&a.formula()?, &b.formula()?)?),
    }
}

/// Converts an expression to an extent; `None` if it is a negative number.
fn extent(formula: DimExpr) -> Option<Dim> {
    match Dim::from(formula) {
        Dim::Unknown => None,
        known => Some(known),
    }
}

/// Returns the number of elements.
pub fn product<E: Extent>(shape: &[E]) -> Option<E> {
    if shape.iter().any(|e| e.number() == Some(0)) {
        return E::of(0);
    }
    shape.iter().try_fold(E::of(1)?, |product, e| product.times(e))
}

/// Returns the extent that, multiplied by all `parts`, gives the number of elements of `whole`. No part may be 0.
pub fn quotient<E: Extent>(whole: &[E], parts: &[E]) -> Option<E> {
    // Extents that occur in both lists cancel without arithmetic.
    let mut whole = Extents::from(whole);
    let mut rest: Extents<E> = Extents::new();
    for part in parts {
        match whole.iter().position(|e| e.same(part)) {
            Some(at) => drop(whole.swap_remove(at)),
            None => rest.push(part.clone()),
        }
    }
    product(&whole)?.exact_div(&product(&rest)?)
}

/// Returns whether two shapes are equal for all inputs; `false` if this is not certain.
pub(super) fn same<E: Extent>(a: &[E], b: &[E]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.same(b))
}

/// Returns the numbers for the current inputs, if all extents are known.
pub fn current<E: Extent>(shape: &[E]) -> Option<Shape> {
    shape.iter().map(|e| usize::try_from(e.current()?).ok()).collect()
}

/// Returns the error for shapes that do not match.
#[cold]
pub(super) fn mismatch<E: Extent>(op: &'static str, shapes: &[&[E]]) -> Error {
    let numbers: Option<Vec<Shape>> = shapes.iter().map(|s| current(s)).collect();
    if let Some([left, right]) = numbers.as_deref() {
        return Error::Shapes { op, left: left.as_slice().into(), right: right.as_slice().into() };
    }
    let describe = |shape: &&[E]| {
        let extents: Vec<String> = shape.iter().map(E::to_string).collect();
        format!("[{}]", extents.join(", "))
    };
    Error::Dims { op, shapes: shapes.iter().map(describe).collect::<Vec<_>>().join(", ") }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn n() -> Dim {
        Dim::Symbol("n".to_owned())
    }

    #[test]
    fn numbers_are_exact_or_none() {
        assert_eq!(Extent::minus(&3usize, &5), None);
        assert_eq!(Extent::minus(&3i64, &5), Some(-2));
        assert_eq!(usize::MAX.plus(&1), None);
        assert_eq!((7usize.exact_div(&2), 8usize.exact_div(&2), 8usize.exact_div(&0)), (None, Some(4), None));
        assert_eq!((-7i64).floor_div(2), Some(-4));
        assert_eq!((7usize.ceil_div(2), 7usize.floor_div(0)), (Some(4), None));
        assert_eq!((3usize.shifted(-3), 3usize.shifted(-4)), (Some(0), None));
        assert_eq!((3usize.beyond(&5), 5usize.beyond(&3)), (Some(0), Some(2)));
        assert!(usize::MAX.surely_at_least(i64::MAX));
    }

    #[test]
    fn what_symbols_stand_for_does_not_matter_to_what_is_told() {
        let grown = n().shifted(2).unwrap();
        assert_eq!((n().equals(&n()), n().equals(&grown)), (Some(true), Some(false)));
        assert_eq!((n().equals(&Dim::Known(3)), Dim::Unknown.equals(&Dim::Unknown)), (None, None));
        assert_eq!((grown.at_least(2), grown.at_least(3), n().at_least(0)), (Some(true), None, Some(true)));
        assert_eq!(n().beyond(&grown), Some(Dim::Known(0)));
        assert_eq!(grown.minus(&n()), Some(Dim::Known(2)));
        assert!(!Dim::Unknown.same(&Dim::Unknown) && Dim::Unknown.surely_at_least(0));
        let less = DimExpr::from(3).minus(&DimExpr::name("n")).unwrap();
        assert_eq!((Extent::at_least(&less, 4), Extent::at_least(&less, 3)), (Some(false), None));
    }

    #[test]
    fn quotients_cancel_symbols() {
        let whole = [n(), Dim::Known(4), Dim::Known(6)];
        assert_eq!(quotient(&whole, &[n(), Dim::Known(8)]), Some(Dim::Known(3)));
        assert_eq!(quotient(&whole, &[Dim::Known(24)]), Some(n()));
        assert_eq!(quotient(&whole, &[Dim::Known(12)]), n().scaled(2));
        assert_eq!(quotient(&whole, &[Dim::Known(5)]), None);
        assert_eq!((quotient(&[2usize, 0], &[3]), quotient(&[4usize, 6], &[6, 8])), (Some(0), None));
    }

    #[test]
    fn an_extent_that_is_not_known_takes_part_in_little() {
        assert_eq!(Dim::Unknown.plus(&Dim::Known(1)), None);
        assert_eq!(Dim::Unknown.times(&Dim::Known(0)), Some(Dim::Known(0)));
        assert_eq!(Dim::Unknown.scaled(1), Some(Dim::Unknown));
    }
}
