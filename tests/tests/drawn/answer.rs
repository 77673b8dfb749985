//! Runs a model on a backend.

use crate::record::{Leaves, Record};
use bb::onnx::OnnxValue;
use bb::{CompileOptions, Module, RunOptions, Runtime, Value};
use bb_tests::backends;
use std::error::Error;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

/// The backends that run models; the first one is compared with the others.
pub(crate) const BACKENDS: [&str; 3] = ["cpu", "reference", "whole-graph"];

static STARTED: LazyLock<Vec<Arc<Runtime>>> =
    LazyLock::new(|| BACKENDS.iter().map(|name| backends::start(name).unwrap()).collect());

/// The time after which a run is given up.
const DEADLINE: Duration = Duration::from_secs(10);

/// The answer of a backend to a model.
pub(crate) enum BackendAnswer {
    Given(Leaves),
    Refused(String),
    Panicked(String),
}

/// Compiles a model on a backend and runs it.
pub(crate) fn of(backend: &str, record: &Record) -> BackendAnswer {
    let at = BACKENDS.iter().position(|name| *name == backend).unwrap();
    let on = STARTED.get(at).unwrap();
    let options = RunOptions::default().with_deadline(Instant::now() + DEADLINE);
    match catch_unwind(AssertUnwindSafe(|| options.within(|| run(on, record)))) {
        Ok(Ok(leaves)) => BackendAnswer::Given(leaves),
        Ok(Err(error)) => BackendAnswer::Refused(chain(&*error)),
        Err(panic) => BackendAnswer::Panicked(
            panic
                .downcast_ref::<String>()
                .cloned()
                .or_else(|| Some((*panic.downcast_ref::<&str>()?).to_owned()))
                .unwrap_or_default(),
        ),
    }
}

fn run(on: &Arc<Runtime>, record: &Record) -> Result<Leaves, Box<dyn Error>> {
    let module = Module::from_bytes(record.model.clone())?;
    // Between operators halves are rounded, as others do: `tests/graphs/halves.rs` is about the default.
    let executable = on.clone().compile(module, &CompileOptions::default().with_widen_halves(false))?;
    let mut inputs = Vec::new();
    for port in executable.inputs() {
        let given = record.inputs.iter().find(|(name, _)| *name == port.name);
        inputs.push(given.map(|(_, x)| on.constant(x).map(OnnxValue::Tensor)).transpose()?);
    }
    let mut leaves = Vec::new();
    for (port, value) in executable.outputs().iter().zip(executable.run_items(&inputs)?) {
        add(on, &port.name, &value, &mut leaves)?;
    }
    Ok(leaves)
}

/// Adds the tensors of a value, by their paths in it.
fn add(on: &Arc<Runtime>, path: &str, value: &OnnxValue<Value>, to: &mut Leaves) -> Result<(), bb::Error> {
    match value {
        OnnxValue::Tensor(x) => to.push((path.to_owned(), on.to_host(x)?)),
        OnnxValue::Absent => {}
        OnnxValue::Sequence(items) => {
            for (i, item) in items.iter().enumerate() {
                add(on, &format!("{path}/{i}"), item, to)?;
            }
        }
        OnnxValue::Map { keys, values } => {
            to.push((format!("{path}/keys"), keys.clone()));
            to.push((format!("{path}/values"), on.to_host(values)?));
        }
    }
    Ok(())
}

/// Formats an error and its causes.
fn chain(error: &dyn Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {}", chain(source)),
        None => error.to_string(),
    }
}
