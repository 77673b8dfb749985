//! Tests that functions written against the contract become ONNX graphs that run anywhere.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

mod files;
mod kept;
mod opsets;
mod rewritten;
mod runtime;

use bb::ext::Ops;
use bb::ir::proto::ModelProto;
use bb::{CompileOptions, DataType, GraphProto, Module, TensorData};
use bb_tests::backends;
use prost::Message;

/// A layer `softmax(relu(x w))`, and the parts of `x`.
fn layer<B: Ops + ?Sized>(on: &B, x: &B::Tensor, w: &B::Tensor) -> Result<Vec<B::Tensor>, B::Error> {
    let y = on.softmax(&on.relu(&on.matmul(x, w)?)?, -1)?;
    let mut results = vec![y];
    results.extend(on.split(x, 0, &[1, 1])?);
    Ok(results)
}

/// Runs a serialized model on the backend called `backend`, read like a model from outside.
fn run(model: &ModelProto, inputs: &[TensorData], backend: &str) -> Vec<TensorData> {
    let limits = bb::Limits::default();
    let module = Module::from_bytes_with(model.encode_to_vec(), &limits).unwrap();
    run_module(module, inputs, backend)
}

fn run_module(module: Module, inputs: &[TensorData], backend: &str) -> Vec<TensorData> {
    let on = backends::start(backend).unwrap();
    let run = on.clone().compile(module, &CompileOptions::default()).unwrap();
    let inputs: Vec<_> = inputs.iter().map(|x| on.constant(x).unwrap()).collect();
    let refs: Vec<_> = inputs.iter().map(Some).collect();
    run.run(&refs).unwrap().iter().map(|o| on.to_host(o).unwrap()).collect()
}

/// Returns the operators of a model's graph, in order.
fn operators(model: &ModelProto) -> Vec<&str> {
    model.graph.iter().flat_map(|graph| &graph.node).map(|node| node.op_type()).collect()
}

fn traced() -> GraphProto {
    let inputs: [(&str, DataType, &[usize]); 2] =
        [("x", DataType::F32, &[2, 2]), ("w", DataType::F32, &[2, 3])];
    bb::trace(&inputs, |on, inputs| match inputs {
        [x, w] => layer(on, x, w),
        _ => Ok(Vec::new()),
    })
    .unwrap()
}

#[test]
fn an_exported_graph_has_primitives_only() {
    let graph = traced();
    assert!(
        graph.node.iter().all(|n| n.domain().is_empty() && bb::Primitive::from_name(n.op_type()).is_some())
    );
    assert_eq!(graph.output.len(), 3);
}

#[test]
fn an_exported_graph_runs_on_every_backend() {
    let graph = traced();
    let x = TensorData::new(&[2, 2], &[1f32, 0.0, 0.0, -1.0]).unwrap();
    let w = TensorData::new(&[2, 3], &[0f32, 2f32.ln(), 3f32.ln(), 1.0, 2.0, 3.0]).unwrap();
    // Row 0 of `x w` is the first row of `w`, whose exponentials are 1, 2, 3. Row 1 is negative, so `relu`
    // makes it zero.
    let third = 1.0 / 3.0;
    let expected = [1.0 / 6.0, third, 0.5, third, third, third];
    for name in backends::NAMES {
        let on = backends::start(name).unwrap();
        let module = Module::from_graph(&graph, &[], &[]).unwrap();
        let run = on.clone().compile(module, &CompileOptions::default()).unwrap();
        let (x, w) = (on.constant(&x).unwrap(), on.constant(&w).unwrap());
        let outputs = run.run(&[Some(&x), Some(&w)]).unwrap();
        let host: Vec<TensorData> = outputs.iter().map(|o| on.to_host(o).unwrap()).collect();
        let [y, first, second] = &*host else { panic!("expected three outputs") };
        for (got, expected) in y.as_slice::<f32>().unwrap().iter().zip(expected) {
            assert!((got - expected).abs() < 1e-6, "{name}: expected {expected}, got {got}");
        }
        assert_eq!(
            (first.shape(), first.as_slice::<f32>().unwrap()),
            (&[1, 2][..], &[1.0, 0.0][..]),
            "{name}"
        );
        assert_eq!(
            (second.shape(), second.as_slice::<f32>().unwrap()),
            (&[1, 2][..], &[0.0, -1.0][..]),
            "{name}"
        );
    }
}
