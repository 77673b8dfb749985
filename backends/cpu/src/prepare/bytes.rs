//! Prepared 8-bit integer convolutions, whose filters are read once.

use super::CpuKernel;
use crate::array::Array;
use crate::cpu::Cpu;
use crate::error::Result;
use crate::ext::quant::{Filters, Operands, conv_integer, qlinear_conv};
use bb::ext::{ConvIntegerOptions, QLinearConvOptions, Quant};
use bb::ir::op::Param;
use bb::{Kernel, KernelOperands, Outputs, PrepareStep};

/// Prepares a convolution with constant filters. `quantises` says whether its results are quantised.
pub(super) fn convolutions(
    cpu: &Cpu,
    step: &PrepareStep<'_, Array>,
    quantises: bool,
) -> Result<Option<CpuKernel>> {
    let [Param::Ints(strides), Param::Ints(pads), Param::Ints(dilations), Param::Int(group)] = step.params()
    else {
        return Ok(None);
    };
    let Some(w) = step.constant(1) else { return Ok(None) };
    Ok(cpu.byte_filters(w, *group)?.map(|filters| -> CpuKernel {
        Box::new(Conv {
            filters,
            quantises,
            strides: strides.to_vec(),
            pads: pads.to_vec(),
            dilations: dilations.to_vec(),
            group: *group,
        })
    }))
}

/// A convolution with prepared filters. Each run still reads the shape and the element type of the filters, and their
/// elements if the kernel does not support the other operands.
struct Conv {
    filters: Filters,
    quantises: bool,
    strides: Vec<i64>,
    pads: Vec<i64>,
    dilations: Vec<i64>,
    group: i64,
}

impl Kernel<Cpu> for Conv {
    fn run(&self, on: &Cpu, operands: &mut KernelOperands<'_, Array>) -> Result<Outputs<Array>> {
        let op = if self.quantises { "qlinear_conv" } else { "conv_integer" };
        let (filters, Conv { strides, pads, dilations, group, .. }) = (Some(&self.filters), self);
        let (x, w, bias) = (operands.required(op, 0)?, operands.required(op, 1)?, operands.get(2));
        let y = if self.quantises {
            let options = QLinearConvOptions { strides, pads, dilations, group: *group };
            let (x_zero, w_zero) = (operands.required(op, 3)?, operands.required(op, 4)?);
            let [scale, y_scale, y_zero] =
                [operands.required(op, 5)?, operands.required(op, 6)?, operands.required(op, 7)?];
            let all = Operands { x, w, bias, x_zero: Some(x_zero), w_zero: Some(w_zero) };
            match qlinear_conv(on, &all, filters, [scale, y_scale, y_zero], options)? {
                Some(y) => y,
                None => {
                    on.body().qlinear_conv(x, w, bias, x_zero, w_zero, scale, y_scale, y_zero, options)?
                }
            }
        } else {
            let options = ConvIntegerOptions { strides, pads, dilations, group: *group };
            let (x_zero, w_zero) = (operands.get(3), operands.get(4));
            match conv_integer(on, &Operands { x, w, bias, x_zero, w_zero }, filters, options)? {
                Some(y) => y,
                None => on.body().conv_integer(x, w, bias, x_zero, w_zero, options)?,
            }
        };
        Ok(Outputs::from_buf([y]))
    }

    fn bytes(&self) -> usize {
        self.filters.bytes()
    }

    fn reads(&self, _operand: usize) -> bool {
        true
    }
}
