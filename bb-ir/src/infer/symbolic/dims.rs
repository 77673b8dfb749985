//! Arithmetic of extents that may not be known.

use crate::graph::{Dim, DimExpr};
use crate::{Error, Shape};

/// The extents, if all are known.
pub(super) fn concrete(dims: &[Dim]) -> Option<Shape> {
    dims.iter()
        .map(|d| match d {
            Dim::Known(n) => Some(*n),
            Dim::Symbol(_) | Dim::Computed(_) | Dim::Unknown => None,
        })
        .collect()
}

/// Known extents as [`Dim`]s.
pub(super) fn known(shape: &[usize]) -> Vec<Dim> {
    shape.iter().map(|&n| Dim::Known(n)).collect()
}

/// The extent that an integer of a model is; `Unknown` if it is negative.
pub(super) fn extent(value: i64) -> Dim {
    usize::try_from(value).map_or(Dim::Unknown, Dim::Known)
}

/// The shape to which `shapes` broadcast.
pub(super) fn broadcast(op: &'static str, shapes: &[&[Dim]]) -> Result<Vec<Dim>, Error> {
    let rank = shapes.iter().map(|s| s.len()).max().unwrap_or(0);
    let mut out = vec![Dim::Known(1); rank];
    for shape in shapes {
        for (slot, dim) in out.iter_mut().rev().zip(shape.iter().rev()) {
            *slot = match (&*slot, dim) {
                (Dim::Known(a), Dim::Known(b)) if a != b && *a != 1 && *b != 1 => {
                    return Err(mismatch(op, shapes));
                }
                (a, b) if a == b && *a != Dim::Unknown => a.clone(),
                (Dim::Known(1), other) | (other, Dim::Known(1)) => other.clone(),
                // The other one must be the same or 1.
                (Dim::Known(n), _) | (_, Dim::Known(n)) => Dim::Known(*n),
                (a, b) => stretched(a, b).unwrap_or(Dim::Unknown),
            };
        }
    }
    Ok(out)
}

/// What two extents that are not known broadcast to, where it is sure.
fn stretched(a: &Dim, b: &Dim) -> Option<Dim> {
    let (left, right) = (a.formula(), b.formula());
    // What is greater than 1 does not stretch.
    for (formula, dim) in [(&left, a), (&right, b)] {
        if formula.as_ref().is_some_and(|f| f.at_least(2)) {
            return Some(dim.clone());
        }
    }
    // Of n and the lesser of n and a number that is not 0 it is n: if the number is less, it must be the 1 that stretches.
    let cut = |lesser: &DimExpr, whole: &DimExpr| match lesser.as_lesser() {
        Some((a, b)) => (a == whole && b.at_least(1)) || (b == whole && a.at_least(1)),
        None => false,
    };
    let (left, right) = (left?, right?);
    if cut(&left, &right) {
        return Some(b.clone());
    }
    cut(&right, &left).then(|| a.clone())
}

/// Two extents that must be one; `None` if they are known to differ.
pub(super) fn same(a: &Dim, b: &Dim) -> Option<Dim> {
    match (a, b) {
        (Dim::Known(x), Dim::Known(y)) if x != y => None,
        (Dim::Known(_), _) | (_, Dim::Unknown) => Some(a.clone()),
        (Dim::Unknown, _) | (_, Dim::Known(_)) | (Dim::Computed(_), Dim::Symbol(_)) => Some(b.clone()),
        (Dim::Symbol(_) | Dim::Computed(_), _) => Some(a.clone()),
    }
}

/// `f` of an extent; `Unknown` where it says nothing.
pub(super) fn map(dim: &Dim, f: impl FnOnce(&DimExpr) -> Option<DimExpr>) -> Dim {
    dim.formula().and_then(|x| f(&x)).map_or(Dim::Unknown, Dim::from)
}

/// `f` of two extents; `Unknown` where it says nothing.
pub(super) fn map2(a: &Dim, b: &Dim, f: impl FnOnce(&DimExpr, &DimExpr) -> Option<DimExpr>) -> Dim {
    match (a.formula(), b.formula()) {
        (Some(a), Some(b)) => f(&a, &b).map_or(Dim::Unknown, Dim::from),
        _ => Dim::Unknown,
    }
}

