//! A result that is not of the type that its operation has.

use crate::Error;
use bb_ir::text::shown;
use bb_ir::{DataType, Shape};

/// A backend's result is not of the element type or the extents that its operation has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "result {index} of `{op}` is {got}{got_shape:?}, expected {expected}[{}]: the {maker} computed it",
    extents(.expected_shape),
    op = shown(.op)
)]
#[non_exhaustive]
pub struct WrongResult {
    /// The operation.
    pub op: String,
    /// The position of the result, counted from 0.
    pub index: usize,
    /// The element type that the operation has.
    pub expected: DataType,
    /// The extents that the operation has; `None` for one that differs between runs.
    pub expected_shape: Vec<Option<usize>>,
    /// The element type that came.
    pub got: DataType,
    /// The extents that came.
    pub got_shape: Shape,
    /// The part of the program that computed it: "backend" or "component".
    pub maker: &'static str,
}

impl WrongResult {
    /// Returns the error for a result of another element type or other extents.
    #[cold]
    pub fn of_values(
        op: &str,
        index: usize,
        (expected, expected_shape): (DataType, Vec<Option<usize>>),
        (got, got_shape): (DataType, &[usize]),
    ) -> Error {
        let (op, got_shape) = (op.to_owned(), Shape::from_slice(got_shape));
        let maker = "backend";
        Error::WrongResult(Box::new(WrongResult {
            op,
            index,
            expected,
            expected_shape,
            got,
            got_shape,
            maker,
        }))
    }

    /// Returns the error for a result of a component, of another element type or other extents.
    #[cold]
    pub fn of_component(
        op: &str,
        index: usize,
        (expected, expected_shape): (DataType, Vec<Option<usize>>),
        (got, got_shape): (DataType, &[usize]),
    ) -> WrongResult {
        let (op, got_shape) = (op.to_owned(), Shape::from_slice(got_shape));
        WrongResult { op, index, expected, expected_shape, got, got_shape, maker: "component" }
    }

    /// Returns the error for a result of another element type, with the extents that came.
    #[cold]
    pub(crate) fn of_type(op: &str, index: usize, expected: DataType, got: (DataType, &[usize])) -> Error {
        Error::WrongResult(Box::new(WrongResult {
            op: op.to_owned(),
            index,
            expected,
            expected_shape: got.1.iter().copied().map(Some).collect(),
            got: got.0,
            got_shape: Shape::from_slice(got.1),
            maker: "backend",
        }))
    }
}

/// Writes extents, with `?` for those that differ between runs.
fn extents(extents: &[Option<usize>]) -> String {
    let one = |extent: &Option<usize>| extent.map_or("?".to_owned(), |extent| extent.to_string());
    extents.iter().map(one).collect::<Vec<_>>().join(", ")
}
