//! The operations that kernels compute, grouped by their number of operands.

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
    /// The approximation of GELU with `tanh`.
    GeluTanh,
    /// `x * sigmoid(x)`.
    Silu,
    /// `exp(x) - 1`.
    Expm1,
    /// `log(1 + x)`.
    Log1p,
    /// `log(1 + exp(x))`.
    Softplus,
    /// The sine. Angles are in radians.
    Sin,
    /// The cosine.
    Cos,
    /// The tangent.
    Tan,
    /// The inverse sine.
    Asin,
    /// The inverse cosine.
    Acos,
    /// The inverse tangent.
    Atan,
    /// The hyperbolic sine.
    Sinh,
    /// The hyperbolic cosine.
    Cosh,
    /// The inverse hyperbolic sine.
    Asinh,
    /// The inverse hyperbolic cosine.
    Acosh,
    /// The inverse hyperbolic tangent.
    Atanh,
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
    /// `a / b`; integers divide towards zero and wrap, and an integer divisor of 0 gives 0.
    Div,
    /// `a` to the power `b`, for floats.
    Pow,
    /// The remainder of `a` after a truncated division by `b`, for floats. It is exact, and has the sign of `a`.
    Fmod,
    /// `a` shifted to the left by `b`, for integers.
    ShiftLeft,
    /// `a` shifted to the right by `b`, for integers.
    ShiftRight,
    /// The maximum, or NaN if either is NaN.
    Max,
    /// The minimum, or NaN if either is NaN.
    Min,
    /// `a == b`, a bool; NaN equals no number.
    Equal,
    /// `a > b`, a bool.
    Greater,
    /// `a < b`, a bool.
    Less,
    /// `a >= b`, a bool.
    GreaterOrEqual,
    /// `a <= b`, a bool.
    LessOrEqual,
    /// Whether both bools are true.
    And,
    /// Whether at least one of two bools is true.
    Or,
    /// Whether exactly one of two bools is true.
    Xor,
}

/// A test of one element; the result is a bool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Test {
    /// Whether a bool is false.
    Not,
    /// Whether a float is NaN.
    IsNan,
    /// Whether a float is an infinity.
    IsInfinite,
    /// Whether a float is positive infinity.
    IsInfinity,
    /// Whether a float is minus infinity.
    IsMinusInfinity,
}

/// A function that reduces many elements to one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reduction {
    /// The sum; integers wrap. The sum of no elements is 0.
    Sum,
    /// The sum divided by the number of elements; integers divide towards zero. The mean of no elements is NaN, or 0
    /// for integers.
    Mean,
    /// The maximum, or NaN if any element is NaN. For no elements, it is the minimum value of the type.
    Max,
    /// The minimum, or NaN if any element is NaN. For no elements, it is the maximum value of the type.
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
            Unary::Gelu | Unary::GeluTanh => "gelu",
            Unary::Silu => "swish",
            Unary::Expm1 => "expm1",
            Unary::Log1p => "log1p",
            Unary::Softplus => "softplus",
            Unary::Sin => "sin",
            Unary::Cos => "cos",
            Unary::Tan => "tan",
            Unary::Asin => "asin",
            Unary::Acos => "acos",
            Unary::Atan => "atan",
            Unary::Sinh => "sinh",
            Unary::Cosh => "cosh",
            Unary::Asinh => "asinh",
            Unary::Acosh => "acosh",
            Unary::Atanh => "atanh",
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
            Binary::Fmod => "modulo",
            Binary::ShiftLeft | Binary::ShiftRight => "bit_shift",
            Binary::Max => "maximum",
            Binary::Min => "minimum",
            Binary::Equal => "equal",
            Binary::Greater => "greater",
            Binary::Less => "less",
            Binary::GreaterOrEqual => "greater_or_equal",
            Binary::LessOrEqual => "less_or_equal",
            Binary::And => "and",
            Binary::Or => "or",
            Binary::Xor => "xor",
        }
    }

    /// Returns whether the results are bools for all operand types.
    pub(crate) fn compares(self) -> bool {
        match self {
            Binary::Equal
            | Binary::Greater
            | Binary::Less
            | Binary::GreaterOrEqual
            | Binary::LessOrEqual
            | Binary::And
            | Binary::Or
            | Binary::Xor => true,
            Binary::Add
            | Binary::Sub
            | Binary::Mul
            | Binary::Div
            | Binary::Pow
            | Binary::Fmod
            | Binary::ShiftLeft
            | Binary::ShiftRight
            | Binary::Max
            | Binary::Min => false,
        }
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
