//! Prepared products with quantised matrices of few bits, whose scales and zero points are read once.

use super::CpuKernel;
use crate::array::Array;
use crate::cpu::Cpu;
use crate::error::Result;
use crate::ext::quant::n_bits::{Blocks, Integers};
use bb::ext::{MatMulNBitsOptions, Quant};
use bb::ir::op::Param;
use bb::{Kernel, KernelOperands, Outputs, PrepareStep};

const OP: &str = "matmul_n_bits";

/// Prepares a product with a constant quantised matrix.
pub(super) fn blocks(cpu: &Cpu, step: &PrepareStep<'_, Array>) -> Result<Option<CpuKernel>> {
    let &[Param::Int(inner), Param::Int(bits), Param::Int(block), Param::Bool(integers)] = step.params()
    else {
        return Ok(None);
    };
    let (Some(b), Some(scales)) = (step.constant(1), step.constant(2)) else { return Ok(None) };
    if step.operand(3).is_some() != step.constant(3).is_some() || step.operand(4).is_some() {
        return Ok(None);
    }
    let options = MatMulNBitsOptions { inner, bits, block, integers };
    if integers {
        let is_taken = step.operand(0).is_some_and(|a| Integers::takes(a.dtype()));
        let packed = if is_taken { Integers::new(cpu, b, scales, step.constant(3), options)? } else { None };
        return Ok(packed.map(|packed| -> CpuKernel { Box::new(Rounded(packed)) }));
    }
    let blocks = Blocks::new(cpu, b, scales, step.constant(3), options)?;
    Ok(blocks.map(|blocks| -> CpuKernel { Box::new(NBits { blocks, options }) }))
}

/// A product with a matrix of quantised blocks. Each run reads the integers from the operand, and reads all operands if
/// the kernel does not support the left operand.
struct NBits {
    blocks: Blocks,
    options: MatMulNBitsOptions,
}

impl Kernel<Cpu> for NBits {
    fn run(&self, on: &Cpu, operands: &mut KernelOperands<'_, Array>) -> Result<Outputs<Array>> {
        let [a, b] = [operands.required(OP, 0)?, operands.required(OP, 1)?];
        let y = match self.blocks.product(on, a, b)? {
            Some(y) => y,
            None => {
                let (scales, zeros) = (operands.required(OP, 2)?, operands.get(3));
                on.body().matmul_n_bits(a, b, scales, zeros, None, self.options)?
            }
        };
        Ok(Outputs::from_buf([y]))
    }

    fn bytes(&self) -> usize {
        self.blocks.bytes()
    }

    fn reads(&self, _operand: usize) -> bool {
        true
    }
}

/// A product with quantised blocks that are packed for left rows rounded to 8 bits. Each run reads only the left
/// operand.
struct Rounded(Integers);

impl Kernel<Cpu> for Rounded {
    fn run(&self, on: &Cpu, operands: &mut KernelOperands<'_, Array>) -> Result<Outputs<Array>> {
        Ok(Outputs::from_buf([self.0.product(on, operands.required(OP, 0)?)?]))
    }

    fn bytes(&self) -> usize {
        self.0.bytes()
    }
}
