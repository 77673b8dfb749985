//! `Scalar`: functions that have a kernel.

use crate::array::Array;
use crate::backend::Cpu;
use crate::error::Result;
use crate::kernels::op::{Binary, Test, Unary};
use crate::ops::elementwise;
use bb::{DataType, Tensor};

impl Cpu {
    /// Computes an operation on floats; returns `None` for other types.
    pub(super) fn float(&self, op: Unary, x: &Array) -> Option<Result<Array>> {
        x.dtype().is_float().then(|| elementwise::unary(self.pool(), op, x))
    }

    /// Computes an operation on numbers of the same type; returns `None` for other types.
    fn numbers(&self, op: Binary, a: &Array, b: &Array) -> Option<Result<Array>> {
        let dtype = a.dtype();
        let numbers = dtype.is_float() || dtype.is_integer();
        (numbers && b.dtype() == dtype).then(|| elementwise::binary(self.pool(), op, a, b))
    }

    /// Computes an operation on bools; returns `None` for other types.
    fn bools(&self, op: Binary, a: &Array, b: &Array) -> Option<Result<Array>> {
        let bools = [a, b].iter().all(|x| x.dtype() == DataType::Bool);
        bools.then(|| elementwise::binary(self.pool(), op, a, b))
    }
}

#[bb::native]
impl bb::ext::Scalar for Cpu {
    fn maximum(&self, a: &Array, b: &Array) -> Result<Array> {
        self.numbers(Binary::Max, a, b).unwrap_or_else(|| bb::ext::scalar::maximum(self, a, b))
    }

    fn minimum(&self, a: &Array, b: &Array) -> Result<Array> {
        self.numbers(Binary::Min, a, b).unwrap_or_else(|| bb::ext::scalar::minimum(self, a, b))
    }

    fn and(&self, a: &Array, b: &Array) -> Result<Array> {
        self.bools(Binary::And, a, b).unwrap_or_else(|| bb::ext::scalar::and(self, a, b))
    }

    fn or(&self, a: &Array, b: &Array) -> Result<Array> {
        self.bools(Binary::Or, a, b).unwrap_or_else(|| bb::ext::scalar::or(self, a, b))
    }

    fn xor(&self, a: &Array, b: &Array) -> Result<Array> {
        self.bools(Binary::Xor, a, b).unwrap_or_else(|| bb::ext::scalar::xor(self, a, b))
    }

    fn not(&self, x: &Array) -> Result<Array> {
        elementwise::test(self.pool(), Test::Not, x).unwrap_or_else(|| bb::ext::scalar::not(self, x))
    }

    fn greater_or_equal(&self, a: &Array, b: &Array) -> Result<Array> {
        self.numbers(Binary::GreaterOrEqual, a, b)
            .unwrap_or_else(|| bb::ext::scalar::greater_or_equal(self, a, b))
    }

    fn less_or_equal(&self, a: &Array, b: &Array) -> Result<Array> {
        self.numbers(Binary::LessOrEqual, a, b).unwrap_or_else(|| bb::ext::scalar::less_or_equal(self, a, b))
    }

    fn is_nan(&self, x: &Array) -> Result<Array> {
        elementwise::test(self.pool(), Test::IsNan, x).unwrap_or_else(|| bb::ext::scalar::is_nan(self, x))
    }

    fn is_inf(&self, x: &Array, negative: bool, positive: bool) -> Result<Array> {
        let test = match (negative, positive) {
            (true, true) => Some(Test::IsInfinite),
            (false, true) => Some(Test::IsInfinity),
            (true, false) => Some(Test::IsMinusInfinity),
            (false, false) => None,
        };
        test.and_then(|test| elementwise::test(self.pool(), test, x))
            .unwrap_or_else(|| bb::ext::scalar::is_inf(self, x, negative, positive))
    }

    fn modulo(&self, a: &Array, b: &Array, fmod: bool) -> Result<Array> {
        let floats = fmod && a.dtype().is_float();
        let rest = if floats { self.numbers(Binary::Fmod, a, b) } else { None };
        rest.unwrap_or_else(|| bb::ext::scalar::modulo(self, a, b, fmod))
    }

    fn sigmoid(&self, x: &Array) -> Result<Array> {
        self.float(Unary::Sigmoid, x).unwrap_or_else(|| bb::ext::scalar::sigmoid(self, x))
    }

