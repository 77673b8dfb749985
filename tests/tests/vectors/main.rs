//! Runs test vectors on every backend. Independent programs (`tests/vectors/make`) computed them, one file per family.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

mod defaults;
mod halves;
mod reads;
mod searches;

use bb::conformance::onnx::{Tolerance, compare_items};
use bb::ir::graph::ValueType;
use bb::ir::opset;
use bb::ir::proto::{ModelProto, TypeProto, ValueInfoProto, type_proto::Value as Kind};
use bb::onnx::OnnxValue;
use bb::{CompileOptions, DataType, Module, Runtime, TensorData, Value};
use bb_tests::backends;
use prost::Message;
use std::collections::{BTreeSet, HashMap};
use std::error::Error;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The least number of vectors of a family.
const LEAST: usize = 20;

/// The prefix of initializers that contain expected outputs.
const EXPECTED: &str = "expected:";

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("vectors")
}

/// Returns the names of the files in a folder that have an extension, without the extension.
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

/// Tensors by path: the name of a value, followed by the place in the value.
type Leaves = HashMap<String, TensorData>;

/// A vector: a model, its inputs and its expected outputs.
struct Vector {
    module: Result<Module, bb::Error>,
    inputs: Leaves,
    expected: Leaves,
    tolerance: Tolerance,
    /// Whether the model must fail.
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
            } else if ports.contains(tensor.name().split('/').next().unwrap_or_default()) {
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
        let module = Module::from_bytes(model.encode_to_vec());
        Ok(Vector { module, inputs, expected, tolerance, fails })
    }

    fn outputs(&self, on: &Arc<Runtime>) -> Result<Vec<Output>, Box<dyn Error>> {
        let module = self.module.as_ref().map_err(|e| chain(e))?.clone();
        // The result of each operator itself is compared, also where a cast after it converts the result for NumPy.
        let options = CompileOptions::default().with_widen_halves(false);
        let executable = on.clone().compile(module, &options)?;
        let mut inputs = Vec::new();
        for port in executable.inputs() {
            let item = item(&self.inputs, &port.name, &port.ty);
            let given = item.filter(|item| !port.optional || *item != OnnxValue::Absent);
            inputs.push(given.map(|x| x.try_map(&mut |x: &TensorData| on.constant(x))).transpose()?);
        }
        let got = executable.run_items(&inputs)?;
        let ports = executable.outputs().iter();
        ports
            .zip(&got)
            .map(|(port, x)| {
                let got = x.try_map(&mut |x: &Value| on.to_host(x))?;
                Ok(Output { name: port.name.clone(), ty: port.ty.clone(), got })
            })
            .collect()
    }

    fn check(&self, on: &Arc<Runtime>) -> Result<(), Box<dyn Error>> {
        let got = match self.outputs(on) {
            Err(_) if self.fails => return Ok(()),
            Ok(_) if self.fails => return Err("it must be refused, and ran".into()),
            other => other?,
        };
        for Output { name, ty, got } in &got {
            let expected = item(&self.expected, name, ty).ok_or("an output that the vector has not")?;
            compare_items(&expected, got, self.tolerance)
                .map_err(|e| format!("output {name}: {}", chain(&e)))?;
        }
        let known: BTreeSet<&str> = got.iter().map(|output| output.name.as_str()).collect();
        match self.expected.keys().find(|path| !known.iter().any(|name| is_part(path, name))) {
            Some(path) => Err(format!("expected an output {path}, which is none").into()),
            None => Ok(()),
        }
    }
}

/// An output with its name and declared type.
struct Output {
    name: String,
    ty: ValueType,
    got: OnnxValue<TensorData>,
}

