//! Products with a constant right operand.

use super::CpuKernel;
use crate::array::Array;
use crate::backend::Cpu;
use crate::error::Result;
use crate::gemm::Matrix;
use crate::gemm::panels::Panels;
use crate::ops::matmul;
use bb::{Kernel, KernelOperands, Outputs, PrepareStep, Tensor};

/// A product of floats whose right operand is a matrix in panels.
struct Packed(Panels);

/// Prepares a product of floats.
#[expect(unsafe_code, reason = "a matrix is packed through its pointer and strides")]
pub(super) fn floats(cpu: &Cpu, step: &PrepareStep<'_, Array>) -> Result<Option<CpuKernel>> {
    let Some(b) = step.constant(1) else { return Ok(None) };
    let ([k, n], [row, col]) = (b.shape(), &b.strides()[..]) else { return Ok(None) };
    let right = Matrix { ptr: b.ptr(), row: *row, col: *col };
    // SAFETY: the array has elements of its type at these indices.
    let panels = unsafe { Panels::new(cpu.pool(), b.dtype(), [*k, *n], right)? };
    Ok(panels.map(|panels| -> CpuKernel { Box::new(Packed(panels)) }))
}

impl Kernel<Cpu> for Packed {
    fn run(&self, on: &Cpu, operands: &mut KernelOperands<'_, Array>) -> Result<Outputs<Array>> {
        let a = operands.required("matmul", 0)?;
        Ok(Outputs::from_buf([matmul::packed(on.pool(), a, &self.0)?]))
    }

    fn bytes(&self) -> usize {
        self.0.bytes()
    }
}
