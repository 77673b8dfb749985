//! Convolutions of 16-bit floats, whose filters are widened once.

use super::CpuKernel;
use crate::array::Array;
use crate::backend::Cpu;
use crate::error::Result;
use crate::ext::{conv, rounded};
use bb::ext::ConvOptions;
use bb::ir::op::Param;
use bb::{DataType, Kernel, KernelOperands, Outputs, PrepareStep, Tensor};

/// Prepares a convolution whose filters, and bias if there is one, are constants of 16-bit floats.
pub(super) fn of_halves(cpu: &Cpu, step: &PrepareStep<'_, Array>) -> Result<Option<CpuKernel>> {
    let [Param::Ints(strides), Param::Ints(pads), Param::Ints(dilations), Param::Int(group)] = step.params()
    else {
        return Ok(None);
    };
    let (Some(w), bias) = (step.constant(1), step.constant(2)) else { return Ok(None) };
    let dtype = w.dtype();
    let alike = step.operands().flatten().all(|operand| operand.dtype() == dtype);
    if !matches!(dtype, DataType::F16 | DataType::BF16)
        || !alike
        || bias.is_some() != step.operand(2).is_some()
    {
        return Ok(None);
    }
    let wide = |x: &Array| rounded(cpu.pool(), x.clone(), DataType::F32);
    Ok(Some(Box::new(Conv {
        dtype,
        w: wide(w)?,
        bias: bias.map(wide).transpose()?,
        strides: strides.to_vec(),
        pads: pads.to_vec(),
        dilations: dilations.to_vec(),
        group: *group,
    })))
}

/// A convolution with its filters and bias as `f32`.
struct Conv {
    dtype: DataType,
    w: Array,
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
        if let Some(y) = conv::conv(on, x, &self.w, self.bias.as_ref(), options)? {
            return Ok(Outputs::from_buf([y]));
        }
        // The body's operands have one type; what was widened is the same when it is rounded.
        let own = |x: &Array| rounded(on.pool(), x.clone(), self.dtype);
        let (w, bias) = (own(&self.w)?, self.bias.as_ref().map(own).transpose()?);
        Ok(Outputs::from_buf([bb::ext::nn::conv(on, x, &w, bias.as_ref(), options)?]))
    }

    fn bytes(&self) -> usize {
        let elements = self.w.len() + self.bias.as_ref().map_or(0, Array::len);
        elements * size_of::<f32>()
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
mod tests {
    use super::*;
    use bb::ext::{Nn, NnOp};
    use bb::{Backend, KernelOperand, PrepareOperand, RoundMode, TensorData};

    fn array(cpu: &Cpu, shape: &[usize], dtype: DataType) -> Array {
        let n: usize = shape.iter().product();
        let numbers: Vec<f32> = (0..n).map(|i| ((i * 7919 + 3) % 2003) as f32 / 1001.5 - 1.0).collect();
        let x = cpu.constant(&TensorData::new(shape, &numbers).unwrap()).unwrap();
        cpu.cast(&x, dtype, true, RoundMode::Up).unwrap()
    }

    /// Prepares a convolution and runs it on an operand; returns what the operation itself does, too.
    fn both(
        dtype: DataType,
        [x, w]: [&[usize]; 2],
        bias: bool,
        [stride, group]: [i64; 2],
    ) -> Option<[Result<TensorData>; 2]> {
        let cpu = Cpu::new();
        let (x, w) = (array(&cpu, x, dtype), array(&cpu, w, dtype));
        let bias = bias.then(|| array(&cpu, &w.shape()[..1], dtype));
        let strides = vec![stride; x.shape().len() - 2];
        let params = [
            Param::Ints(strides.clone().into()),
            Param::Ints([][..].into()),
            Param::Ints([][..].into()),
            Param::Int(group),
        ];
        let varying = PrepareOperand::varying(dtype, x.shape().iter().map(|_| None), false);
        let constants =
            [Some(PrepareOperand::of_constant(&w)), bias.as_ref().map(PrepareOperand::of_constant)];
        let operands = std::iter::once(Some(varying)).chain(constants);
        let kernel = cpu.prepare(&PrepareStep::new(NnOp::Conv.spec(), &params, operands)).unwrap()?;
        assert!(!kernel.reads(1) && kernel.bytes() >= 4 * w.len());
        let given = [KernelOperand::Shared(&x), KernelOperand::Absent, KernelOperand::Absent];
        let options = ConvOptions { strides: &strides, group, ..ConvOptions::default() };
        let alone = cpu.conv(&x, &w, bias.as_ref(), options);
        let prepared = kernel.run(&cpu, &mut given.into_iter().collect()).map(|mut y| y.remove(0));
        Some([prepared, alone].map(|y| y.map(|y| cpu.to_host(&y).unwrap())))
    }

    #[test]
    fn prepared_convolutions_have_the_bits_of_the_operation() {
        for dtype in [DataType::F16, DataType::BF16] {
            for (x, w, bias, group) in [
                (&[2usize, 6, 9, 10][..], &[8usize, 6, 3, 3][..], true, 1),
                (&[1, 6, 9, 10], &[8, 6, 1, 1], false, 1),
                (&[1, 6, 9, 10], &[6, 1, 3, 3], true, 6),
                (&[3, 4, 20], &[6, 2, 5], true, 2),
                (&[1, 2, 4, 5, 6], &[3, 2, 2, 2, 2], true, 1),
                (&[0, 6, 9, 10], &[8, 6, 3, 3], true, 1),
            ] {
                for stride in [1, 2] {
                    let [prepared, alone] = both(dtype, [x, w], bias, [stride, group]).unwrap();
                    assert_eq!(prepared.unwrap(), alone.unwrap(), "{dtype} {x:?} {w:?}");
                }
            }
        }
    }

    #[test]
    fn what_the_operation_refuses_is_refused() {
        // The number of channels, and a window that does not fit.
        for (x, w) in [(&[1usize, 5, 9, 10][..], &[8usize, 6, 3, 3][..]), (&[1, 6, 2, 2], &[8, 6, 3, 3])] {
            let [prepared, alone] = both(DataType::F16, [x, w], true, [1, 1]).unwrap();
            assert_eq!(prepared.unwrap_err().to_string(), alone.unwrap_err().to_string());
        }
    }

    #[test]
    fn floats_are_not_prepared() {
        assert!(both(DataType::F32, [&[1, 6, 9, 10], &[8, 6, 3, 3]], true, [1, 1]).is_none());
    }
}
