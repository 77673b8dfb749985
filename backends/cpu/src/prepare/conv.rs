//! Convolutions whose filters are widened, transformed or packed once.

use super::CpuKernel;
use crate::array::Array;
use crate::backend::Cpu;
use crate::error::{CpuError, Result};
use crate::ext::winograd::{self, Filters};
use crate::ext::{conv, few, rounded};
use crate::gemm::panels::Panels;
use bb::ext::ConvOptions;
use bb::ir::memory;
use bb::ir::op::Param;
use bb::{Backend, DataType, Kernel, KernelOperands, Outputs, PrepareStep, Shape, Tensor, TensorData};
use std::sync::OnceLock;

/// Prepares a convolution whose filters, and bias if there is one, are constants: those of 16-bit floats, and those whose
/// filters are transformed to points or packed.
pub(super) fn convolutions(cpu: &Cpu, step: &PrepareStep<'_, Array>) -> Result<Option<CpuKernel>> {
    let [Param::Ints(strides), Param::Ints(pads), Param::Ints(dilations), Param::Int(group)] = step.params()
    else {
        return Ok(None);
    };
    let (Some(w), bias) = (step.constant(1), step.constant(2)) else { return Ok(None) };
    let dtype = w.dtype();
    let alike = step.operands().flatten().all(|operand| operand.dtype() == dtype);
    if !alike || bias.is_some() != step.operand(2).is_some() {
        return Ok(None);
    }
    let is_half = match dtype {
        DataType::F32 => false,
        DataType::F16 | DataType::BF16 => true,
        _ => return Ok(None),
    };
    let wide = |x: &Array| rounded(cpu.pool(), x.clone(), DataType::F32);
    let filters = wide(w)?;
    let adjacent = [strides, dilations].into_iter().all(|steps| steps.iter().all(|&step| step == 1));
    let options = ConvOptions { strides, pads, dilations, group: *group };
    let extents = step.operand(0).map_or(&[][..], |x| x.extents());
    let tiled = adjacent && winograd::may_serve(extents, w.shape(), options);
    let points = if tiled { points(cpu, &filters, *group)? } else { None };
    let form = match points {
        Some(points) => Some(Form::Points(points)),
        None => few::packed(cpu, extents, &filters, options)?.map(Form::Panels),
    };
    let w = match form {
        Some(form) => {
            Weights::Formed { form, shape: Shape::from_slice(filters.shape()), restored: OnceLock::new() }
        }
        None if is_half => Weights::Widened(filters),
        None => return Ok(None),
    };
    Ok(Some(Box::new(Conv {
        dtype,
        w,
        bias: bias.map(wide).transpose()?,
        strides: strides.to_vec(),
        pads: pads.to_vec(),
        dilations: dilations.to_vec(),
        group: *group,
    })))
}

/// Transforms filters, if they suit.
fn points(cpu: &Cpu, w: &Array, group: i64) -> Result<Option<Filters>> {
    let Some(groups) = usize::try_from(group).ok().filter(|&groups| Filters::suit(w.shape(), groups)) else {
        return Ok(None);
    };
    let w = cpu.to_host(w)?;
    let elements = w.as_slice().map_err(CpuError::from)?;
    Filters::new(elements, w.shape(), groups).map_err(CpuError::from)
}

/// Filters as `f32`.
enum Weights {
    Widened(Array),
    /// Another form of filters of this shape. Where it does not serve, because an operand has fewer windows than was known or
    /// numbers that are too great, the filters are restored of it, once.
    Formed {
        form: Form,
        shape: Shape,
        restored: OnceLock<Array>,
    },
}

/// The form in which a convolution reads its filters.
enum Form {
    Points(Filters),
    Panels(Panels),
}

impl Weights {
    /// Returns the filters themselves.
    fn filters(&self, cpu: &Cpu) -> Result<&Array> {
        let (form, shape, restored) = match self {
            Weights::Widened(w) => return Ok(w),
            Weights::Formed { form, shape, restored } => (form, shape, restored),
        };
        if let Some(w) = restored.get() {
            return Ok(w);
        }
        let mut w = memory::filled("conv", 0f32, shape.iter().product()).map_err(CpuError::from)?;
        match form {
            Form::Points(points) => points.restore(&mut w),
            Form::Panels(panels) => panels.columns(&mut w),
        }
        let w = TensorData::new(shape, &w).map_err(CpuError::from)?;
        let w = cpu.constant(&w)?;
        // If another thread was faster, its filters are kept.
        Ok(restored.get_or_init(|| w))
    }
}

/// A convolution with its filters and bias as `f32`.
struct Conv {
    dtype: DataType,
    w: Weights,
    bias: Option<Array>,
    strides: Vec<i64>,
    pads: Vec<i64>,
    dilations: Vec<i64>,
    group: i64,
}

impl Kernel<Cpu> for Conv {
    fn run(&self, on: &Cpu, operands: &mut KernelOperands<'_, Array>) -> Result<Outputs<Array>> {
        let x = operands.required("conv", 0)?;
        let options = ConvOptions {
            strides: &self.strides,
            pads: &self.pads,
            dilations: &self.dilations,
            group: self.group,
        };
        let bias = self.bias.as_ref();
        if let Weights::Formed { form, shape, .. } = &self.w {
            let y = match form {
                Form::Points(points) => conv::by_points(on, x, shape, points, bias, options)?,
                Form::Panels(panels) => few::conv(on, x, shape, panels, bias, options)?,
            };
            if let Some(y) = y {
                return Ok(Outputs::from_buf([y]));
            }
        }
        let w = self.w.filters(on)?;
        if let Some(y) = conv::conv(on, x, w, bias, options)? {
            return Ok(Outputs::from_buf([y]));
        }
        // The body's operands have one type. What was widened is the same when it is rounded.
        let own = |x: &Array| rounded(on.pool(), x.clone(), self.dtype);
        let (w, bias) = (own(w)?, bias.map(own).transpose()?);
        Ok(Outputs::from_buf([bb::ext::nn::conv(on, x, &w, bias.as_ref(), options)?]))
    }

    fn bytes(&self) -> usize {
        let size = |x: Option<&Array>| x.map_or(0, |x| x.len() * size_of::<f32>());
        let filters = match &self.w {
            Weights::Widened(w) => size(Some(w)),
            Weights::Formed { form: Form::Points(points), restored, .. } => {
                points.bytes() + size(restored.get())
            }
            Weights::Formed { form: Form::Panels(panels), restored, .. } => {
                panels.bytes() + size(restored.get())
            }
        };
        filters + size(self.bias.as_ref())
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
mod tests;
