//! Element-wise kernels, with one thread for each result.

use super::{EACH, assembled, put, walk_rows};
use crate::elem::{Elem, Kind};
use bb::ext::scalar;
use smallvec::SmallVec;
use std::sync::Arc;

/// An element-wise function.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Function {
    /// Copies the element as a word.
    Copy,
    /// Selects the second operand if the first is true, and the third otherwise.
    Select,
    /// Converts the element to the type of the result.
    Cast,
    Unary(Unary),
    Binary(Binary),
    /// A program of functions.
    Program(Arc<[Line]>),
    /// Returns the index of the result times `P.e0.y` plus `P.e0.x`. It has no operands.
    Count,
}

/// One line of a program, like [`scalar::Line`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Line {
    pub(crate) function: scalar::Function,
    pub(crate) operands: [usize; 2],
    /// The type that the line's result is rounded to.
    pub(crate) elem: Elem,
}

/// A function of one element. Some functions have numeric parameters, which are in `P.e0`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Unary {
    Neg,
    Abs,
    Sqrt,
    Exp,
    Log,
    Not,
    IsNan,
    /// Whether minus infinity counts, and whether plus infinity counts.
    IsInf(bool, bool),
    Reciprocal,
    Sign,
    Floor,
    Ceil,
    Round,
    Trunc,
    Expm1,
    Log1p,
    Sigmoid,
    Softplus,
    Erf,
    Sin,
    Cos,
    Tan,
    Asin,
    Acos,
    Atan,
    Sinh,
    Cosh,
    Tanh,
    Asinh,
    Acosh,
    Atanh,
    Relu,
    LeakyRelu,
    Elu,
    HardSigmoid,
    ThresholdedRelu,
    Gelu,
    GeluTanh,
    Swish,
    BitNot,
}

/// A function of two elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Binary {
    Add,
    Sub,
    Mul,
    Div,
    Pow,
    Equal,
    Greater,
    Less,
    GreaterOrEqual,
    LessOrEqual,
    Max,
    Min,
    And,
    Or,
    Xor,
}

/// The access pattern of an operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Access {
    /// The element with the index of the result.
    Dense,
    /// The same element for every result.
    Single,
    /// The element that the strides select.
    Strided,
    /// A parameter word of `P.e0` with this index, because the host knows the only element.
    Given(u8),
}

/// The maximum number of elements that are passed as parameter words.
pub(crate) const GIVEN: usize = 4;
/// The maximum number of operands that a kernel binds as buffers.
pub(crate) const OPERANDS: usize = 6;

/// The key of an element-wise kernel.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct MapKey {
    pub(crate) function: Function,
    pub(crate) operands: SmallVec<[(Elem, Access); 4]>,
    pub(crate) result: Elem,
    /// Whether results are written by strides. Only copies do so.
    pub(crate) strided_result: bool,
}

/// Returns the names of the offset and of the stride of operand `i`: see [`crate::ops::launch`].
fn places(i: usize) -> (&'static str, &'static str) {
    match i {
        0 => ("P.off.x", "dim.y"),
        1 => ("P.off.y", "dim.z"),
        2 => ("P.off.z", "dim.w"),
        3 => ("P.e1.y", "more.x"),
        4 => ("P.e1.z", "more.y"),
        _ => ("P.e1.w", "more.z"),
    }
}

