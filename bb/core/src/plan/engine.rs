//! How backends run plans.

/// How a backend runs segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Engine {
    /// Operation by operation.
    Interpreter,
    /// As graphs, through [`Backend::execute`](crate::Backend::execute).
    WholeGraph,
}
