//! A result that is not of the type that its operation has.

use crate::Error;
use bb_ir::text::shown;
use bb_ir::{DataType, Shape};

/// A result of a backend or a component is not of the element type or the extents that its operation has.
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
    /// Returns the error for a result of a backend, of another element type or other extents.
    #[cold]
    pub fn new(
        op: &str,
        index: usize,
        (expected, expected_shape): (DataType, Vec<Option<usize>>),
        (got, got_shape): (DataType, &[usize]),
    ) -> WrongResult {
        let (op, got_shape) = (op.to_owned(), Shape::from_slice(got_shape));
        WrongResult { op, index, expected, expected_shape, got, got_shape, maker: "backend" }
    }

    /// Returns the error for a result of a component instead of a backend.
    #[must_use]
    pub fn by_component(self) -> WrongResult {
        WrongResult { maker: "component", ..self }
    }

    /// Returns the error for a result of another element type, with the extents that came.
    #[cold]
    pub(crate) fn of_type(op: &str, index: usize, expected: DataType, got: (DataType, &[usize])) -> Error {
        let extents = got.1.iter().copied().map(Some).collect();
        WrongResult::new(op, index, (expected, extents), got).into()
    }
}

impl From<WrongResult> for Error {
    fn from(wrong: WrongResult) -> Error {
        Error::WrongResult(Box::new(wrong))
    }
}

/// Writes extents, with `?` for those that differ between runs.
fn extents(extents: &[Option<usize>]) -> String {
    let one = |extent: &Option<usize>| extent.map_or("?".to_owned(), |extent| extent.to_string());
    extents.iter().map(one).collect::<Vec<_>>().join(", ")
}
