//! Registers authors' backends under a name.

use super::backends::{Graphs, Methods};
use super::declared::declared;
use super::ending::attached;
use super::instance::Instance;
use super::params;
use crate::failure::{Phase, raise};
use crate::python_error::PythonError;
use bb::{Added, BackendHandle, BackendOrigin, BoxError, InnerBackend, OpenOptions, Primitive, Registry};
use pyo3::prelude::*;
use pyo3::types::PyType;
use std::sync::Arc;

/// A factory of an author's backend.
pub(super) struct Maker {
    /// The backend's class, or an object. An object is used for all instances.
    author: Py<PyAny>,
    base: Py<PyType>,
}

impl Maker {
    pub(super) fn new(author: &Bound<'_, PyAny>, base: &Bound<'_, PyType>) -> Maker {
        Maker { author: author.clone().unbind(), base: base.clone().unbind() }
    }

    /// Creates an object of the class, unless `author` is an object, and collects its methods.
    ///
    /// # Errors
    ///
    /// Exceptions that the constructor raises; the errors of [`Instance::new`].
    pub(super) fn instance(&self, py: Python<'_>) -> PyResult<Arc<Instance>> {
        self.collected(&self.object(py)?)
    }

    /// Does the same as [`instance`](Self::instance) when the backend is opened. The error for an exception of the constructor names the
    /// class.
    fn opened(&self, py: Python<'_>) -> Result<Arc<Instance>, BoxError> {
        let raised = |source| {
            let class = self.author.bind(py).getattr("__name__");
            let class = class.map_or_else(|_| "?".to_owned(), |name| name.to_string());
            PythonError::Raised { method: format!("{class}()"), source }
        };
        Ok(self.collected(&self.object(py).map_err(raised)?)?)
    }

    fn object<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let author = self.author.bind(py);
        if author.is_instance_of::<PyType>() { author.call0() } else { Ok(author.clone()) }
    }

    fn collected(&self, object: &Bound<'_, PyAny>) -> PyResult<Arc<Instance>> {
        Ok(Arc::new(Instance::new(object, self.base.bind(object.py()))?))
    }

    /// Returns whether the author's backend runs whole graphs, without creating an object.
    pub(super) fn runs_graphs(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(self.author.bind(py).getattr_opt("execute")?.is_some_and(|method| !method.is_none()))
    }
}

/// Registers a backend.
#[pyfunction]
pub(crate) fn register(
    py: Python<'_>,
    author: &Bound<'_, PyAny>,
    base: &Bound<'_, PyType>,
    name: String,
    version: String,
    path: String,
) -> PyResult<()> {
    let types = author.getattr("types")?;
    // A property can be read only once an object exists.
    if !types.hasattr("__get__")? {
        declared(&types)?;
    }
    let maker = Maker::new(author, base);
    let (name, version, path) = (name.leak(), version.leak(), path.leak());
    let of = Added { name, version, path, options: &[], origin: BackendOrigin::Registered };
    let added = match maker.runs_graphs(py)? {
        true => add(of, maker, Graphs::new),
        false => add(of, maker, |on| Methods { on }),
    };
    added.map_err(|error| raise(py, Phase::Open, &error, None))
}

fn add<B: InnerBackend>(of: Added, maker: Maker, backend: fn(Arc<Instance>) -> B) -> Result<(), bb::Error> {
    let make = move |_: &OpenOptions| {
        let made = attached(|py| maker.opened(py));
        let made = made.ok_or("the interpreter ended")?;
        Ok(backend(made?))
    };
    Registry::global().add(of, make)
}

/// Starts an author's backend that runs graphs, without a name.
pub(crate) fn graphs(
    py: Python<'_>,
    author: &Bound<'_, PyAny>,
    base: &Bound<'_, PyType>,
) -> PyResult<BackendHandle> {
    let instance = Maker::new(author, base).instance(py)?;
    Ok(BackendHandle::start("graphs", Graphs::new(instance)))
}

/// Removes a registered backend. Returns whether there was a backend with this name.
#[pyfunction]
pub(crate) fn unregister(py: Python<'_>, name: &str) -> bool {
    // Dropping an instance may wait for threads that need the interpreter's lock, so the lock is released.
    py.detach(|| Registry::global().remove(name))
}

/// Lists the primitives: the method, its arguments, and the first line of its definition in Python.
#[pyfunction]
pub(crate) fn primitives() -> Vec<(&'static str, Vec<&'static str>, String)> {
    let row = |op: &Primitive| (op.spec().method, params::names(op.spec()), params::signature(op.spec()));
    Primitive::ALL.iter().map(row).collect()
}