    fn erf(&self, x: &Array) -> Result<Array> {
        self.float(Unary::Erf, x).unwrap_or_else(|| bb::ext::scalar::erf(self, x))
    }

    fn tanh(&self, x: &Array) -> Result<Array> {
        self.float(Unary::Tanh, x).unwrap_or_else(|| bb::ext::scalar::tanh(self, x))
    }

    fn expm1(&self, x: &Array) -> Result<Array> {
        self.float(Unary::Expm1, x).unwrap_or_else(|| bb::ext::scalar::expm1(self, x))
    }

    fn log1p(&self, x: &Array) -> Result<Array> {
        self.float(Unary::Log1p, x).unwrap_or_else(|| bb::ext::scalar::log1p(self, x))
    }

    fn softplus(&self, x: &Array) -> Result<Array> {
        self.float(Unary::Softplus, x).unwrap_or_else(|| bb::ext::scalar::softplus(self, x))
    }

    fn sin(&self, x: &Array) -> Result<Array> {
        self.float(Unary::Sin, x).unwrap_or_else(|| bb::ext::scalar::sin(self, x))
    }

    fn cos(&self, x: &Array) -> Result<Array> {
        self.float(Unary::Cos, x).unwrap_or_else(|| bb::ext::scalar::cos(self, x))
    }

    fn tan(&self, x: &Array) -> Result<Array> {
        self.float(Unary::Tan, x).unwrap_or_else(|| bb::ext::scalar::tan(self, x))
    }

    fn asin(&self, x: &Array) -> Result<Array> {
        self.float(Unary::Asin, x).unwrap_or_else(|| bb::ext::scalar::asin(self, x))
    }

    fn acos(&self, x: &Array) -> Result<Array> {
        self.float(Unary::Acos, x).unwrap_or_else(|| bb::ext::scalar::acos(self, x))
    }

    fn atan(&self, x: &Array) -> Result<Array> {
        self.float(Unary::Atan, x).unwrap_or_else(|| bb::ext::scalar::atan(self, x))
    }

    fn sinh(&self, x: &Array) -> Result<Array> {
        self.float(Unary::Sinh, x).unwrap_or_else(|| bb::ext::scalar::sinh(self, x))
    }

    fn cosh(&self, x: &Array) -> Result<Array> {
        self.float(Unary::Cosh, x).unwrap_or_else(|| bb::ext::scalar::cosh(self, x))
    }

    fn asinh(&self, x: &Array) -> Result<Array> {
        self.float(Unary::Asinh, x).unwrap_or_else(|| bb::ext::scalar::asinh(self, x))
    }

    fn acosh(&self, x: &Array) -> Result<Array> {
        self.float(Unary::Acosh, x).unwrap_or_else(|| bb::ext::scalar::acosh(self, x))
    }

    fn atanh(&self, x: &Array) -> Result<Array> {
        self.float(Unary::Atanh, x).unwrap_or_else(|| bb::ext::scalar::atanh(self, x))
    }

    fn floor(&self, x: &Array) -> Result<Array> {
        self.map_f32(x, f32::floor).unwrap_or_else(|| bb::ext::scalar::floor(self, x))
    }

    fn ceil(&self, x: &Array) -> Result<Array> {
        self.map_f32(x, f32::ceil).unwrap_or_else(|| bb::ext::scalar::ceil(self, x))
    }

    fn round(&self, x: &Array) -> Result<Array> {
        self.map_f32(x, f32::round_ties_even).unwrap_or_else(|| bb::ext::scalar::round(self, x))
    }

    fn reciprocal(&self, x: &Array) -> Result<Array> {
        self.map_f32(x, f32::recip).unwrap_or_else(|| bb::ext::scalar::reciprocal(self, x))
    }

    fn fused(&self, xs: &[&Array], program: &[i64]) -> Result<Array> {
        match super::fused::fused(self.pool(), xs, program)? {
            Some(result) => Ok(result),
            None => bb::ext::scalar::fused(self, xs, program),
        }
    }
}

impl Cpu {
    /// Computes a function of each `f32`; returns `None` for other types.
    pub(super) fn map_f32(&self, x: &Array, f: impl Fn(f32) -> f32 + Copy + Sync) -> Option<Result<Array>> {
        (x.dtype() == DataType::F32).then(|| elementwise::map_f32(self.pool(), x, f))
    }
}
