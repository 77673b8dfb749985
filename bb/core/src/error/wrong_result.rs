//! The error for a result whose type differs from the type that its operation defines.

use crate::Error;
use bb_ir::text::shown;
use bb_ir::{DataType, Shape};

/// A result of a backend or a component has another element type or other extents than its operation defines.
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
    /// The index of the result, from 0.
    pub index: usize,
    /// The element type that the operation defines.
    pub expected: DataType,
    /// The extents that the operation defines; `None` for an extent that differs between runs.
    pub expected_shape: Vec<Option<usize>>,
    /// The actual element type.
    pub got: DataType,
    /// The actual extents.
    pub got_shape: Shape,
    /// The part of the program that computed the result: "backend" or "component".
    pub maker: &'static str,
}

impl WrongResult {
    /// Returns the error for a result of a backend with a wrong element type or wrong extents.
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

    /// Returns the same error for a result of a component.
    #[must_use]
    pub fn by_component(self) -> WrongResult {
        WrongResult { maker: "component", ..self }
    }

    /// Returns the error for a result with a wrong element type. Its extents are not compared.
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

/// Formats extents, with `?` for extents that differ between runs.
fn extents(extents: &[Option<usize>]) -> String {
    let one = |extent: &Option<usize>| extent.map_or("?".to_owned(), |extent| extent.to_string());
    extents.iter().map(one).collect::<Vec<_>>().join(", ")
}
