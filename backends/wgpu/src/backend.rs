//! Implements the `Backend` trait: the lifecycle of the backend, and the primitives.

use crate::open::Wgpu;
use crate::ops::{arithmetic, cast, host, index, matmul, own, reduce, shape};
use crate::wgsl::map::{Binary, Unary};
use crate::wgsl::reduce::Join;
use crate::{Result, Tensor, WgpuError};
use bb::services::{DeviceInfo, DeviceKind, Kernels, Lifecycle, Memory};
use bb::{
    BackendAttrs, CompletionHandle, ContractResponse, DataType, DataTypes, GraphProto, Primitive, RoundMode,
    TensorData,
};
use std::collections::HashMap;
use std::sync::Arc;

/// The supported element types.
const TYPES: DataTypes = DataTypes::of(&[
    DataType::F32,
    DataType::F16,
    DataType::BF16,
    DataType::I32,
    DataType::I16,
    DataType::I8,
    DataType::U32,
    DataType::U16,
    DataType::U8,
    DataType::Bool,
]);

impl bb::Backend for Wgpu {
    type Tensor = Tensor;
    type Error = WgpuError;

    fn wrapped(error: &WgpuError) -> Option<&bb::Error> {
        match error {
            WgpuError::Bb(error) => Some(error),
            _ => None,
        }
    }

    fn types(&self) -> DataTypes {
        TYPES
    }

    fn add(&self, a: &Tensor, b: &Tensor) -> Result<Tensor> {
        arithmetic::binary(&self.gpu, Primitive::Add, Binary::Add, a, b)
    }

    fn sub(&self, a: &Tensor, b: &Tensor) -> Result<Tensor> {
        arithmetic::binary(&self.gpu, Primitive::Sub, Binary::Sub, a, b)
    }

    fn mul(&self, a: &Tensor, b: &Tensor) -> Result<Tensor> {
        arithmetic::binary(&self.gpu, Primitive::Mul, Binary::Mul, a, b)
    }

    fn div(&self, a: &Tensor, b: &Tensor) -> Result<Tensor> {
        arithmetic::binary(&self.gpu, Primitive::Div, Binary::Div, a, b)
    }

    fn neg(&self, x: &Tensor) -> Result<Tensor> {
        arithmetic::unary(&self.gpu, Primitive::Neg, Unary::Neg, x)
    }

    fn abs(&self, x: &Tensor) -> Result<Tensor> {
        arithmetic::unary(&self.gpu, Primitive::Abs, Unary::Abs, x)
    }

    fn sqrt(&self, x: &Tensor) -> Result<Tensor> {
        arithmetic::unary(&self.gpu, Primitive::Sqrt, Unary::Sqrt, x)
    }

    fn pow(&self, a: &Tensor, b: &Tensor) -> Result<Tensor> {
        arithmetic::pow(&self.gpu, a, b)
    }

    fn exp(&self, x: &Tensor) -> Result<Tensor> {
        arithmetic::unary(&self.gpu, Primitive::Exp, Unary::Exp, x)
    }

    fn log(&self, x: &Tensor) -> Result<Tensor> {
        arithmetic::unary(&self.gpu, Primitive::Log, Unary::Log, x)
    }

    fn matmul(&self, a: &Tensor, b: &Tensor) -> Result<Tensor> {
        matmul::matmul(&self.gpu, a, b)
    }

    fn reduce_sum(&self, x: &Tensor, axes: &[i64], keepdims: bool) -> Result<Tensor> {
        reduce::reduce(&self.gpu, Primitive::ReduceSum, Join::Sum, x, axes, keepdims)
    }

    fn reduce_mean(&self, x: &Tensor, axes: &[i64], keepdims: bool) -> Result<Tensor> {
        reduce::reduce(&self.gpu, Primitive::ReduceMean, Join::Mean, x, axes, keepdims)
    }

    fn reduce_max(&self, x: &Tensor, axes: &[i64], keepdims: bool) -> Result<Tensor> {
        reduce::reduce(&self.gpu, Primitive::ReduceMax, Join::Max, x, axes, keepdims)
    }

    fn reduce_min(&self, x: &Tensor, axes: &[i64], keepdims: bool) -> Result<Tensor> {
        reduce::reduce(&self.gpu, Primitive::ReduceMin, Join::Min, x, axes, keepdims)
    }

    fn reshape(&self, x: &Tensor, shape: &[usize]) -> Result<Tensor> {
        shape::reshape(&self.gpu, x, shape)
    }

    fn transpose(&self, x: &Tensor, perm: &[i64]) -> Result<Tensor> {
        shape::transpose(&self.gpu, x, perm)
    }

    fn concat(&self, xs: &[&Tensor], axis: i64) -> Result<Tensor> {
        shape::concat(&self.gpu, xs, axis)
    }