impl MapKey {
    pub(crate) fn source(&self) -> String {
        let mut kernel = EACH.to_owned();
        let mut walked: Vec<(String, String)> = Vec::new();
        let mut bound = 0;
        let mut words = Vec::new();
        for (j, (_, access)) in self.operands.iter().enumerate() {
            let (start, stride) = places(bound);
            match access {
                Access::Dense => put(&mut kernel, format_args!("    let p{j} = {start} + i;\n")),
                Access::Single => put(&mut kernel, format_args!("    let p{j} = {start};\n")),
                Access::Strided => {
                    put(&mut kernel, format_args!("    var p{j} = {start};\n"));
                    walked.push((format!("p{j}"), stride.to_owned()));
                }
                Access::Given(at) => {
                    words.push(format!("P.e0[{at}]"));
                    continue;
                }
            }
            words.push(format!("x{bound}[p{j}]"));
            bound += 1;
        }
        if self.strided_result {
            kernel.push_str("    var at = P.off.w;\n");
            walked.push(("at".to_owned(), "dim.z".to_owned()));
        } else {
            kernel.push_str("    let at = P.off.w + i;\n");
        }
        if !walked.is_empty() {
            let positions: Vec<(&str, String)> =
                walked.iter().map(|(v, s)| (v.as_str(), s.clone())).collect();
            let read = if bound > 3 {
                "let dim = P.dims[2u * d]; let more = P.dims[2u * d + 1u];"
            } else {
                "let dim = P.dims[d];"
            };
            kernel.push_str(&walk_rows(&positions, "i", "P.rank", read));
        }
        let moves = matches!(self.function, Function::Copy | Function::Select);
        for (j, ((elem, _), word)) in self.operands.iter().zip(&words).enumerate() {
            let value = if moves { word.clone() } else { elem.load(word) };
            put(&mut kernel, format_args!("    let v{j} = {value};\n"));
        }
        if let Function::Program(lines) = &self.function {
            self.program(&mut kernel, lines);
        }
        let value = self.value();
        let word = if moves { value } else { self.result.store(&value) };
        put(&mut kernel, format_args!("    y[at] = {word};\n}}\n"));
        assembled(bound, false, &kernel)
    }

    /// Writes the lines of a program. Each line defines a value, whose index follows the operands.
    fn program(&self, kernel: &mut String, lines: &[Line]) {
        for (l, line) in lines.iter().enumerate() {
            let [a, b] = line.operands.map(|operand| format!("v{operand}"));
            let value = of_program(line.function, &a, &b);
            // Storing a value as a word and loading it again rounds it.
            let value = match line.elem {
                Elem::F32 => value,
                elem => elem.load(&elem.store(&value)),
            };
            put(kernel, format_args!("    let v{} = {value};\n", self.operands.len() + l));
        }
    }

    /// Returns the expression for the function of `v0`, `v1` and `v2`.
    fn value(&self) -> String {
        let elem = self.operands.first().map_or(self.result, |(elem, _)| *elem);
        match &self.function {
            Function::Copy => "v0".to_owned(),
            Function::Select => "select(v2, v1, v0 != 0u)".to_owned(),
            Function::Cast => elem.convert(self.result, "v0"),
            Function::Unary(unary) => unary.of(elem, "v0"),
            Function::Binary(Binary::Pow) => {
                let exponent = self.operands.get(1).map_or(elem, |(elem, _)| *elem);
                power(elem, exponent)
            }
            Function::Binary(binary) => binary.of(elem, "v0", "v1"),
            Function::Program(lines) => format!("v{}", self.operands.len() + lines.len() - 1),
            Function::Count => match self.result.kind() {
                Kind::Float => "(bitcast<f32>(P.e0.x) + f32(i) * bitcast<f32>(P.e0.y))".to_owned(),
                Kind::Signed => "bitcast<i32>(P.e0.x + i * P.e0.y)".to_owned(),
                _ => "(P.e0.x + i * P.e0.y)".to_owned(),
            },
        }
    }
}

fn of_program(function: scalar::Function, a: &str, b: &str) -> String {
    use scalar::Function as F;
    let unary = |unary: Unary| unary.of(Elem::F32, a);
    let binary = |binary: Binary| binary.of(Elem::F32, a, b);
    match function {
        F::Add => binary(Binary::Add),
        F::Sub => binary(Binary::Sub),
        F::Mul => binary(Binary::Mul),
        F::Div => binary(Binary::Div),
        F::Maximum => binary(Binary::Max),
        F::Minimum => binary(Binary::Min),
        F::Neg => unary(Unary::Neg),
        F::Abs => unary(Unary::Abs),
        F::Sqrt => unary(Unary::Sqrt),
        F::Exp => unary(Unary::Exp),
        F::Log => unary(Unary::Log),
        F::Tanh => unary(Unary::Tanh),
        F::Sigmoid => unary(Unary::Sigmoid),
        F::Erf => unary(Unary::Erf),
        F::Relu => unary(Unary::Relu),
        // For a conversion, the type of the line determines the rounding. Programs with unknown functions were refused
        // earlier.
        _ => a.to_owned(),
    }
}

