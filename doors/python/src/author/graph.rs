//! Graphs of primitives as they are passed to an author's `execute`.

use super::instance::{Instance, Kind};
use super::params;
use super::steps::{self, PrimitiveCall};
use super::tensor::PythonTensor;
use crate::convert::Problem;
use crate::python_error::PythonError;
use bb::{DataType, Module, Shape, Tensor, TensorData};
use bb_ir::graph::ValueId;
use bb_ir::infer;
use prost::Message;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};
use smallvec::SmallVec;
use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, OnceLock, PoisonError};

/// A cached graph, with its Python object.
pub(super) struct Known {
    module: Module,
    /// The calls, or `None` if some node is not a primitive.
    steps: Option<Vec<PrimitiveCall>>,
    object: OnceLock<Py<Graph>>,
    /// The types and shapes of the inputs of the last run, and of the outputs for them.
    last: Mutex<Option<(Vec<Kind>, Vec<(String, Kind)>)>>,
}

impl Known {
    pub(super) fn new(module: Module) -> Result<Known, bb::Error> {
        let steps = steps::of(module.graph())?;
        Ok(Known { module, steps, object: OnceLock::new(), last: Mutex::new(None) })
    }

    /// Returns the types and shapes of the outputs for these inputs, or `None` if some node is not a primitive.
    ///
    /// # Errors
    ///
    /// [`bb::Error::UnknownInput`] and [`bb::Error::MissingInput`]; the errors of the primitives' rules; an element type that the
    /// author does not declare.
    pub(super) fn expected(
        &self,
        on: &Instance,
        inputs: &HashMap<String, PythonTensor>,
    ) -> Result<Option<Vec<(String, Kind)>>, bb::Error> {
        let Some(steps) = &self.steps else { return Ok(None) };
        let given = self.given(inputs)?;
        let last = || self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, known)) = last().as_ref().filter(|(kinds, _)| *kinds == given) {
            return Ok(Some(known.clone()));
        }
        let outputs = self.inferred(on, steps, &given)?;
        *last() = Some((given, outputs.clone()));
        Ok(Some(outputs))
    }

    /// Returns the types and shapes of the inputs, in the graph's order.
    fn given(&self, inputs: &HashMap<String, PythonTensor>) -> Result<Vec<Kind>, bb::Error> {
        let graph = self.module.graph();
        let expected = || graph.inputs.iter().map(|value| graph.name_of(*value).to_owned()).collect();
        let known: BTreeSet<&str> = graph.inputs.iter().map(|value| graph.name_of(*value)).collect();
        if let Some(name) = inputs.keys().find(|name| !known.contains(name.as_str())) {
            return Err(bb::Error::UnknownInput { name: name.clone(), expected: expected() });
        }
        let kind = |value: &ValueId| {
            let name = graph.name_of(*value);
            let x = inputs.get(name);
            let missing = || bb::Error::MissingInput { name: name.to_owned(), expected: expected() };
            x.map(|x| (x.dtype(), Shape::from_slice(x.shape()))).ok_or_else(missing)
        };
        graph.inputs.iter().map(kind).collect()
    }

    /// Infers the types and shapes of the outputs with the primitives' rules.
    fn inferred(
        &self,
        on: &Instance,
        steps: &[PrimitiveCall],
        given: &[Kind],
    ) -> Result<Vec<(String, Kind)>, bb::Error> {
        let graph = self.module.graph();
        let mut kinds: HashMap<ValueId, Kind> =
            graph.inputs.iter().copied().zip(given.iter().cloned()).collect();
        let constant =
            |(value, data): &(ValueId, TensorData)| (*value, (data.dtype(), Shape::from_slice(data.shape())));
        kinds.extend(graph.constants.iter().map(constant));
        let unknown = || steps::excluded("a value that is made before it is read");
        for step in steps {
            let operands: SmallVec<[(DataType, &[usize]); 4]> = step
                .inputs
                .iter()
                .map(|value| kinds.get(value).map(|(dtype, shape)| (*dtype, &shape[..])))
                .collect::<Option<_>>()
                .ok_or_else(unknown)?;
            let results = infer::primitive(step.op, &operands, &step.params)?;
            let types = operands.iter().map(|x| x.0).chain(results.iter().map(|x| x.0));
            on.check_types(step.op.spec().method, types)?;
            drop(operands);
            let results = results.into_iter().map(|(dtype, shape)| (dtype, Shape::from_slice(&shape)));
            kinds.extend(step.outputs.iter().copied().zip(results));
        }
        let output = |value: &ValueId| -> Result<_, bb::Error> {
            Ok((graph.name_of(*value).to_owned(), kinds.get(value).cloned().ok_or_else(unknown)?))
        };
        graph.outputs.iter().map(output).collect()
    }

    /// Returns the Python object of the graph. Its constants are converted by the author's `from_host` once.
    ///
    /// # Errors
    ///
    /// The errors of [`Instance::from_host`]; [`PythonError::Elements`] if NumPy does not have the element type of a parameter.
    pub(super) fn object(&self, on: &Instance) -> Result<&Py<Graph>, PythonError> {
        const METHOD: &str = "execute";
        if let Some(made) = self.object.get() {
            return Ok(made);
        }
        let steps = self.steps.as_deref().unwrap_or_default();
        let graph = self.module.graph();
        let read: BTreeSet<ValueId> =
            steps.iter().flat_map(|step| &step.inputs).chain(&graph.outputs).copied().collect();
        let constants = graph.constants.iter().filter(|(value, _)| read.contains(value));
        let made = |(value, data): &(ValueId, TensorData)| -> Result<_, PythonError> {
            Ok((graph.name_of(*value), on.from_host(data)?))
        };
        let constants = constants.map(made).collect::<Result<Vec<_>, PythonError>>()?;
        let made = on.enter(METHOD, |py| {
            let made = Graph::new(py, &self.module, steps, &constants);
            made.map_err(|problem| on.elements(METHOD, problem))
        })?;
        // Another thread may have created the object at the same time. Only the first one is used, so that an author can identify a graph
        // by its object.
        Ok(self.object.get_or_init(|| made))
    }
}

