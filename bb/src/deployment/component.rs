//! Components: operators that users write, in terms of values and without knowing the backend.

use crate::{Backends, BoxError, Value};
use bb_ir::graph::{Attributes, Node};

/// The context of a running component: the backends, and the node that called the component.
#[derive(Debug, Clone, Copy)]
pub struct Ctx<'a> {
    /// The backends, the default first. An operation on values runs on the backend that owns them.
    pub backends: &'a Backends,
    node: Option<&'a Node>,
}

impl<'a> Ctx<'a> {
    /// Creates a context for code that is not called by a graph.
    pub fn new(backends: &'a Backends) -> Ctx<'a> {
        Ctx { backends, node: None }
    }

    pub(super) fn for_node(backends: &'a Backends, node: &'a Node) -> Ctx<'a> {
        Ctx { backends, node: Some(node) }
    }

    /// Returns the node that called the component; `None` if no graph called it.
    pub fn node(&self) -> Option<&'a Node> {
        self.node
    }

    /// Returns the attributes of the node; `None` if no graph called the component.
    pub fn attributes(&self) -> Option<&'a Attributes> {
        self.node.map(|node| &node.attributes)
    }
}

/// A custom operator, which receives values and returns values.
///
/// A component computes by operations on values, so it does not need to know which backend runs them. In a deployment, if the
/// operands are on several backends, they are moved to the backend of the first operand. Closures with the signature of
/// [`run`](Self::run) are components.
///
/// # Examples
///
/// ```
/// use bb::{BoxError, Component, Ctx, Value};
///
/// /// Attention weights without their scale.
/// struct Scores;
///
/// impl Component for Scores {
///     fn run(&self, ctx: &Ctx<'_>, inputs: &[Option<&Value>]) -> Result<Vec<Value>, BoxError> {
///         let [Some(q), Some(k)] = inputs else { return Err("expected two operands".into()) };
///         let scores = ctx.backends.matmul(q, &ctx.backends.transpose(k, &[1, 0])?)?;
///         Ok(vec![ctx.backends.softmax(&scores, -1)?])
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a component: `bb::Component` is not implemented for it",
    note = "write `impl bb::Component for {Self}`, or a closure `|ctx: &bb::Ctx<'_>, inputs: &[Option<&bb::Value>]|` that returns `Result<Vec<bb::Value>, bb::BoxError>`"
)]
pub trait Component: Send + Sync {
    /// Runs the operator. An operand is `None` if it is omitted.
    ///
    /// # Errors
    ///
    /// The component's own errors.
    fn run(&self, ctx: &Ctx<'_>, inputs: &[Option<&Value>]) -> Result<Vec<Value>, BoxError>;
}

impl<F> Component for F
where
    F: Fn(&Ctx<'_>, &[Option<&Value>]) -> Result<Vec<Value>, BoxError> + Send + Sync,
{
    fn run(&self, ctx: &Ctx<'_>, inputs: &[Option<&Value>]) -> Result<Vec<Value>, BoxError> {
        self(ctx, inputs)
    }
}