/// Returns whether a program may contain a function.
pub(crate) fn known(function: scalar::Function) -> bool {
    use scalar::Function as F;
    matches!(
        function,
        F::Add
            | F::Sub
            | F::Mul
            | F::Div
            | F::Maximum
            | F::Minimum
            | F::Neg
            | F::Abs
            | F::Sqrt
            | F::Exp
            | F::Log
            | F::Tanh
            | F::Sigmoid
            | F::Erf
            | F::Relu
    ) || function.converts_to().is_some()
}

fn power(base: Elem, exponent: Elem) -> String {
    match (base.kind(), exponent.kind()) {
        (Kind::Float, Kind::Float) => "pow_(v0, v1)",
        (Kind::Float, Kind::Signed) => "powfi_(v0, v1)",
        (Kind::Float, _) => "powfu_(v0, v1)",
        (_, Kind::Unsigned) => "powu_(v0, v1)",
        (_, _) => "powi_(v0, v1)",
    }
    .to_owned()
}

impl Unary {
    /// Returns the expression for an operand of this type.
    pub(crate) fn of(self, elem: Elem, x: &str) -> String {
        let kind = elem.kind();
        let call = |name: &str| format!("{name}({x})");
        match (self, kind) {
            (Unary::Neg, Kind::Float) => format!("bitcast<f32>(bitcast<u32>({x}) ^ 0x80000000u)"),
            (Unary::Neg, _) => format!("bitcast<i32>(0u - bitcast<u32>({x}))"),
            (Unary::Abs, Kind::Float) => format!("bitcast<f32>(bitcast<u32>({x}) & 0x7fffffffu)"),
            (Unary::Abs, Kind::Signed) => {
                format!("select({x}, bitcast<i32>(0u - bitcast<u32>({x})), {x} < 0)")
            }
            (Unary::Abs, _) => x.to_owned(),
            (Unary::Sqrt, _) => call("sqrt_"),
            (Unary::Exp, _) => call("exp_"),
            (Unary::Log, _) => call("log_"),
            (Unary::Not, _) => format!("(1u - {x})"),
            (Unary::IsNan, _) => format!("u32(isnan_({x}))"),
            (Unary::IsInf(negative, positive), _) => {
                let minus =
                    if negative { format!("bitcast<u32>({x}) == 0xff800000u") } else { "false".to_owned() };
                let plus =
                    if positive { format!("bitcast<u32>({x}) == 0x7f800000u") } else { "false".to_owned() };
                format!("u32({minus} || {plus})")
            }
            (Unary::Reciprocal, _) => format!("(1.0 / {x})"),
            (Unary::Sign, Kind::Float) => call("sign_"),
            (Unary::Sign, Kind::Signed) => format!("(select(0, 1, {x} > 0) - select(0, 1, {x} < 0))"),
            (Unary::Sign, _) => format!("min({x}, 1u)"),
            (Unary::Floor, _) => call("floor"),
            (Unary::Ceil, _) => call("ceil"),
            (Unary::Round, _) => call("round"),
            (Unary::Trunc, _) => call("trunc"),
            (Unary::Expm1, _) => call("expm1_"),
            (Unary::Log1p, _) => call("log1p_"),
            (Unary::Sigmoid, _) => call("sigmoid_"),
            (Unary::Softplus, _) => call("softplus_"),
            (Unary::Erf, _) => call("erf_"),
            (Unary::Sin, _) => call("sin_"),
            (Unary::Cos, _) => call("cos_"),
            (Unary::Tan, _) => call("tan_"),
            (Unary::Asin, _) => call("asin_"),
            (Unary::Acos, _) => call("acos_"),
            (Unary::Atan, _) => call("atan_"),
            (Unary::Sinh, _) => call("sinh_"),
            (Unary::Cosh, _) => call("cosh_"),
            (Unary::Tanh, _) => call("tanh_"),
            (Unary::Asinh, _) => call("asinh_"),
            (Unary::Acosh, _) => call("acosh_"),
            (Unary::Atanh, _) => call("atanh_"),
            (Unary::Relu, Kind::Float) => format!("max_({x}, 0.0)"),
            (Unary::Relu, Kind::Signed) => format!("max({x}, 0)"),
            (Unary::Relu, _) => x.to_owned(),
            (Unary::LeakyRelu, _) => format!("select({x}, {x} * {ALPHA}, less_({x}, 0.0))"),
            (Unary::Elu, _) => format!("select({x}, {ALPHA} * expm1_({x}), less_({x}, 0.0))"),
            (Unary::HardSigmoid, _) => format!("max_(min_({x} * {ALPHA} + {BETA}, 1.0), 0.0)"),
            (Unary::ThresholdedRelu, _) => format!("select(0.0, {x}, less_({ALPHA}, {x}))"),
            (Unary::Gelu, _) => format!("(0.5 * {x} * (1.0 + erf_({x} * 0.70710678)))"),
            (Unary::GeluTanh, _) => {
                format!("(0.5 * {x} * (1.0 + tanh_(0.7978845608 * ({x} + 0.044715 * {x} * {x} * {x}))))")
            }
            (Unary::Swish, _) => format!("({x} * sigmoid_({ALPHA} * {x}))"),
            (Unary::BitNot, _) => format!("(~{x})"),
        }
    }
}

