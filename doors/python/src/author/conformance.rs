//! Runs the conformance tests one at a time, so that Ctrl-C can end them between two tests.

use super::backends::{Graphs, Methods};
use super::declared::declaration;
use super::instance::Instance;
use super::named::Maker;
use crate::failure::{Phase, raise, told};
use crate::interrupt;
use bb::{Backend, BackendHandle, Primitive};
use bb_conformance::onnx::{self, Outcome};
use bb_conformance::{Subject, TestEnd, TypesDeclaration, tests};
use bb_ir::text::sentence;
use pyo3::exceptions::{PyOSError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::PyType;
use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Once};

/// The name of a test, whether it passed, failed or was skipped, and the reason.
type Tested = (&'static str, &'static str, String);

/// Runs the conformance cases of the primitives on an author's backend, or on the registered one with a name. `author` is the author's
/// backend behind a name, if there is one.
#[pyfunction]
#[pyo3(signature = (name, author, base))]
pub(crate) fn conformance_tests(
    py: Python<'_>,
    name: Option<&str>,
    author: Option<&Bound<'_, PyAny>>,
    base: &Bound<'_, PyType>,
) -> PyResult<Vec<Tested>> {
    let written = |author: &Bound<'_, PyAny>| -> PyResult<Written> {
        let instance = Maker::new(author, base).instance(py)?;
        Ok(Written { instance, chosen: !author.getattr("types")?.is_none() })
    };
    let written = author.map(written).transpose()?;
    if let Some(name) = name {
        // Tests the author's code without the element types that the runtime emulates.
        let tested = interrupt::detached(py, None, || bb::Registry::global().as_written(name))?;
        let tested = tested.map_err(|error| raise(py, Phase::Open, &error, None))?;
        return on(py, &tested, written.as_ref());
    }
    let written = written.ok_or_else(|| PyTypeError::new_err("expected a name or a backend"))?;
    let instance = written.instance.clone();
    match instance.runs_graphs() {
        true => on(py, &Graphs::new(instance), Some(&written)),
        false => on(py, &Methods { on: instance }, Some(&written)),
    }
}

/// An author's backend under test.
struct Written {
    instance: Arc<Instance>,
    /// Whether the author declares element types.
    chosen: bool,
}

/// Runs all tests on a backend. If an author wrote it in Python, messages contain Python, and methods that are not written are not tested.
fn on<B: Backend>(py: Python<'_>, backend: &B, written: Option<&Written>) -> PyResult<Vec<Tested>> {
    let subject = Subject::new(backend);
    let (subject, unwritten) = match written {
        Some(Written { instance, chosen }) => {
            let in_python = TypesDeclaration { name: "types", source: declaration };
            let unwritten = instance.unwritten();
            (subject.with_declaration(in_python, *chosen).without(unwritten.clone()), unwritten)
        }
        None => (subject, Vec::new()),
    };
    let one = |test: &bb_conformance::Test| -> PyResult<Tested> {
        let name = test.name;
        let op = Primitive::ALL.iter().find(|op| op.spec().method == name);
        if let Some(op) = op.filter(|op| !subject.runs(**op)) {
            let why = match unwritten.contains(op) {
                true => format!("`{name}` is not written"),
                false => format!("the backend does not run `{name}`"),
            };
            return Ok((name, "skipped", why));
        }
        let ran = interrupt::detached(py, None, || quietly(|| test.run(&subject)))?;
        Ok(match ran {
            Ok(TestEnd::Skipped(why)) => (name, "skipped", why),
            Ok(_) => (name, "passed", String::new()),
            Err(why) => (name, "failed", why),
        })
    };
    tests().iter().map(one).collect()
}

/// Lists the folders below a folder that contain a case in ONNX's layout, with their relative paths.
#[pyfunction]
pub(crate) fn case_folders(py: Python<'_>, folder: PathBuf) -> PyResult<Vec<(String, PathBuf)>> {
    let found = interrupt::detached(py, None, || onnx::find(&folder))?;
    let found = found.map_err(|failure| PyOSError::new_err(told(&failure)))?;
    if found.is_empty() {
        let text = format!("`{}` has no case in ONNX's layout", sentence(folder.display()));
        return Err(PyOSError::new_err(text));
    }
    let name = |path: &Path| path.strip_prefix(&folder).unwrap_or(path).to_string_lossy().replace('\\', "/");
    Ok(found.into_iter().map(|path| (name(&path), path)).collect())
}

/// Runs one case on a named backend. Returns its name, whether it passed, failed or was skipped, and the reason.
#[pyfunction]
pub(crate) fn conformance_case(
    py: Python<'_>,
    backend: &str,
    name: String,
    path: PathBuf,
) -> PyResult<(String, &'static str, String)> {
    let handle = opened(py, backend)?;
    let runtime = handle.runtime();
    let case = interrupt::detached(py, None, || quietly(|| onnx::examine(name, &path, runtime)))?;
    let (outcome, why) = match case.outcome {
        Outcome::Passed => ("passed", String::new()),
        Outcome::Failed(why) => ("failed", why),
        Outcome::Skipped(why) => ("skipped", why),
    };
    let lines: Vec<String> = why.lines().map(|line| sentence(line).to_string()).collect();
    Ok((case.name, outcome, lines.join("\n")))
}

fn opened(py: Python<'_>, name: &str) -> PyResult<BackendHandle> {
    let handle = interrupt::detached(py, None, || bb::backend(name))?;
    handle.map_err(|error| raise(py, Phase::Open, &error, None))
}

thread_local! {
    /// Whether panics of this thread are test failures, which are reported instead of printed.
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Runs tests whose failures are panics, without printing the panics.
fn quietly<R>(run: impl FnOnce() -> R) -> R {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !QUIET.get() {
                before(info);
            }
        }));
    });
    /// A guard that lets panics be printed again, even after a panic.
    struct Loud(bool);
    impl Drop for Loud {
        fn drop(&mut self) {
            QUIET.set(self.0);
        }
    }
    let _loud = Loud(QUIET.replace(true));
    run()
}
