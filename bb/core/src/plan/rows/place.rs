//! Where rows are in a value.

use super::ROWS;
use bb_ir::graph::DimExpr;

/// What is known of the rows in a value of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// Rows are kept apart.
    Of(Spread),
    /// Rows are mixed, or not known not to be, because of this cause.
    Mixed(usize),
}

/// How rows are spread in a value that keeps them apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Spread {
    /// The value is the same for all rows, whatever they are and however many.
    Shared,
    /// Each row has a part of its own.
    Rows(Rows),
}

/// The parts of rows along a dimension, whose extent is `outer * rows * inner`. The index `(o * rows + row) * inner + i` belongs to
/// `row`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rows {
    pub(super) axis: usize,
    pub(super) outer: usize,
    pub(super) inner: usize,
}

impl Rows {
    /// One index of the first dimension for each row.
    pub(super) const FIRST: Rows = Rows { axis: 0, outer: 1, inner: 1 };

    /// The same parts along another dimension.
    pub(super) fn along(self, axis: usize) -> Rows {
        Rows { axis, ..self }
    }
}

impl Spread {
    /// Returns whether a value of these extents can be spread so, for every number of rows: only the dimension of the rows varies, and
    /// there are as many elements as `elements` says.
    pub(super) fn fits(
        self,
        shape: &[usize],
        varies: impl Fn(usize) -> bool,
        elements: Option<&DimExpr>,
        rows: usize,
    ) -> bool {
        let others_are_fixed =
            |of: Option<usize>| (0..shape.len()).all(|axis| Some(axis) == of || !varies(axis));
        match self {
            Spread::Shared => others_are_fixed(None),
            Spread::Rows(Rows { axis, outer, inner }) => {
                let each = outer.checked_mul(inner);
                let others = shape.iter().enumerate().filter(|(other, _)| *other != axis);
                let count = others.fold(each, |all, (_, n)| all?.checked_mul(*n));
                let extent = each.and_then(|each| each.checked_mul(rows));
                let expected = count.and_then(|n| DimExpr::name(ROWS).scaled(i64::try_from(n).ok()?));
                varies(axis)
                    && others_are_fixed(Some(axis))
                    && extent == shape.get(axis).copied()
                    && expected.is_some()
                    && expected.as_ref() == elements
            }
        }
    }
}
