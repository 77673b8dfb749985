//! A model on a backend.

use crate::cancel::CancelToken;
use crate::compiled::{Compiled, Port};
use crate::convert::{Problem, wrong_kind};
use crate::failure::{Fed, Phase, raise, raise_load, raise_problem};
use crate::fields::RunInputs;
use crate::load::{Changes, LoadError, Source, load};
use crate::{arrays, feeds, interrupt, results, types};
use bb::onnx::OnnxValue;
use bb::{BackendHandle, CompileOptions, Module, OpenOption, OpenOptions, RunOptions, TensorData, Value};
use bb_ir::Limits;
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyTuple, PyType};
use smallvec::SmallVec;
use std::cell::RefCell;
use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// The number of output lists whose compiled graphs a session caches.
const KEPT: usize = 16;

/// A model on a backend, once it was opened. Threads may share it.
///
/// An object is created before it is opened, so that a subclass may have a constructor with other arguments.
#[pyclass(frozen, subclass, weakref, module = "bb")]
pub(crate) struct Session(OnceLock<Opened>);

/// An opened model on a backend. Only its cache changes.
pub(crate) struct Opened {
    pub(crate) handle: BackendHandle,
    pub(crate) module: Module,
    options: CompileOptions,
    source: Source,
    limits: Limits,
    all: Arc<Compiled>,
    /// The graphs compiled for other lists of outputs, with the most recent one last.
    others: Mutex<Vec<(Vec<String>, Arc<Compiled>)>>,
}

/// The options of ONNX Runtime that a session uses, from `SessionOptions._given`.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct GivenOptions<'py> {
    /// The number of threads. 0 means one per processor.
    threads: usize,
    constants: HashMap<String, Bound<'py, PyAny>>,
    external: HashMap<String, Bound<'py, PyAny>>,
    files: HashMap<String, Bound<'py, PyBytes>>,
}

/// Converts the arrays that replace constants.
fn constants(
    py: Python<'_>,
    arrays: HashMap<String, Bound<'_, PyAny>>,
) -> PyResult<Vec<(String, TensorData)>> {
    let one = |(name, array): (String, Bound<'_, PyAny>)| match feeds::tensor(&array, None) {
        Ok(data) => Ok((name, data)),
        Err(problem) => Err(raise_problem(py, Phase::Convert, problem, None)),
    };
    arrays.into_iter().map(one).collect()
}

/// Opens a backend with `wished` threads. If the backend does not have that option, opens it without.
fn opened(name: &str, open: OpenOptions, wished: Option<NonZeroUsize>) -> Result<BackendHandle, bb::Error> {
    let Some(threads) = wished else { return bb::backend_with(name, &open) };
    // ONNX Runtime accepts numbers of threads above the limit, so the number is reduced.
    let threads = threads.min(NonZeroUsize::new(bb::most_threads()).unwrap_or(threads));
    match bb::backend_with(name, &open.clone().with_threads(threads)) {
        // A program written for ONNX Runtime does not choose the option for a specific backend, so an unsupported option is ignored.
        Err(bb::Error::OpenOption { option: OpenOption::Threads, .. }) => bb::backend_with(name, &open),
        opened => opened,
    }
}

/// The values of a run's inputs, by the index of the input.
type Inputs = SmallVec<[Option<OnnxValue<TensorData>>; 4]>;

#[pymethods]
impl Session {
    /// Creates a session that is not open.
    #[new]
    #[pyo3(signature = (*_args, **_kwargs))]
    fn new(_args: &Bound<'_, PyTuple>, _kwargs: Option<&Bound<'_, PyDict>>) -> Session {
        Session(OnceLock::new())
    }

