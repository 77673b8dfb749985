//! Programs of element-wise functions that one operation runs for each element.

use super::{NnOp, ScalarOp, fail};
use crate::prelude::*;
use crate::trace::{TraceStop, TracedTensor, Tracer};
use crate::{DataType, Error, Primitive, RoundMode};
use bb_ir::op::OpSpec;

/// One instruction of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line {
    /// The function that the line computes.
    pub function: Function,
    /// The operands. A number below the number of tensors is the index of a tensor; otherwise the number, minus the
    /// number of tensors, is the index of an earlier line. A function of one operand repeats it.
    pub operands: [usize; 2],
}

/// Declares the functions that programs may contain, with their operations.
macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident $arity:literal, $spec:expr;)*) => {
        /// A function of one or two elements. Its number in an encoded program is its index in this list.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Function { $($(#[$doc])* $name,)* }

        impl Function {
            const ALL: &'static [Function] = &[$(Function::$name),*];

            /// Returns the number of operands.
            pub const fn arity(self) -> usize {
                match self { $(Function::$name => $arity,)* }
            }

            /// Returns the operation that computes just this function.
            pub const fn spec(self) -> &'static OpSpec {
                match self { $(Function::$name => $spec,)* }
            }
        }
    };
}

functions! {
    /// `a + b`.
    Add 2, Primitive::Add.spec();
    /// `a - b`.
    Sub 2, Primitive::Sub.spec();
    /// `a * b`.
    Mul 2, Primitive::Mul.spec();
    /// `a / b`.
    Div 2, Primitive::Div.spec();
    /// The maximum of two elements; NaN if one is NaN.
    Maximum 2, ScalarOp::Maximum.spec();
    /// The minimum of two elements; NaN if one is NaN.
    Minimum 2, ScalarOp::Minimum.spec();
    /// `-x`.
    Neg 1, Primitive::Neg.spec();
    /// The absolute value.
    Abs 1, Primitive::Abs.spec();
    /// The square root.
    Sqrt 1, Primitive::Sqrt.spec();
    /// The exponential.
    Exp 1, Primitive::Exp.spec();
    /// The natural logarithm.
    Log 1, Primitive::Log.spec();
    /// The hyperbolic tangent.
    Tanh 1, ScalarOp::Tanh.spec();
    /// `1 / (1 + exp(-x))`.
    Sigmoid 1, ScalarOp::Sigmoid.spec();
    /// The error function.
    Erf 1, ScalarOp::Erf.spec();
    /// `max(x, 0)`. NaN stays NaN.
    Relu 1, NnOp::Relu.spec();
    /// Conversion of the element to `f32`.
    F32 1, Primitive::Cast.spec();
    /// Conversion of the element to `f16`.
    F16 1, Primitive::Cast.spec();
    /// Conversion of the element to `bf16`.
    Bf16 1, Primitive::Cast.spec();
}

impl Function {
    /// Returns the function that an operation computes, if programs support it. Conversions depend on a parameter: see
    /// [`to`](Self::to).
    pub(crate) fn of(spec: &OpSpec) -> Option<Function> {
        Function::ALL.iter().copied().filter(|function| function.converts_to().is_none()).find(|function| {
            let own = function.spec();
            (own.family, own.index) == (spec.family, spec.index)
        })
    }

    /// Returns the conversion to an element type, if programs support it.
    pub(crate) fn to(dtype: DataType) -> Option<Function> {
        Function::ALL.iter().copied().find(|function| function.converts_to() == Some(dtype))
    }

    /// Returns the element type of the result if the function is a conversion; `None` for all other functions, whose
    /// results have the type of their operands.
    pub const fn converts_to(self) -> Option<DataType> {
        match self {
            Function::F32 => Some(DataType::F32),
            Function::F16 => Some(DataType::F16),
            Function::Bf16 => Some(DataType::BF16),
            _ => None,
        }
    }
}

/// Returns the operations that a fused operation ([`Scalar::fused`](super::Scalar::fused) or
/// [`Nn::fused_conv`](super::Nn::fused_conv)) replaces in plans. Plans that fuse also lower batch normalisations, because a
/// product and a sum are lines of a program.
pub(crate) fn replaced(fused: &OpSpec) -> impl Iterator<Item = &'static OpSpec> {
    let conv = (fused == NnOp::FusedConv.spec()).then_some(NnOp::Conv.spec());
    let functions = Function::ALL.iter().map(|function| function.spec());
    functions.chain([NnOp::BatchNormalization.spec()]).chain(conv)
}

/// Decodes a program for a number of tensors. Each line is the function's number followed by one or two operands.
///
/// # Errors
///
/// [`Error::Operator`] if a function or an operand does not exist, or the program is empty.
pub fn lines(program: &[i64], tensors: usize) -> Result<Vec<Line>, Error> {
    let wrong = |problem: String| Error::Operator { op: "fused".to_owned(), part: "program".into(), problem };
    let mut lines: Vec<Line> = Vec::with_capacity(program.len() / 2);
    let mut rest = program.iter();
    while let Some(&code) = rest.next() {
        let function = usize::try_from(code).ok().and_then(|code| Function::ALL.get(code).copied());
        let function =
            function.ok_or_else(|| wrong(format!("has the function {code}, which does not exist")))?;
        let known = tensors + lines.len();
        let mut operand = || {
            let &number =
                rest.next().ok_or_else(|| wrong("ends before the operands of a line".to_owned()))?;
            let exists = usize::try_from(number).ok().filter(|&number| number < known);
            exists.ok_or_else(|| {
                wrong(format!("has the operand {number}, expected 0 to {}", known.saturating_sub(1)))
            })
        };
        let first = operand()?;
        let second = if function.arity() == 2 { operand()? } else { first };
        lines.push(Line { function, operands: [first, second] });
    }
    if lines.is_empty() { Err(wrong("has no line".to_owned())) } else { Ok(lines) }
}

/// Encodes a program that [`lines`] decodes.
pub(crate) fn program(lines: &[Line]) -> Vec<i64> {
    let of = |line: &Line| {
        let operands = line.operands.iter().take(line.function.arity()).map(|&operand| operand as i64);
        std::iter::once(line.function as i64).chain(operands).collect::<Vec<_>>()
    };
    lines.iter().flat_map(of).collect()
}

/// The body of [`Scalar::fused`](super::Scalar::fused). It calls the operations of the lines one after another.
pub fn fused(on: &Tracer, xs: &[&TracedTensor], program: &[i64]) -> Result<TracedTensor, TraceStop> {
    let lines = lines(program, xs.len())?;
    let mut results: Vec<TracedTensor> = Vec::with_capacity(lines.len());
    for line in &lines {
        let operand = |at: usize| match xs.get(at) {
            Some(x) => Some(*x),
            None => results.get(at - xs.len()),
        };
        let operands = line.operands.map(operand);
        let result = match (line.function.converts_to(), operands) {
            (Some(to), [Some(x), _]) => on.cast(x, to, true, RoundMode::Up)?,
            _ => {
                let operands = operands.get(..line.function.arity()).unwrap_or_default();
                let results = super::call(on, line.function.spec(), operands, &[])?;
                crate::call::only(line.function.spec().method, results)?
            }
        };
        results.push(result);
    }
    match results.pop() {
        Some(last) => Ok(last),
        None => fail(Error::Results { op: "fused".to_owned(), expected: 1, got: 0 }),
    }
}
