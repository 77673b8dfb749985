//! Determines the outcome of a case, even if something is missing or the backend panics.

use super::compare::described;
use super::report::{Case, Outcome};
use super::{CaseOperator, Contents, DataSet, Failure, read_inputs, run_noting};
use crate::show::shown;
use bb_core::error::causes;
use bb_core::operator::OnnxValue;
use bb_core::runtime::catch;
use bb_core::{Error, Module, NarrowError, Runtime};
use bb_ir::DataType;
use bb_ir::graph::Node;
use bb_ir::text::sentence;
use std::path::Path;
use std::sync::Arc;

/// Runs a case and returns its outcome. `name` is its name in the report.
///
/// A panic is a failure. A case is skipped if it needs an operator of a crate that is not linked, or an element type that the backend
/// does not declare ([`Backend::types`](bb_core::Backend::types)).
pub fn examine(name: String, path: &Path, on: &Arc<Runtime>) -> Case {
    examined(name, path, |path| outcome(path, on))
}

/// Reads the contents of a case, and runs the case if all of its operators are linked.
pub(super) fn examined(name: String, path: &Path, run: impl FnOnce(&Path) -> Outcome) -> Case {
    let (operators, outcome) = match Contents::read(path) {
        Ok(contents) => {
            let operators: Vec<_> = contents.operators.into_iter().collect();
            let outcome = match operators.iter().find_map(not_linked) {
                Some(lacking) => Outcome::Skipped(lacking.to_owned()),
                None => run(path),
            };
            (operators, outcome)
        }
        Err(failure) => (Vec::new(), Outcome::Failed(causes(&failure))),
    };
    Case { name, operators, outcome }
}

/// Returns the missing library or crate of an operator, if no linked crate provides the operator.
fn not_linked(op: &CaseOperator) -> Option<&'static str> {
    let node = Node { domain: op.domain.clone(), op_type: op.name.clone(), ..Node::default() };
    let library = bb_core::operator::unlinked(&node).map(|library| library.what);
    let left_out =
        || bb_core::operator::left_out(&op.domain).map(|_| "the crate of the operators of its domain");
    library.or_else(left_out)
}

/// Runs a case, as [`run`](super::run). With a failure, also returns the inputs of the data set as lines of text, shortened, if the
/// model is a single node.
pub fn run_showing(case: &Path, on: &Arc<Runtime>) -> (Result<(), Failure>, String) {
    let mut set = None;
    let result = run_noting(case, on, &mut set);
    let inputs = if result.is_err() { shown_inputs(case, set) } else { String::new() };
    (result, inputs)
}

/// The maximum number of inputs in the report of a failure.
const INPUTS: usize = 8;

/// Formats the inputs of a data set, shortened, if the model is a single node; otherwise returns an empty string.
fn shown_inputs(case: &Path, set: Option<DataSet>) -> String {
    let single = || Some(Module::load(case.join("model.onnx")).ok()?.graph().nodes.len() == 1);
    let Some((folder, ports)) = set else { return String::new() };
    if single() != Some(true) {
        return String::new();
    }
    let inputs = read_inputs(&folder, &ports).unwrap_or_default();
    let lines = inputs.iter().zip(&ports).take(INPUTS).map(|(input, port)| {
        let text = match input {
            Some(OnnxValue::Tensor(x)) => shown(x),
            Some(other) => described(other),
            None => "absent".to_owned(),
        };
        format!("\n  input `{}`: {text}", sentence(&port.name))
    });
    let more = if inputs.len() > INPUTS { "\n  …" } else { "" };
    lines.collect::<String>() + more
}

