//! Extents that may not be known, where a rule goes on with what cannot be told.

use crate::graph::Dim;
use crate::infer::{self, Extent};

/// The extent, or one that is not known where arithmetic tells nothing.
pub fn told(extent: Option<Dim>) -> Dim {
    extent.unwrap_or(Dim::Unknown)
}

/// Known extents as [`Dim`]s.
pub fn known(shape: &[usize]) -> Vec<Dim> {
    shape.iter().map(|&n| Dim::Known(n)).collect()
}

/// The extent that an integer of a model is; `Unknown` if it is negative.
pub fn extent(value: i64) -> Dim {
    told(Dim::of(value))
}

/// The sum of two extents.
pub fn sum(a: &Dim, b: &Dim) -> Dim {
    told(a.plus(b))
}

/// The extent and a number that may be negative.
pub fn shifted(dim: &Dim, by: i64) -> Dim {
    told(dim.shifted(by))
}

/// So many times the extent.
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
