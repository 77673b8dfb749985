//! Vectors that independent programs computed (`tests/vectors/make`), one file per family, on every backend.
#![expect(clippy::unwrap_used, reason = "tests")]

use bb::conformance::onnx::{Tolerance, compare};
use bb::ir::proto::ModelProto;
use bb::{BackendRuntime, CompileOptions, Module, TensorData};
use bb_tests::backends;
use prost::Message;
use std::collections::{BTreeSet, HashMap};
use std::error::Error;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How many vectors a family has at least.
const LEAST: usize = 20;

/// Marks the initializers that hold what outputs should be.
const EXPECTED: &str = "expected:";

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("vectors")
}

/// The names of the files in a folder with an extension, without it.
fn stems(folder: &Path, extension: &str) -> BTreeSet<String> {
    let paths = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path());
    let with = paths.filter(|p| p.extension().is_some_and(|e| e == extension));
    with.map(|p| p.file_stem().unwrap().to_str().unwrap().to_owned()).collect()
}

fn read(family: &str) -> Vec<ModelProto> {
    let bytes = std::fs::read(folder().join(family).with_extension("pb")).unwrap();
    let mut rest = bytes::Bytes::from(bytes);
    let mut vectors = Vec::new();
    while !rest.is_empty() {
        vectors.push(ModelProto::decode_length_delimited(&mut rest).unwrap());
    }
    vectors
}

/// A vector: a model, what goes in, and what should come out.
struct Vector {
    module: Result<Module, bb::Error>,
    inputs: HashMap<String, TensorData>,
    expected: HashMap<String, TensorData>,
    tolerance: Tolerance,
    /// Whether the model must be refused.
    fails: bool,
}

impl Vector {
    fn of(mut model: ModelProto) -> Result<Vector, Box<dyn Error>> {
        let graph = model.graph.as_mut().ok_or("a graph")?;
        let ports: BTreeSet<String> = graph.input.iter().map(|p| p.name().to_owned()).collect();
        let (mut inputs, mut expected) = (HashMap::new(), HashMap::new());
        for tensor in std::mem::take(&mut graph.initializer) {
            if let Some(output) = tensor.name().strip_prefix(EXPECTED) {
                expected.insert(output.to_owned(), TensorData::from_proto(&tensor)?);
            } else if ports.contains(tensor.name()) {
                inputs.insert(tensor.name().to_owned(), TensorData::from_proto(&tensor)?);
            } else {
                graph.initializer.push(tensor);
            }
        }
        let (mut tolerance, mut fails) = (Tolerance::default(), false);
        for entry in std::mem::take(&mut model.metadata_props) {
            match entry.key() {
                "relative" => tolerance.relative = entry.value().parse()?,
                "absolute" => tolerance.absolute = entry.value().parse()?,
                "fails" => fails = true,
                other => return Err(format!("unknown key `{other}`").into()),
            }
        }
        let module = Module::from_bytes(model.encode_to_vec().into(), &bb::ir::Limits::default(), None);
        Ok(Vector { module, inputs, expected, tolerance, fails })
    }

    fn outputs(&self, on: &Arc<dyn BackendRuntime>) -> Result<Vec<(String, TensorData)>, Box<dyn Error>> {
        let module = self.module.as_ref().map_err(|e| chain(e))?.clone();
        let executable = on.clone().compile(module, &CompileOptions::default())?;
        let mut inputs = Vec::new();
        for port in executable.inputs() {
            inputs.push(self.inputs.get(&port.name).map(|x| on.constant(x)).transpose()?);
        }
        let refs: Vec<_> = inputs.iter().map(Option::as_ref).collect();
        let got = executable.run(&refs)?;
        let names = executable.outputs().iter().map(|p| p.name.clone());
        names.zip(&got).map(|(name, x)| Ok((name, on.to_host(x)?))).collect()
    }

    fn check(&self, on: &Arc<dyn BackendRuntime>) -> Result<(), Box<dyn Error>> {
        let got = match self.outputs(on) {
            Err(_) if self.fails => return Ok(()),
            Ok(_) if self.fails => return Err("it must be refused, and ran".into()),
            other => other?,
        };
        if got.len() != self.expected.len() {
            return Err(format!("expected {} outputs, got {}", self.expected.len(), got.len()).into());
        }
        for (name, got) in &got {
            let expected = self.expected.get(name).ok_or("an output that the vector has not")?;
            compare(expected, got, self.tolerance).map_err(|e| format!("output {name}: {e}"))?;
        }
        Ok(())
    }
}

/// Writes an error and what caused it.
fn chain(error: &dyn Error) -> String {
    match error.source() {
        Some(cause) => format!("{error}: {}", chain(cause)),
        None => error.to_string(),
    }
}

/// Replays every family, or those whose names the variable `BB_VECTORS` has.
fn all_agree_on(backend: &str) {
    let on = backends::start(backend).unwrap();
    let chosen = std::env::var("BB_VECTORS").unwrap_or_default();
    let mut failed = Vec::new();
    for family in stems(&folder(), "pb").iter().filter(|f| chosen.is_empty() || chosen.contains(f.as_str())) {
        for model in read(family) {
            let name = model.graph.as_ref().unwrap().name().to_owned();
            let run = || Vector::of(model)?.check(&on);
            match catch_unwind(AssertUnwindSafe(run)) {
                Ok(Ok(())) => {}
                Ok(Err(error)) => failed.push(format!("{family}/{name}: {}", chain(&*error))),
                Err(_) => failed.push(format!("{family}/{name}: panicked")),
            }
        }
    }
    assert!(failed.is_empty(), "{} vectors failed on {backend}:\n{}", failed.len(), failed.join("\n"));
}

#[test]
fn all_agree_on_cpu() {
    all_agree_on("cpu");
}

#[test]
fn all_agree_on_reference() {
    all_agree_on("reference");
}

#[test]
fn all_agree_on_whole_graph() {
    all_agree_on("whole-graph");
}

#[test]
fn all_agree_on_device() {
    all_agree_on("device");
}

#[test]
fn every_generator_has_a_file_of_vectors_with_distinct_names() {
    let mut generators = stems(&folder().join("make"), "py");
    generators.retain(|name| name != "__main__" && name != "family");
    let files = stems(&folder(), "pb");
    assert_eq!(generators, files);
    for family in files {
        let vectors = read(&family);
        let names: BTreeSet<&str> = vectors.iter().map(|m| m.graph.as_ref().unwrap().name()).collect();
        assert!(vectors.len() >= LEAST, "{family} has {} vectors", vectors.len());
        assert_eq!(names.len(), vectors.len(), "{family}");
    }
}
