//! Tests the lowering of operators that are built from primitives. The traced graph must contain only primitives, compute the
//! outputs of ONNX's case, and be valid for ONNX's checker. The same holds for its exports to old and new opsets.

use super::{cases, chain};
use bb::conformance::onnx::{Tolerance, compare, read_inputs, read_tensors, tolerance};
use bb::export::{ExportOptions, Keep, ModelTrace};
use bb::ir::graph::{Graph, Node};
use bb::ir::opset::NEWEST;
use bb::ir::proto::{ModelProto, OperatorSetIdProto};
use bb::onnx::{Body, Call, Class, OnnxValue, lookup};

use bb::trace::{TraceStop, TracedTensor, Tracer};
use bb::{Backend, CompileOptions, DataType, GraphProto, Module, Port, Primitive, TensorData};
use bb_reference::Reference;
use prost::Message;
use std::collections::BTreeSet;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The least number of cases with a single node of an operator that is built from primitives.
const CASES: usize = 2000;

/// Target opsets of the exported cases, in turn.
const OPSETS: [i64; 5] = [13, 17, 18, 21, NEWEST];

/// The least number of exported models; the others have element types that their opset lacks.
const EXPORTED: usize = 3000;

type Fallible<T> = Result<T, Box<dyn Error>>;

/// The only node of a case and its operands.
struct Single {
    node: Node,
    operands: Vec<Option<TensorData>>,
    /// The case's outputs, in the order of the node's results.
    expected: Vec<TensorData>,
    tolerance: Tolerance,
}

impl Single {
    /// Reads a case; `None` if it has several nodes or values that are not tensors.
    fn read(case: &Path) -> Fallible<Option<Single>> {
        let module = Module::load(case.join("model.onnx"))?;
        let graph = module.graph();
        let [node] = graph.nodes.as_slice() else { return Ok(None) };
        let port = |value: &bb::ir::graph::ValueId| Port {
            name: graph.name_of(*value).to_owned(),
            ty: graph.values.get(value.index()).map(|v| v.ty.clone()).unwrap_or_default(),
            optional: graph.constants.iter().any(|(v, _)| v == value),
        };
        let ports: Vec<Port> = graph.inputs.iter().map(port).collect();
        let given = read_inputs(&case.join("test_data_set_0"), &ports)?;
        let mut operands = Vec::new();
        for input in &node.inputs {
            let Some(value) = input else {
                operands.push(None);
                continue;
            };
            let position = graph.inputs.iter().position(|v| v == value);
            match position.and_then(|p| given.get(p)).and_then(Option::as_ref) {
                Some(OnnxValue::Tensor(x)) => operands.push(Some(x.clone())),
                Some(_) => return Ok(None),
                None => operands.push(Some(constant(graph, *value).ok_or("a constant")?)),
            }
        }
        let outputs = graph.outputs.iter().zip(read_tensors(&case.join("test_data_set_0"), "output")?);
        let expected = node.outputs.iter().flatten().map(|result| {
            let found = outputs.clone().find(|(output, _)| *output == result);
            found.map(|(_, expected)| expected).ok_or("an output for each result")
        });
        let expected = expected.collect::<Result<_, _>>()?;
        Ok(Some(Single { node: node.clone(), operands, expected, tolerance: tolerance(case)? }))
    }

    /// Traces the operator's function. Operands whose elements it reads become constants of the graph.
    fn traced(&self) -> Fallible<(GraphProto, ModelTrace, Vec<TensorData>)> {
        let mut known = BTreeSet::new();
        loop {
            let free = self.operands.iter().enumerate().filter(|(i, x)| x.is_some() && !known.contains(i));
            let free: Vec<(usize, String, &TensorData)> =
                free.filter_map(|(i, x)| Some((i, format!("operand_{i}"), x.as_ref()?))).collect();
            let inputs: Vec<(&str, DataType, &[usize])> =
                free.iter().map(|(_, name, x)| (name.as_str(), x.dtype(), x.shape())).collect();
            let function = |on: &Tracer, traced: &[TracedTensor]| -> Result<Vec<TracedTensor>, TraceStop> {
                let mut operands = Vec::new();
                for (i, operand) in self.operands.iter().enumerate() {
                    let position = free.iter().position(|(at, ..)| *at == i);
                    operands.push(match (operand, position.and_then(|p| traced.get(p))) {
                        (_, Some(x)) => Some(x.clone()),
                        (Some(data), None) => Some(on.constant(data)?),
                        (None, None) => None,
                    });
                }
                let found = lookup(&self.node.domain, &self.node.op_type, self.node.opset);
                let Some((_, Body::Tensors(function))) = found else { return Ok(Vec::new()) };
                let results = function.call(on, &Call::new(&self.node, &operands))?;
                let named = self.node.outputs.iter().zip(results).filter(|(name, _)| name.is_some());
                Ok(named.filter_map(|(_, y)| y).collect())
            };
            match bb::trace(&inputs, function) {
                Ok(graph) => {
                    let trace = ModelTrace::new(&inputs, function)?;
                    return Ok((graph, trace, free.into_iter().map(|(.., x)| x.clone()).collect()));
                }
                Err(bb::Error::NotConstant { value, .. }) => {
                    // Values are numbered in the order of their appearance, inputs first.
                    let number: usize = value.trim_start_matches('%').parse()?;
                    let (operand, ..) = free.get(number).ok_or("an operand that is read")?;
                    known.insert(*operand);
                }
                Err(other) => return Err(other.into()),
            }
        }
    }

