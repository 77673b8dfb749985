//! Implements `Scalar`: functions that have a kernel.

use crate::array::Array;
use crate::cpu::Cpu;
use crate::error::Result;
use crate::kernels::op::{Binary, Test, Unary};
use crate::ops::elementwise;
use bb::{DataType, Tensor};

impl Cpu {
    /// Computes an operation on floats. Returns `None` for other types.
    pub(super) fn float(&self, op: Unary, x: &Array) -> Option<Result<Array>> {
        x.dtype().is_float().then(|| elementwise::unary(self.pool(), op, x))
    }

    /// Computes an operation on two operands of the same numeric type. Returns `None` for other
    /// types.
    fn numbers(&self, op: Binary, a: &Array, b: &Array) -> Option<Result<Array>> {
        let dtype = a.dtype();
        let numbers = dtype.is_float() || dtype.is_integer();
        (numbers && b.dtype() == dtype).then(|| elementwise::binary(self.pool(), op, a, b))
    }

    /// Computes an operation on booleans. Returns `None` for other types.
    fn bools(&self, op: Binary, a: &Array, b: &Array) -> Option<Result<Array>> {
        let bools = [a, b].iter().all(|x| x.dtype() == DataType::Bool);
        bools.then(|| elementwise::binary(self.pool(), op, a, b))
    }
}

#[bb::native]
impl bb::ext::Scalar for Cpu {
    fn maximum(&self, a: &Array, b: &Array) -> Result<Array> {
        self.numbers(Binary::Max, a, b).unwrap_or_else(|| self.body().maximum(a, b))
    }

    fn minimum(&self, a: &Array, b: &Array) -> Result<Array> {
        self.numbers(Binary::Min, a, b).unwrap_or_else(|| self.body().minimum(a, b))
    }

    fn and(&self, a: &Array, b: &Array) -> Result<Array> {
        self.bools(Binary::And, a, b).unwrap_or_else(|| self.body().and(a, b))
    }

    fn or(&self, a: &Array, b: &Array) -> Result<Array> {
        self.bools(Binary::Or, a, b).unwrap_or_else(|| self.body().or(a, b))
    }

    fn xor(&self, a: &Array, b: &Array) -> Result<Array> {
        self.bools(Binary::Xor, a, b).unwrap_or_else(|| self.body().xor(a, b))
    }

    fn not(&self, x: &Array) -> Result<Array> {
        elementwise::test(self.pool(), Test::Not, x).unwrap_or_else(|| self.body().not(x))
    }

    fn greater_or_equal(&self, a: &Array, b: &Array) -> Result<Array> {
        self.numbers(Binary::GreaterOrEqual, a, b).unwrap_or_else(|| self.body().greater_or_equal(a, b))
    }

    fn less_or_equal(&self, a: &Array, b: &Array) -> Result<Array> {
        self.numbers(Binary::LessOrEqual, a, b).unwrap_or_else(|| self.body().less_or_equal(a, b))
    }

    fn is_nan(&self, x: &Array) -> Result<Array> {
        elementwise::test(self.pool(), Test::IsNan, x).unwrap_or_else(|| self.body().is_nan(x))
    }

    fn is_inf(&self, x: &Array, negative: bool, positive: bool) -> Result<Array> {
        let test = match (negative, positive) {
            (true, true) => Some(Test::IsInfinite),
            (false, true) => Some(Test::IsInfinity),
            (true, false) => Some(Test::IsMinusInfinity),
            (false, false) => None,
        };
        test.and_then(|test| elementwise::test(self.pool(), test, x))
            .unwrap_or_else(|| self.body().is_inf(x, negative, positive))
    }

    fn modulo(&self, a: &Array, b: &Array, fmod: bool) -> Result<Array> {
        let floats = fmod && a.dtype().is_float();
        let rest = if floats { self.numbers(Binary::Fmod, a, b) } else { None };
        rest.unwrap_or_else(|| self.body().modulo(a, b, fmod))
    }

