//! Runs the conformance tests one at a time, so that Ctrl-C can end them between two tests.

use super::backends::{Graphs, Methods};
use super::declared::declaration;
use super::named::Maker;
use crate::failure::{Phase, raise, told};
use crate::interrupt;
use bb::{Backend, BackendHandle};
use bb_conformance::onnx::{self, Outcome};
use bb_conformance::{Subject, TypesDeclaration, tests};
use bb_ir::text::sentence;
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use pyo3::types::PyType;
use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::Once;

/// The name of a test and its result: `None` if the test passed, otherwise the difference.
type Tested = (&'static str, Option<String>);

/// Runs the conformance cases of the primitives. `author` is an author's backend, or the name of a registered one.
#[pyfunction]
pub(crate) fn conformance_tests(
    py: Python<'_>,
    author: &Bound<'_, PyAny>,
    base: &Bound<'_, PyType>,
) -> PyResult<Vec<Tested>> {
    if let Ok(name) = author.extract::<String>() {
        // Tests the author's code without the element types that the runtime emulates.
        let written = interrupt::detached(py, None, || bb::Registry::global().as_written(&name))?;
        let written = written.map_err(|error| raise(py, Phase::Open, &error, None))?;
        return on(py, &Subject::new(&written));
    }
    let maker = Maker::new(author, base);
    let instance = maker.instance(py)?;
    let chosen = !author.getattr("types")?.is_none();
    match instance.runs_graphs() {
        true => on(py, &written_here(&Graphs::new(instance), chosen)),
        false => on(py, &written_here(&Methods { on: instance }, chosen)),
    }
}

/// Returns the subject for an author's backend, whose messages contain Python. `chosen` says whether the author declares element types.
fn written_here<B: Backend>(backend: &B, chosen: bool) -> Subject<'_> {
    let in_python = TypesDeclaration { name: "types", source: declaration };
    Subject::new(backend).with_declaration(in_python, chosen)
}

/// Runs all tests on a backend.
fn on(py: Python<'_>, subject: &Subject<'_>) -> PyResult<Vec<Tested>> {
    let one = |test: &bb_conformance::Test| {
        let ran = interrupt::detached(py, None, || quietly(|| test.run(subject)))?;
        Ok((test.name, ran.err()))
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
    Ok((case.name, outcome, sentence(why).to_string()))
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