    /// Compares the results of the traced graph with the case, and the results of its exports to an opset with the graph's. Returns
    /// graph and exports.
    fn check(&self, opset: i64) -> Fallible<(GraphProto, Vec<ModelProto>)> {
        let (graph, trace, inputs) = self.traced()?;
        if let Some(other) = graph.node.iter().find(|n| Primitive::from_name(n.op_type()).is_none()) {
            return Err(format!("`{}` is no primitive", other.op_type()).into());
        }
        let module = Module::from_graph(&graph, &[], &[])?;
        let program = Reference.compile(module, &CompileOptions::default())?;
        let inputs: Vec<_> = inputs.iter().map(|x| Reference.constant(x)).collect::<Result<_, _>>()?;
        let refs: Vec<_> = inputs.iter().map(Some).collect();
        let got = program.run(&Reference, &refs)?;
        if got.len() != self.expected.len() {
            return Err(format!("{} results, expected {}", got.len(), self.expected.len()).into());
        }
        for (got, expected) in got.iter().zip(&self.expected) {
            let got = Reference.to_host(got)?;
            // Old versions of ONNX wrote the bits of `bf16` as `u16`.
            let expected = match (expected.dtype(), got.dtype()) {
                (DataType::U16, DataType::BF16) => {
                    &TensorData::adopt(DataType::BF16, expected.shape(), expected.bytes()?.clone())?
                }
                _ => expected,
            };
            compare(expected, &got, self.tolerance)?;
        }
        let mut exported = Vec::new();
        for keep in [Keep::Nothing, Keep::All] {
            let model = match trace.model(&ExportOptions::default().opset(opset).keep(keep)) {
                Ok(model) => model,
                Err(bb::Error::ElementTypeOfOpset { .. }) => continue,
                Err(other) => return Err(other.into()),
            };
            let module = Module::from_bytes(model.encode_to_vec())?;
            let program = Reference.compile(module, &CompileOptions::default())?;
            for (again, got) in program.run(&Reference, &refs)?.iter().zip(&got) {
                let (again, got) = (Reference.to_host(again)?, Reference.to_host(got)?);
                compare(&got, &again, Tolerance { relative: 0.0, absolute: 0.0 })?;
            }
            exported.push(model);
        }
        Ok((graph, exported))
    }
}

fn constant(graph: &Graph, value: bb::ir::graph::ValueId) -> Option<TensorData> {
    graph.constants.iter().find(|(v, _)| *v == value).map(|(_, data)| data.clone())
}

/// Writes a traced graph as a model of the newest opset.
fn write(graph: GraphProto, to: &Path) {
    let newest = OperatorSetIdProto { domain: Some(String::new()), version: Some(bb::ir::opset::NEWEST) };
    let model = ModelProto {
        ir_version: Some(10),
        opset_import: vec![newest],
        graph: Some(graph),
        ..ModelProto::default()
    };
    std::fs::write(to, model.encode_to_vec()).unwrap();
}

/// Runs ONNX's checker on every file of a folder, if Python has the package `onnx`.
fn check_by_onnx(folder: &Path) {
    let python = std::env::var("BB_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let there = Command::new(&python).args(["-c", "import onnx"]).output();
    if !there.is_ok_and(|o| o.status.success()) {
        println!("skipped: {python} has no package `onnx`, whose checker would read the traced graphs");
        return;
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/conformance/onnx_cases/check.py");
    let output = Command::new(&python).arg(script).arg(folder).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    println!("{text}");
}

#[test]
fn traced_operators_are_primitives_that_agree_and_are_valid() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("lowered");
    // Files of an earlier run must not be mistaken for files of this one.
    let _absent = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    let (mut checked, mut exported, mut failed) = (0, 0, Vec::new());
    for (name, case) in cases("") {
        // Some cases have files that another version of ONNX wrote wrongly; the conformance suite reports
        // them.
        let Ok(Some(single)) = Single::read(&case) else { continue };
        let node = &single.node;
        let found = lookup(&node.domain, &node.op_type, node.opset);
        let Some((operator, Body::Tensors(_))) = found else { continue };
        if operator.class != Class::Primitives {
            continue;
        }
        match single.check(OPSETS[checked % OPSETS.len()]) {
            Ok((graph, models)) => {
                checked += 1;
                exported += models.len();
                let name = name.replace('/', ".");
                write(graph, &folder.join(format!("{name}.onnx")));
                for (i, model) in models.iter().enumerate() {
                    std::fs::write(folder.join(format!("{name}.{i}.onnx")), model.encode_to_vec()).unwrap();
                }
            }
            Err(error) => failed.push(format!("{name}: {}", chain(&*error))),
        }
    }
    assert!(failed.is_empty(), "{} cases failed:\n{}", failed.len(), failed.join("\n"));
    assert!(checked >= CASES, "only {checked} cases are one node of primitives");
    assert!(exported >= EXPORTED, "only {exported} models are exported");
    check_by_onnx(&folder);
}
