//! Prepared convolutions, whose filters are converted to `f32`, transformed or packed once.

use super::CpuKernel;
use crate::array::Array;
use crate::cpu::Cpu;
use crate::error::{CpuError, Result};
use crate::ext::fused::{self, Program, Then};
use crate::ext::winograd::{self, Filters};
use crate::ext::{conv, rounded, small_channels};
use crate::gemm::panels::Panels;
use bb::ext::{ConvOptions, Nn};
use bb::ir::memory;
use bb::ir::op::Param;
use bb::{Backend, DataType, Kernel, KernelOperands, Outputs, PrepareStep, Shape, Tensor, TensorData};
use smallvec::SmallVec;
use std::sync::OnceLock;

/// Prepares a convolution whose filters and bias are constants. Returns `None` if the filters are already `f32` and are
/// neither transformed nor packed.
pub(super) fn convolutions(cpu: &Cpu, step: &PrepareStep<'_, Array>) -> Result<Option<CpuKernel>> {
    Ok(match Conv::new(cpu, step, step.params())? {
        Some(conv) if !matches!(conv.w, FloatFilters::Given) => Some(Box::new(conv)),
        _ => None,
    })
}

/// Prepares a convolution together with the element-wise program that follows it, if this backend computes that program.
pub(super) fn with_programs(cpu: &Cpu, step: &PrepareStep<'_, Array>) -> Result<Option<CpuKernel>> {
    let [Param::Ints(program), params @ ..] = step.params() else { return Ok(None) };
    let Some(conv) = Conv::new(cpu, step, params)? else { return Ok(None) };
    let others = step.operands().skip(OPERANDS).map(|x| Some(x?.dtype()));
    let types: Option<SmallVec<[DataType; 8]>> = std::iter::once(Some(conv.dtype)).chain(others).collect();
    let Some(types) = types else { return Ok(None) };
    let program = fused::prepared(&types, program)?;
    Ok(program.map(|program| -> CpuKernel { Box::new(Conv { program: Some(program), ..conv }) }))
}

/// The number of operands of a convolution: input, filters and bias.
const OPERANDS: usize = 3;

/// Transforms filters to Winograd points, if their shape is suitable.
fn points(cpu: &Cpu, w: &Array, group: i64) -> Result<Option<Filters>> {
    let Some(groups) = usize::try_from(group).ok().filter(|&groups| Filters::suit(w.shape(), groups)) else {
        return Ok(None);
    };
    let w = cpu.to_host(w)?;
    let elements = w.as_slice().map_err(CpuError::from)?;
    Filters::new(elements, w.shape(), groups).map_err(CpuError::from)
}

/// Filters as `f32`.
enum FloatFilters {
    /// The filter operand of each run, used as it is.
    Given,
    Widened(Array),
    /// Filters in another layout, originally of this shape. If an operand has too few windows or too large values for that
    /// layout, the original filters are restored from it, once.
    Formed {
        form: FilterLayout,
        shape: Shape,
        restored: OnceLock<Array>,
    },
}

/// The prepared layout of a convolution's filters.
enum FilterLayout {
    Points(Filters),
    Panels(Panels),
}

impl FloatFilters {
    /// Returns the filters in their original layout.
    fn filters<'a>(&'a self, cpu: &Cpu, operands: &'a KernelOperands<'_, Array>) -> Result<&'a Array> {
        let (form, shape, restored) = match self {
            FloatFilters::Given => return Ok(operands.required("conv", 1)?),
            FloatFilters::Widened(w) => return Ok(w),
            FloatFilters::Formed { form, shape, restored } => (form, shape, restored),
        };
        if let Some(w) = restored.get() {
            return Ok(w);
        }
        let mut w = memory::filled("conv", 0f32, shape.iter().product()).map_err(CpuError::from)?;
        match form {
            FilterLayout::Points(points) => points.restore(&mut w),
            FilterLayout::Panels(panels) => panels.columns(&mut w),
        }
        let w = TensorData::new(shape, &w).map_err(CpuError::from)?;
        let w = cpu.constant(&w)?;
        // If another thread restored the filters first, its copy is kept.
        Ok(restored.get_or_init(|| w))
    }
}

/// A convolution. Constant filters and a constant bias are stored as `f32`.
struct Conv {
    dtype: DataType,
    w: FloatFilters,
    /// A constant bias.
    bias: Option<Array>,
    strides: Vec<i64>,
    pads: Vec<i64>,
    dilations: Vec<i64>,
    group: i64,
    /// The element-wise operations that follow the convolution.
    program: Option<Program>,
}

