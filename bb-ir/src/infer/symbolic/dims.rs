//! Arithmetic of extents that may be unknown. A result that cannot be determined is `Dim::Unknown`.

use crate::graph::Dim;
use crate::infer::{self, Extent};

/// The extent, or `Dim::Unknown` if arithmetic yields none.
pub fn told(extent: Option<Dim>) -> Dim {
    extent.unwrap_or(Dim::Unknown)
}

/// Known extents as [`Dim`]s.
pub fn known(shape: &[usize]) -> Vec<Dim> {
    shape.iter().map(|&n| Dim::Known(n)).collect()
}

/// An integer of a model as an extent; `Unknown` if it is negative.
pub fn extent(value: i64) -> Dim {
    told(Dim::of(value))
}

/// The sum of two extents.
pub fn sum(a: &Dim, b: &Dim) -> Dim {
    told(a.plus(b))
}

/// The sum of the extent and a number that may be negative.
pub fn shifted(dim: &Dim, by: i64) -> Dim {
    told(dim.shifted(by))
}

/// The product of the extent and a number.
pub fn scaled(dim: &Dim, by: i64) -> Dim {
    told(dim.scaled(by))
}

/// The extent divided by a number, rounded down.
pub fn divided(dim: &Dim, by: i64) -> Dim {
    told(dim.floor_div(by))
}

/// The number of elements.
pub fn product(dims: &[Dim]) -> Dim {
    told(infer::product(dims))
}