/// Returns whether a path belongs to the value `name`, or to a part of it.
fn is_part(path: &str, name: &str) -> bool {
    path.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Builds a value from its tensors: `PATH/0`, `PATH/1`, … of a sequence, `PATH/keys` and `PATH/values` of a
/// map. An optional has the path of its content.
fn item(leaves: &Leaves, path: &str, ty: &ValueType) -> Option<OnnxValue<TensorData>> {
    match ty {
        ValueType::Tensor { .. } | ValueType::Unknown => leaves.get(path).cloned().map(OnnxValue::Tensor),
        ValueType::Optional(held) => match leaves.keys().any(|leaf| is_part(leaf, path)) {
            true => item(leaves, path, held),
            false => Some(OnnxValue::Absent),
        },
        ValueType::Sequence(held) => {
            let items = (0..).map_while(|i| {
                let path = format!("{path}/{i}");
                leaves.keys().any(|leaf| is_part(leaf, &path)).then(|| item(leaves, &path, held))
            });
            items.collect::<Option<_>>().map(OnnxValue::Sequence)
        }
        ValueType::Map(..) => {
            let (keys, values) =
                (leaves.get(&format!("{path}/keys"))?, leaves.get(&format!("{path}/values"))?);
            Some(OnnxValue::Map { keys: keys.clone(), values: values.clone() })
        }
    }
}

/// Formats an error and its causes.
fn chain(error: &dyn Error) -> String {
    match error.source() {
        Some(cause) => format!("{error}: {}", chain(cause)),
        None => error.to_string(),
    }
}

/// Runs every family, or those that the variable `BB_VECTORS` names, with each model modified by `changed`.
fn all_agree_on(backend: &str, changed: fn(ModelProto) -> ModelProto) {
    let on = backends::start(backend).unwrap();
    let chosen = std::env::var("BB_VECTORS").unwrap_or_default();
    let mut failed = Vec::new();
    for family in stems(&folder(), "pb").iter().filter(|f| chosen.is_empty() || chosen.contains(f.as_str())) {
        for model in read(family) {
            let name = model.graph.as_ref().unwrap().name().to_owned();
            let run = || Vector::of(changed(model))?.check(&on);
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
    all_agree_on("cpu", |model| model);
}

#[test]
fn all_agree_on_reference() {
    all_agree_on("reference", |model| model);
}

#[test]
fn all_agree_on_whole_graph() {
    all_agree_on("whole-graph", |model| model);
}

#[test]
fn all_agree_on_device() {
    all_agree_on("device", |model| model);
}

/// Turns all inputs that are tensors into constants, unless the model must fail, because it may fail because of its
/// inputs.
fn fixed(mut model: ModelProto) -> ModelProto {
    let fails = model.metadata_props.iter().any(|entry| entry.key() == "fails");
    if let Some(graph) = model.graph.as_mut().filter(|_| !fails) {
        let given: BTreeSet<String> = graph.initializer.iter().map(|x| x.name().to_owned()).collect();
        let kind = |port: &ValueInfoProto| port.r#type.as_ref().and_then(|ty| ty.value.clone());
        let is_tensor = |port: &ValueInfoProto| matches!(kind(port), Some(Kind::TensorType(_)));
        graph.input.retain(|port| !given.contains(port.name()) || !is_tensor(port));
    }
    model
}

/// Values that a plan folds or computes on the host must equal the values of a run.
#[test]
fn constants_and_inputs_give_the_same_results() {
    all_agree_on("reference", fixed);
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

/// Returns the innermost element type of a type; for a map, the element type of its values.
fn element(ty: &TypeProto) -> Option<DataType> {
    match ty.value.as_ref()? {
        Kind::TensorType(tensor) => DataType::from_onnx(tensor.elem_type()),
        Kind::SequenceType(held) => element(held.elem_type.as_deref()?),
        Kind::OptionalType(held) => element(held.elem_type.as_deref()?),
        Kind::MapType(held) => element(held.value_type.as_deref()?),
        _ => None,
    }
}

/// The generator ensures a vector for each type of each operand; this test checks it against `bb`'s own list
/// of versions.
#[test]
fn every_version_of_every_operator_has_a_vector_on_each_element_type() {
    let mut seen: BTreeSet<(String, i64, DataType)> = BTreeSet::new();
    for model in read("element_types") {
        let graph = model.graph.unwrap();
        let (operator, since) = graph.name().rsplit_once('_').unwrap();
        for port in graph.input.iter().chain(&graph.output) {
            let dtype = port.r#type.as_ref().and_then(element).unwrap();
            seen.insert((operator.to_owned(), since.parse().unwrap(), dtype));
        }
    }
    let list = std::fs::read_to_string(folder().join("make/sweep/missing.txt")).unwrap();
    let listed: BTreeSet<String> =
        list.lines().map(|line| line.split(':').next().unwrap().to_owned()).collect();
    let mut missing = BTreeSet::new();
    for version in opset::versions() {
        let (domain, name, since) = (version.domain, version.name, version.since);
        let operator = if domain.is_empty() { name.to_owned() } else { format!("{domain}.{name}") };
        for dtype in version.types.into_iter().flatten() {
            if !seen.contains(&(operator.clone(), since, dtype)) {
                let domain = if domain.is_empty() { "ai.onnx" } else { domain };
                missing.insert(format!("{domain} {name} {since} T {dtype}"));
            }
        }
    }
    assert_eq!(missing, listed);
}

/// Returns whether a name matches a pattern, where `*` matches any text.
fn matches(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((start, rest)) => name.strip_prefix(start).is_some_and(|tail| {
            (0..=tail.len()).filter_map(|at| tail.get(at..)).any(|tail| matches(rest, tail))
        }),
    }
}

/// Each choice is a row of a table whose last column names its vectors; the tables of measured errors have no choices. A name
/// without a family belongs to the family of the name before it.
#[test]
fn each_choice_in_the_document_on_semantics_has_vectors() {
    let text = std::fs::read_to_string(folder().join("../../bb/docs/semantics.md")).unwrap();
    let mut names = HashMap::new();
    let mut wrong = Vec::new();
    // The text between two marks contains measurements.
    let marks =
        ["errors", "halves"].map(|name| [format!("<!-- {name} -->"), format!("<!-- end of {name} -->")]);
    let mut measured = false;
    let lines = text.lines().filter(|line| {
        measured |= marks.iter().any(|[begin, _]| begin == line);
        let kept = !measured;
        measured &= !marks.iter().any(|[_, end]| end == line);
        kept
    });
    let rows = lines.filter(|line| line.starts_with("| ") && !line.ends_with("held by |"));
    for row in rows {
        let held_by = row.trim_end_matches('|').rsplit('|').next().unwrap();
        let mut family = "";
        let quoted: Vec<&str> = held_by.split('`').skip(1).step_by(2).collect();
        if quoted.is_empty() {
            wrong.push(format!("nothing holds: {row}"));
        }
        for quote in quoted.into_iter().filter(|quote| !quote.starts_with("cases::")) {
            let pattern = quote.split_once('/').map_or(quote, |(named, pattern)| {
                family = named;
                pattern
            });
            let known = names.entry(family).or_insert_with(|| {
                read(family).iter().map(|m| m.graph.as_ref().unwrap().name().to_owned()).collect::<Vec<_>>()
            });
            if !known.iter().any(|name| matches(pattern, name)) {
                wrong.push(format!("{family} has no {pattern}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
