//! The smallest complete backend, in plain ndarray without optimisations. It supports every primitive on every element type.
//!
//! The tutorial (`bb/docs/writing-a-backend.md`) explains its code, and faster backends are tested against it. It is not meant to be
//! fast.

// Code outside this workspace depends on `bb`, which re-exports `bb_core`. This crate uses only `bb_core`, so it compiles in parallel
// with the operator crates.
extern crate bb_core as bb;

#[macro_use]
mod element;

mod arithmetic;
mod cast;
mod comparison;
mod elementwise;
mod error;
mod index;
mod linalg;
mod number;
mod reduce;
mod shape;
mod tensor;

/// Runs the programs of the tutorial as doctests.
#[cfg(doctest)]
#[doc = include_str!("../../../bb/docs/writing-a-backend.md")]
mod tutorial {}

pub use error::Error;
pub use tensor::Tensor;

use bb::{DataType, RoundMode, TensorData};

/// The backend `reference`.
#[derive(Debug, Clone, Copy, Default, bb::Backend)]
#[bb(name = "reference")]
pub struct Reference;

impl bb::Backend for Reference {
    type Tensor = Tensor;
    type Error = Error;

    fn add(&self, a: &Tensor, b: &Tensor) -> Result<Tensor, Error> {
        arithmetic::add(a, b)
    }

    fn sub(&self, a: &Tensor, b: &Tensor) -> Result<Tensor, Error> {
        arithmetic::sub(a, b)
    }

    fn mul(&self, a: &Tensor, b: &Tensor) -> Result<Tensor, Error> {
        arithmetic::mul(a, b)
    }

    fn div(&self, a: &Tensor, b: &Tensor) -> Result<Tensor, Error> {
        arithmetic::div(a, b)
    }

    fn neg(&self, x: &Tensor) -> Result<Tensor, Error> {
        arithmetic::neg(x)
    }

    fn abs(&self, x: &Tensor) -> Result<Tensor, Error> {
        arithmetic::abs(x)
    }

    fn sqrt(&self, x: &Tensor) -> Result<Tensor, Error> {
        arithmetic::sqrt(x)
    }

    fn pow(&self, a: &Tensor, b: &Tensor) -> Result<Tensor, Error> {
        arithmetic::pow(a, b)
    }

    fn exp(&self, x: &Tensor) -> Result<Tensor, Error> {
        arithmetic::exp(x)
    }

    fn log(&self, x: &Tensor) -> Result<Tensor, Error> {
        arithmetic::log(x)
    }

    fn matmul(&self, a: &Tensor, b: &Tensor) -> Result<Tensor, Error> {
        linalg::matmul(a, b)
    }

    fn reduce_sum(&self, x: &Tensor, axes: &[i64], keepdims: bool) -> Result<Tensor, Error> {
        reduce::sum(x, axes, keepdims)
    }

    fn reduce_mean(&self, x: &Tensor, axes: &[i64], keepdims: bool) -> Result<Tensor, Error> {
        reduce::mean(x, axes, keepdims)
    }

    fn reduce_max(&self, x: &Tensor, axes: &[i64], keepdims: bool) -> Result<Tensor, Error> {
        reduce::max(x, axes, keepdims)
    }

    fn reduce_min(&self, x: &Tensor, axes: &[i64], keepdims: bool) -> Result<Tensor, Error> {
        reduce::min(x, axes, keepdims)
    }

    fn reshape(&self, x: &Tensor, shape: &[usize]) -> Result<Tensor, Error> {
        shape::reshape(x, shape)
    }

    fn transpose(&self, x: &Tensor, perm: &[i64]) -> Result<Tensor, Error> {
        shape::transpose(x, perm)
    }

    fn concat(&self, xs: &[&Tensor], axis: i64) -> Result<Tensor, Error> {
        shape::concat(xs, axis)
    }

    fn slice(
        &self,
        x: &Tensor,
        starts: &[i64],
        ends: &[i64],
        axes: &[i64],
        steps: &[i64],
    ) -> Result<Tensor, Error> {
        shape::slice(x, starts, ends, axes, steps)
    }

    fn split(&self, x: &Tensor, axis: i64, sizes: &[usize]) -> Result<Vec<Tensor>, Error> {
        shape::split(x, axis, sizes)
    }

    fn squeeze(&self, x: &Tensor, axes: &[i64]) -> Result<Tensor, Error> {
        shape::squeeze(x, axes)
    }

    fn unsqueeze(&self, x: &Tensor, axes: &[i64]) -> Result<Tensor, Error> {
        shape::unsqueeze(x, axes)
    }

    fn identity(&self, x: &Tensor) -> Result<Tensor, Error> {
        Ok(x.clone())
    }

    fn cast(&self, x: &Tensor, to: DataType, saturate: bool, round_mode: RoundMode) -> Result<Tensor, Error> {
        cast::cast(x, to, saturate, round_mode)
    }

    fn equal(&self, a: &Tensor, b: &Tensor) -> Result<Tensor, Error> {
        comparison::equal(a, b)
    }

    fn greater(&self, a: &Tensor, b: &Tensor) -> Result<Tensor, Error> {
        comparison::greater(a, b)
    }

    fn less(&self, a: &Tensor, b: &Tensor) -> Result<Tensor, Error> {
        comparison::less(a, b)
    }

    fn r#where(&self, condition: &Tensor, x: &Tensor, y: &Tensor) -> Result<Tensor, Error> {
        comparison::select(condition, x, y)
    }

    fn constant(&self, value: &TensorData) -> Result<Tensor, Error> {
        tensor::from_host(value)
    }

    fn gather(&self, data: &Tensor, indices: &Tensor, axis: i64) -> Result<Tensor, Error> {
        index::gather(data, indices, axis)
    }

    fn wrapped(error: &Error) -> Option<&bb::Error> {
        match error {
            Error::Bb(error) => Some(error),
            Error::Extents { .. } => None,
        }
    }

    fn to_host(&self, x: &Tensor) -> Result<TensorData, Error> {
        tensor::to_host(x)
    }
}
