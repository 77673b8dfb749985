//! Tests that a model gives the same results if it writes out the default of an attribute and if it leaves the attribute out.
//!
//! Programs write defaults out; ONNX Runtime does, where it saves a model. The schemas of `bb` have the defaults of ONNX's operators, and
//! `tests/data/defaults` has the defaults of ONNX Runtime's operators.

use super::{Output, Vector, all_agree_on, chain, folder, read, stems};
use bb::onnx::{OnnxValue, operators};
use bb::{CompileOptions, DataType, Module, Runtime, TensorData, Value};
use bb_ir::convert::{Rounding, cast};
use bb_ir::opset;
use bb_ir::proto::{
    AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, attribute_proto,
    type_proto,
};
use bb_tests::backends;
use prost::Message;
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, OnceLock};

/// An attribute of an operator: the domain, the operator and the attribute.
type Name = (String, String, String);

/// Makes an attribute from its kind, a name of ONNX or the beginning of one, and the text of its value.
fn attribute(name: &str, kind: &str, text: &str) -> AttributeProto {
    use attribute_proto::AttributeType as Type;
    let list = || text.trim_matches(['[', ']']).split(',').filter(|part| !part.is_empty());
    let mut made = AttributeProto { name: Some(name.to_owned()), ..Default::default() };
    let of = match kind {
        "a float" | "FLOAT" => {
            made.f = Some(text.parse().unwrap());
            Type::Float
        }
        "an integer" | "INT" => {
            made.i = Some(text.parse().unwrap());
            Type::Int
        }
        "a string" | "STRING" => {
            made.s = Some(text.as_bytes().to_vec());
            Type::String
        }
        "integers" => {
            made.ints = list().map(|part| part.parse().unwrap()).collect();
            Type::Ints
        }
        "strings" => {
            // As Python writes bytes: `b'Tanh'`.
            let strings = list().map(|part| part.trim_start_matches("b'").trim_end_matches('\''));
            made.strings = strings.map(|text| text.as_bytes().to_vec()).collect();
            Type::Strings
        }
        other => panic!("a default of {other}: {text}"),
    };
    made.r#type = Some(of.into());
    made
}

/// The defaults of ONNX Runtime's operators.
fn runtime() -> &'static HashMap<(String, String), Vec<AttributeProto>> {
    static ALL: OnceLock<HashMap<(String, String), Vec<AttributeProto>>> = OnceLock::new();
    ALL.get_or_init(|| {
        let mut all: HashMap<_, Vec<AttributeProto>> = HashMap::new();
        for line in include_str!("../../data/defaults/onnxruntime.tsv").lines() {
            let &[domain, op, since, name, kind, text] = line.split('\t').collect::<Vec<_>>().as_slice()
            else {
                panic!("not a row: {line}")
            };
            // Operators that ONNX Runtime moves from ONNX's domain keep ONNX's versions, which have the same defaults.
            let own = all.entry((domain.to_owned(), op.to_owned())).or_default();
            if domain != "com.ms.internal.nhwc" || own.iter().all(|a| a.name() != name) {
                own.push(attribute(name, kind, text));
            }
            assert!(since.parse::<i64>().is_ok());
        }
        all
    })
}

/// Lists the attributes of a node that have defaults.
fn defaults(domain: &str, op: &str, opset: i64) -> Vec<AttributeProto> {
    let onnx = opset::attributes(domain, op, opset);
    let onnx = onnx.filter_map(|a| Some(attribute(a.name, a.kind, a.default?)));
    onnx.chain(runtime().get(&(domain.to_owned(), op.to_owned())).into_iter().flatten().cloned()).collect()
}

/// Whether a default is written out.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// It is, unless the attribute is there already.
    Added,
    /// It is written, also if the model has another value.
    Forced,
    /// It is not, and a value in the model is removed.
    LeftOut,
}

/// Writes out, or leaves out, the defaults of nodes that a function chooses.
struct Writer<'a> {
    way: Way,
    versions: HashMap<String, i64>,
    chosen: &'a mut dyn FnMut(Name) -> bool,
}

impl Writer<'_> {
    fn node(&mut self, node: &mut NodeProto) {
        for graph in node.attribute.iter_mut().filter_map(|a| a.g.as_mut()) {
            self.graph(graph);
        }
        let domain = opset::domain_name(node.domain()).to_owned();
        let Some(&version) = self.versions.get(&domain) else { return };
        let op = node.op_type().to_owned();
        for default in defaults(&domain, &op, version) {
            let is_given = node.attribute.iter().any(|a| a.name() == default.name());
            let name = (domain.clone(), op.clone(), default.name().to_owned());
            if (self.way == Way::Added && is_given) || !(self.chosen)(name) {
                continue;
            }
            node.attribute.retain(|a| a.name() != default.name());
            if self.way != Way::LeftOut {
                node.attribute.push(default);
            }
        }
    }

    fn graph(&mut self, graph: &mut GraphProto) {
        graph.node.iter_mut().for_each(|node| self.node(node));
    }
}

