//! An author's object: collects its methods and calls them.

use super::declared::{declared, primitives};
use super::ending::attached;
use super::tensor::PythonTensor;
use super::{params, steps};
use crate::convert::{Problem, type_name};
use crate::dtypes::{Elements, elements, of_name, python_name};
use crate::python_error::PythonError;
use crate::{arrays, interrupt};
use bb::{DataType, DataTypes, NarrowError, Outputs, Primitive, Shape, Tensor, TensorData};
use bb_ir::infer;
use bb_ir::op::{Arity, OpSpec, Param};
use numpy::{PyArrayDescr, PyUntypedArrayMethods};
use pyo3::exceptions::{PyException, PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple, PyType};
use smallvec::SmallVec;
use std::cell::Cell;

/// The maximum depth of nested calls: a method may use a session, which calls a method. Each level uses some of the thread's stack.
const DEEPEST: usize = 16;

thread_local! {
    /// The number of nested method calls of this thread.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// The element type and the shape of a tensor.
pub(super) type Kind = (DataType, Shape);

/// An author's object.
pub(crate) struct Instance {
    /// The name of the class.
    class: String,
    /// The methods of the primitives, in the order of the op table.
    methods: Vec<Option<Py<PyAny>>>,
    execute: Option<Py<PyAny>>,
    /// The author's replacement for a method of `bb.Backend`; `None` if the method is inherited.
    from_host: Option<Py<PyAny>>,
    to_host: Option<Py<PyAny>>,
    describe: Option<Py<PyAny>>,
    types: DataTypes,
    /// The primitives that `execute` runs; `None` means all.
    primitives: Option<Vec<Primitive>>,
}

impl Instance {
    /// Collects the methods of an author's object.
    ///
    /// # Errors
    ///
    /// `TypeError` if the object's class does not inherit from `base`, if a method is not callable, and for element types and primitives
    /// that `bb` does not have; exceptions that the object raises.
    pub(super) fn new(object: &Bound<'_, PyAny>, base: &Bound<'_, PyType>) -> PyResult<Instance> {
        let class = object.get_type();
        let name = class.name()?.to_string();
        if !object.is_instance(base)? {
            let message = format!("a backend is of a class that inherits from `bb.Backend`, got `{name}`");
            return Err(PyTypeError::new_err(message));
        }
        let written = |method: &str| -> PyResult<Option<Py<PyAny>>> {
            match object.getattr_opt(method)?.filter(|found| !found.is_none()) {
                Some(found) if !found.is_callable() => {
                    let got = type_name(&found);
                    Err(PyTypeError::new_err(format!("`{name}.{method}` is `{got}`, expected a method")))
                }
                found => Ok(found.map(Bound::unbind)),
            }
        };
        let replaced = |method: &str| -> PyResult<Option<Py<PyAny>>> {
            match class.getattr(method)?.is(base.getattr(method)?) {
                true => Ok(None),
                false => written(method),
            }
        };
        let methods = Primitive::ALL.iter().map(|op| written(op.spec().method));
        Ok(Instance {
            methods: methods.collect::<PyResult<_>>()?,
            execute: written("execute")?,
            from_host: replaced("from_host")?,
            to_host: replaced("to_host")?,
            describe: replaced("describe")?,
            types: declared(&object.getattr("types")?)?,
            primitives: primitives(&object.getattr("primitives")?)?,
            class: name,
        })
    }

    /// Returns the element types that the author declares. Without a declaration, these are all that NumPy and the installed `ml_dtypes`
    /// have.
    pub(super) fn types(&self) -> DataTypes {
        self.types
    }

    /// Returns whether `execute` runs a primitive. Constants are converted by `from_host`.
    pub(super) fn runs(&self, op: Primitive) -> bool {
        op == Primitive::Constant || self.primitives.as_ref().is_none_or(|runs| runs.contains(&op))
    }

    /// Returns the primitives whose methods the author did not write. A class that runs graphs needs none.
    pub(super) fn unwritten(&self) -> Vec<Primitive> {
        let written = |op: &Primitive| *op == Primitive::Constant || self.method(*op).is_some();
        let lacks = |op: &Primitive| !self.runs_graphs() && !written(op);
        Primitive::ALL.iter().copied().filter(lacks).collect()
    }

    /// Returns whether the object runs whole graphs.
    pub(super) fn runs_graphs(&self) -> bool {
        self.execute.is_some()
    }

    /// Calls the method of a primitive.
    ///
    /// # Errors
    ///
    /// Errors of `bb` about the operands; [`bb::Error::NoMethod`] if the author did not write the method; the exception that the method
    /// raised; [`PythonError::Returned`] if the type or shape of the result does not match the primitive's rule.
    pub(super) fn call(
        &self,
        op: Primitive,
        inputs: &[Option<&PythonTensor>],
        params: &[Param<'_>],
    ) -> Result<Outputs<PythonTensor>, PythonError> {
        let spec = op.spec();
        let given: SmallVec<[(DataType, &[usize]); 4]> =
            inputs.iter().flatten().map(|x| (x.dtype(), x.shape())).collect();
        let expected = infer::primitive(op, &given, params)?;
        self.check_types(spec.method, given.iter().map(|x| x.0).chain(expected.iter().map(|x| x.0)))?;
        if let (Primitive::Constant, [Param::Data(data)], None) = (op, params, self.method(op)) {
            return Ok(Outputs::from_buf([self.from_host(data)?]));
        }
        let method = self.method(op).ok_or_else(|| self.lacks(spec))?;
        self.enter(spec.method, |py| {
            let arguments = arguments(py, spec, inputs, params);
            let arguments = arguments.map_err(|problem| self.elements(spec.method, problem))?;
            let result = method.bind(py).call1(arguments);
            let result = result.map_err(|raised| self.raised(spec.method, py, raised))?;
            if spec.output == Arity::Tensors {
                return self.several(spec.method, &result, &expected);
            }
            let expected = expected.first().ok_or_else(|| steps::excluded("a result"))?;
            Ok(Outputs::from_buf([self.taken(spec.method, &result, (expected.0, &expected.1[..]))?]))
        })
    }

    /// Converts elements of the host to the author's tensor, with `from_host`.
    ///
    /// # Errors
    ///
    /// [`PythonError::Elements`] if NumPy does not have the element type; the exception that the method raised; an error for a wrong
    /// result.
    pub(super) fn from_host(&self, data: &TensorData) -> Result<PythonTensor, PythonError> {
        const METHOD: &str = "from_host";
        self.check_types("constant", std::iter::once(data.dtype()))?;
        self.enter(METHOD, |py| {
            let array = arrays::read_only(py, data);
            let array = array.map_err(|problem| self.elements(METHOD, problem))?;
            let Some(method) = &self.from_host else {
                let shape = Shape::from_slice(data.shape());
                return Ok(PythonTensor::new(array.unbind(), data.dtype(), shape));
            };
            let made = method.bind(py).call1((array,));
            let made = made.map_err(|raised| self.raised(METHOD, py, raised))?;
            self.taken(METHOD, &made, (data.dtype(), data.shape()))
        })
    }

    /// Copies a tensor of the author to the host. A contiguous array is borrowed instead of copied.
    ///
    /// # Errors
    ///
    /// The exception that the method raised; an error for a wrong result; [`PythonError::Elements`] if its elements cannot be read.
    pub(super) fn to_host(&self, x: &PythonTensor) -> Result<TensorData, PythonError> {
        const METHOD: &str = "to_host";
        self.enter(METHOD, |py| {
            let object = x.object(py);
            let array = match &self.to_host {
                Some(method) => method.bind(py).call1((object,)),
                None => Ok(object),
            };
            let array = array.and_then(|array| arrays::as_array_of(&array));
            let array = array.map_err(|raised| self.raised(METHOD, py, raised))?;
            let (kind, expected) = (kind_of_array(&array), (x.dtype(), x.shape()));
            if kind.as_ref().map(|(dtype, shape)| (*dtype, &shape[..])) != Some(expected) {
                return Err(self.returned(METHOD, expected, &array, kind));
            }
            arrays::tensor(&array).map_err(|problem| self.elements(METHOD, problem))
        })
    }

    /// Runs a graph with the author's `execute`.
    ///
    /// # Errors
    ///
    /// The exception that the method raised; [`PythonError::Returned`] if it does not return a dict, or if an output is missing or its type
    /// or shape does not match the graph.
    pub(super) fn execute<'a>(
        &self,
        graph: &Py<super::Graph>,
        inputs: impl Iterator<Item = (&'a str, &'a PythonTensor)>,
        expected: &[(String, Kind)],
    ) -> Result<Vec<(String, PythonTensor)>, PythonError> {
        const METHOD: &str = "execute";
        let execute = self.execute.as_ref().ok_or_else(|| steps::excluded("a method `execute`"))?;
        self.enter(METHOD, |py| {
            let call = || {
                let named = PyDict::new(py);
                for (name, x) in inputs {
                    named.set_item(name, x.object(py))?;
                }
                execute.bind(py).call1((graph, named))
            };
            let results = call().map_err(|raised| self.raised(METHOD, py, raised))?;
            let Ok(results) = results.cast::<PyDict>() else {
                let expected = "a dict of outputs by name".to_owned();
                return Err(PythonError::Returned {
                    method: self.path(METHOD),
                    expected,
                    got: shown(&results, self.kind(&results).ok().flatten()),
                    advice: String::new(),
                });
            };
            let output = |(name, (dtype, shape)): &(String, Kind)| -> Result<_, PythonError> {
                let found = results.get_item(name).map_err(|raised| self.raised(METHOD, py, raised))?;
                let found = found.ok_or_else(|| {
                    let mut made: Vec<String> =
                        results.keys().iter().map(|name| format!("`{name}`")).collect();
                    made.sort_unstable();
                    let got = if made.is_empty() { "no outputs".to_owned() } else { made.join(", ") };
                    PythonError::Returned {
                        method: self.path(METHOD),
                        expected: format!("the output `{name}`"),
                        got,
                        advice: ": return a value for each name in `graph.outputs`".to_owned(),
                    }
                })?;
                Ok((name.clone(), self.taken(METHOD, &found, (*dtype, &shape[..]))?))
            };
            expected.iter().map(output).collect()
        })
    }

    fn method(&self, op: Primitive) -> Option<&Py<PyAny>> {
        self.methods.get(usize::from(op.spec().index))?.as_ref()
    }

    /// Takes the interpreter's lock and calls `run` for a method.
    pub(super) fn enter<R>(
        &self,
        method: &str,
        body: impl FnOnce(Python<'_>) -> Result<R, PythonError>,
    ) -> Result<R, PythonError> {
        /// A guard that decreases the depth, even after a panic.
        struct Left(usize);
        impl Drop for Left {
            fn drop(&mut self) {
                DEPTH.set(self.0);
            }
        }
        let depth = DEPTH.get();
        if depth >= DEEPEST {
            return Err(PythonError::Nested { method: self.path(method), most: DEEPEST });
        }
        DEPTH.set(depth + 1);
        let _left = Left(depth);
        attached(body).unwrap_or_else(|| Err(PythonError::Ended { method: self.path(method) }))
    }

    /// Refuses element types that the author does not declare.
    pub(super) fn check_types(
        &self,
        op: &'static str,
        mut types: impl Iterator<Item = DataType>,
    ) -> Result<(), bb::Error> {
        match types.find(|dtype| !self.types.has(*dtype)) {
            Some(dtype) => Err(NarrowError::Lacks { op, dtype }.into()),
            None => Ok(()),
        }
    }

    /// Wraps a tensor that a method returned, after checking that it has the expected type and shape.
    fn taken(
        &self,
        method: &str,
        object: &Bound<'_, PyAny>,
        expected: (DataType, &[usize]),
    ) -> Result<PythonTensor, PythonError> {
        let kind = self.kind(object).map_err(|raised| self.raised(method, object.py(), raised))?;
        match kind {
            Some((dtype, shape)) if (dtype, &shape[..]) == expected => {
                if let Some(array) = arrays::as_array(object) {
                    arrays::freeze(array);
                }
                Ok(PythonTensor::new(object.clone().unbind(), dtype, shape))
            }
            other => Err(self.returned(method, expected, object, other)),
        }
    }

    /// Wraps the tensors of a list that a method returned.
    fn several(
        &self,
        method: &str,
        objects: &Bound<'_, PyAny>,
        expected: &infer::Outputs,
    ) -> Result<Outputs<PythonTensor>, PythonError> {
        let listed: Option<Vec<Bound<'_, PyAny>>> =
            match (objects.cast::<PyList>(), objects.cast::<PyTuple>()) {
                (Ok(list), _) => Some(list.iter().collect()),
                (_, Ok(tuple)) => Some(tuple.iter().collect()),
                _ => None,
            };
        let wrong = |got| PythonError::Returned {
            method: self.path(method),
            expected: format!("a list of {} tensors", expected.len()),
            got,
            advice: String::new(),
        };
        let listed = listed.ok_or_else(|| wrong(shown(objects, None)))?;
        if listed.len() != expected.len() {
            return Err(wrong(format!("{}", listed.len())));
        }
        let each = listed.iter().zip(expected);
        each.map(|(object, (dtype, shape))| self.taken(method, object, (*dtype, &shape[..]))).collect()
    }

    /// Returns the element type and the shape of an object, or `None` if `bb` cannot determine them.
    fn kind(&self, object: &Bound<'_, PyAny>) -> PyResult<Option<Kind>> {
        if let Some(describe) = &self.describe {
            let described = describe.bind(object.py()).call1((object,))?;
            let Ok(pair) = described.extract::<(Bound<'_, PyAny>, Bound<'_, PyAny>)>() else {
                return Err(PyTypeError::new_err(format!(
                    "`{}` returned `{}`, expected the element type and the shape, as in `(x.dtype, x.shape)`",
                    self.path("describe"),
                    type_name(&described)
                )));
            };
            return kind_by(&pair.0, &pair.1);
        }
        if let Some(array) = arrays::as_array(object) {
            return Ok(kind_of_array(array));
        }
        let py = object.py();
        let (dtype, shape) =
            (object.getattr_opt(intern!(py, "dtype"))?, object.getattr_opt(intern!(py, "shape"))?);
        match (dtype, shape) {
            (Some(dtype), Some(shape)) => kind_by(&dtype, &shape),
            _ => Ok(None),
        }
    }

    fn path(&self, method: &str) -> String {
        format!("{}.{method}", self.class)
    }

    #[cold]
    fn lacks(&self, spec: &'static OpSpec) -> bb::Error {
        let write = format!("`{}`", params::signature(spec));
        bb::Error::NoMethod { backend: self.class.clone(), method: spec.method, write }
    }

    #[cold]
    fn raised(&self, method: &str, py: Python<'_>, source: PyErr) -> PythonError {
        if !source.is_instance_of::<PyException>(py) {
            // Exceptions that do not derive from `Exception`, for example `KeyboardInterrupt`, end the run.
            interrupt::end(py, &source);
        }
        let method = self.path(method);
        match is_about_writing(py, &source) {
            true => PythonError::ReadOnly { method, source },
            false => PythonError::Raised { method, source },
        }
    }

    #[cold]
    pub(super) fn elements(&self, method: &str, source: Problem) -> PythonError {
        PythonError::Elements { method: self.path(method), source }
    }

    #[cold]
    fn returned(
        &self,
        method: &str,
        (dtype, shape): (DataType, &[usize]),
        object: &Bound<'_, PyAny>,
        kind: Option<Kind>,
    ) -> PythonError {
        let advice = match &kind {
            Some((got, _)) if *got != dtype && object.hasattr("astype").unwrap_or_default() => {
                format!("; convert it, as in `result.astype(\"{}\")`", python_name(dtype))
            }
            None if self.describe.is_none() && is_undescribed(object) => format!(
                "; write `def describe(self, tensor)`, which returns the element type and the shape of a `{}`",
                type_name(object)
            ),
            _ => String::new(),
        };
        let (expected, got) = (written(dtype, shape), shown(object, kind));
        PythonError::Returned { method: self.path(method), expected, got, advice }
    }
}

/// Returns whether an object may be a tensor of a library that does not report an element type and a shape. Python's own types are not.
fn is_undescribed(object: &Bound<'_, PyAny>) -> bool {
    let module = object.get_type().module();
    arrays::as_array(object).is_none() && module.is_ok_and(|module| module != "builtins")
}

/// Returns whether an exception is NumPy's error for writing to a read-only array.
fn is_about_writing(py: Python<'_>, raised: &PyErr) -> bool {
    if !raised.is_instance_of::<PyValueError>(py) {
        return false;
    }
    let text = raised.value(py).str().map(|text| text.to_string()).unwrap_or_default();
    ["array is read-only", "destination is read-only"].iter().any(|end| text.ends_with(end))
}

/// Builds the arguments of a method: the operands, which are one list if the method takes any number of them, and the parameters.
fn arguments<'py>(
    py: Python<'py>,
    spec: &OpSpec,
    inputs: &[Option<&PythonTensor>],
    given: &[Param<'_>],
) -> Result<Bound<'py, PyTuple>, Problem> {
    let mut all: SmallVec<[Bound<'py, PyAny>; 8]> = SmallVec::new();
    let operands = inputs.iter().flatten().map(|x| x.object(py));
    if matches!(spec.inputs, [(_, Arity::Tensors)]) {
        all.push(PyList::new(py, operands.collect::<Vec<_>>())?.into_any());
    } else {
        all.extend(operands);
    }
    for param in given {
        all.push(params::object(py, param)?);
    }
    Ok(PyTuple::new(py, all)?)
}

/// Returns the element type and shape of an array, or `None` if ONNX does not have its element type.
fn kind_of_array(array: &Bound<'_, numpy::PyUntypedArray>) -> Option<Kind> {
    Some((of_elements(elements(&array.dtype()))?, Shape::from_slice(array.shape())))
}

fn of_elements(elements: Elements) -> Option<DataType> {
    match elements {
        Elements::Of(dtype) => Some(dtype),
        Elements::Objects | Elements::Text => Some(DataType::String),
        Elements::Other => None,
    }
}

/// Parses the element type and shape that an object reports.
fn kind_by(dtype: &Bound<'_, PyAny>, shape: &Bound<'_, PyAny>) -> PyResult<Option<Kind>> {
    let Some(dtype) = element_type(dtype)? else { return Ok(None) };
    let Ok(extents) = shape.try_iter() else { return Ok(None) };
    let mut shape = Shape::new();
    for extent in extents {
        let Ok(extent) = extent?.extract::<usize>() else { return Ok(None) };
        shape.push(extent);
    }
    Ok(Some((dtype, shape)))
}

/// Parses an element type: a type of NumPy or of `ml_dtypes`, its name, or a type of another library with the same name, for example
/// `torch.float32`.
pub(super) fn element_type(object: &Bound<'_, PyAny>) -> PyResult<Option<DataType>> {
    if object.is_none() {
        return Ok(None);
    }
    if let Ok(descr) = object.cast::<PyArrayDescr>() {
        return Ok(of_elements(elements(descr)));
    }
    let name = object.str()?.to_string();
    if let Some(dtype) = of_name(name.rsplit('.').next().unwrap_or_default()) {
        return Ok(Some(dtype));
    }
    let descr = PyArrayDescr::new(object.py(), object);
    Ok(descr.ok().and_then(|descr| of_elements(elements(&descr))))
}

/// Formats an element type and a shape, as in `float32 of the shape [2, 3]`.
fn written(dtype: DataType, shape: &[usize]) -> String {
    format!("{} of the shape {shape:?}", python_name(dtype))
}

/// Describes an object: as a tensor if it is one, otherwise by its type.
fn shown(object: &Bound<'_, PyAny>, kind: Option<Kind>) -> String {
    match kind {
        Some((dtype, shape)) => written(dtype, &shape),
        None => format!("`{}`", type_name(object)),
    }
}
