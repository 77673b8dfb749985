//! Arithmetic of extents that may be unknown. A result that cannot be determined is `Dim::Unknown`.

use crate::graph::Dim;
use crate::infer::{self, Extent};

/// Returns the extent, or `Dim::Unknown` if the arithmetic has no result.
pub fn told(extent: Option<Dim>) -> Dim {
    extent.unwrap_or(Dim::Unknown)
}

/// Converts known extents to [`Dim`]s.
pub fn known(shape: &[usize]) -> Vec<Dim> {
    shape.iter().map(|&n| Dim::Known(n)).collect()
}

/// Converts an integer of a model to an extent; `Unknown` if it is negative.
pub fn extent(value: i64) -> Dim {
    told(Dim::of(value))
}

/// Returns the sum of two extents.
pub fn sum(a: &Dim, b: &Dim) -> Dim {
    told(a.plus(b))
}

/// Returns the sum of the extent and a number, which may be negative.
pub fn shifted(dim: &Dim, by: i64) -> Dim {
    told(dim.shifted(by))
}

/// Returns the product of the extent and a number.
pub fn scaled(dim: &Dim, by: i64) -> Dim {
    told(dim.scaled(by))
}

/// Returns the quotient of the extent and a number, rounded down.
pub fn divided(dim: &Dim, by: i64) -> Dim {
    told(dim.floor_div(by))
}

/// Returns the number of elements of a tensor with these extents.
pub fn product(dims: &[Dim]) -> Dim {
    told(infer::product(dims))
}