/// Writes out, or leaves out, the defaults of a model that a function chooses.
fn with_defaults(mut model: ModelProto, way: Way, chosen: &mut dyn FnMut(Name) -> bool) -> ModelProto {
    let versions = |imports: &[OperatorSetIdProto]| {
        imports.iter().map(|i| (opset::domain_name(i.domain()).to_owned(), i.version())).collect()
    };
    let mut writer = Writer { way, versions: versions(&model.opset_import), chosen };
    if let Some(graph) = model.graph.as_mut() {
        writer.graph(graph);
    }
    for FunctionProto { node, opset_import, .. } in &mut model.functions {
        writer.versions = versions(opset_import);
        node.iter_mut().for_each(|node| writer.node(node));
    }
    model
}

/// Lists the attributes of a model's nodes that have defaults.
fn attributes_of(model: &ModelProto) -> BTreeSet<Name> {
    let mut all = BTreeSet::new();
    with_defaults(model.clone(), Way::Forced, &mut |name| {
        all.insert(name);
        false
    });
    all
}

/// Writes out all defaults of a model.
fn all_written(model: ModelProto) -> ModelProto {
    with_defaults(model, Way::Added, &mut |_| true)
}

#[test]
fn defaults_that_are_written_out_change_nothing_on_cpu() {
    all_agree_on("cpu", all_written);
}

#[test]
fn defaults_that_are_written_out_change_nothing_on_reference() {
    all_agree_on("reference", all_written);
}

#[test]
fn defaults_that_are_written_out_change_nothing_on_whole_graph() {
    all_agree_on("whole-graph", all_written);
}

/// The vectors that run.
fn vectors() -> Vec<ModelProto> {
    let runs = |model: &ModelProto| model.metadata_props.iter().all(|entry| entry.key() != "fails");
    stems(&folder(), "pb").iter().flat_map(|family| read(family)).filter(runs).collect()
}

/// The tests above write out attributes that some vector leaves out. This one also leaves out attributes that all vectors have.
#[test]
fn every_default_of_onnx_runtimes_operators_is_tried() {
    let served: BTreeSet<(&str, &str)> = operators().map(|o| (o.domain, o.name)).collect();
    let mut missing: BTreeSet<Name> = BTreeSet::new();
    for ((domain, op), attributes) in runtime() {
        if served.contains(&(domain.as_str(), op.as_str())) {
            missing.extend(attributes.iter().map(|a| (domain.clone(), op.clone(), a.name().to_owned())));
        }
    }
    let vectors = vectors();
    for model in &vectors {
        with_defaults(model.clone(), Way::Added, &mut |name| missing.remove(&name));
    }
    let on = backends::start("reference").unwrap();
    let run = |model: ModelProto| Vector::of(model)?.outputs(&on);
    let (mut failed, mut refused) = (Vec::new(), BTreeSet::new());
    for model in vectors {
        for name in attributes_of(&model).intersection(&missing.clone()) {
            let [left_out, forced] = [Way::LeftOut, Way::Forced]
                .map(|way| run(with_defaults(model.clone(), way, &mut |other| other == *name)));
            let Ok(left_out) = left_out else {
                // Some operators take no default, which they must refuse in both ways.
                if forced.is_err() {
                    refused.insert(name.clone());
                }
                continue;
            };
            let described = |outputs: &[Output]| {
                outputs.iter().map(|o| described(std::slice::from_ref(&o.got), true)).collect::<String>()
            };
            match forced {
                Ok(forced) if described(&forced) == described(&left_out) => {
                    missing.remove(name);
                }
                Ok(_) => failed.push(format!("{name:?}: other results")),
                Err(error) => failed.push(format!("{name:?}: {}", chain(&*error))),
            }
        }
    }
    missing.retain(|name| !refused.contains(name));
    assert_eq!((failed, missing), (Vec::new(), BTreeSet::new()));
}

/// The calls of each version of each operator of ONNX.
fn samples() -> Vec<ModelProto> {
    let mut rest: &[u8] = include_bytes!("../../../bb/src/coverage/samples.bin");
    let mut all = Vec::new();
    while let Some((length, after)) = rest.split_first_chunk() {
        let (sample, after) = after.split_at(u32::from_le_bytes(*length) as usize);
        let sample = seeded(ModelProto::decode(sample).unwrap());
        all.extend(wider(&sample));
        all.push(sample);
        rest = after;
    }
    all
}

/// Sets a seed on nodes that draw random numbers, so that each run draws the same numbers.
fn seeded(mut sample: ModelProto) -> ModelProto {
    let versions: HashMap<String, i64> = sample
        .opset_import
        .iter()
        .map(|i| (opset::domain_name(i.domain()).to_owned(), i.version()))
        .collect();
    for node in sample.graph.iter_mut().flat_map(|graph| &mut graph.node) {
        let version = versions.get(opset::domain_name(node.domain())).copied().unwrap_or(1);
        let seed = opset::attributes(opset::domain_name(node.domain()), node.op_type(), version)
            .find(|a| a.name == "seed");
        if let Some(seed) = seed
            && node.attribute.iter().all(|a| a.name() != "seed")
        {
            node.attribute.push(attribute("seed", seed.kind, "3"));
        }
    }
    sample
}