    /// Opens a model. The constructor of `bb.Session` calls this once.
    #[pyo3(signature = (model, folder, backend, threads, memory, dims, limits, flags, given))]
    #[expect(clippy::too_many_arguments, reason = "the class in Python gathers them")]
    fn _open(
        &self,
        py: Python<'_>,
        model: &Bound<'_, PyAny>,
        folder: Option<PathBuf>,
        backend: &str,
        threads: Option<usize>,
        memory: Option<u64>,
        dims: HashMap<String, usize>,
        limits: HashMap<String, String>,
        flags: HashMap<String, bool>,
        given: GivenOptions<'_>,
    ) -> PyResult<()> {
        let source = match model.cast::<PyBytes>() {
            Ok(bytes) => Source::Bytes(arrays::lent(bytes), folder),
            Err(_) => Source::File(model.extract()?),
        };
        let mut within = Limits::default();
        for (name, value) in &limits {
            let set = within.set(name, value);
            set.map_err(|error| raise_problem(py, Phase::Convert, Problem::Tensor(error), None))?;
        }
        let mut open = OpenOptions::default();
        if let Some(threads) = threads {
            let threads = NonZeroUsize::new(threads);
            open = open
                .with_threads(threads.ok_or_else(|| PyValueError::new_err("`threads` must be at least 1"))?);
        }
        if let Some(memory) = memory {
            open = open.with_memory(memory);
        }
        let mut options = CompileOptions::default().within(&within);
        for (name, on) in flags {
            match name.as_str() {
                "strict" => options.strict = on,
                "refuse_host" => options.refuse_host = on,
                "refuse_lowered" => options.refuse_lowered = on,
                switch if options.passes.set(switch, on) => {}
                _ => return Err(PyTypeError::new_err(format!("there is no option `{name}`"))),
            }
        }
        let changes = Changes {
            dims: dims.into_iter().collect(),
            constants: constants(py, given.constants)?,
            external: constants(py, given.external)?,
            files: given.files.iter().map(|(name, content)| (name.clone(), arrays::lent(content))).collect(),
        };
        // The number of threads from ONNX Runtime's options is only a preference.
        let wished = NonZeroUsize::new(given.threads).filter(|_| open.threads.is_none());
        let handle = interrupt::detached(py, None, || opened(backend, open, wished))?;
        let handle = handle.map_err(|error| raise(py, Phase::Open, &error, None))?;
        let module = interrupt::detached(py, None, || load(&source, &changes, &within))?;
        let module = module.map_err(|error: LoadError| raise_load(py, error))?;
        let all = Compiled::new(py, &handle, &module, &options)?;
        let (all, others) = (Arc::new(all), Mutex::default());
        let opened = Opened { handle, module, options, source, limits: within, all, others };
        self.0.set(opened).map_err(|_| PyValueError::new_err("the session is open already"))
    }

