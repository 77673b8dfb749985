//! ONNX's own test cases, on every backend.
#![expect(clippy::unwrap_used, reason = "tests")]

mod archive;
mod inference;
mod lowering;
mod operators;

use bb::conformance::onnx;
use bb::{BackendAttrs, BackendRuntime, Value};
use bb_tests::backends;
use operators::Contents;
use prost::Message;
use std::collections::HashMap;
use std::error::Error;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

/// The cases of the archive's `node` folder whose graphs are made of primitives; counted by another program.
const PRIMITIVE_CASES: usize = 292;

/// How many cases the archive has beside those that `exclude.txt` names.
const CASES: usize = 2768;

/// Runs the cases that are chosen, on one backend; every one must pass. Returns how many did.
fn all_pass(
    backend: &str,
    folder: &str,
    choose: impl Fn(&Contents) -> bool,
    run: impl Fn(&Path, &Arc<dyn BackendRuntime>) -> Result<(), Box<dyn Error>>,
) -> usize {
    let root = archive::cases();
    let excluded = archive::excluded();
    let on = backends::start(backend).unwrap();
    let mut passed = 0;
    let mut failed = Vec::new();
    for case in onnx::find(&root.join(folder)).unwrap() {
        let name = case.strip_prefix(root).unwrap().to_string_lossy().replace('\\', "/");
        if excluded.contains(&&*name) || !choose(&Contents::read(&case)) {
            continue;
        }
        match catch_unwind(AssertUnwindSafe(|| run(&case, &on))) {
            Ok(Ok(())) => passed += 1,
            Ok(Err(error)) => failed.push(format!("{name}: {}", chain(&*error))),
            Err(_) => failed.push(format!("{name}: panicked")),
        }
    }
    assert!(
        failed.is_empty(),
        "{} of {} cases failed on {backend}:\n{}",
        failed.len(),
        passed + failed.len(),
        failed.join("\n")
    );
    passed
}

fn compiled(case: &Path, on: &Arc<dyn BackendRuntime>) -> Result<(), Box<dyn Error>> {
    Ok(onnx::run(case, on)?)
}

/// Hands the case's graph to the backend's `dispatch` and waits for the answer.
fn dispatched(case: &Path, on: &Arc<dyn BackendRuntime>) -> Result<(), Box<dyn Error>> {
    let model = bb::ir::proto::ModelProto::decode(&*std::fs::read(case.join("model.onnx"))?)?;
    let graph = Arc::new(model.graph.ok_or("a graph")?);
    let data = case.join("test_data_set_0");
    let given = onnx::read_tensors(&data, "input")?;
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
    Ok(())
}

/// Writes an error and what caused it.
pub(crate) fn chain(error: &dyn Error) -> String {
    match error.source() {
        Some(cause) => format!("{error}: {}", chain(cause)),
        None => error.to_string(),
    }
}

/// Expands to one test per backend, each of which calls a function with the backend's name.
macro_rules! on_every_backend {
    ($all_pass_on:ident) => {
        #[test]
        fn all_pass_on_cpu() {
            $all_pass_on("cpu");
        }

        #[test]
        fn all_pass_on_reference() {
            $all_pass_on("reference");
        }

        #[test]
        fn all_pass_on_whole_graph() {
            $all_pass_on("whole-graph");
        }

        #[test]
        fn all_pass_on_device() {
            $all_pass_on("device");
        }
    };
}

mod primitives {
    use super::*;

    fn all_pass_on(backend: &str) {
        assert_eq!(all_pass(backend, "node", Contents::primitives_only, compiled), PRIMITIVE_CASES);
    }

    on_every_backend!(all_pass_on);

    #[test]
    fn all_pass_on_a_device_that_answers_later() {
        assert_eq!(all_pass("device", "node", Contents::primitives_only, dispatched), PRIMITIVE_CASES);
    }
}

mod all_cases {
    use super::*;

    fn all_pass_on(backend: &str) {
        assert_eq!(all_pass(backend, "", |_| true, compiled), CASES);
    }

    on_every_backend!(all_pass_on);
}