impl Conv {
    /// Prepares a convolution with these parameters; its operands are the first operands of the step. Returns `None` for
    /// unsupported types.
    fn new(cpu: &Cpu, step: &PrepareStep<'_, Array>, params: &[Param<'static>]) -> Result<Option<Conv>> {
        let [Param::Ints(strides), Param::Ints(pads), Param::Ints(dilations), Param::Int(group)] = params
        else {
            return Ok(None);
        };
        let Some(x) = step.operand(0) else { return Ok(None) };
        let dtype = x.dtype();
        let is_half = match dtype {
            DataType::F32 => false,
            DataType::F16 | DataType::BF16 => true,
            _ => return Ok(None),
        };
        if !step.operands().take(OPERANDS).flatten().all(|operand| operand.dtype() == dtype) {
            return Ok(None);
        }
        let (w, bias) = (step.constant(1), step.constant(2));
        let wide = |x: &Array| rounded(cpu.pool(), x.clone(), DataType::F32);
        let options = ConvOptions { strides, pads, dilations, group: *group };
        let w = match w {
            Some(w) if bias.is_some() == step.operand(2).is_some() => {
                let filters = wide(w)?;
                match form(cpu, x.extents(), &filters, options)? {
                    Some(form) => {
                        let shape = Shape::from_slice(filters.shape());
                        FloatFilters::Formed { form, shape, restored: OnceLock::new() }
                    }
                    None if is_half => FloatFilters::Widened(filters),
                    None => FloatFilters::Given,
                }
            }
            _ => FloatFilters::Given,
        };
        let bias = bias.filter(|_| !matches!(w, FloatFilters::Given));
        Ok(Some(Conv {
            dtype,
            w,
            bias: bias.map(wide).transpose()?,
            strides: strides.to_vec(),
            pads: pads.to_vec(),
            dilations: dilations.to_vec(),
            group: *group,
            program: None,
        }))
    }

    /// Computes the convolution and the operations that follow it. Returns `None` if the operation's body must compute it.
    fn computed(
        &self,
        on: &Cpu,
        operands: &KernelOperands<'_, Array>,
        bias: Option<&Array>,
        then: Option<&Then<'_>>,
    ) -> Result<Option<Array>> {
        let (x, options) = (operands.required("conv", 0)?, self.options());
        if let FloatFilters::Formed { form, shape, .. } = &self.w {
            let y = match form {
                FilterLayout::Points(points) => conv::by_points(on, x, shape, points, bias, options, then)?,
                FilterLayout::Panels(panels) => {
                    small_channels::conv(on, x, shape, panels, bias, options, then)?
                }
            };
            if y.is_some() {
                return Ok(y);
            }
        }
        conv::conv(on, x, self.w.filters(on, operands)?, bias, options, then)
    }

    fn options(&self) -> ConvOptions<'_> {
        ConvOptions {
            strides: &self.strides,
            pads: &self.pads,
            dilations: &self.dilations,
            group: self.group,
        }
    }
}

/// Prepares the filters for an input with the known extents `extents`. Returns `None` if the filters should be read
/// unprepared.
fn form(
    cpu: &Cpu,
    extents: &[Option<usize>],
    w: &Array,
    options: ConvOptions<'_>,
) -> Result<Option<FilterLayout>> {
    let adjacent =
        [options.strides, options.dilations].into_iter().all(|steps| steps.iter().all(|&step| step == 1));
    if adjacent
        && winograd::may_serve(extents, w.shape(), options)
        && let Some(points) = points(cpu, w, options.group)?
    {
        return Ok(Some(FilterLayout::Points(points)));
    }
    Ok(small_channels::packed(cpu, extents, w, options)?.map(FilterLayout::Panels))
}

impl Kernel<Cpu> for Conv {
    fn run(&self, on: &Cpu, operands: &mut KernelOperands<'_, Array>) -> Result<Outputs<Array>> {
        let bias = self.bias.as_ref().or_else(|| operands.get(2));
        let then = match &self.program {
            None => None,
            Some(program) => {
                let one = |at| operands.required("fused_conv", at);
                let xs =
                    (OPERANDS..operands.len()).map(one).collect::<std::result::Result<_, bb::Error>>()?;
                Some(Then { program, xs })
            }
        };
        if let Some(y) = self.computed(on, operands, bias, then.as_ref())? {
            return Ok(Outputs::from_buf([y]));
        }
        // The body requires operands of one type. Rounding the widened values restores the original values.
        let own = |x: &Array| rounded(on.pool(), x.clone(), self.dtype);
        let (w, bias) = (own(self.w.filters(on, operands)?)?, bias.map(own).transpose()?);
        let y = on.body().conv(operands.required("conv", 0)?, &w, bias.as_ref(), self.options())?;
        let y = match &then {
            Some(then) => then.apart(on.pool(), y)?,
            None => y,
        };
        Ok(Outputs::from_buf([y]))
    }

    fn bytes(&self) -> usize {
        let size = |x: Option<&Array>| x.map_or(0, |x| x.len() * size_of::<f32>());
        let filters = match &self.w {
            FloatFilters::Given => 0,
            FloatFilters::Widened(w) => size(Some(w)),
            FloatFilters::Formed { form: FilterLayout::Points(points), restored, .. } => {
                points.bytes() + size(restored.get())
            }
            FloatFilters::Formed { form: FilterLayout::Panels(panels), restored, .. } => {
                panels.bytes() + size(restored.get())
            }
        };
        filters + size(self.bias.as_ref())
    }

    fn reads(&self, operand: usize) -> bool {
        match operand {
            0 => true,
            1 => matches!(self.w, FloatFilters::Given),
            2 => self.bias.is_none(),
            _ => true,
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
mod tests;