    /// Runs the model.
    ///
    /// `run(feeds)` returns all outputs. `run(names, feeds)` and `run(feeds, fetch=names)` return the named outputs; a name may also be an
    /// inner value.
    #[pyo3(signature = (output_names=None, input_feed=None, run_options=None, *, feeds=None, fetch=None, timeout=None, cancel=None, **unknown))]
    #[expect(clippy::too_many_arguments, reason = "ONNX Runtime's order, and keywords")]
    fn run<'py>(
        &self,
        py: Python<'py>,
        output_names: Option<Bound<'py, PyAny>>,
        input_feed: Option<Bound<'py, PyAny>>,
        run_options: Option<Bound<'py, PyAny>>,
        feeds: Option<Bound<'py, PyAny>>,
        fetch: Option<Bound<'py, PyAny>>,
        timeout: Option<Bound<'py, PyAny>>,
        cancel: Option<Bound<'py, CancelToken>>,
        unknown: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyList>> {
        if let Some(unknown) = unknown {
            refuse_keywords(py, unknown)?;
        }
        let twice = || PyTypeError::new_err("the inputs are given twice");
        let (names, feeds) = match (output_names, input_feed, feeds) {
            (names, Some(given), None) | (names, None, Some(given)) => (names, given),
            (Some(given), None, None) => (None, given),
            (None, None, None) => (None, PyDict::new(py).into_any()),
            (_, Some(_), Some(_)) => return Err(twice()),
        };
        let is_list = |x: &Bound<'_, PyAny>| x.is_instance_of::<PyList>() || x.is_instance_of::<PyTuple>();
        if names.as_ref().is_some_and(|names| names.is_instance_of::<PyDict>()) && is_list(&feeds) {
            let message = "the names of outputs come before the inputs: write `run([\"y\"], {\"x\": x})`";
            return Err(PyTypeError::new_err(message));
        }
        let names = match (names, fetch) {
            (Some(_), Some(_)) => return Err(PyTypeError::new_err("the outputs are given twice")),
            (names, fetch) => names.or(fetch),
        };
        let opened = self.opened()?;
        let _running = opened.begin()?;
        let compiled = opened.of(py, names.as_ref())?;
        let inputs = opened.inputs(&compiled, &feeds)?;
        if !opened.options.strict {
            compiled.warn(py, &inputs)?;
        }
        let options =
            options(run_options.as_ref(), timeout.as_ref().map(seconds).transpose()?, cancel.as_ref())?;
        let run = || opened.compute(&compiled, &inputs);
        let outputs = interrupt::detached(py, options.as_ref(), run)?;
        let outputs = match outputs {
            Ok(outputs) => outputs,
            Err(error) => return Err(opened.failed(py, &compiled, &inputs, &error)),
        };
        let list = PyList::empty(py);
        for output in outputs {
            let object = match output {
                OnnxValue::Tensor(x) => results::array(py, &opened.handle, x),
                other => results::object(py, &opened.handle, other),
            };
            let failed = |problem| raise_problem(py, Phase::Run(&opened.handle), problem, None);
            list.append(object.map_err(failed)?)?;
        }
        Ok(list)
    }

    /// The inputs: name, type, extents, and whether one may be left out.
    fn _inputs<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        ports(py, &self.opened()?.all.inputs)
    }

    /// The outputs, like the inputs.
    fn _outputs<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        ports(py, &self.opened()?.all.outputs)
    }

    /// Writes the compiled model to a file, with the plans that exist so far.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        let opened = self.opened()?;
        let saved = interrupt::detached(py, None, || opened.all.executable.save(&path))?;
        saved.map_err(|error| raise(py, Phase::Compile(&opened.handle), &error, None))
    }

    /// Returns a description of the model as JSON.
    fn _inspect(&self, py: Python<'_>) -> PyResult<String> {
        let opened = self.opened()?;
        interrupt::detached(py, None, || crate::report::inspect(&opened.handle, &opened.module))
    }

    /// Returns the metadata of the model file as JSON.
    fn _facts(&self, py: Python<'_>) -> PyResult<String> {
        let opened = self.opened()?;
        let facts = interrupt::detached(py, None, || crate::report::facts(&opened.source, &opened.limits))?;
        facts.map_err(|error| raise(py, Phase::Load, &error.into(), None))
    }

    /// Returns the coverage of each node as JSON.
    fn _coverage(&self, py: Python<'_>) -> PyResult<String> {
        let opened = self.opened()?;
        interrupt::detached(py, None, || crate::report::coverage(&opened.handle, &opened.module))
    }

    /// Returns the coverage of each node on an author's backend that runs graphs, instead of the session's backend, as JSON. Nothing is
    /// tried on it.
    fn _coverage_on(
        &self,
        py: Python<'_>,
        author: &Bound<'_, PyAny>,
        base: &Bound<'_, PyType>,
    ) -> PyResult<String> {
        let opened = self.opened()?;
        let handle = crate::author::graphs(py, author, base)?;
        interrupt::detached(py, None, move || crate::report::coverage(&handle, &opened.module))
    }

    /// Runs the model, and returns the measured times of its parts as JSON.
    fn _profile(&self, py: Python<'_>, feeds: &Bound<'_, PyAny>, runs: u32, warmup: u32) -> PyResult<String> {
        let opened = self.opened()?;
        let _running = opened.begin()?;
        let inputs = opened.inputs(&opened.all, feeds)?;
        let profile = interrupt::detached(py, None, || {
            let values = opened.upload(&inputs)?;
            crate::report::profile(&*opened.all.executable, &values, runs, warmup)
        })?;
        profile.map_err(|error| opened.failed(py, &opened.all, &inputs, &error))
    }

    /// The values that the nodes of the graph compute, with their nodes and operators, in order.
    fn _values(&self) -> PyResult<Vec<(String, String, String)>> {
        let graph = self.opened()?.module.graph();
        let mut values = Vec::new();
        for node in &graph.nodes {
            for value in node.outputs.iter().flatten() {
                let (label, name) = (graph.label_of(node).to_owned(), graph.name_of(*value).to_owned());
                if !name.is_empty() {
                    values.push((label, node.op_type.clone(), name));
                }
            }
        }
        Ok(values)
    }

    /// The name of the backend.
    #[getter]
    fn backend(&self) -> PyResult<&'static str> {
        Ok(self.opened()?.handle.name())
    }
}

