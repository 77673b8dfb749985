//! Tests that errors name the operators of the model, and name the operations inside an operator only as the cause.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use bb::ext::{BitsOp, CreateOp, ImageOp, IndexOp, LlmOp, MlOp, NnOp, QuantOp, ScalarOp, TrainOp};
use bb::ir::proto::attribute_proto::AttributeType;
use bb::ir::proto::{AttributeProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto};
use bb::onnx::{Class, operators};
use bb::{CompileOptions, DataType, Module, Primitive, Runtime, TensorData};
use bb_ir::opset;
use bb_tests::backends;
use bb_tests::model::{node, serialized, untyped, value, with_int, with_ints};
use prost::Message;
use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::sync::Arc;

/// The names of all operations of the contract and of the families.
fn operations() -> BTreeSet<&'static str> {
    let mut names: BTreeSet<&'static str> = Primitive::ALL.iter().map(|op| op.spec().name).collect();
    macro_rules! families {
        ($($family:ident),*) => {$(
            names.extend($family::ALL.iter().map(|op| op.spec().name));
        )*};
    }
    families!(BitsOp, CreateOp, ImageOp, IndexOp, LlmOp, MlOp, NnOp, QuantOp, ScalarOp, TrainOp);
    names
}

/// Runs a node on operands whose extents are not declared.
fn failure(on: &Arc<Runtime>, node: NodeProto, operands: &[TensorData]) -> Option<bb::Error> {
    let names = node.input.iter().filter(|name| !name.is_empty());
    let unknown = |x: &TensorData| vec!["?"; x.shape().len()];
    let graph = GraphProto {
        name: Some("drawn".to_owned()),
        input: operands
            .iter()
            .zip(names)
            .map(|(x, name)| value(name, x.dtype().to_onnx(), &unknown(x)))
            .collect(),
        output: node.output.iter().map(|name| untyped(name)).collect(),
        node: vec![node],
        ..GraphProto::default()
    };
    let mut model = ModelProto::decode(&*serialized(graph)).unwrap();
    let import = |(domain, version): (&str, i64)| OperatorSetIdProto {
        domain: Some(domain.to_owned()),
        version: Some(version),
    };
    model.opset_import.extend([("com.microsoft", 1), ("ai.onnx.ml", 5)].map(import));
    let run = || {
        let graph =
            on.clone().compile(Module::from_bytes(model.encode_to_vec())?, &CompileOptions::default())?;
        let values = operands.iter().map(|x| on.constant(x)).collect::<Result<Vec<_>, _>>()?;
        graph.run(&values.iter().map(Some).collect::<Vec<_>>())
    };
    run().err()
}

/// Returns the messages of an error and of its causes.
fn messages(error: &bb::Error) -> Vec<String> {
    let chain = std::iter::successors(Some(error as &dyn Error), |error| Error::source(*error));
    chain.map(ToString::to_string).collect()
}

/// Returns the operation that the first message behind the node's names, if the model does not contain it.
fn leaked(error: &bb::Error, op: &str, own: &[&str], operations: &BTreeSet<&'static str>) -> Option<String> {
    let plain = |name: &str| name.replace('_', "").to_ascii_lowercase();
    let of_node = |text: &String| text.starts_with("node `") || text.contains("were refused");
    let message = messages(error).into_iter().find(|text| !of_node(text))?;
    let quoted = message.split('`').skip(1).step_by(2);
    let named =
        quoted.filter(|name| operations.contains(name) && plain(name) != plain(op) && !own.contains(name));
    named.last().map(|name| format!("{op}: `{name}` in \"{message}\""))
}

/// Adds an attribute that is a number or a text.
fn with(mut node: NodeProto, name: &str, kind: AttributeType, number: f32, text: &str) -> NodeProto {
    node.attribute.push(AttributeProto {
        name: Some(name.to_owned()),
        r#type: Some(kind as i32),
        f: (kind == AttributeType::Float).then_some(number),
        s: (kind == AttributeType::String).then(|| text.as_bytes().to_vec()),
        ..AttributeProto::default()
    });
    node
}

/// Draws numbers.
struct Draw(u64);

