//! The operations that kernels compute, by their number of operands.

/// An operation on one element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unary {
    /// `-x`; integers wrap.
    Neg,
    /// The absolute value; integers wrap.
    Abs,
    /// `max(x, 0)`; NaN stays NaN.
    Relu,
    /// The square root.
    Sqrt,
    /// The exponential.
    Exp,
    /// The natural logarithm.
    Log,
    /// The hyperbolic tangent.
    Tanh,
    /// `1 / (1 + exp(-x))`.
    Sigmoid,
    /// The error function.
    Erf,
    /// `x * (1 + erf(x / sqrt 2)) / 2`.
    Gelu,
    /// `x * sigmoid(x)`.
    Silu,
}

/// An operation on two elements of one type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Binary {
    /// `a + b`; integers wrap.
    Add,
    /// `a - b`; integers wrap.
    Sub,
    /// `a * b`; integers wrap.
    Mul,
    /// `a / b`; integers divide towards zero, wrap, and give 0 for a zero divisor.
    Div,
    /// `a` to the power `b`, of floating-point numbers.
    Pow,
    /// The larger; NaN if either is.
    Max,
    /// The smaller; NaN if either is.
    Min,
    /// `a == b`, a bool; NaN equals nothing.
    Equal,
    /// `a > b`, a bool.
    Greater,
    /// `a < b`, a bool.
    Less,
}

/// What many elements are reduced to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reduction {
    /// The sum; integers wrap. 0 of nothing.
    Sum,
    /// The sum divided by the number of elements; integers divide towards zero. NaN of nothing.
    Mean,
    /// The largest, NaN if any is; the least value of the type for nothing.
    Max,
    /// The smallest, NaN if any is; the greatest value of the type for nothing.
    Min,
}

impl Unary {
    /// Returns the name of the method that computes the operation.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Unary::Neg => "neg",
            Unary::Abs => "abs",
            Unary::Relu => "relu",
            Unary::Sqrt => "sqrt",
            Unary::Exp => "exp",
            Unary::Log => "log",
            Unary::Tanh => "tanh",
            Unary::Sigmoid => "sigmoid",
            Unary::Erf => "erf",
            Unary::Gelu => "gelu",
            Unary::Silu => "swish",
        }
    }
}

impl Binary {
    /// Returns the name of the method that computes the operation.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Binary::Add => "add",
            Binary::Sub => "sub",
            Binary::Mul => "mul",
            Binary::Div => "div",
            Binary::Pow => "pow",
            Binary::Max => "maximum",
            Binary::Min => "minimum",
            Binary::Equal => "equal",
            Binary::Greater => "greater",
            Binary::Less => "less",
        }
    }

    /// Tells whether the results are bools, whatever the operands are.
    pub(crate) fn compares(self) -> bool {
        matches!(self, Binary::Equal | Binary::Greater | Binary::Less)
    }
}

impl Reduction {
    /// Returns the name of the method that computes the reduction.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Reduction::Sum => "reduce_sum",
            Reduction::Mean => "reduce_mean",
            Reduction::Max => "reduce_max",
            Reduction::Min => "reduce_min",
        }
    }
}