/// Returns a sample with operands of `f64` instead of `f32`, so that no digit of a default is lost.
fn wider(sample: &ModelProto) -> Option<ModelProto> {
    let mut sample = sample.clone();
    let graph = sample.graph.as_mut()?;
    let mut names = BTreeSet::new();
    for port in &mut graph.input {
        let Some(type_proto::Value::TensorType(tensor)) = port.r#type.as_mut()?.value.as_mut() else {
            return None;
        };
        if DataType::from_onnx(tensor.elem_type()) == Some(DataType::F32) {
            tensor.elem_type = Some(DataType::F64.to_onnx());
            names.insert(port.name().to_owned());
        }
    }
    for tensor in graph.initializer.iter_mut().filter(|tensor| names.contains(tensor.name())) {
        let wide = cast(&TensorData::from_proto(tensor).ok()?, DataType::F64, Rounding::default()).ok()?;
        *tensor = wide.to_proto(tensor.name());
    }
    (!names.is_empty()).then_some(sample)
}

/// Runs a sample, whose operands are the defaults of its inputs.
fn results(on: &Arc<Runtime>, sample: &ModelProto) -> Result<Vec<OnnxValue<TensorData>>, String> {
    let run = || {
        let module = Module::from_bytes(sample.encode_to_vec())?;
        let executable = on.clone().compile(module, &CompileOptions::default())?;
        let given: Vec<Option<OnnxValue<Value>>> = executable.inputs().iter().map(|_| None).collect();
        let results = executable.run_items(&given)?;
        results.iter().map(|x| x.try_map(&mut |x: &Value| on.to_host(x))).collect::<Result<Vec<_>, _>>()
    };
    run().map_err(|error: bb::Error| chain(&error))
}

/// Describes results down to the bits of their elements.
fn described(results: &[OnnxValue<TensorData>], with_elements: bool) -> String {
    let one = |x: &TensorData| -> Result<String, bb::Error> {
        let elements = match (with_elements, x.dtype()) {
            (false, _) => String::new(),
            (true, bb::DataType::String) => format!("{:?}", x.iter_str().collect::<Vec<_>>()),
            (true, _) => format!("{:?}", x.unpacked()?),
        };
        Ok(format!("{} {:?} {elements}", x.dtype(), x.shape()))
    };
    results.iter().map(|x| format!("{:?};", x.try_map(&mut |x| one(x)).unwrap())).collect()
}

fn each_default_alone_changes_nothing(backend: &str) {
    let on = backends::start(backend).unwrap();
    let (mut failed, mut tried) = (Vec::new(), BTreeSet::new());
    for sample in samples() {
        let name = sample.graph.as_ref().unwrap().name().to_owned();
        for default in attributes_of(&sample) {
            let [left_out, forced] = [Way::LeftOut, Way::Forced]
                .map(|way| with_defaults(sample.clone(), way, &mut |other| other == default));
            // Dropout of these versions draws, and has no seed.
            let exact = !["ai.onnx Dropout 1 *", "ai.onnx Dropout 6 *"].contains(&name.as_str());
            tried.insert(format!("{} {}", name.rsplit_once(' ').unwrap().0, default.2));
            match (results(&on, &left_out), results(&on, &forced)) {
                (Ok(plain), Ok(got)) if described(&got, exact) == described(&plain, exact) => {}
                // A call that needs another value, as for the axis of its operands.
                (Err(_), Err(_)) => {}
                (plain, got) => failed.push(format!("{name}, {default:?}: {got:?} for {plain:?}")),
            }
        }
    }
    assert!(failed.is_empty(), "{} defaults on {backend}:\n{}", failed.len(), failed.join("\n"));
    let mut missing: BTreeSet<Name> = BTreeSet::new();
    for version in opset::versions().filter(|version| version.types.is_some()) {
        let domain = if version.domain.is_empty() { "ai.onnx" } else { version.domain };
        let attributes = opset::attributes(version.domain, version.name, version.since);
        let names = attributes.filter(|a| a.default.is_some()).map(|a| a.name.to_owned());
        let names = names
            .filter(|name| !tried.contains(&format!("{domain} {} {} {name}", version.name, version.since)));
        missing.extend(names.map(|name| (version.domain.to_owned(), version.name.to_owned(), name)));
    }
    // Operators of maps have no samples.
    for model in vectors() {
        with_defaults(model, Way::Added, &mut |name| missing.remove(&name));
    }
    assert_eq!(missing, BTreeSet::new(), "no call was tried with these");
}

#[test]
fn each_default_alone_changes_nothing_on_cpu() {
    each_default_alone_changes_nothing("cpu");
}

#[test]
fn each_default_alone_changes_nothing_on_reference() {
    each_default_alone_changes_nothing("reference");
}

#[test]
fn each_default_alone_changes_nothing_on_whole_graph() {
    each_default_alone_changes_nothing("whole-graph");
}
