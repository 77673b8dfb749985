//! Tests of the limits on searches, and of the inputs that their draws depend on.

use super::{Vector, chain, read};
use bb::ir::proto::attribute_proto::AttributeType;
use bb::ir::proto::{AttributeProto, ModelProto};
use bb::onnx::OnnxValue;
use bb::{CompileOptions, RunOptions, TensorData, Value};
use bb_tests::backends;
use std::time::Instant;

fn model(name: &str) -> ModelProto {
    let named = |model: &ModelProto| model.graph.as_ref().unwrap().name() == name;
    read("searches").into_iter().find(named).unwrap()
}

/// Runs a model, and returns its first output.
fn first(model: ModelProto, options: &CompileOptions, seed: Option<i32>) -> Result<TensorData, bb::Error> {
    let on = backends::start("cpu").unwrap();
    let vector = Vector::of(model).unwrap();
    let executable = on.clone().compile(vector.module?, options)?;
    let mut inputs: Vec<Option<OnnxValue<Value>>> = Vec::new();
    for port in executable.inputs() {
        let own = match (seed, port.name.as_str()) {
            (Some(seed), "seed") => TensorData::new(&[1], &[seed])?,
            _ => vector.inputs.get(&port.name).unwrap().clone(),
        };
        inputs.push(Some(OnnxValue::Tensor(on.constant(&own)?)));
    }
    let results = executable.run_items(&inputs)?;
    let Some(OnnxValue::Tensor(tokens)) = results.first() else { panic!("no tokens") };
    on.to_host(tokens)
}

#[test]
fn a_search_ends_at_the_bound_of_iterations() {
    let mut options = CompileOptions::default();
    options.iterations = 3;
    for name in ["beams", "greedy", "t5", "drawn"] {
        let error = first(model(name), &options, None).unwrap_err();
        assert!(chain(&error).contains("iterations"), "{name}: {}", chain(&error));
    }
}

#[test]
fn a_search_ends_at_its_deadline() {
    let late = RunOptions::default().with_deadline(Instant::now());
    let error = late.within(|| first(model("beams"), &CompileOptions::default(), None)).unwrap_err();
    assert!(chain(&error).ends_with(&bb::Error::DeadlineExceeded.to_string()), "{}", chain(&error));
}

/// Sets a float attribute of the only node.
fn with(mut model: ModelProto, name: &str, value: f32) -> ModelProto {
    let node = model.graph.as_mut().unwrap().node.first_mut().unwrap();
    node.attribute.retain(|attribute| attribute.name() != name);
    node.attribute.push(AttributeProto {
        name: Some(name.to_owned()),
        r#type: Some(AttributeType::Float as i32),
        f: Some(value),
        ..Default::default()
    });
    model
}

#[test]
fn draws_depend_on_the_seed_alone() {
    let draw = |seed| {
        let warm = with(with(model("drawn"), "temperature", 4.0), "top_p", 1.0);
        let tokens = first(warm, &CompileOptions::default(), Some(seed)).unwrap();
        tokens.as_slice::<i32>().unwrap().to_vec()
    };
    assert_eq!(draw(1), draw(1));
    let different: std::collections::BTreeSet<Vec<i32>> = (0..8).map(draw).collect();
    assert!(different.len() > 4, "{different:?}");
}
