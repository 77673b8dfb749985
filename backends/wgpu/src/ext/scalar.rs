//! Implements `Scalar`: element-wise functions.

use super::NUMBERS;
use crate::elem::{Elem, Kind};
use crate::open::Wgpu;
use crate::ops::arithmetic::map;
use crate::wgsl::map::{Binary, Function, Unary};
use crate::{Result, Tensor};
use bb::ext::scalar as body;

#[bb::native]
impl bb::ext::Scalar for Wgpu {
    fn maximum(&self, a: &Tensor, b: &Tensor) -> Result<Tensor> {
        self.both("maximum", Binary::Max, NUMBERS, a, b).unwrap_or_else(|| body::maximum(self, a, b))
    }

    fn minimum(&self, a: &Tensor, b: &Tensor) -> Result<Tensor> {
        self.both("minimum", Binary::Min, NUMBERS, a, b).unwrap_or_else(|| body::minimum(self, a, b))
    }

    fn and(&self, a: &Tensor, b: &Tensor) -> Result<Tensor> {
        self.both("and", Binary::And, &[Kind::Truth], a, b).unwrap_or_else(|| body::and(self, a, b))
    }

    fn or(&self, a: &Tensor, b: &Tensor) -> Result<Tensor> {
        self.both("or", Binary::Or, &[Kind::Truth], a, b).unwrap_or_else(|| body::or(self, a, b))
    }

    fn xor(&self, a: &Tensor, b: &Tensor) -> Result<Tensor> {
        self.both("xor", Binary::Xor, &[Kind::Truth], a, b).unwrap_or_else(|| body::xor(self, a, b))
    }

    fn not(&self, x: &Tensor) -> Result<Tensor> {
        match x.elem() {
            Elem::Bool => map(self.gpu(), "not", Function::Unary(Unary::Not), Elem::Bool, &[x]),
            _ => body::not(self, x),
        }
    }

    fn greater_or_equal(&self, a: &Tensor, b: &Tensor) -> Result<Tensor> {
        self.both("greater_or_equal", Binary::GreaterOrEqual, NUMBERS, a, b)
            .unwrap_or_else(|| body::greater_or_equal(self, a, b))
    }

    fn less_or_equal(&self, a: &Tensor, b: &Tensor) -> Result<Tensor> {
        self.both("less_or_equal", Binary::LessOrEqual, NUMBERS, a, b)
            .unwrap_or_else(|| body::less_or_equal(self, a, b))
    }

    fn is_nan(&self, x: &Tensor) -> Result<Tensor> {
        match x.elem().kind() {
            Kind::Float => map(self.gpu(), "is_nan", Function::Unary(Unary::IsNan), Elem::Bool, &[x]),
            _ => body::is_nan(self, x),
        }
    }

    fn is_inf(&self, x: &Tensor, negative: bool, positive: bool) -> Result<Tensor> {
        let function = Function::Unary(Unary::IsInf(negative, positive));
        match x.elem().kind() {
            Kind::Float => map(self.gpu(), "is_inf", function, Elem::Bool, &[x]),
            _ => body::is_inf(self, x, negative, positive),
        }
    }

    fn sign(&self, x: &Tensor) -> Result<Tensor> {
        match x.elem().kind() {
            Kind::Truth => body::sign(self, x),
            _ => map(self.gpu(), "sign", Function::Unary(Unary::Sign), x.elem(), &[x]),
        }
    }

    fn trunc(&self, x: &Tensor) -> Result<Tensor> {
        self.float("trunc", Unary::Trunc, x, &[]).unwrap_or_else(|| body::trunc(self, x))
    }

    fn fused(&self, xs: &[&Tensor], program: &[i64]) -> Result<Tensor> {
        match super::fused::fused(self.gpu(), xs, program)? {
            Some(y) => Ok(y),
            None => body::fused(self, xs, program),
        }
    }

    fn reciprocal(&self, x: &Tensor) -> Result<Tensor> {
        self.float("reciprocal", Unary::Reciprocal, x, &[]).unwrap_or_else(|| body::reciprocal(self, x))
    }

