//! Models on tract.

use crate::{Failed, Input, Run};
use bb_ir::{DataType, TensorData};
use std::path::Path;
use tract_linalg::multithread::{Executor, set_default_executor};
use tract_onnx::prelude::*;

/// Loads a model and optimises it for the extents of the inputs.
pub(crate) fn prepare(model: &Path, inputs: &[Input], threads: usize) -> Result<Run, Failed> {
    if threads > 1 {
        set_default_executor(Executor::multithread(threads));
    }
    let mut model = tract_onnx::onnx().model_for_path(model)?;
    let outlets = model.input_outlets()?.to_vec();
    let mut given: TVec<TValue> = tvec![];
    for (position, outlet) in outlets.iter().enumerate() {
        let name = model.node(outlet.node).name.clone();
        let (_, data) =
            inputs.iter().find(|(own, _)| *own == name).ok_or_else(|| format!("no input {name}"))?;
        let tensor = tensor(data)?;
        model.set_input_fact(position, InferenceFact::dt_shape(tensor.datum_type(), data.shape()))?;
        given.push(tensor.into());
    }
    let runnable = model.into_optimized()?.into_runnable()?;
    Ok(Box::new(move || {
        runnable.run(given.clone())?;
        Ok(())
    }))
}

fn tensor(data: &TensorData) -> Result<Tensor, Failed> {
    macro_rules! of {
        ($($name:ident: $t:ty),*) => {
            match data.dtype() {
                $(DataType::$name => Tensor::from_shape(data.shape(), data.as_slice::<$t>()?)?,)*
                DataType::Bool => {
                    let elements: Vec<bool> = data.bytes()?.iter().map(|&byte| byte != 0).collect();
                    Tensor::from_shape(data.shape(), &elements)?
                }
                other => return Err(format!("inputs of {other} are not written for tract").into()),
            }
        };
    }
    Ok(of!(F32: f32, F64: f64, I8: i8, I16: i16, I32: i32, I64: i64, U8: u8, U16: u16))
}
