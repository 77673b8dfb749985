//! Draws small models and runs them under limits on two backends, several times with other extents.
//!
//! A run must end in an error or in outputs of the types that the compiled graph declares, before its deadline, and
//! within memory that the limits justify.
#![no_main]

use bb::ir::graph::{Dim, ValueType};
use bb::ir::proto::ModelProto;
use bb::onnx::OnnxValue;
use bb::{BackendHandle, CompileOptions, ErasedExecutable, Module, RunOptions, TensorData, Value};
use bb_fuzz::backends::BACKENDS;
use bb_fuzz::draw::Draw;
use bb_fuzz::{limits, memory, model};
use libfuzzer_sys::fuzz_target;
use prost::Message;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Memory limit in bytes for the runs of a model: several times the limits, because kernels need memory of their own.
const MEMORY: usize = 48 << 20;

/// The deadline of a run, and how much longer it may take: operators that compute on the host end when they are done.
const DEADLINE: Duration = Duration::from_secs(1);
const GRACE: Duration = Duration::from_secs(4);

fuzz_target!(|data: &[u8]| {
    let mut draw = Draw::new(data);
    let drawn = model::draw(&mut draw);
    keep(&drawn.model);
    let Ok(module) = Module::from_bytes_with(drawn.model.encode_to_vec(), &limits()) else { return };
    let options = CompileOptions::default().within(&limits());
    for on in &*BACKENDS {
        let (_, peak) = memory::watched(|| {
            let Ok(compiled) = on.compile(module.clone(), &options) else { return };
            for run in 0..3 {
                try_run(on, &compiled, &inputs(&compiled, &drawn.inputs, run, &mut draw));
            }
        });
        assert!(peak <= MEMORY, "{peak} bytes on {}", on.name());
    }
});

/// Writes the model to the file that `BB_FUZZ_MODEL` names, for a look at a finding.
fn keep(model: &ModelProto) {
    if let Some(path) = std::env::var_os("BB_FUZZ_MODEL") {
        std::fs::write(path, model.encode_to_vec()).expect("the file can be written");
    }
}

/// Returns inputs for the ports: the given ones at first, then others with other extents.
fn inputs(
    compiled: &Arc<dyn ErasedExecutable>,
    given: &HashMap<String, TensorData>,
    run: usize,
    draw: &mut Draw<'_>,
) -> Vec<Option<TensorData>> {
    let mut input = |port: &bb::Port| {
        let data = given.get(&port.name)?;
        let ValueType::Tensor { shape: Some(dims), .. } = &port.ty else { return Some(data.clone()) };
        let changed = |extent: usize| match run {
            0 => extent,
            1 => extent + 1,
            _ => extent.saturating_sub(1),
        };
        let extent = |(dim, extent): (&Dim, &usize)| model::extent(dim, *extent, changed);
        let shape: Vec<usize> = dims.iter().zip(data.shape()).map(extent).collect();
        if shape == data.shape() {
            Some(data.clone())
        } else {
            Some(draw.tensor(data.dtype(), &shape, run == 2))
        }
    };
    compiled.inputs().iter().map(&mut input).collect()
}

/// Runs the model, and checks the time and the results.
fn try_run(on: &BackendHandle, compiled: &Arc<dyn ErasedExecutable>, inputs: &[Option<TensorData>]) {
    let constant = |x: &TensorData| on.runtime().constant(x).ok().map(OnnxValue::Tensor);
    let inputs: Vec<Option<OnnxValue<Value>>> =
        inputs.iter().map(|x| x.as_ref().and_then(constant)).collect();
    let begun = Instant::now();
    let options = RunOptions::default().with_deadline(begun + DEADLINE);
    let result = options.within(|| compiled.run_items(&inputs));
    assert!(begun.elapsed() < DEADLINE + GRACE, "a run took {:?}", begun.elapsed());
    let Ok(outputs) = result else { return };
    assert_eq!(outputs.len(), compiled.outputs().len());
    for (output, port) in outputs.iter().zip(compiled.outputs()) {
        assert!(is_of(output, &port.ty), "`{}` is declared as {:?}, but is {output:?}", port.name, port.ty);
        if let OnnxValue::Tensor(x) = output
            && let Ok(host) = x.to_host(memory::MOST)
        {
            assert_eq!((host.dtype(), host.shape()), (x.dtype(), x.shape()));
        }
    }
}

/// Returns whether a value has a type.
fn is_of(value: &OnnxValue<Value>, ty: &ValueType) -> bool {
    match (value, ty) {
        (_, ValueType::Unknown) => true,
        (OnnxValue::Tensor(x), ValueType::Tensor { dtype, shape }) => {
            let known = |(dim, extent): (&Dim, &usize)| !matches!(dim, Dim::Known(known) if known != extent);
            x.dtype() == *dtype
                && shape
                    .as_ref()
                    .is_none_or(|shape| shape.len() == x.rank() && shape.iter().zip(x.shape()).all(known))
        }
        (OnnxValue::Sequence(items), ValueType::Sequence(of)) => items.iter().all(|item| is_of(item, of)),
        (OnnxValue::Absent, ValueType::Optional(_)) => true,
        (item, ValueType::Optional(of)) => is_of(item, of),
        (OnnxValue::Map { keys, .. }, ValueType::Map(key, _)) => keys.dtype() == *key,
        _ => false,
    }
}
