//! The implementation of the `Backend` trait. Each method calls one function of `ops`.

use crate::array::Array;
use crate::cpu::Cpu;
use crate::error::{CpuError, Result};
use crate::kernels::op::{Binary, Reduction, Unary};
use crate::ops::{convert, elementwise, host, join, matmul, power, reduce, views};
use crate::prepare;
use bb::services::{DeviceInfo, DeviceKind};
use bb::{DataType, Kernel, PrepareStep, RoundMode, TensorData};

impl bb::Backend for Cpu {
    type Tensor = Array;
    type Error = CpuError;

    fn wrapped(error: &CpuError) -> Option<&bb::Error> {
        match error {
            CpuError::Bb(error) => Some(error),
            _ => None,
        }
    }

    fn add(&self, a: &Array, b: &Array) -> Result<Array> {
        elementwise::binary(self.pool(), Binary::Add, a, b)
    }

    fn sub(&self, a: &Array, b: &Array) -> Result<Array> {
        elementwise::binary(self.pool(), Binary::Sub, a, b)
    }

    fn mul(&self, a: &Array, b: &Array) -> Result<Array> {
        elementwise::binary(self.pool(), Binary::Mul, a, b)
    }

    fn div(&self, a: &Array, b: &Array) -> Result<Array> {
        elementwise::binary(self.pool(), Binary::Div, a, b)
    }

    fn neg(&self, x: &Array) -> Result<Array> {
        elementwise::unary(self.pool(), Unary::Neg, x)
    }

    fn abs(&self, x: &Array) -> Result<Array> {
        elementwise::unary(self.pool(), Unary::Abs, x)
    }

    fn sqrt(&self, x: &Array) -> Result<Array> {
        elementwise::unary(self.pool(), Unary::Sqrt, x)
    }

    fn pow(&self, a: &Array, b: &Array) -> Result<Array> {
        power::pow(self.pool(), a, b)
    }

    fn exp(&self, x: &Array) -> Result<Array> {
        elementwise::unary(self.pool(), Unary::Exp, x)
    }

    fn log(&self, x: &Array) -> Result<Array> {
        elementwise::unary(self.pool(), Unary::Log, x)
    }

    fn matmul(&self, a: &Array, b: &Array) -> Result<Array> {
        matmul::matmul(self.pool(), a, b)
    }

    fn reduce_sum(&self, x: &Array, axes: &[i64], keepdims: bool) -> Result<Array> {
        reduce::reduce(self.pool(), Reduction::Sum, x, axes, keepdims)
    }

    fn reduce_mean(&self, x: &Array, axes: &[i64], keepdims: bool) -> Result<Array> {
        reduce::reduce(self.pool(), Reduction::Mean, x, axes, keepdims)
    }

    fn reduce_max(&self, x: &Array, axes: &[i64], keepdims: bool) -> Result<Array> {
        reduce::reduce(self.pool(), Reduction::Max, x, axes, keepdims)
    }

    fn reduce_min(&self, x: &Array, axes: &[i64], keepdims: bool) -> Result<Array> {
        reduce::reduce(self.pool(), Reduction::Min, x, axes, keepdims)
    }

    fn reshape(&self, x: &Array, shape: &[usize]) -> Result<Array> {
        views::reshape(self.pool(), x, shape)
    }

    fn transpose(&self, x: &Array, perm: &[i64]) -> Result<Array> {
        views::transpose(x, perm)
    }

    fn concat(&self, xs: &[&Array], axis: i64) -> Result<Array> {
        join::concat(self.pool(), xs, axis)
    }

    fn slice(&self, x: &Array, starts: &[i64], ends: &[i64], axes: &[i64], steps: &[i64]) -> Result<Array> {
        views::slice(x, starts, ends, axes, steps)
    }

    fn split(&self, x: &Array, axis: i64, sizes: &[usize]) -> Result<Vec<Array>> {
        views::split(x, axis, sizes)
    }

    fn squeeze(&self, x: &Array, axes: &[i64]) -> Result<Array> {
        views::squeeze(self.pool(), x, axes)
    }

    fn unsqueeze(&self, x: &Array, axes: &[i64]) -> Result<Array> {
        views::unsqueeze(self.pool(), x, axes)
    }

    fn identity(&self, x: &Array) -> Result<Array> {
        Ok(x.clone())
    }

    fn cast(&self, x: &Array, to: DataType, saturate: bool, round_mode: RoundMode) -> Result<Array> {
        convert::cast(self.pool(), x, to, saturate, round_mode)
    }

    fn equal(&self, a: &Array, b: &Array) -> Result<Array> {
        elementwise::binary(self.pool(), Binary::Equal, a, b)
    }

    fn greater(&self, a: &Array, b: &Array) -> Result<Array> {
        elementwise::binary(self.pool(), Binary::Greater, a, b)
    }

    fn less(&self, a: &Array, b: &Array) -> Result<Array> {
        elementwise::binary(self.pool(), Binary::Less, a, b)
    }

    fn r#where(&self, condition: &Array, x: &Array, y: &Array) -> Result<Array> {
        elementwise::select(self.pool(), condition, x, y)
    }

    fn constant(&self, value: &TensorData) -> Result<Array> {
        host::constant(self.pool(), value)
    }

    fn gather(&self, data: &Array, indices: &Array, axis: i64) -> Result<Array> {
        join::gather(self.pool(), data, indices, axis)
    }

    fn to_host(&self, x: &Array) -> Result<TensorData> {
        host::to_host(self.pool(), x)
    }

    fn read_into(&self, x: &Array, into: &mut [u8]) -> Result<()> {
        host::read_into(self.pool(), x, into)
    }

    fn prepare(&self, step: &PrepareStep<'_, Array>) -> Result<Option<Box<dyn Kernel<Cpu>>>> {
        prepare::prepare(self, step)
    }

    fn device_info(&self) -> DeviceInfo {
        DeviceInfo::new(DeviceKind::Cpu)
            .with_alignment(crate::pool::ALIGNMENT as u64)
            .with("instructions", crate::level::instructions().name())
            .with("threads", self.threads().to_string())
    }

    fn lifecycle(&self) -> Option<&dyn bb::services::Lifecycle> {
        Some(self)
    }

    fn memory(&self) -> Option<&dyn bb::services::Memory<Array>> {
        Some(self)
    }

    fn kernels(&self) -> Option<&dyn bb::services::Kernels<Array>> {
        Some(self)
    }
}

#[cfg(test)]
mod pace_tests;
