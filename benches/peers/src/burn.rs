//! Operators on burn's backend for processors, by the names of `catalogue.py`.

use crate::{Failed, Input, Run};
use bb_ir::TensorData;
use burn_tensor::activation::softmax;
use burn_tensor::module::{conv2d, layer_norm};
use burn_tensor::ops::ConvOptions;
use burn_tensor::{Device, Int, Tensor, TensorData as Elements};

/// Makes a run of an operator, if burn has it. It panics if burn cannot run it, which ends this process with a message.
pub(crate) fn prepare(operator: &str, inputs: &[Input]) -> Result<Run, Failed> {
    let data: Vec<&TensorData> = inputs.iter().map(|(_, data)| data).collect();
    Ok(match (operator, data.as_slice()) {
        ("add", &[x, y]) => flat_pair(x, y, |x, y| x + y)?,
        ("mul", &[x, y]) => flat_pair(x, y, |x, y| x * y)?,
        ("exp", &[x]) => on::<1, _>(x, Tensor::exp)?,
        ("tanh", &[x]) => on::<1, _>(x, Tensor::tanh)?,
        ("erf", &[x]) => on::<1, _>(x, Tensor::erf)?,
        ("sqrt", &[x]) => on::<1, _>(x, Tensor::sqrt)?,
        ("round", &[x]) => on::<1, _>(x, Tensor::round)?,
        ("softmax", &[x]) => on::<2, _>(x, |x| softmax(x, 1))?,
        ("layer norm", &[x, scale, bias]) => {
            let (scale, bias) = (floats::<1>(scale)?, floats::<1>(bias)?);
            on::<2, _>(x, move |x| layer_norm(x, scale.clone(), Some(bias.clone()), 1e-5))?
        }
        ("sum of all", &[x]) => on::<2, _>(x, Tensor::sum)?,
        ("sum over the first axis", &[x]) => on::<2, _>(x, |x| x.sum_dim(0))?,
        ("sum over the last axis", &[x]) => on::<2, _>(x, |x| x.sum_dim(1))?,
        ("argmax", &[x]) => on::<2, _>(x, |x| x.argmax(1))?,
        ("top-k", &[x]) => on::<2, _>(x, |x| x.topk(16, 1))?,
        // A transposed tensor is a view; reshaping it copies.
        ("transpose", &[x]) => on::<2, _>(x, |x| x.transpose().reshape([-1]) as Tensor<1>)?,
        ("NCHW to NHWC", &[x]) => on::<4, _>(x, |x| x.permute([0, 2, 3, 1]).reshape([-1]) as Tensor<1>)?,
        ("gather of rows", &[x, rows]) => {
            let rows = Elements::new(rows.as_slice::<i64>()?.to_vec(), rows.shape().to_vec());
            let rows = Tensor::<1, Int>::from_data(rows, &Device::flex());
            on::<2, _>(x, move |x| x.select(0, rows.clone()))?
        }
        ("matmul", &[x, y]) => {
            let y = floats::<2>(y)?;
            on::<2, _>(x, move |x| x.matmul(y.clone()))?
        }
        ("conv", &[x, w]) => {
            let w = floats::<4>(w)?;
            let edge = w.dims()[3] / 2;
            let options = ConvOptions::new([1, 1], [edge, edge], [1, 1], 1);
            on::<4, _>(x, move |x| conv2d(x, w.clone(), None, options.clone()))?
        }
        (other, _) => return Err(format!("{other} is not written for burn").into()),
    })
}

/// A run of a function of one tensor.
fn on<const D: usize, R: 'static>(
    x: &TensorData,
    f: impl Fn(Tensor<D>) -> R + 'static,
) -> Result<Run, Failed> {
    let x = floats::<D>(x)?;
    Ok(Box::new(move || {
        // The operand is held here, too, so that no operation works in place.
        std::hint::black_box(f(x.clone()));
        Ok(())
    }))
}

fn flat_pair(
    x: &TensorData,
    y: &TensorData,
    f: impl Fn(Tensor<1>, Tensor<1>) -> Tensor<1> + 'static,
) -> Result<Run, Failed> {
    let y = floats::<1>(y)?;
    on::<1, _>(x, move |x| f(x, y.clone()))
}

fn floats<const D: usize>(data: &TensorData) -> Result<Tensor<D>, Failed> {
    let elements = Elements::new(data.as_slice::<f32>()?.to_vec(), data.shape().to_vec());
    Ok(Tensor::from_data(elements, &Device::flex()))
}