impl Draw {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % n as u64) as usize
    }

    fn tensor(&mut self, dtype: DataType) -> TensorData {
        let shape: Vec<usize> = (0..self.below(5)).map(|_| 1 + self.below(4)).collect();
        if dtype == DataType::String {
            let count = shape.iter().product();
            return TensorData::strings(&shape, &vec!["a"; count]).unwrap();
        }
        let count: usize = shape.iter().product();
        let numbers: Vec<i64> = (0..count).map(|_| self.below(3) as i64).collect();
        let wide = TensorData::new(&shape, &numbers).unwrap();
        bb::ir::convert::cast(&wide, dtype, bb::ir::convert::Rounding::default()).unwrap()
    }

    fn node(&mut self, domain: &str, name: &str, since: i64, operands: usize) -> NodeProto {
        let inputs: Vec<String> = (0..operands).map(|i| format!("x{i}")).collect();
        let mut node = node(name, &inputs.iter().map(String::as_str).collect::<Vec<_>>(), &["y"]);
        node.domain = Some(domain.to_owned());
        for attribute in opset::attributes(domain, name, since) {
            if !attribute.required && self.below(3) > 0 {
                continue;
            }
            let number = self.below(4) as i64;
            node = match attribute.kind {
                "an integer" => with_int(node, attribute.name, number),
                "integers" => with_ints(node, attribute.name, &[number, 1]),
                "a float" => with(node, attribute.name, AttributeType::Float, number as f32, ""),
                "a string" => {
                    let text = attribute.default.unwrap_or("a").trim_matches('"');
                    with(node, attribute.name, AttributeType::String, 0.0, text)
                }
                _ => node,
            };
        }
        node
    }
}

/// Operators whose errors, in some draws, still name an operation inside the operator.
const KNOWN: [&str; 0] = [];

#[test]
fn no_error_names_an_operation_that_the_model_does_not_contain() {
    let operations = operations();
    let on = backends::start("reference").unwrap();
    let mut newest: BTreeMap<(&str, &str), i64> = BTreeMap::new();
    for operator in operators() {
        if !matches!(operator.class, Class::ControlFlow) && !operator.domain.starts_with("ai.onnx.preview") {
            let since = newest.entry((operator.domain, operator.name)).or_default();
            *since = operator.since.max(*since);
        }
    }
    let types = [DataType::F32, DataType::F32, DataType::F32, DataType::I64, DataType::I64, DataType::Bool]
        .into_iter()
        .chain([DataType::U8, DataType::F16, DataType::String])
        .collect::<Vec<_>>();
    let (mut leaks, mut failures) = (BTreeMap::new(), 0);
    for (number, ((domain, name), since)) in newest.into_iter().enumerate() {
        let mut draw = Draw(number as u64);
        let own: Vec<&str> = opset::attributes(domain, name, since).map(|attribute| attribute.name).collect();
        for _ in 0..40 {
            let count = 1 + draw.below(5);
            let alike = draw.below(2) == 0;
            let first = types[draw.below(types.len())];
            let mut operands = Vec::with_capacity(count);
            for _ in 0..count {
                let dtype = if alike { first } else { types[draw.below(types.len())] };
                operands.push(draw.tensor(dtype));
            }
            let node = draw.node(domain, name, since, count);
            let Some(error) = failure(&on, node, &operands) else { continue };
            failures += 1;
            if let Some(leak) = leaked(&error, name, &own, &operations) {
                leaks.entry(name).or_insert(leak);
            }
        }
    }
    assert!(failures > 3000, "{failures}");
    leaks.retain(|name, _| !KNOWN.contains(name));
    let listed: Vec<&String> = leaks.values().collect();
    assert!(leaks.is_empty(), "{} operators: {listed:#?}", leaks.len());
}

#[test]
fn shapes_that_do_not_fit_are_those_of_the_operator() {
    let zeros = |dtype, shape: &[usize]| TensorData::zeros(dtype, shape, 1 << 20).unwrap();
    let on = backends::start("reference").unwrap();
    let operands = [zeros(DataType::F32, &[2, 3, 4]), zeros(DataType::I64, &[3, 1])];
    let gather = with_int(node("GatherND", &["x0", "x1"], &["y"]), "batch_dims", 1);
    let error = failure(&on, gather, &operands).unwrap();
    assert_eq!(messages(&error).last().unwrap(), "`gather_nd` cannot combine shapes [2, 3, 4] and [3, 1]");
    let operands =
        [zeros(DataType::F32, &[4, 3]), zeros(DataType::I64, &[2, 1]), zeros(DataType::F32, &[2, 2])];
    let error = failure(&on, node("ScatterND", &["x0", "x1", "x2"], &["y"]), &operands).unwrap();
    let messages = messages(&error);
    assert!(
        messages.iter().any(|text| text.contains("`ScatterND`") || text.contains("`scatter_nd`")),
        "{messages:?}"
    );
}
