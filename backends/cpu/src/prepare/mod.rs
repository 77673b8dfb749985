//! Prepared steps of plans. Their kernels have packed or converted their constants or decoded their programs, and may write results into
//! the memory of operands that no later step reads.
//!
//! [`prepare`] selects a kernel by the operation. A step that no kernel speeds up is not prepared, and the plan calls the operation.

mod bytes;
mod conv;
mod forest;
mod fused;
mod n_bits;
mod product;
mod recurrent;

use crate::array::Array;
use crate::cpu::Cpu;
use crate::error::{CpuError, Result};
use bb::ext::{MlOp, NnOp, QuantOp, ScalarOp};
use bb::{Kernel, PrepareStep, Primitive};

/// A prepared kernel of this backend.
type CpuKernel = Box<dyn Kernel<Cpu>>;

/// Prepares a step, if a kernel speeds it up and there is memory for the kernel.
pub(crate) fn prepare(cpu: &Cpu, step: &PrepareStep<'_, Array>) -> Result<Option<CpuKernel>> {
    match chosen(cpu, step) {
        // The unprepared operation needs less memory than the kernel, so it may still succeed.
        Err(CpuError::Memory(_)) => Ok(None),
        chosen => chosen,
    }
}

fn chosen(cpu: &Cpu, step: &PrepareStep<'_, Array>) -> Result<Option<CpuKernel>> {
    if let Some(primitive) = step.primitive() {
        return match primitive {
            Primitive::MatMul => product::floats(cpu, step),
            _ => Ok(None),
        };
    }
    if step.spec() == ScalarOp::Fused.spec() {
        return fused::programs(step);
    }
    if step.spec() == NnOp::Conv.spec() {
        return conv::convolutions(cpu, step);
    }
    if step.spec() == NnOp::FusedConv.spec() {
        return conv::with_programs(cpu, step);
    }
    if step.spec() == MlOp::TreeEnsemble.spec() {
        return forest::trees(cpu, step);
    }
    for op in [NnOp::Rnn, NnOp::Gru, NnOp::Lstm] {
        if step.spec() == op.spec() {
            return recurrent::layer(cpu, step, op);
        }
    }
    if step.spec() == QuantOp::MatMulNBits.spec() {
        return n_bits::blocks(cpu, step);
    }
    for op in [QuantOp::ConvInteger, QuantOp::QLinearConv] {
        if step.spec() == op.spec() {
            return bytes::convolutions(cpu, step, op == QuantOp::QLinearConv);
        }
    }
    if step.spec() == QuantOp::MatMulInteger.spec() {
        return product::bytes(cpu, step, product::integers);
    }
    if step.spec() == QuantOp::DynamicMatMul.spec() {
        return product::bytes(cpu, step, product::dynamic);
    }
    Ok(None)
}
