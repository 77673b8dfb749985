//! Why a graph, a call or a backend could not do what was asked.

pub use bb_ir::BoxError;

/// Why a graph, a call or a backend could not do what was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A tensor, a graph or a frame was refused.
    #[error(transparent)]
    Ir(#[from] bb_ir::Error),

    /// A kernel failed.
    #[error("backend `{backend}` failed in `{op}`")]
    Kernel {
        /// The backend's name.
        backend: &'static str,
        /// The operation.
        op: &'static str,
        /// The backend's own error.
        #[source]
        source: BoxError,
    },

    /// A node failed while a graph ran or was lowered.
    #[error("node `{node}` ({op}) failed")]
    Node {
        /// The node's name, or its first output's where it has none.
        node: String,
        /// The operator.
        op: String,
        /// Why.
        #[source]
        source: BoxError,
    },

    /// An input that the graph needs was not given.
    #[error("input `{name}` is missing; the graph needs {expected:?}")]
    MissingInput {
        /// The input's name.
        name: String,
        /// All inputs that the graph needs.
        expected: Vec<String>,
    },

    /// An input was given that the graph does not have.
    #[error("`{name}` is no input of the graph; its inputs are {expected:?}")]
    UnknownInput {
        /// The name given.
        name: String,
        /// The graph's inputs.
        expected: Vec<String>,
    },

    /// The number of operands is not what the operation takes.
    #[error("`{op}` is missing operand {index}: it takes {expected}")]
    Operand {
        /// The operation.
        op: &'static str,
        /// The operand's position.
        index: usize,
        /// What belongs there.
        expected: &'static str,
    },

    /// An operation returned another number of results than it has.
    #[error("`{op}` returned {got} results, expected {expected}")]
    Results {
        /// The operation.
        op: String,
        /// The number expected.
        expected: usize,
        /// The number that came.
        got: usize,
    },

    /// A family has no operation of this number.
    #[error("family `{family}` has no operation {index}")]
    UnknownIndex {
        /// The family's name.
        family: &'static str,
        /// The number that came.
        index: u16,
    },

    /// A backend ran a graph and left out one of its outputs.
    #[error("the backend returned no output `{name}`")]
    MissingOutput {
        /// The output's name.
        name: String,
    },

    /// A value is needed while lowering, but only running the graph gives it.
    #[error("`{op}` needs the value of `{value}`, which is not constant")]
    NotConstant {
        /// The operation that asked.
        op: String,
        /// The value asked for.
        value: String,
    },

    /// No function lowers this operator, and the backend has none of its own.
    #[error("operator `{op}` of domain `{domain}`, opset {opset}, is not supported")]
    UnsupportedOperator {
        /// The operator.
        op: String,
        /// Its domain.
        domain: String,
        /// The opset that the model imports.
        opset: i64,
    },

    /// An operator was given an attribute or operand it cannot work with.
    #[error("`{op}`: {what} {problem}")]
    Operator {
        /// The operator.
        op: String,
        /// The attribute or operand.
        what: String,
        /// What is wrong with it: expected and got.
        problem: String,
    },

    /// Whoever was to complete a call dropped the means to do so.
    #[error("the backend dropped its completion handle without a result")]
    Abandoned,
}
