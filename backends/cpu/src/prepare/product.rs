//! Prepared matrix products with a constant right operand.

use super::CpuKernel;
use crate::array::Array;
use crate::cpu::Cpu;
use crate::error::Result;
use crate::gemm::Matrix;
use crate::gemm::integer;
use crate::gemm::panels::Panels;
use crate::ops::matmul;
use bb::ext::Quant;
use bb::{Kernel, KernelOperands, Outputs, PrepareStep, Tensor};

/// Prepares a matrix product of floats.
#[expect(unsafe_code, reason = "a matrix is packed through its pointer and strides")]
pub(super) fn floats(cpu: &Cpu, step: &PrepareStep<'_, Array>) -> Result<Option<CpuKernel>> {
    let Some(b) = step.constant(1) else { return Ok(None) };
    let ([k, n], [row, col]) = (b.shape(), &b.strides()[..]) else { return Ok(None) };
    let right = Matrix { ptr: b.ptr(), row: *row, col: *col };
    // SAFETY: the array has elements of its type at these indices.
    let panels = unsafe { Panels::new(cpu.pool(), b.dtype(), [*k, *n], right)? };
    Ok(panels.map(|panels| -> CpuKernel { Box::new(Floats(panels)) }))
}

/// A matrix product of floats whose right operand is packed in panels.
struct Floats(Panels);

impl Kernel<Cpu> for Floats {
    fn run(&self, on: &Cpu, operands: &mut KernelOperands<'_, Array>) -> Result<Outputs<Array>> {
        let a = operands.required("matmul", 0)?;
        Ok(Outputs::from_buf([matmul::packed(on.pool(), a, &self.0)?]))
    }

    fn bytes(&self) -> usize {
        self.0.bytes()
    }
}

/// Prepares a matrix product with bytes; `kernel` builds the kernel of the operation.
pub(super) fn bytes(
    cpu: &Cpu,
    step: &PrepareStep<'_, Array>,
    kernel: fn(integer::Packed) -> CpuKernel,
) -> Result<Option<CpuKernel>> {
    let Some(b) = step.constant(1) else { return Ok(None) };
    Ok(cpu.packed_bytes(b)?.map(kernel))
}

/// Creates the kernel of `matmul_integer`.
pub(super) fn integers(packed: integer::Packed) -> CpuKernel {
    Box::new(Integers(packed))
}

/// A matrix product of bytes whose right operand is packed. Each run still reads the operand's shape and element type, and its elements
/// if the kernel does not support the other operands.
struct Integers(integer::Packed);

impl Kernel<Cpu> for Integers {
    fn run(&self, on: &Cpu, operands: &mut KernelOperands<'_, Array>) -> Result<Outputs<Array>> {
        let [a, b] = [operands.required("matmul_integer", 0)?, operands.required("matmul_integer", 1)?];
        let [a_zero, b_zero] = [operands.get(2), operands.get(3)];
        let y = match on.integer_product(a, b, a_zero, b_zero, Some(&self.0))? {
            Some(y) => y,
            None => on.body().matmul_integer(a, b, a_zero, b_zero)?,
        };
        Ok(Outputs::from_buf([y]))
    }

    fn bytes(&self) -> usize {
        self.0.bytes()
    }

    fn reads(&self, _operand: usize) -> bool {
        true
    }
}

/// Creates the kernel of `dynamic_matmul`.
pub(super) fn dynamic(packed: integer::Packed) -> CpuKernel {
    Box::new(Dynamic(packed))
}

/// A matrix product as [`Integers`] computes it, with a left operand that is quantised by its range.
struct Dynamic(integer::Packed);

impl Kernel<Cpu> for Dynamic {
    fn run(&self, on: &Cpu, operands: &mut KernelOperands<'_, Array>) -> Result<Outputs<Array>> {
        const OP: &str = "dynamic_matmul";
        let [x, b] = [operands.required(OP, 0)?, operands.required(OP, 1)?];
        let (scale, zero, bias) = (operands.required(OP, 2)?, operands.get(3), operands.get(4));
        let y = match on.dynamic_product(x, b, scale, zero, bias, Some(&self.0))? {
            Some(y) => y,
            None => on.body().dynamic_matmul(x, b, scale, zero, bias)?,
        };
        Ok(Outputs::from_buf([y]))
    }

    fn bytes(&self) -> usize {
        self.0.bytes()
    }

    fn reads(&self, _operand: usize) -> bool {
        true
    }
}