impl Session {
    fn opened(&self) -> PyResult<&Opened> {
        self.0.get().ok_or_else(|| {
            PyValueError::new_err(
                "the session is not open: the constructor of a subclass calls `super().__init__(model, …)`",
            )
        })
    }
}

thread_local! {
    /// The addresses of the sessions that this thread is running, the innermost last.
    static RUNNING: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// A guard of a running session. Dropping it removes the session from `RUNNING`.
struct Running;

impl Drop for Running {
    fn drop(&mut self) {
        RUNNING.with_borrow_mut(Vec::pop);
    }
}

impl Opened {
    /// Records that this thread runs the session.
    ///
    /// # Errors
    ///
    /// `RuntimeError` if a method of a backend runs the session that called the method, because the run could wait for a resource that the
    /// session has locked.
    fn begin(&self) -> PyResult<Running> {
        let place = std::ptr::from_ref(self).addr();
        RUNNING.with_borrow_mut(|running| {
            if running.contains(&place) && !interrupt::handles() {
                let message =
                    "a method of a backend runs the session that calls it; open another session for it";
                return Err(PyRuntimeError::new_err(message));
            }
            running.push(place);
            Ok(Running)
        })
    }

    /// Returns the graph compiled for these outputs. Compiles it at the first request.
    fn of(&self, py: Python<'_>, names: Option<&Bound<'_, PyAny>>) -> PyResult<Arc<Compiled>> {
        let Some(names) = names else { return Ok(self.all.clone()) };
        if names.is_instance_of::<PyString>() {
            let written = names.repr()?;
            return Err(PyTypeError::new_err(format!(
                "the names of outputs must be a list of `str`, got `str`: write `[{written}]`"
            )));
        }
        let list: SmallVec<[Bound<'_, PyString>; 4]> = names
            .try_iter()?
            .map(|name| {
                let name = name?;
                name.cast_into().map_err(|error| {
                    let got = crate::convert::type_name(&error.into_inner());
                    PyTypeError::new_err(format!("the names of outputs must be `str`, got `{got}`"))
                })
            })
            .collect::<PyResult<_>>()?;
        // For an empty list, ONNX Runtime returns all outputs.
        let own = &self.all.outputs;
        let is = |(name, port): (&Bound<'_, PyString>, &Port)| {
            name.is(&port.name) || name.to_str().is_ok_and(|n| n == port.text)
        };
        if list.is_empty() || (list.len() == own.len() && list.iter().zip(own).all(is)) {
            return Ok(self.all.clone());
        }
        let names: Vec<String> =
            list.iter().map(|name| Ok(name.to_str()?.to_owned())).collect::<PyResult<_>>()?;
        {
            let mut others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(at) = others.iter().position(|(known, _)| *known == names) {
                let found = others.remove(at);
                let compiled = found.1.clone();
                others.push(found);
                return Ok(compiled);
            }
        }
        let texts: Vec<&str> = names.iter().map(String::as_str).collect();
        let module = self.module.with_outputs(&texts);
        let module = module.map_err(|error| raise(py, Phase::Run(&self.handle), &error, None))?;
        let compiled = Arc::new(Compiled::new(py, &self.handle, &module, &self.options)?);
        let mut others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
        if others.len() >= KEPT {
            others.remove(0);
        }
        others.push((names, compiled.clone()));
        Ok(compiled)
    }

    /// Converts the feeds to values: a mapping from names, or a list in the order of the inputs.
    fn inputs(&self, compiled: &Compiled, feeds: &Bound<'_, PyAny>) -> PyResult<Inputs> {
        let py = feeds.py();
        let mut inputs = Inputs::with_capacity(compiled.inputs.len());
        let mut take = |port: &Port, object: Option<Bound<'_, PyAny>>| -> PyResult<bool> {
            let Some(object) = object else {
                inputs.push(None);
                return Ok(false);
            };
            let absent = object.is_none() && !matches!(port.ty, bb::ir::graph::ValueType::Optional(_));
            let refused = |problem| {
                let fed = Fed { name: &port.text, ty: &port.ty, object: &object };
                raise_problem(py, Phase::Run(&self.handle), problem, Some(&fed))
            };
            if absent && !port.optional {
                return Err(refused(wrong_kind("a value", &object)));
            }
            inputs.push(match absent {
                true => None,
                false => Some(feeds::value(&object, &port.ty).map_err(refused)?),
            });
            Ok(true)
        };
        if let Ok(dict) = feeds.cast::<PyDict>() {
            let mut found = 0;
            for port in &compiled.inputs {
                found += usize::from(take(port, dict.get_item(port.name.bind(py))?)?);
            }
            if found < dict.len() {
                return Err(unknown(compiled, dict)?);
            }
        } else if feeds.is_instance_of::<PyList>() || feeds.is_instance_of::<PyTuple>() {
            let (got, expected) = (feeds.len()?, compiled.inputs.len());
            if got > expected {
                return Err(raise(py, Phase::Convert, &bb::Error::InputCount { expected, got }, None));
            }
            for (at, port) in compiled.inputs.iter().enumerate() {
                take(port, if at < got { Some(feeds.get_item(at)?) } else { None })?;
            }
        } else if feeds.hasattr(intern!(py, "keys"))? {
            let dict = PyDict::new(py);
            dict.call_method1(intern!(py, "update"), (feeds,))?;
            return self.inputs(compiled, dict.as_any());
        } else {
            let expected = "a dict of inputs by name, or a list of inputs by position";
            return Err(PyTypeError::new_err(wrong_kind(expected, feeds).to_string()));
        }
        Ok(inputs)
    }

    /// Copies values to the backend.
    fn upload(&self, inputs: &Inputs) -> Result<SmallVec<[Option<OnnxValue<Value>>; 4]>, bb::Error> {
        let runtime = self.handle.runtime();
        let put = |x: &Option<OnnxValue<TensorData>>| match x {
            None => Ok(None),
            Some(x) => x.try_map(&mut |x| runtime.constant(x)).map(Some),
        };
        inputs.iter().map(put).collect()
    }

    /// Runs the model and fetches the outputs.
    fn compute(
        &self,
        compiled: &Compiled,
        inputs: &Inputs,
    ) -> Result<SmallVec<[OnnxValue<results::Fetched>; 4]>, bb::Error> {
        let values = self.upload(inputs)?;
        if compiled.tensors {
            let tensors: SmallVec<[Option<&Value>; 4]> =
                values.iter().map(|x| x.as_ref().and_then(OnnxValue::tensor)).collect();
            let outputs = compiled.executable.run(&tensors)?;
            return outputs
                .into_iter()
                .map(|x| Ok(OnnxValue::Tensor(results::fetch(&self.handle, x)?)))
                .collect();
        }
        let outputs = compiled.executable.run_items(&values)?;
        outputs.into_iter().map(|x| results::fetch_all(&self.handle, x)).collect()
    }

    /// Creates the exception for a failed run.
    #[cold]
    fn failed(&self, py: Python<'_>, compiled: &Compiled, inputs: &Inputs, error: &bb::Error) -> PyErr {
        let shape = |(port, value): (&Port, &Option<OnnxValue<TensorData>>)| {
            Some((port.text.clone(), value.as_ref()?.tensor()?.shape().to_vec()))
        };
        let shapes = compiled.inputs.iter().zip(inputs).filter_map(shape).collect();
        raise(py, Phase::Run(&self.handle), error, Some(&RunInputs { module: &self.module, shapes }))
    }
}

/// Refuses keyword arguments that `run` does not have.
#[cold]
fn refuse_keywords(py: Python<'_>, unknown: &Bound<'_, PyDict>) -> PyResult<()> {
    let run = py.get_type::<Session>().getattr(intern!(py, "run"))?;
    let hints = py.import(intern!(py, "bb._hints"))?;
    hints.call_method1(intern!(py, "check_keywords"), (run, unknown)).map(drop)
}

/// Creates the exception for feeds with a name that no input has.
#[cold]
fn unknown(compiled: &Compiled, dict: &Bound<'_, PyDict>) -> PyResult<PyErr> {
    let py = dict.py();
    let expected: Vec<String> = compiled.inputs.iter().map(|port| port.text.clone()).collect();
    for key in dict.keys() {
        let Ok(name) = key.cast::<PyString>() else {
            return Ok(PyTypeError::new_err(format!(
                "the names of inputs must be `str`, got `{}`",
                crate::convert::type_name(&key)
            )));
        };
        let name = name.to_cow()?.into_owned();
        if !expected.contains(&name) {
            return Ok(raise(py, Phase::Convert, &bb::Error::UnknownInput { name, expected }, None));
        }
    }
    Ok(PyTypeError::new_err("the inputs changed while they were read"))
}

/// Converts a timeout to seconds.
fn seconds(timeout: &Bound<'_, PyAny>) -> PyResult<f64> {
    match timeout.extract() {
        Ok(seconds) => Ok(seconds),
        Err(_) => {
            let got = timeout.repr()?;
            Err(PyTypeError::new_err(format!("`timeout` must be a number of seconds, got {got}")))
        }
    }
}

/// Converts the options of a run.
fn options(
    run_options: Option<&Bound<'_, PyAny>>,
    timeout: Option<f64>,
    cancel: Option<&Bound<'_, CancelToken>>,
) -> PyResult<Option<RunOptions>> {
    if run_options.is_none() && timeout.is_none() && cancel.is_none() {
        return Ok(None);
    }
    let mut options = RunOptions::default();
    if let Some(seconds) = timeout {
        if seconds.is_nan() || seconds < 0.0 {
            let message = format!("`timeout` counts seconds and must be at least 0, got {seconds}");
            return Err(PyValueError::new_err(message));
        }
        // A timeout that exceeds the range of the clock is no limit.
        let time = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
        if let Some(deadline) = Instant::now().checked_add(time) {
            options = options.with_deadline(deadline);
        }
    }
    if let Some(token) = cancel {
        options = options.with_cancel(&token.get().current());
    }
    if let Some(given) = run_options {
        let token = given.getattr(intern!(given.py(), "_token"));
        let token =
            token.map_err(|_| PyTypeError::new_err(wrong_kind("`bb.RunOptions`", given).to_string()))?;
        options = options.with_cancel(&token.cast::<CancelToken>().map_err(PyErr::from)?.get().current());
    }
    Ok(Some(options))
}

fn ports<'py>(py: Python<'py>, ports: &[Port]) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    for port in ports {
        list.append((port.name.bind(py), types::name(&port.ty), types::shape(py, &port.ty)?, port.optional))?;
    }
    Ok(list)
}
