//! Models on RTen.

use crate::{Failed, Input, Run};
use bb_ir::convert::{Rounding, cast};
use bb_ir::{DataType, TensorData};
use rten::{Model, NodeId, RunOptions, ThreadPool, Value};
use std::path::Path;
use std::sync::Arc;

/// Loads a model, with the engine's own optimisation.
pub(crate) fn prepare(model: &Path, inputs: &[Input], threads: usize) -> Result<Run, Failed> {
    let model = Model::load_file(model)?;
    let mut given: Vec<(NodeId, Value)> = Vec::new();
    for (name, data) in inputs {
        given.push((model.node_id(name)?, value(data)?));
    }
    let outputs = model.output_ids().to_vec();
    let options =
        RunOptions::default().with_thread_pool(Some(Arc::new(ThreadPool::with_num_threads(threads))));
    Ok(Box::new(move || {
        let inputs = given.iter().map(|(id, value)| (*id, value.into())).collect();
        model.run(inputs, &outputs, Some(options.clone()))?;
        Ok(())
    }))
}

/// Makes a value. The engine has integers of 32 bits for all that are longer, and for truth values.
fn value(data: &TensorData) -> Result<Value, Failed> {
    let (data, shape) = match data.dtype() {
        DataType::I64 | DataType::Bool => (&cast(data, DataType::I32, Rounding::default())?, data.shape()),
        DataType::F16 | DataType::F64 => (&cast(data, DataType::F32, Rounding::default())?, data.shape()),
        _ => (data, data.shape()),
    };
    Ok(match data.dtype() {
        DataType::F32 => Value::from_shape(shape, data.as_slice::<f32>()?.to_vec())?,
        DataType::I32 => Value::from_shape(shape, data.as_slice::<i32>()?.to_vec())?,
        DataType::I8 => Value::from_shape(shape, data.as_slice::<i8>()?.to_vec())?,
        DataType::U8 => Value::from_shape(shape, data.as_slice::<u8>()?.to_vec())?,
        other => return Err(format!("the engine has no inputs of {other}").into()),
    })
}