const ALPHA: &str = "bitcast<f32>(P.e0.x)";
const BETA: &str = "bitcast<f32>(P.e0.y)";

impl Binary {
    /// Returns whether the result is a boolean.
    pub(crate) fn compares(self) -> bool {
        use Binary::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual};
        matches!(self, Equal | Greater | Less | GreaterOrEqual | LessOrEqual)
    }

    /// Returns the expression for two operands of this type.
    pub(crate) fn of(self, elem: Elem, a: &str, b: &str) -> String {
        let float = elem.kind() == Kind::Float;
        match self {
            Binary::Add => format!("({a} + {b})"),
            Binary::Sub => format!("({a} - {b})"),
            Binary::Mul => format!("({a} * {b})"),
            Binary::Div => format!("({a} / {b})"),
            Binary::Pow => format!("pow_({a}, {b})"),
            Binary::Equal if float => format!("u32(same_({a}, {b}))"),
            Binary::Greater if float => format!("u32(less_({b}, {a}))"),
            Binary::Less if float => format!("u32(less_({a}, {b}))"),
            Binary::GreaterOrEqual if float => format!("u32(less_({b}, {a}) || same_({a}, {b}))"),
            Binary::LessOrEqual if float => format!("u32(less_({a}, {b}) || same_({a}, {b}))"),
            Binary::Max if float => format!("max_({a}, {b})"),
            Binary::Min if float => format!("min_({a}, {b})"),
            Binary::Equal => format!("u32({a} == {b})"),
            Binary::Greater => format!("u32({a} > {b})"),
            Binary::Less => format!("u32({a} < {b})"),
            Binary::GreaterOrEqual => format!("u32({a} >= {b})"),
            Binary::LessOrEqual => format!("u32({a} <= {b})"),
            Binary::Max => format!("max({a}, {b})"),
            Binary::Min => format!("min({a}, {b})"),
            Binary::And => format!("({a} & {b})"),
            Binary::Or => format!("({a} | {b})"),
            Binary::Xor => format!("({a} ^ {b})"),
        }
    }
}
