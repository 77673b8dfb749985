//! Code that several fuzz targets share.

pub mod attribute;
pub mod backends;
pub mod call;
pub mod draw;
pub mod fragment;
pub mod memory;
pub mod model;
pub mod saved;
pub mod tensor;
pub mod zip;

use bb::ir::graph::{Dim, ValueType};
use bb::{Backend, CompileOptions, Limits, Module, TensorData};
use bb_ir::check::{CheckOptions, check, parse_model};
use bb_reference::Reference;
use bytes::Bytes;

/// The greatest size of a value in bytes.
const LIMIT: usize = 1 << 18;

/// Returns limits that are small, so that a run is short; larger limits work in the same way.
pub fn limits() -> Limits {
    Limits {
        nodes: 100,
        tensor_elements: 1 << 16,
        tensor_bytes: LIMIT,
        total_tensor_bytes: 1 << 20,
        sparse_bytes: LIMIT,
        total_text_bytes: 1 << 20,
        value_bytes: LIMIT,
        run_bytes: 1 << 20,
        fold_bytes: 1 << 20,
        plan_bytes: 1 << 20,
        iterations: 100,
        ..Limits::default()
    }
}

/// Compiles and runs a serialized model on the reference backend, which must end in an error or in outputs.
pub fn compile_and_run(data: &[u8]) {
    let options =
        CheckOptions { limits: limits(), operators: bb::onnx::OPERATORS, ..CheckOptions::default() };
    let Ok(model) = parse_model(Bytes::copy_from_slice(data), &options.limits) else { return };
    let Ok(checked) = check(&model, &options) else { return };
    let options = CompileOptions::default().within(&limits());
    let Ok(graph) = Reference.compile(Module::new(checked.graph), &options) else { return };
    let inputs: Vec<_> = graph.inputs().iter().map(|port| zeros(&port.ty)).collect();
    let inputs: Vec<_> = inputs.iter().map(Option::as_ref).collect();
    if let Ok(outputs) = graph.run(&Reference, &inputs) {
        assert_eq!(outputs.len(), graph.outputs().len());
        for x in &outputs {
            let host = Reference.to_host(x).expect("an output is on the host");
            let _ = host.summary().to_string();
        }
    }
}

/// Makes an input; unknown extents become 2. Returns `None` if it is not a tensor or too large.
fn zeros(ty: &ValueType) -> Option<bb_reference::Tensor> {
    let ValueType::Tensor { dtype, shape } = ty else { return None };
    let extent = |dim: &Dim| if let Dim::Known(extent) = dim { *extent } else { 2 };
    let shape: Vec<usize> = shape.iter().flatten().map(extent).collect();
    let elements = bb::ir::element_count(&shape).filter(|n| *n <= LIMIT / 8)?;
    let zeros = TensorData::new(&shape, &vec![0f32; elements]).ok()?;
    let zeros = bb::ir::convert::cast(&zeros, *dtype, Default::default()).ok()?;
    Reference.constant(&zeros).ok()
}
