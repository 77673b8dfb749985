//! Implements `Scalar`: element-wise functions.

use super::NUMBERS;
use crate::elem::{Elem, Kind};
use crate::open::Wgpu;
use crate::ops::arithmetic::map;
use crate::wgsl::map::{Binary, Function, Unary};
use crate::{Result, Tensor};

#[bb::native]
impl bb::ext::Scalar for Wgpu {
    fn maximum(&self, a: &Tensor, b: &Tensor) -> Result<Tensor> {
        self.both("maximum", Binary::Max, NUMBERS, a, b).unwrap_or_else(|| self.body().maximum(a, b))
    }

    fn minimum(&self, a: &Tensor, b: &Tensor) -> Result<Tensor> {
        self.both("minimum", Binary::Min, NUMBERS, a, b).unwrap_or_else(|| self.body().minimum(a, b))
    }

    fn and(&self, a: &Tensor, b: &Tensor) -> Result<Tensor> {
        self.both("and", Binary::And, &[Kind::Truth], a, b).unwrap_or_else(|| self.body().and(a, b))
    }

    fn or(&self, a: &Tensor, b: &Tensor) -> Result<Tensor> {
        self.both("or", Binary::Or, &[Kind::Truth], a, b).unwrap_or_else(|| self.body().or(a, b))
    }

    fn xor(&self, a: &Tensor, b: &Tensor) -> Result<Tensor> {
        self.both("xor", Binary::Xor, &[Kind::Truth], a, b).unwrap_or_else(|| self.body().xor(a, b))
    }

    fn not(&self, x: &Tensor) -> Result<Tensor> {
        match x.elem() {
            Elem::Bool => map(self.gpu(), "not", Function::Unary(Unary::Not), Elem::Bool, &[x]),
            _ => self.body().not(x),
        }
    }

    fn greater_or_equal(&self, a: &Tensor, b: &Tensor) -> Result<Tensor> {
        self.both("greater_or_equal", Binary::GreaterOrEqual, NUMBERS, a, b)
            .unwrap_or_else(|| self.body().greater_or_equal(a, b))
    }

    fn less_or_equal(&self, a: &Tensor, b: &Tensor) -> Result<Tensor> {
        self.both("less_or_equal", Binary::LessOrEqual, NUMBERS, a, b)
            .unwrap_or_else(|| self.body().less_or_equal(a, b))
    }

    fn is_nan(&self, x: &Tensor) -> Result<Tensor> {
        match x.elem().kind() {
            Kind::Float => map(self.gpu(), "is_nan", Function::Unary(Unary::IsNan), Elem::Bool, &[x]),
            _ => self.body().is_nan(x),
        }
    }

    fn is_inf(&self, x: &Tensor, negative: bool, positive: bool) -> Result<Tensor> {
        let function = Function::Unary(Unary::IsInf(negative, positive));
        match x.elem().kind() {
            Kind::Float => map(self.gpu(), "is_inf", function, Elem::Bool, &[x]),
            _ => self.body().is_inf(x, negative, positive),
        }
    }

    fn sign(&self, x: &Tensor) -> Result<Tensor> {
        match x.elem().kind() {
            Kind::Truth => self.body().sign(x),
            _ => map(self.gpu(), "sign", Function::Unary(Unary::Sign), x.elem(), &[x]),
        }
    }

    fn trunc(&self, x: &Tensor) -> Result<Tensor> {
        self.float("trunc", Unary::Trunc, x, &[]).unwrap_or_else(|| self.body().trunc(x))
    }

    fn fused(&self, xs: &[&Tensor], program: &[i64]) -> Result<Tensor> {
        match super::fused::fused(self.gpu(), xs, program)? {
            Some(y) => Ok(y),
            None => self.body().fused(xs, program),
        }
    }

    fn reciprocal(&self, x: &Tensor) -> Result<Tensor> {
        self.float("reciprocal", Unary::Reciprocal, x, &[]).unwrap_or_else(|| self.body().reciprocal(x))
    }

