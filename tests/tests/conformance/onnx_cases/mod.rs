//! Tests on ONNX's own test cases. The outputs are not compared here, because `bb::conformance!` compares them on every
//! backend.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

mod inference;
mod lowering;

use bb::conformance::onnx::{self, CaseOperator, Contents};
use bb::{BackendAttrs, Primitive, Runtime, Value};
use bb_tests::backends;
use prost::Message;
use std::collections::HashMap;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The number of cases in the archive without those in `exclude.txt`. `bb::conformance!` runs all of them, in
/// the tests of each backend.
const CASES: usize = 2769;

/// The number of cases in the archive's `node` folder whose graphs consist of primitives, as counted by
/// another program.
const PRIMITIVE_CASES: usize = 292;

/// Returns the cases below a folder of the archive that are not excluded, with their names.
pub(crate) fn cases(below: &str) -> Vec<(String, PathBuf)> {
    let root = bb_onnx_cases::folder().unwrap();
    let found = onnx::find(&root.join(below)).unwrap().into_iter();
    let named = found
        .map(|case| (case.strip_prefix(&root).unwrap().to_string_lossy().replace('\\', "/"), case.clone()));
    named.filter(|(name, _)| !bb_onnx_cases::excluded().any(|(excluded, _)| excluded == name)).collect()
}

/// Formats an error and its causes.
pub(crate) fn chain(error: &dyn Error) -> String {
    match error.source() {
        Some(cause) => format!("{error}: {}", chain(cause)),
        None => error.to_string(),
    }
}

/// Dispatches the case's graph to the backend and waits for the answer. Returns whether the graph consists of
/// primitives and has only tensors as inputs and outputs.
fn dispatched(case: &Path, on: &Arc<Runtime>) -> Result<bool, Box<dyn Error>> {
    let contents = Contents::read(case)?;
    let primitive = |o: &CaseOperator| o.domain.is_empty() && Primitive::from_name(&o.name).is_some();
    if !contents.tensors || contents.nested || !contents.operators.iter().all(primitive) {
        return Ok(false);
    }
    let data = case.join("test_data_set_0");
    let given = onnx::read_tensors(&data, "input")?;
    let model = bb::ir::proto::ModelProto::decode(&*std::fs::read(case.join("model.onnx"))?)?;
    let graph = Arc::new(model.graph.ok_or("a graph")?);
    let mut inputs: HashMap<String, Value> = HashMap::new();
    for (info, tensor) in graph.input.iter().zip(&given) {
        inputs.insert(info.name().to_owned(), on.constant(tensor)?);
    }
    let attrs = BackendAttrs::default().with_opsets(&model.opset_import);
    let results = on.clone().dispatch(graph.clone(), inputs, attrs).wait()?;
    for (info, expected) in graph.output.iter().zip(onnx::read_tensors(&data, "output")?) {
        let got = results.get(info.name()).ok_or("an output is missing")?;
        onnx::compare(&expected, &on.to_host(got)?, onnx::Tolerance::default())?;
    }
    Ok(true)
}

#[test]
fn every_case_counts_except_wrong_ones() {
    assert_eq!(cases("").len(), CASES);
}

#[test]
fn graphs_of_primitives_pass_on_a_device_that_answers_later() {
    let on = backends::start("device").unwrap();
    let (mut passed, mut failed) = (0, Vec::new());
    for (name, case) in cases("node") {
        match dispatched(&case, &on) {
            Ok(counts) => passed += usize::from(counts),
            Err(error) => failed.push(format!("{name}: {}", chain(&*error))),
        }
    }
    assert!(failed.is_empty(), "{} cases failed:\n{}", failed.len(), failed.join("\n"));
    assert_eq!(passed, PRIMITIVE_CASES);
}
