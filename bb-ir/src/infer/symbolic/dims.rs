//! Arithmetic of extents that may not be known.

use crate::graph::Dim;
use crate::{Error, Shape};

/// The extents, if all are known.
pub(super) fn concrete(dims: &[Dim]) -> Option<Shape> {
    dims.iter()
        .map(|d| match d {
            Dim::Known(n) => Some(*n),
            Dim::Symbol(_) | Dim::Unknown => None,
        })
        .collect()
}

/// Known extents as [`Dim`]s.
pub(super) fn known(shape: &[usize]) -> Vec<Dim> {
    shape.iter().map(|&n| Dim::Known(n)).collect()
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
                _ => Dim::Unknown,
            };
        }
    }
    Ok(out)
}

/// Two extents that must be one; `None` if they are known to differ.
pub(super) fn same(a: &Dim, b: &Dim) -> Option<Dim> {
    match (a, b) {
        (Dim::Known(x), Dim::Known(y)) if x != y => None,
        (Dim::Known(_), _) | (Dim::Symbol(_), Dim::Symbol(_) | Dim::Unknown) => Some(a.clone()),
        (_, other) => Some(other.clone()),
    }
}

/// The sum of two extents.
pub(super) fn sum(a: &Dim, b: &Dim) -> Dim {
    match (a, b) {
        (Dim::Known(x), Dim::Known(y)) => x.checked_add(*y).map_or(Dim::Unknown, Dim::Known),
        (Dim::Known(0), other) | (other, Dim::Known(0)) => other.clone(),
        _ => Dim::Unknown,
    }
}

/// What `whole` has beside `parts`: the extent that times all of `parts` gives the product of `whole`.
pub(super) fn quotient(whole: &[Dim], parts: &[&Dim]) -> Dim {
    let mut names: Vec<&str> = Vec::new();
    let mut have = 1usize;
    for dim in whole {
        match dim {
            Dim::Known(n) => match have.checked_mul(*n) {
                Some(product) => have = product,
                None => return Dim::Unknown,
            },
            Dim::Symbol(name) => names.push(name),
            Dim::Unknown => return Dim::Unknown,
        }
    }
    let mut divisor = 1usize;
    for part in parts {
        match part {
            Dim::Known(n) => match divisor.checked_mul(*n) {
                Some(product) => divisor = product,
                None => return Dim::Unknown,
            },
            Dim::Symbol(name) => match names.iter().position(|n| n == name) {
                Some(at) => drop(names.swap_remove(at)),
                None => return Dim::Unknown,
            },
            Dim::Unknown => return Dim::Unknown,
        }
    }
    match (names.as_slice(), divisor) {
        (_, 0) => Dim::Unknown,
        ([], _) if have.is_multiple_of(divisor) => Dim::Known(have / divisor),
        ([name], _) if have == divisor => Dim::Symbol((*name).to_owned()),
        _ => Dim::Unknown,
    }
}

/// The error for shapes that do not fit, of which extents may be unknown.
pub(super) fn mismatch(op: &'static str, shapes: &[&[Dim]]) -> Error {
    Error::Dims { op, shapes: shapes.iter().map(|s| describe(s)).collect::<Vec<_>>().join(", ") }
}

fn describe(dims: &[Dim]) -> String {
    let dims: Vec<String> = dims
        .iter()
        .map(|d| match d {
            Dim::Known(n) => n.to_string(),
            Dim::Symbol(s) => s.clone(),
            Dim::Unknown => "?".to_owned(),
        })
        .collect();
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
    fn quotients_cancel_names() {
        let whole = [n(), Dim::Known(4), Dim::Known(6)];
        assert_eq!(quotient(&whole, &[&n(), &Dim::Known(8)]), Dim::Known(3));
        assert_eq!(quotient(&whole, &[&Dim::Known(24)]), n());
        assert_eq!(quotient(&whole, &[&Dim::Known(12)]), Dim::Unknown);
        assert_eq!(quotient(&[Dim::Known(0)], &[&Dim::Known(0)]), Dim::Unknown);
    }
}
