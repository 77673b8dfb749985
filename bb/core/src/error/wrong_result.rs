//! The error for a result whose type differs from the type that its operation defines.

use crate::Error;
use bb_ir::text::shown;
use bb_ir::{DataType, Shape};

/// The part of a program that computed a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ResultMaker {
    /// A component of a deployment.
    Component,
    /// A backend without layers that override the operation.
    Backend {
        /// The name of the backend's type, if it is known.
        ty: Option<&'static str>,
    },
    /// A layer: the outermost one that overrides the operation.
    Layer {
        /// The name of the layer's type.
        ty: &'static str,
        /// The name of the type of the backend below all layers, if it is known.
        backend: Option<&'static str>,
    },
}

impl ResultMaker {
    /// A backend whose type is not known.
    pub(crate) const BACKEND: ResultMaker = ResultMaker::Backend { ty: None };

    /// Returns a backend of this type.
    pub(crate) fn backend<B: ?Sized>() -> ResultMaker {
        ResultMaker::Backend { ty: Some(type_name::<B>()) }
    }

    /// Returns a layer of this type. `inner` is the part that would compute the operation without the layer.
    pub(crate) fn layer<L>(inner: ResultMaker) -> ResultMaker {
        let backend = match inner {
            ResultMaker::Backend { ty } => ty,
            ResultMaker::Layer { backend, .. } => backend,
            ResultMaker::Component => None,
        };
        ResultMaker::Layer { ty: type_name::<L>(), backend }
    }
}

impl std::fmt::Display for ResultMaker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ResultMaker::Component => f.write_str("the component"),
            ResultMaker::Backend { .. } => f.write_str("the backend"),
            ResultMaker::Layer { ty, backend: None } => write!(f, "the layer `{ty}`"),
            ResultMaker::Layer { ty, backend: Some(backend) } => {
                write!(f, "the layer `{ty}` on the backend `{backend}`")
            }
        }
    }
}

/// Returns the path of a type, without its parameters.
pub(crate) fn type_path<T: ?Sized>() -> &'static str {
    let path = std::any::type_name::<T>();
    path.split('<').next().unwrap_or(path)
}

/// Returns the name of a type, without its module and its parameters.
pub(crate) fn type_name<T: ?Sized>() -> &'static str {
    let path = type_path::<T>();
    path.rsplit("::").next().unwrap_or(path)
}

/// A result of a backend or a component has another element type or other extents than its operation defines.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "result {index} of `{op}` is {got}{got_shape:?}, expected {expected}[{}]: {maker} returned it",
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
    /// The part of the program that computed the result.
    pub maker: ResultMaker,
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
        WrongResult { op, index, expected, expected_shape, got, got_shape, maker: ResultMaker::BACKEND }
    }

    /// Returns the same error for a result of another part of the program.
    #[must_use]
    pub fn made_by(self, maker: ResultMaker) -> WrongResult {
        WrongResult { maker, ..self }
    }

    /// Returns the same error for a result of a component.
    #[must_use]
    pub fn by_component(self) -> WrongResult {
        self.made_by(ResultMaker::Component)
    }

    /// Returns the error for a result with a wrong element type. Its extents are not compared.
    #[cold]
    pub(crate) fn of_type(
        op: &str,
        index: usize,
        expected: DataType,
        got: (DataType, &[usize]),
        maker: ResultMaker,
    ) -> Error {
        let extents = got.1.iter().copied().map(Some).collect();
        WrongResult::new(op, index, (expected, extents), got).made_by(maker).into()
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
