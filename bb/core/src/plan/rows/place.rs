//! The location of rows in a value.

use super::ROWS;
use bb_ir::graph::DimExpr;

/// The location of the rows in a value of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RowPlace {
    /// Rows are separate.
    Of(Spread),
    /// Rows are mixed, or may be mixed. The index identifies the cause.
    Mixed(usize),
}

/// The distribution of rows in a value that keeps them separate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Spread {
    /// The value is the same for all rows and for every number of rows.
    Shared,
    /// Each row has its own part.
    Rows(Rows),
}

/// The parts of rows along a dimension with the extent `outer * rows * inner`. The index `(o * rows + row) * inner + i` belongs
/// to `row`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rows {
    pub(super) axis: usize,
    pub(super) outer: usize,
    pub(super) inner: usize,
}

impl Rows {
    /// The parts if the first dimension has one index for each row.
    pub(super) const FIRST: Rows = Rows { axis: 0, outer: 1, inner: 1 };

    /// Returns the same parts along another dimension.
    pub(super) fn along(self, axis: usize) -> Rows {
        Rows { axis, ..self }
    }
}

impl Spread {
    /// Returns whether a value of this shape can have this distribution for every number of rows: only the dimension of the
    /// rows varies, and the number of elements equals `elements`.
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
