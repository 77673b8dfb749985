//! Operators on candle, by the names of `catalogue.py`.

use crate::{Failed, Input, Run};
use bb_ir::{DataType, TensorData};
use candle_core::{D, DType, Device, Result, Tensor};

/// Makes a run of an operator, if candle has it.
pub(crate) fn prepare(operator: &str, inputs: &[Input]) -> std::result::Result<Run, Failed> {
    let inputs = inputs.iter().map(|(_, data)| tensor(data)).collect::<std::result::Result<Vec<_>, _>>()?;
    let run = run(operator)?;
    Ok(Box::new(move || {
        std::hint::black_box(run(&inputs)?);
        Ok(())
    }))
}

/// The function that computes an operator.
type Function = Box<dyn Fn(&[Tensor]) -> Result<Tensor>>;

fn run(operator: &str) -> std::result::Result<Function, Failed> {
    if let Some(target) = operator.strip_prefix("cast ").and_then(|types| types.split(' ').nth(1)) {
        let to = dtype(target)?;
        return Ok(Box::new(move |x| one(x)?.to_dtype(to)));
    }
    Ok(match operator {
        "add" => Box::new(|x| two(x).and_then(|(x, y)| x + y)),
        "mul" => Box::new(|x| two(x).and_then(|(x, y)| x * y)),
        "exp" => Box::new(|x| one(x)?.exp()),
        "tanh" => Box::new(|x| one(x)?.tanh()),
        "erf" => Box::new(|x| one(x)?.erf()),
        "sqrt" => Box::new(|x| one(x)?.sqrt()),
        "round" => Box::new(|x| one(x)?.round()),
        "softmax" => Box::new(|x| candle_nn::ops::softmax_last_dim(one(x)?)),
        "layer norm" => Box::new(|x| match x {
            [x, scale, bias] => candle_nn::ops::layer_norm(x, scale, bias, 1e-5),
            _ => Err(candle_core::Error::Msg("expected three operands".to_owned())),
        }),
        "sum of all" => Box::new(|x| one(x)?.sum_all()),
        "sum over the first axis" => Box::new(|x| one(x)?.sum(0)),
        "sum over the last axis" => Box::new(|x| one(x)?.sum(D::Minus1)),
        "argmax" => Box::new(|x| one(x)?.argmax(D::Minus1)),
        "transpose" => Box::new(|x| one(x)?.t()?.contiguous()),
        "NCHW to NHWC" => Box::new(|x| one(x)?.permute((0, 2, 3, 1))?.contiguous()),
        "gather of rows" => Box::new(|x| two(x).and_then(|(x, rows)| x.index_select(rows, 0))),
        "matmul" => Box::new(|x| two(x).and_then(|(x, y)| x.matmul(y))),
        "conv" => Box::new(|x| two(x).and_then(|(x, w)| x.conv2d(w, w.dim(D::Minus1)? / 2, 1, 1, 1))),
        other => return Err(format!("{other} is not written for candle").into()),
    })
}

fn one(x: &[Tensor]) -> Result<&Tensor> {
    x.first().ok_or_else(|| candle_core::Error::Msg("expected an operand".to_owned()))
}

fn two(x: &[Tensor]) -> Result<(&Tensor, &Tensor)> {
    match x {
        [x, y] => Ok((x, y)),
        _ => Err(candle_core::Error::Msg("expected two operands".to_owned())),
    }
}

fn dtype(name: &str) -> std::result::Result<DType, Failed> {
    Ok(match name {
        "u8" => DType::U8,
        "i32" => DType::I32,
        "i64" => DType::I64,
        "f16" => DType::F16,
        "f32" => DType::F32,
        other => return Err(format!("candle has no {other}").into()),
    })
}

fn tensor(data: &TensorData) -> std::result::Result<Tensor, Failed> {
    macro_rules! of {
        ($($name:ident: $t:ty),*) => {
            match data.dtype() {
                $(DataType::$name => Tensor::from_slice(data.as_slice::<$t>()?, data.shape(), &Device::Cpu)?,)*
                other => return Err(format!("candle has no {other}").into()),
            }
        };
    }
    Ok(of!(F32: f32, F64: f64, F16: half::f16, U8: u8, I32: i32, I64: i64))
}