    fn floor(&self, x: &Tensor) -> Result<Tensor> {
        self.float("floor", Unary::Floor, x, &[]).unwrap_or_else(|| body::floor(self, x))
    }

    fn ceil(&self, x: &Tensor) -> Result<Tensor> {
        self.float("ceil", Unary::Ceil, x, &[]).unwrap_or_else(|| body::ceil(self, x))
    }

    fn round(&self, x: &Tensor) -> Result<Tensor> {
        self.float("round", Unary::Round, x, &[]).unwrap_or_else(|| body::round(self, x))
    }

    fn expm1(&self, x: &Tensor) -> Result<Tensor> {
        self.float("expm1", Unary::Expm1, x, &[]).unwrap_or_else(|| body::expm1(self, x))
    }

    fn log1p(&self, x: &Tensor) -> Result<Tensor> {
        self.float("log1p", Unary::Log1p, x, &[]).unwrap_or_else(|| body::log1p(self, x))
    }

    fn sigmoid(&self, x: &Tensor) -> Result<Tensor> {
        self.float("sigmoid", Unary::Sigmoid, x, &[]).unwrap_or_else(|| body::sigmoid(self, x))
    }

    fn softplus(&self, x: &Tensor) -> Result<Tensor> {
        self.float("softplus", Unary::Softplus, x, &[]).unwrap_or_else(|| body::softplus(self, x))
    }

    fn erf(&self, x: &Tensor) -> Result<Tensor> {
        self.float("erf", Unary::Erf, x, &[]).unwrap_or_else(|| body::erf(self, x))
    }

    fn sin(&self, x: &Tensor) -> Result<Tensor> {
        self.float("sin", Unary::Sin, x, &[]).unwrap_or_else(|| body::sin(self, x))
    }

    fn cos(&self, x: &Tensor) -> Result<Tensor> {
        self.float("cos", Unary::Cos, x, &[]).unwrap_or_else(|| body::cos(self, x))
    }

    fn tan(&self, x: &Tensor) -> Result<Tensor> {
        self.float("tan", Unary::Tan, x, &[]).unwrap_or_else(|| body::tan(self, x))
    }

    fn asin(&self, x: &Tensor) -> Result<Tensor> {
        self.float("asin", Unary::Asin, x, &[]).unwrap_or_else(|| body::asin(self, x))
    }

    fn acos(&self, x: &Tensor) -> Result<Tensor> {
        self.float("acos", Unary::Acos, x, &[]).unwrap_or_else(|| body::acos(self, x))
    }

    fn atan(&self, x: &Tensor) -> Result<Tensor> {
        self.float("atan", Unary::Atan, x, &[]).unwrap_or_else(|| body::atan(self, x))
    }

    fn sinh(&self, x: &Tensor) -> Result<Tensor> {
        self.float("sinh", Unary::Sinh, x, &[]).unwrap_or_else(|| body::sinh(self, x))
    }

    fn cosh(&self, x: &Tensor) -> Result<Tensor> {
        self.float("cosh", Unary::Cosh, x, &[]).unwrap_or_else(|| body::cosh(self, x))
    }

    fn tanh(&self, x: &Tensor) -> Result<Tensor> {
        self.float("tanh", Unary::Tanh, x, &[]).unwrap_or_else(|| body::tanh(self, x))
    }

    fn asinh(&self, x: &Tensor) -> Result<Tensor> {
        self.float("asinh", Unary::Asinh, x, &[]).unwrap_or_else(|| body::asinh(self, x))
    }

    fn acosh(&self, x: &Tensor) -> Result<Tensor> {
        self.float("acosh", Unary::Acosh, x, &[]).unwrap_or_else(|| body::acosh(self, x))
    }

    fn atanh(&self, x: &Tensor) -> Result<Tensor> {
        self.float("atanh", Unary::Atanh, x, &[]).unwrap_or_else(|| body::atanh(self, x))
    }
}