    fn slice(&self, x: &Tensor, starts: &[i64], ends: &[i64], axes: &[i64], steps: &[i64]) -> Result<Tensor> {
        shape::slice(&self.gpu, x, starts, ends, axes, steps)
    }

    fn split(&self, x: &Tensor, axis: i64, sizes: &[usize]) -> Result<Vec<Tensor>> {
        shape::split(&self.gpu, x, axis, sizes)
    }

    fn squeeze(&self, x: &Tensor, axes: &[i64]) -> Result<Tensor> {
        shape::squeeze(&self.gpu, x, axes)
    }

    fn unsqueeze(&self, x: &Tensor, axes: &[i64]) -> Result<Tensor> {
        shape::unsqueeze(&self.gpu, x, axes)
    }

    fn identity(&self, x: &Tensor) -> Result<Tensor> {
        own(&self.gpu, "identity", &[x])?;
        Ok(x.clone())
    }

    fn cast(&self, x: &Tensor, to: DataType, _saturate: bool, _round_mode: RoundMode) -> Result<Tensor> {
        // The two options affect only element types that this backend does not support.
        cast::cast(&self.gpu, x, to)
    }

    fn equal(&self, a: &Tensor, b: &Tensor) -> Result<Tensor> {
        arithmetic::binary(&self.gpu, Primitive::Equal, Binary::Equal, a, b)
    }

    fn greater(&self, a: &Tensor, b: &Tensor) -> Result<Tensor> {
        arithmetic::binary(&self.gpu, Primitive::Greater, Binary::Greater, a, b)
    }

    fn less(&self, a: &Tensor, b: &Tensor) -> Result<Tensor> {
        arithmetic::binary(&self.gpu, Primitive::Less, Binary::Less, a, b)
    }

    fn r#where(&self, condition: &Tensor, x: &Tensor, y: &Tensor) -> Result<Tensor> {
        arithmetic::select(&self.gpu, condition, x, y)
    }

    fn constant(&self, value: &TensorData) -> Result<Tensor> {
        host::constant(&self.gpu, value)
    }

    fn gather(&self, data: &Tensor, indices: &Tensor, axis: i64) -> Result<Tensor> {
        index::gather(&self.gpu, data, indices, axis)
    }

    fn to_host(&self, x: &Tensor) -> Result<TensorData> {
        host::to_host(&self.gpu, x)
    }

    fn read_into(&self, x: &Tensor, into: &mut [u8]) -> Result<()> {
        own(&self.gpu, "to_host", &[x])?;
        self.gpu.check()?;
        host::read_into(&self.gpu, x, into)
    }

    fn device_info(&self) -> DeviceInfo {
        let info = &self.gpu.info;
        let kind = match info.device_type {
            wgpu::DeviceType::Cpu => DeviceKind::Cpu,
            wgpu::DeviceType::DiscreteGpu
            | wgpu::DeviceType::IntegratedGpu
            | wgpu::DeviceType::VirtualGpu => DeviceKind::Gpu,
            wgpu::DeviceType::Other => DeviceKind::Unknown,
        };
        DeviceInfo::new(kind)
            .with_alignment(u64::from(self.gpu.limits.min_storage_buffer_offset_alignment))
            .with("adapter", info.name.clone())
            .with("interface", format!("{:?}", info.backend))
    }

    fn lifecycle(&self) -> Option<&dyn Lifecycle> {
        Some(self)
    }

    fn memory(&self) -> Option<&dyn Memory<Tensor>> {
        Some(self)
    }

    fn kernels(&self) -> Option<&dyn Kernels<Tensor>> {
        Some(self)
    }

    /// Records the whole graph, submits it, and completes the call when the device has finished.
    fn dispatch(
        &self,
        graph: Arc<GraphProto>,
        inputs: HashMap<String, Tensor>,
        attrs: BackendAttrs<'_>,
        completion: CompletionHandle<HashMap<String, Tensor>, WgpuError>,
    ) -> ContractResponse<HashMap<String, Tensor>, WgpuError> {
        let recorded =
            self.execute(&graph, inputs, attrs).and_then(|outputs| Ok((outputs, self.gpu.flush()?)));
        match recorded {
            Err(error) => ContractResponse::Now(Err(error)),
            // In a browser, threads cannot block, and the browser itself completes the tensors, so
            // respond immediately.
            Ok((outputs, None)) => ContractResponse::Now(Ok(outputs)),
            Ok((outputs, Some(_))) if cfg!(target_arch = "wasm32") => ContractResponse::Now(Ok(outputs)),
            Ok((outputs, Some(submission))) => {
                let (answer, completer) = completion.later();
                self.waiter.complete(&self.gpu, submission, outputs, completer);
                answer
            }
        }
    }
}