    fn sigmoid(&self, x: &Array) -> Result<Array> {
        self.float(Unary::Sigmoid, x).unwrap_or_else(|| self.body().sigmoid(x))
    }

    fn erf(&self, x: &Array) -> Result<Array> {
        self.float(Unary::Erf, x).unwrap_or_else(|| self.body().erf(x))
    }

    fn tanh(&self, x: &Array) -> Result<Array> {
        self.float(Unary::Tanh, x).unwrap_or_else(|| self.body().tanh(x))
    }

    fn expm1(&self, x: &Array) -> Result<Array> {
        self.float(Unary::Expm1, x).unwrap_or_else(|| self.body().expm1(x))
    }

    fn log1p(&self, x: &Array) -> Result<Array> {
        self.float(Unary::Log1p, x).unwrap_or_else(|| self.body().log1p(x))
    }

    fn softplus(&self, x: &Array) -> Result<Array> {
        self.float(Unary::Softplus, x).unwrap_or_else(|| self.body().softplus(x))
    }

    fn sin(&self, x: &Array) -> Result<Array> {
        self.float(Unary::Sin, x).unwrap_or_else(|| self.body().sin(x))
    }

    fn cos(&self, x: &Array) -> Result<Array> {
        self.float(Unary::Cos, x).unwrap_or_else(|| self.body().cos(x))
    }

    fn tan(&self, x: &Array) -> Result<Array> {
        self.float(Unary::Tan, x).unwrap_or_else(|| self.body().tan(x))
    }

    fn asin(&self, x: &Array) -> Result<Array> {
        self.float(Unary::Asin, x).unwrap_or_else(|| self.body().asin(x))
    }

    fn acos(&self, x: &Array) -> Result<Array> {
        self.float(Unary::Acos, x).unwrap_or_else(|| self.body().acos(x))
    }

    fn atan(&self, x: &Array) -> Result<Array> {
        self.float(Unary::Atan, x).unwrap_or_else(|| self.body().atan(x))
    }

    fn sinh(&self, x: &Array) -> Result<Array> {
        self.float(Unary::Sinh, x).unwrap_or_else(|| self.body().sinh(x))
    }

    fn cosh(&self, x: &Array) -> Result<Array> {
        self.float(Unary::Cosh, x).unwrap_or_else(|| self.body().cosh(x))
    }

    fn asinh(&self, x: &Array) -> Result<Array> {
        self.float(Unary::Asinh, x).unwrap_or_else(|| self.body().asinh(x))
    }

    fn acosh(&self, x: &Array) -> Result<Array> {
        self.float(Unary::Acosh, x).unwrap_or_else(|| self.body().acosh(x))
    }

    fn atanh(&self, x: &Array) -> Result<Array> {
        self.float(Unary::Atanh, x).unwrap_or_else(|| self.body().atanh(x))
    }

    fn floor(&self, x: &Array) -> Result<Array> {
        self.map_f32(x, f32::floor).unwrap_or_else(|| self.body().floor(x))
    }

    fn ceil(&self, x: &Array) -> Result<Array> {
        self.map_f32(x, f32::ceil).unwrap_or_else(|| self.body().ceil(x))
    }

    fn round(&self, x: &Array) -> Result<Array> {
        self.map_f32(x, f32::round_ties_even).unwrap_or_else(|| self.body().round(x))
    }

    fn reciprocal(&self, x: &Array) -> Result<Array> {
        self.map_f32(x, f32::recip).unwrap_or_else(|| self.body().reciprocal(x))
    }

    fn fused(&self, xs: &[&Array], program: &[i64]) -> Result<Array> {
        match super::fused::fused(self.pool(), xs, program)? {
            Some(result) => Ok(result),
            None => self.body().fused(xs, program),
        }
    }
}

impl Cpu {
    /// Applies `f` to each element of an `f32` operand. Returns `None` for other types.
    pub(super) fn map_f32(&self, x: &Array, f: impl Fn(f32) -> f32 + Copy + Sync) -> Option<Result<Array>> {
        (x.dtype() == DataType::F32).then(|| elementwise::map_f32(self.pool(), x, f))
    }
}
