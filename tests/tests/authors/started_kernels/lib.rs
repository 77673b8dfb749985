//! A backend that computes one operation at a time.

mod error;
mod tensor;

pub use error::Error;
pub use tensor::Tensor;

use bb::{DataType, RoundMode, TensorData};

/// The backend. Its fields hold the device.
#[derive(Debug, Default, bb::Backend)]
#[bb(name = "started-kernels")]
pub struct StartedKernels;

/// The documentation of `bb::Backend` says what each method computes; `bb::ir::infer` has the rules of shapes.
impl bb::Backend for StartedKernels {
    type Tensor = Tensor;
    type Error = Error;

    fn constant(&self, value: &TensorData) -> Result<Tensor, Error> {
        Ok(Tensor(value.clone()))
    }

    fn to_host(&self, x: &Tensor) -> Result<TensorData, Error> {
        Ok(x.0.clone())
    }

    /// Returns the error of `bb`, so that a wrong operand counts as a mistake of the caller.
    fn wrapped(error: &Error) -> Option<&bb::Error> {
        match error {
            Error::Bb(error) => Some(error),
            _ => None,
        }
    }

    fn add(&self, _a: &Tensor, _b: &Tensor) -> Result<Tensor, Error> {
        Err(Error::NotWritten("add"))
    }

    fn sub(&self, _a: &Tensor, _b: &Tensor) -> Result<Tensor, Error> {
        Err(Error::NotWritten("sub"))
    }

    fn mul(&self, _a: &Tensor, _b: &Tensor) -> Result<Tensor, Error> {
        Err(Error::NotWritten("mul"))
    }

    fn div(&self, _a: &Tensor, _b: &Tensor) -> Result<Tensor, Error> {
        Err(Error::NotWritten("div"))
    }

    fn neg(&self, _x: &Tensor) -> Result<Tensor, Error> {
        Err(Error::NotWritten("neg"))
    }

    fn abs(&self, _x: &Tensor) -> Result<Tensor, Error> {
        Err(Error::NotWritten("abs"))
    }

    fn sqrt(&self, _x: &Tensor) -> Result<Tensor, Error> {
        Err(Error::NotWritten("sqrt"))
    }

    fn pow(&self, _a: &Tensor, _b: &Tensor) -> Result<Tensor, Error> {
        Err(Error::NotWritten("pow"))
    }

    fn exp(&self, _x: &Tensor) -> Result<Tensor, Error> {
        Err(Error::NotWritten("exp"))
    }

    fn log(&self, _x: &Tensor) -> Result<Tensor, Error> {
        Err(Error::NotWritten("log"))
    }

    fn matmul(&self, _a: &Tensor, _b: &Tensor) -> Result<Tensor, Error> {
        Err(Error::NotWritten("matmul"))
    }

    fn reduce_sum(&self, _x: &Tensor, _axes: &[i64], _keepdims: bool) -> Result<Tensor, Error> {
        Err(Error::NotWritten("reduce_sum"))
    }

    fn reduce_mean(&self, _x: &Tensor, _axes: &[i64], _keepdims: bool) -> Result<Tensor, Error> {
        Err(Error::NotWritten("reduce_mean"))
    }

    fn reduce_max(&self, _x: &Tensor, _axes: &[i64], _keepdims: bool) -> Result<Tensor, Error> {
        Err(Error::NotWritten("reduce_max"))
    }

    fn reduce_min(&self, _x: &Tensor, _axes: &[i64], _keepdims: bool) -> Result<Tensor, Error> {
        Err(Error::NotWritten("reduce_min"))
    }

    fn reshape(&self, _x: &Tensor, _shape: &[usize]) -> Result<Tensor, Error> {
        Err(Error::NotWritten("reshape"))
    }

    fn transpose(&self, _x: &Tensor, _perm: &[i64]) -> Result<Tensor, Error> {
        Err(Error::NotWritten("transpose"))
    }

    fn concat(&self, _xs: &[&Tensor], _axis: i64) -> Result<Tensor, Error> {
        Err(Error::NotWritten("concat"))
    }

    fn slice(
        &self,
        _x: &Tensor,
        _starts: &[i64],
        _ends: &[i64],
        _axes: &[i64],
        _steps: &[i64],
    ) -> Result<Tensor, Error> {
        Err(Error::NotWritten("slice"))
    }

    fn split(&self, _x: &Tensor, _axis: i64, _sizes: &[usize]) -> Result<Vec<Tensor>, Error> {
        Err(Error::NotWritten("split"))
    }

    fn squeeze(&self, _x: &Tensor, _axes: &[i64]) -> Result<Tensor, Error> {
        Err(Error::NotWritten("squeeze"))
    }

    fn unsqueeze(&self, _x: &Tensor, _axes: &[i64]) -> Result<Tensor, Error> {
        Err(Error::NotWritten("unsqueeze"))
    }

    fn identity(&self, _x: &Tensor) -> Result<Tensor, Error> {
        Err(Error::NotWritten("identity"))
    }

    fn cast(
        &self,
        _x: &Tensor,
        _to: DataType,
        _saturate: bool,
        _round_mode: RoundMode,
    ) -> Result<Tensor, Error> {
        Err(Error::NotWritten("cast"))
    }

    fn equal(&self, _a: &Tensor, _b: &Tensor) -> Result<Tensor, Error> {
        Err(Error::NotWritten("equal"))
    }

    fn greater(&self, _a: &Tensor, _b: &Tensor) -> Result<Tensor, Error> {
        Err(Error::NotWritten("greater"))
    }

    fn less(&self, _a: &Tensor, _b: &Tensor) -> Result<Tensor, Error> {
        Err(Error::NotWritten("less"))
    }

    fn r#where(&self, _condition: &Tensor, _x: &Tensor, _y: &Tensor) -> Result<Tensor, Error> {
        Err(Error::NotWritten("where"))
    }

    fn gather(&self, _data: &Tensor, _indices: &Tensor, _axis: i64) -> Result<Tensor, Error> {
        Err(Error::NotWritten("gather"))
    }
}
