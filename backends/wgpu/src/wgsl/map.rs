//! Element-wise kernels: one thread for each result.

use super::{EACH, assembled, put, walk};
use crate::elem::{Elem, Kind};
use smallvec::SmallVec;

/// A function of elements.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Function {
    /// The element itself, as a word.
    Copy,
    /// The second operand where the first is true, else the third.
    Select,
    /// The element in the type of the result.
    Cast,
    Unary(Unary),
    Binary(Binary),
}

/// A function of one element.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Unary {
    Neg,
    Abs,
    Sqrt,
    Exp,
    Log,
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
}

/// How a kernel reads an operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Access {
    /// The element with the number of the result.
    Dense,
    /// The same element for every result.
    Single,
    /// By strides.
    Strided,
}

/// An element-wise kernel.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct MapKey {
    pub(crate) function: Function,
    pub(crate) operands: SmallVec<[(Elem, Access); 4]>,
    pub(crate) result: Elem,
    /// Whether results are written by strides, which are those of operand 1. Only copies do.
    pub(crate) strided_result: bool,
}

impl MapKey {
    pub(crate) fn source(&self) -> String {
        let mut kernel = EACH.to_owned();
        let strided = |access: Access| access == Access::Strided;
        let mut walked: SmallVec<[(String, char); 4]> = SmallVec::new();
        for (j, (_, access)) in self.operands.iter().enumerate() {
            let start = ['x', 'y', 'z'].get(j).copied().unwrap_or('w');
            match access {
                Access::Dense => put(&mut kernel, format_args!("    let p{j} = P.off.{start} + i;\n")),
                Access::Single => put(&mut kernel, format_args!("    let p{j} = P.off.{start};\n")),
                Access::Strided => {
                    put(&mut kernel, format_args!("    var p{j} = P.off.{start};\n"));
                    walked.push((format!("p{j}"), ['y', 'z', 'w'].get(j).copied().unwrap_or('w')));
                }
            }
        }
        if self.strided_result {
            kernel.push_str("    var at = P.off.w;\n");
            walked.push(("at".to_owned(), 'z'));
        } else {
            kernel.push_str("    let at = P.off.w + i;\n");
        }
        if self.operands.iter().any(|(_, access)| strided(*access)) || self.strided_result {
            let names: SmallVec<[(&str, char); 4]> = walked.iter().map(|(v, c)| (v.as_str(), *c)).collect();
            kernel.push_str(&walk(&names, "i", "0u", "P.rank"));
        }
        let moves = matches!(self.function, Function::Copy | Function::Select);
        for (j, (elem, _)) in self.operands.iter().enumerate() {
            let word = format!("x{j}[p{j}]");
            let value = if moves { word } else { elem.load(&word) };
            put(&mut kernel, format_args!("    let v{j} = {value};\n"));
        }
        let value = self.value();
        let word = if moves { value } else { self.result.store(&value) };
        put(&mut kernel, format_args!("    y[at] = {word};\n}}\n"));
        assembled(self.operands.len(), false, &kernel)
    }

    /// Writes the value of the function of `v0`, `v1` and `v2`.
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
        }
    }
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
    /// Writes the value for an operand of a type.
    pub(crate) fn of(self, elem: Elem, x: &str) -> String {
        let kind = elem.kind();
        match (self, kind) {
            (Unary::Neg, Kind::Float) => format!("bitcast<f32>(bitcast<u32>({x}) ^ 0x80000000u)"),
            (Unary::Neg, _) => format!("bitcast<i32>(0u - bitcast<u32>({x}))"),
            (Unary::Abs, Kind::Float) => format!("bitcast<f32>(bitcast<u32>({x}) & 0x7fffffffu)"),
            (Unary::Abs, Kind::Signed) => {
                format!("select({x}, bitcast<i32>(0u - bitcast<u32>({x})), {x} < 0)")
            }
            (Unary::Abs, _) => x.to_owned(),
            (Unary::Sqrt, _) => format!("sqrt_({x})"),
            (Unary::Exp, _) => format!("exp_({x})"),
            (Unary::Log, _) => format!("log_({x})"),
        }
    }
}

impl Binary {
    /// Tells whether the result is a truth value.
    pub(crate) fn compares(self) -> bool {
        matches!(self, Binary::Equal | Binary::Greater | Binary::Less)
    }

    /// Writes the value for two operands of a type.
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
            Binary::Equal => format!("u32({a} == {b})"),
            Binary::Greater => format!("u32({a} > {b})"),
            Binary::Less => format!("u32({a} < {b})"),
        }
    }
}