/// The sum of two extents.
pub(super) fn sum(a: &Dim, b: &Dim) -> Dim {
    map2(a, b, DimExpr::plus)
}

/// The extent and a number that may be negative.
pub(super) fn shifted(dim: &Dim, by: i64) -> Dim {
    map(dim, |n| n.plus(&by.into()))
}

/// So many times the extent.
pub(super) fn scaled(dim: &Dim, by: i64) -> Dim {
    map(dim, |n| n.scaled(by))
}

/// The extent divided by a number, rounded down.
pub(super) fn divided(dim: &Dim, by: i64) -> Dim {
    map(dim, |n| n.floor_div(by))
}

/// The number of elements.
pub(super) fn product(dims: &[Dim]) -> Dim {
    if dims.contains(&Dim::Known(0)) {
        return Dim::Known(0);
    }
    let product = dims.iter().try_fold(DimExpr::from(1), |product, dim| product.times(&dim.formula()?));
    product.map_or(Dim::Unknown, Dim::from)
}

/// What `whole` has beside `parts`: the extent that times all of `parts` gives the product of `whole`.
pub(super) fn quotient(whole: &[Dim], parts: &[&Dim]) -> Dim {
    if parts.contains(&&Dim::Known(0)) {
        return Dim::Unknown;
    }
    // What is in both needs no arithmetic.
    let mut whole: Vec<Dim> = whole.to_vec();
    let mut rest: Vec<Dim> = Vec::new();
    for &part in parts {
        match whole.iter().position(|d| d == part && *d != Dim::Unknown) {
            Some(at) => drop(whole.swap_remove(at)),
            None => rest.push(part.clone()),
        }
    }
    map2(&product(&whole), &product(&rest), DimExpr::exact_div)
}

/// The error for shapes that do not fit, of which extents may be unknown.
pub(super) fn mismatch(op: &'static str, shapes: &[&[Dim]]) -> Error {
    Error::Dims { op, shapes: shapes.iter().map(|s| describe(s)).collect::<Vec<_>>().join(", ") }
}

fn describe(dims: &[Dim]) -> String {
    let dims: Vec<String> = dims.iter().map(Dim::to_string).collect();
    format!("[{}]", dims.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn n() -> Dim {
        Dim::Symbol("n".to_owned())
    }

    #[test]
    fn broadcasting_keeps_what_must_hold() {
        let out = broadcast("add", &[&[n(), Dim::Known(1)], &[n(), Dim::Known(3)]]);
        assert_eq!(out.ok(), Some(vec![n(), Dim::Known(3)]));
        let out = broadcast("add", &[&[n()], &[Dim::Known(3)]]);
        assert_eq!(out.ok(), Some(vec![Dim::Known(3)]));
        let out = broadcast("add", &[&[Dim::Unknown], &[Dim::Unknown]]);
        assert_eq!(out.ok(), Some(vec![Dim::Unknown]));
        assert!(broadcast("add", &[&[Dim::Known(2)], &[n(), Dim::Known(3)]]).is_err());
    }

    #[test]
    fn what_is_greater_than_one_does_not_stretch() {
        let grown = shifted(&n(), 2);
        let out = broadcast("add", &[&[Dim::Unknown], std::slice::from_ref(&grown)]);
        assert_eq!(out.ok(), Some(vec![grown]));
        let cut = map(&n(), |n| n.lesser(&512.into()));
        assert_eq!(broadcast("add", &[&[n()], &[cut]]).ok(), Some(vec![n()]));
        let other = shifted(&n(), 1);
        assert_eq!(broadcast("add", &[&[n()], &[other]]).ok(), Some(vec![Dim::Unknown]));
    }

    #[test]
    fn quotients_cancel_names() {
        let whole = [n(), Dim::Known(4), Dim::Known(6)];
        assert_eq!(quotient(&whole, &[&n(), &Dim::Known(8)]), Dim::Known(3));
        assert_eq!(quotient(&whole, &[&Dim::Known(24)]), n());
        assert_eq!(quotient(&whole, &[&Dim::Known(12)]), scaled(&n(), 2));
        assert_eq!(quotient(&whole, &[&Dim::Known(5)]), Dim::Unknown);
        assert_eq!(quotient(&[Dim::Known(0)], &[&Dim::Known(0)]), Dim::Unknown);
    }
}
