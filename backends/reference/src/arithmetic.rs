//! Arithmetic: `add sub mul div neg abs` and `sqrt exp log pow`.

use crate::cast::cast;
use crate::elementwise::{binary, unary};
use crate::number::{Float, Integer, Number};
use crate::{Error, Tensor};
use bb::ir::{Error as IrError, infer};
use bb::{DataType, Primitive, RoundMode, Tensor as _};

pub(crate) fn add(a: &Tensor, b: &Tensor) -> Result<Tensor, Error> {
    let dtype = infer::dtype(Primitive::Add, &[a.dtype(), b.dtype()], &[])?;
    numbers!("add", dtype, T => {
        Ok(Tensor::new(dtype, binary("add", a.array(dtype)?, b.array(dtype)?, |&a: &T, &b: &T| a.plus(b))?))
    })
}

pub(crate) fn sub(a: &Tensor, b: &Tensor) -> Result<Tensor, Error> {
    let dtype = infer::dtype(Primitive::Sub, &[a.dtype(), b.dtype()], &[])?;
    numbers!("sub", dtype, T => {
        Ok(Tensor::new(dtype, binary("sub", a.array(dtype)?, b.array(dtype)?, |&a: &T, &b: &T| a.minus(b))?))
    })
}

pub(crate) fn mul(a: &Tensor, b: &Tensor) -> Result<Tensor, Error> {
    let dtype = infer::dtype(Primitive::Mul, &[a.dtype(), b.dtype()], &[])?;
    numbers!("mul", dtype, T => {
        Ok(Tensor::new(dtype, binary("mul", a.array(dtype)?, b.array(dtype)?, |&a: &T, &b: &T| a.times(b))?))
    })
}

pub(crate) fn div(a: &Tensor, b: &Tensor) -> Result<Tensor, Error> {
    let dtype = infer::dtype(Primitive::Div, &[a.dtype(), b.dtype()], &[])?;
    numbers!("div", dtype, T => {
        let mut by_zero = false;
        let quotients = binary("div", a.array(dtype)?, b.array(dtype)?, |&a: &T, &b: &T| {
            a.over(b).unwrap_or_else(|| {
                by_zero = true;
                T::ZERO
            })
        })?;
        if by_zero {
            return Err(IrError::DivisionByZero { op: "div" }.into());
        }
        Ok(Tensor::new(dtype, quotients))
    })
}

pub(crate) fn neg(x: &Tensor) -> Result<Tensor, Error> {
    let dtype = infer::dtype(Primitive::Neg, &[x.dtype()], &[])?;
    numbers!("neg", dtype, T => Ok(Tensor::new(dtype, unary("neg", x.array(dtype)?, |&x: &T| x.negated())?)))
}

pub(crate) fn abs(x: &Tensor) -> Result<Tensor, Error> {
    let dtype = infer::dtype(Primitive::Abs, &[x.dtype()], &[])?;
    numbers!("abs", dtype, T => Ok(Tensor::new(dtype, unary("abs", x.array(dtype)?, |&x: &T| x.magnitude())?)))
}

pub(crate) fn sqrt(x: &Tensor) -> Result<Tensor, Error> {
    let dtype = infer::dtype(Primitive::Sqrt, &[x.dtype()], &[])?;
    floats!("sqrt", dtype, T => Ok(Tensor::new(dtype, unary("sqrt", x.array(dtype)?, |&x: &T| x.root())?)))
}

pub(crate) fn exp(x: &Tensor) -> Result<Tensor, Error> {
    let dtype = infer::dtype(Primitive::Exp, &[x.dtype()], &[])?;
    floats!("exp", dtype, T => Ok(Tensor::new(dtype, unary("exp", x.array(dtype)?, |&x: &T| x.exponential())?)))
}

pub(crate) fn log(x: &Tensor) -> Result<Tensor, Error> {
    let dtype = infer::dtype(Primitive::Log, &[x.dtype()], &[])?;
    floats!("log", dtype, T => Ok(Tensor::new(dtype, unary("log", x.array(dtype)?, |&x: &T| x.logarithm())?)))
}

/// Computes powers. If both operands are integers, the power is computed in integers; otherwise it is computed in `f64`
/// and cast to the type of `a`.
pub(crate) fn pow(a: &Tensor, b: &Tensor) -> Result<Tensor, Error> {
    let dtype = infer::dtype(Primitive::Pow, &[a.dtype(), b.dtype()], &[])?;
    if dtype.is_integer() && b.dtype().is_integer() {
        return integers!("pow", dtype, T => integers!("pow", b.dtype(), E => integer_pow::<T, E>(a, b)));
    }
    let [base, exponent] = [a, b].map(|x| cast(x, DataType::F64, true, RoundMode::Up));
    let (base, exponent) = (base?, exponent?);
    let powers =
        binary("pow", base.array(DataType::F64)?, exponent.array(DataType::F64)?, |a: &f64, &b: &f64| {
            a.powf(b)
        })?;
    cast(&Tensor::new(DataType::F64, powers), dtype, true, RoundMode::Up)
}

fn integer_pow<T: Integer, E: Integer>(a: &Tensor, b: &Tensor) -> Result<Tensor, Error> {
    let mut by_zero = false;
    let powers = binary("pow", a.array(a.dtype())?, b.array(b.dtype())?, |&a: &T, &b: &E| {
        a.power(b.widened()).unwrap_or_else(|| {
            by_zero = true;
            T::ZERO
        })
    })?;
    if by_zero {
        return Err(IrError::DivisionByZero { op: "pow" }.into());
    }
    Ok(Tensor::new(a.dtype(), powers))
}