    fn floor(&self, x: &Tensor) -> Result<Tensor> {
        self.float("floor", Unary::Floor, x, &[]).unwrap_or_else(|| self.body().floor(x))
    }

    fn ceil(&self, x: &Tensor) -> Result<Tensor> {
        self.float("ceil", Unary::Ceil, x, &[]).unwrap_or_else(|| self.body().ceil(x))
    }

    fn round(&self, x: &Tensor) -> Result<Tensor> {
        self.float("round", Unary::Round, x, &[]).unwrap_or_else(|| self.body().round(x))
    }

    fn expm1(&self, x: &Tensor) -> Result<Tensor> {
        self.float("expm1", Unary::Expm1, x, &[]).unwrap_or_else(|| self.body().expm1(x))
    }

    fn log1p(&self, x: &Tensor) -> Result<Tensor> {
        self.float("log1p", Unary::Log1p, x, &[]).unwrap_or_else(|| self.body().log1p(x))
    }

    fn sigmoid(&self, x: &Tensor) -> Result<Tensor> {
        self.float("sigmoid", Unary::Sigmoid, x, &[]).unwrap_or_else(|| self.body().sigmoid(x))
    }

    fn softplus(&self, x: &Tensor) -> Result<Tensor> {
        self.float("softplus", Unary::Softplus, x, &[]).unwrap_or_else(|| self.body().softplus(x))
    }

    fn erf(&self, x: &Tensor) -> Result<Tensor> {
        self.float("erf", Unary::Erf, x, &[]).unwrap_or_else(|| self.body().erf(x))
    }

    fn sin(&self, x: &Tensor) -> Result<Tensor> {
        self.float("sin", Unary::Sin, x, &[]).unwrap_or_else(|| self.body().sin(x))
    }

    fn cos(&self, x: &Tensor) -> Result<Tensor> {
        self.float("cos", Unary::Cos, x, &[]).unwrap_or_else(|| self.body().cos(x))
    }

    fn tan(&self, x: &Tensor) -> Result<Tensor> {
        self.float("tan", Unary::Tan, x, &[]).unwrap_or_else(|| self.body().tan(x))
    }

    fn asin(&self, x: &Tensor) -> Result<Tensor> {
        self.float("asin", Unary::Asin, x, &[]).unwrap_or_else(|| self.body().asin(x))
    }

    fn acos(&self, x: &Tensor) -> Result<Tensor> {
        self.float("acos", Unary::Acos, x, &[]).unwrap_or_else(|| self.body().acos(x))
    }

    fn atan(&self, x: &Tensor) -> Result<Tensor> {
        self.float("atan", Unary::Atan, x, &[]).unwrap_or_else(|| self.body().atan(x))
    }

    fn sinh(&self, x: &Tensor) -> Result<Tensor> {
        self.float("sinh", Unary::Sinh, x, &[]).unwrap_or_else(|| self.body().sinh(x))
    }

    fn cosh(&self, x: &Tensor) -> Result<Tensor> {
        self.float("cosh", Unary::Cosh, x, &[]).unwrap_or_else(|| self.body().cosh(x))
    }

    fn tanh(&self, x: &Tensor) -> Result<Tensor> {
        self.float("tanh", Unary::Tanh, x, &[]).unwrap_or_else(|| self.body().tanh(x))
    }

    fn asinh(&self, x: &Tensor) -> Result<Tensor> {
        self.float("asinh", Unary::Asinh, x, &[]).unwrap_or_else(|| self.body().asinh(x))
    }

    fn acosh(&self, x: &Tensor) -> Result<Tensor> {
        self.float("acosh", Unary::Acosh, x, &[]).unwrap_or_else(|| self.body().acosh(x))
    }

    fn atanh(&self, x: &Tensor) -> Result<Tensor> {
        self.float("atanh", Unary::Atanh, x, &[]).unwrap_or_else(|| self.body().atanh(x))
    }
}