/// A graph of primitives. The nodes are sorted so that they can run in this order.
#[pyclass(frozen, weakref, module = "bb")]
pub(crate) struct Graph {
    module: Module,
    /// The names of the inputs.
    #[pyo3(get)]
    inputs: Py<PyTuple>,
    /// The names of the outputs.
    #[pyo3(get)]
    outputs: Py<PyTuple>,
    /// The nodes.
    #[pyo3(get)]
    nodes: Py<PyTuple>,
    /// The constants by name, as `from_host` returned them.
    #[pyo3(get)]
    constants: Py<PyDict>,
}

#[pymethods]
impl Graph {
    /// The graph as the bytes of an ONNX model.
    #[getter]
    fn onnx<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let model = bb::export::inlined(&self.module);
        let model =
            model.map_err(|error| crate::failure::raise(py, crate::failure::Phase::Convert, &error, None))?;
        Ok(PyBytes::new(py, &model.encode_to_vec()))
    }

    fn __getattr__(slf: &Bound<'_, Self>, name: &str) -> PyResult<Py<PyAny>> {
        Err(no_attribute(slf.as_any(), name)?)
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        format!("<bb.Graph of {} nodes>", self.nodes.bind(py).len())
    }
}

impl Graph {
    fn new(
        py: Python<'_>,
        module: &Module,
        steps: &[PrimitiveCall],
        made: &[(&str, PythonTensor)],
    ) -> Result<Py<Graph>, Problem> {
        let graph = module.graph();
        let names = |values: &[ValueId]| -> PyResult<Py<PyTuple>> {
            Ok(PyTuple::new(py, values.iter().map(|value| graph.name_of(*value)))?.unbind())
        };
        let constants = PyDict::new(py);
        for (name, x) in made {
            constants.set_item(name, x.object(py))?;
        }
        let node = |step: &PrimitiveCall| -> Result<Bound<'_, Node>, Problem> {
            let given = PyDict::new(py);
            for (param, value) in step.op.spec().params.iter().zip(&step.params) {
                given.set_item(param.name, params::object(py, value)?)?;
            }
            let node = Node {
                operator: step.op.spec().name,
                method: step.op.spec().method,
                inputs: names(&step.inputs)?,
                outputs: names(&step.outputs)?,
                params: given.unbind(),
            };
            Ok(Bound::new(py, node)?)
        };
        let nodes: Vec<_> = steps.iter().map(node).collect::<Result<_, Problem>>()?;
        let object = Graph {
            module: module.clone(),
            inputs: names(&graph.inputs)?,
            outputs: names(&graph.outputs)?,
            nodes: PyTuple::new(py, nodes)?.unbind(),
            constants: constants.unbind(),
        };
        Ok(Py::new(py, object)?)
    }
}

/// A call of a primitive in a graph.
#[pyclass(frozen, get_all, module = "bb")]
pub(crate) struct Node {
    /// The ONNX name of the primitive, as in `ReduceSum`.
    operator: &'static str,
    /// The method name of the primitive, as in `reduce_sum`.
    method: &'static str,
    /// The names of the operands.
    inputs: Py<PyTuple>,
    /// The names of the results.
    outputs: Py<PyTuple>,
    /// The parameters by name, in the order of the method's arguments.
    params: Py<PyDict>,
}

#[pymethods]
impl Node {
    fn __getattr__(slf: &Bound<'_, Self>, name: &str) -> PyResult<Py<PyAny>> {
        Err(no_attribute(slf.as_any(), name)?)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let Node { method, inputs, outputs, params, .. } = self;
        Ok(format!(
            "<bb.Node {method}{} {} -> {}>",
            inputs.bind(py).repr()?,
            params.bind(py).repr()?,
            outputs.bind(py).repr()?
        ))
    }
}

/// Returns the error for an attribute that an object does not have. It suggests the most similar one.
fn no_attribute(object: &Bound<'_, PyAny>, name: &str) -> PyResult<PyErr> {
    let text = format!("'{}' object has no attribute '{name}'", object.get_type().name()?);
    let hints = object.py().import(intern!(object.py(), "bb._hints"))?;
    Ok(PyErr::from_value(
        hints.call_method1(intern!(object.py(), "no_attribute"), (text, name, object.get_type().dir()?))?,
    ))
}