/// The reason why a backend does not run a case, although this is no failure.
#[derive(Debug)]
#[non_exhaustive]
pub enum NotRun {
    /// The backend lacks an element type.
    Type(DataType),
    /// The backend stores elements of the first type in the second type, and their values exceed its range.
    Exceeds(DataType, DataType),
    /// The backend does not run a primitive ([`Backend::runs_primitive`](bb_core::Backend::runs_primitive)).
    Primitive(&'static str),
    /// The author of the backend did not write the method of a primitive.
    Unwritten(&'static str),
    /// The backend declines a node of the model ([`Backend::declines`](bb_core::Backend::declines)).
    Declined(String),
    /// The backend refuses the model with an error that wraps [`Error::UnsupportedOperator`]
    /// ([`Backend::wrapped`](bb_core::Backend::wrapped)).
    Refused(String),
}

impl NotRun {
    /// Returns why a backend does not run a case that failed; `None` if the backend is to blame for the failure.
    pub fn of(case: &Path, failure: &Failure, on: &Arc<Runtime>) -> Option<NotRun> {
        match NarrowError::cause_of(failure) {
            Some(NarrowError::Lacks { dtype, .. }) => return Some(NotRun::Type(*dtype)),
            Some(NarrowError::Exceeds { dtype, held, .. }) => return Some(NotRun::Exceeds(*dtype, *held)),
            _ => {}
        }
        let mut causes =
            std::iter::successors(Some(failure as &dyn std::error::Error), |error| error.source());
        let lacking =
            causes.find_map(|error| match error.downcast_ref::<Error>().or_else(|| on.wrapped(error)) {
                Some(Error::NoPrimitive { op }) => Some(NotRun::Primitive(op)),
                Some(Error::NoMethod { method, .. }) => Some(NotRun::Unwritten(method)),
                _ => None,
            });
        // If the model ran, a wrong output is a failure, even if the backend declines a node.
        let declined = || match failure {
            Failure::Run(_) => declined(case, on),
            _ => None,
        };
        lacking.or_else(|| declined().map(NotRun::Declined)).or_else(|| refused(failure, on))
    }
}

/// Returns the backend's own error, if it wraps the error of `bb` for an operator that is not supported.
fn refused(failure: &Failure, on: &Arc<Runtime>) -> Option<NotRun> {
    let all = std::iter::successors(Some(failure as &dyn std::error::Error), |error| error.source());
    all.filter(|error| !error.is::<Error>())
        .find(|error| matches!(on.wrapped(*error), Some(Error::UnsupportedOperator { .. })))
        .map(|error| NotRun::Refused(causes(error)))
}

/// Returns the reason why the backend declines a node of a case's model, if it declines one.
fn declined(case: &Path, on: &Arc<Runtime>) -> Option<String> {
    let module = Module::load(case.join("model.onnx")).ok()?;
    let graph = module.graph();
    graph.nodes.iter().find_map(|node| on.declines(graph, node))
}

/// Runs a case and returns its outcome. A panic is a failure.
pub(super) fn outcome(case: &Path, on: &Arc<Runtime>) -> Outcome {
    let mut set = None;
    match catch(|| run_noting(case, on, &mut set)) {
        Ok(Ok(())) => Outcome::Passed,
        Ok(Err(failure)) => match NotRun::of(case, &failure, on) {
            Some(NotRun::Type(dtype)) => Outcome::Skipped(dtype.name().to_owned()),
            Some(NotRun::Exceeds(dtype, held)) => Outcome::Skipped(format!("{dtype} beyond {held}")),
            Some(NotRun::Primitive(op)) => {
                Outcome::Skipped(format!("`{op}`, which the backend does not run"))
            }
            Some(NotRun::Unwritten(method)) => Outcome::Skipped(format!("`{method}` is not written")),
            Some(NotRun::Refused(_)) => Outcome::Skipped("what the backend refuses".to_owned()),
            Some(NotRun::Declined(_)) => Outcome::Skipped("nodes that the backend declines".to_owned()),
            None => Outcome::Failed(causes(&failure) + &shown_inputs(case, set)),
        },
        Err(panic) => Outcome::Failed(format!("panicked: {panic}{}", shown_inputs(case, set))),
    }
}
