//! Converts errors to Python exceptions. The kind of the error determines the class, and its details become fields.

use crate::convert::Problem;
use crate::fields::{OperandInfo, RunInputs};
use crate::load::LoadError;
use crate::python_error::PythonError;
use bb::services::{OutOfMemory, Pressure};
use bb::{BackendHandle, Error, ErrorKind};
use bb_ir::Error as IrError;
use bb_ir::text::{sentence, shown};
use pyo3::exceptions::PyException;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

/// The phase of an error. It contains the backend if there is one, because a backend classifies its own errors.
#[derive(Clone, Copy)]
pub(crate) enum Phase<'a> {
    /// Opening a backend.
    Open,
    /// Loading and checking a model.
    Load,
    /// Compiling a model.
    Compile(&'a BackendHandle),
    /// Converting objects of the caller to options or inputs.
    Convert,
    /// Running a model.
    Run(&'a BackendHandle),
}

impl Phase<'_> {
    /// Returns the backend of the phase, if there is one.
    fn on(&self) -> Option<&BackendHandle> {
        match self {
            Phase::Open | Phase::Load | Phase::Convert => None,
            Phase::Compile(on) | Phase::Run(on) => Some(on),
        }
    }

    /// Returns the kind of an error.
    fn kind(&self, error: &Error) -> ErrorKind {
        let kind = self.on().map_or_else(|| error.kind(), |on| on.error_kind(error));
        match self {
            // There are no inputs yet, so operands that do not match are a mistake of the model.
            Phase::Load | Phase::Compile(_) => kind.of_model(),
            Phase::Open | Phase::Convert | Phase::Run(_) => kind,
        }
    }

    /// Returns the exception class for errors of the phase that have no more specific class.
    fn class(&self) -> &'static str {
        match self {
            Phase::Open => "BackendError",
            Phase::Load | Phase::Compile(_) => "ModelError",
            Phase::Convert => "InputError",
            Phase::Run(_) => "RunError",
        }
    }
}

type Source<'a> = &'a (dyn std::error::Error + 'static);

/// Collects an error and its causes. A transparent or boxed error and the error inside it have the same text and both are in the list.
fn chain<'a>(error: Source<'a>, on: Option<&BackendHandle>) -> Vec<Source<'a>> {
    let mut all: Vec<Source<'a>> = Vec::new();
    let mut next = Some(error);
    while let Some(error) = next {
        all.push(error);
        let shown: Option<Source<'a>> = match error.downcast_ref::<Error>() {
            Some(Error::Ir(inner)) => Some(inner),
            Some(Error::Narrow(inner)) => Some(inner),
            Some(Error::Input(inner)) => Some(&**inner),
            Some(Error::Number(inner)) => Some(&**inner),
            // The cause of an error about a node is in a box, which is an error of another type.
            None if error.is::<Box<IrError>>() => {
                error.downcast_ref::<Box<IrError>>().map(|inner| &**inner as Source<'a>)
            }
            _ => on.and_then(|on| on.runtime().wrapped(error)).map(|inner| inner as Source<'a>),
        };
        next = shown.or_else(|| error.source());
    }
    all
}

/// Returns the name of an exception class in the module `bb.errors`.
fn class(phase: Phase<'_>, kind: ErrorKind, chain: &[Source<'_>]) -> &'static str {
    let class = match kind {
        ErrorKind::InvalidModel | ErrorKind::Configuration => phase.class(),
        // The operands of an inner node are not inputs of the caller.
        ErrorKind::WrongInput if chain.iter().any(|error| names_node(*error)) => phase.class(),
        ErrorKind::WrongInput => "InputError",
        ErrorKind::Unsupported => "UnsupportedError",
        ErrorKind::Limit => "LimitError",
        ErrorKind::Cancelled => "Cancelled",
        ErrorKind::Device if matches!(phase, Phase::Run(_)) => "RunError",
        ErrorKind::Device => "BackendError",
        ErrorKind::Internal => "InternalError",
    };
    chain.iter().find_map(|error| finer(kind, *error)).unwrap_or(class)
}

/// Returns whether an error names the node that failed.
fn names_node(error: Source<'_>) -> bool {
    matches!(error.downcast_ref(), Some(Error::Node { .. } | Error::Nodes { .. }))
        || matches!(error.downcast_ref(), Some(IrError::Node { .. }))
}

/// Returns the class of an error that has a more specific class than its kind.
fn finer(kind: ErrorKind, error: Source<'_>) -> Option<&'static str> {
    let (of_bb, of_ir) = (error.downcast_ref::<Error>(), error.downcast_ref::<IrError>());
    match kind {
        ErrorKind::WrongInput => {
            let output = matches!(of_bb, Some(Error::UnknownValue { .. } | Error::InsideSubgraph { .. }));
            output.then_some("OutputError")
        }
        ErrorKind::Configuration => match (of_bb, of_ir) {
            (Some(Error::UnknownBackend { .. }), _) => Some("BackendError"),
            (Some(Error::Write { .. }), _) => Some("FileError"),
            (_, Some(IrError::NoFile { .. } | IrError::ExternalMissing { .. })) => Some("FileNotFound"),
            (_, Some(IrError::NotFile { .. })) => Some("FileError"),
            _ => None,
        },
        ErrorKind::Limit => {
            let memory = matches!(of_ir, Some(IrError::Memory { .. }));
            (memory || error.is::<Pressure>() || error.is::<OutOfMemory>()).then_some("OutOfMemory")
        }
        ErrorKind::Cancelled => matches!(of_bb, Some(Error::DeadlineExceeded)).then_some("DeadlineExceeded"),
        ErrorKind::Device => match (of_bb, of_ir) {
            (Some(Error::DeviceLost { .. } | Error::ShutDown { .. }), _) => Some("BackendError"),
            (Some(Error::Write { .. }), _) => Some("FileError"),
            (_, Some(IrError::File { .. } | IrError::ExternalIo { .. })) => Some("FileError"),
            _ => None,
        },
        ErrorKind::InvalidModel | ErrorKind::Unsupported | ErrorKind::Internal => None,
    }
}

/// The details of an error that become fields of the exception.
#[derive(Default)]
struct Details {
    node: Option<String>,
    operator: Option<String>,
    domain: Option<String>,
    backend: Option<String>,
    input: Option<String>,
    expected: Option<String>,
    got: Option<String>,
    file: Option<String>,
    operands: Vec<OperandInfo>,
    nodes: Vec<(String, String)>,
}

impl Details {
    fn of(chain: &[Source<'_>], given: Option<&RunInputs<'_>>) -> Details {
        let mut details = Details::default();
        for error in chain {
            if let Some(error) = error.downcast_ref::<Error>() {
                details.add(error, given);
            } else if let Some(error) = error.downcast_ref::<IrError>() {
                details.add_ir(error);
            } else if let Some(PythonError::Returned { expected, got, .. }) = error.downcast_ref() {
                (details.expected, details.got) = (Some(expected.clone()), Some(got.clone()));
            }
        }
        details
    }

    fn add(&mut self, error: &Error, given: Option<&RunInputs<'_>>) {
        match error {
            // The innermost node is the node that failed; the outer nodes contain its subgraph.
            Error::Node { node, op, .. } => {
                (self.node, self.operator) = (Some(node.clone()), Some(op.clone()));
                if let Some(found) = given.and_then(|given| given.node(node, op)) {
                    (self.domain, self.operands) = (Some(found.domain), found.operands);
                }
            }
            Error::Nodes { first, last, .. } => self.node = Some(format!("{first} … {last}")),
            Error::Unsupported { missing } => {
                let nodes =
                    missing.0.iter().map(|missing| (missing.node.node.clone(), missing.node.op.clone()));
                self.nodes.extend(nodes);
                if let [only] = missing.0.as_slice() {
                    (self.node, self.operator) = (Some(only.node.node.clone()), Some(only.node.op.clone()));
                    self.domain = Some(only.node.domain.clone());
                }
            }
            Error::UnsupportedOperator { op, domain, .. } => {
                (self.operator, self.domain) = (Some(op.clone()), Some(domain.clone()));
            }
            Error::Kernel { backend, .. } | Error::Panicked { backend, .. } => {
                self.backend = Some((*backend).to_owned());
            }
            Error::UnknownBackend { name, linked, .. } => {
                (self.got, self.expected) = (Some(name.clone()), Some(linked.join(", ")));
            }
            Error::MissingInput { name, .. } => self.input = Some(name.clone()),
            Error::UnknownInput { name, expected } => {
                (self.input, self.expected) = (Some(name.clone()), Some(expected.join(", ")));
            }
            Error::UnknownValue { name, outputs, .. } => {
                (self.got, self.expected) = (Some(name.clone()), Some(outputs.join(", ")));
            }
            Error::UnknownOption { option, takes, .. } | Error::UnknownLayerOption { option, takes, .. } => {
                (self.got, self.expected) = (Some(option.clone()), Some(takes.join(", ")));
            }
            Error::OptionValue { expected, got, .. } => {
                (self.got, self.expected) = (Some(got.clone()), Some((*expected).to_owned()));
            }
            Error::OptionRefused { got, .. } => self.got = Some(got.clone()),
            Error::BrokenPromise(broken) => {
                (self.got, self.expected) = (Some(broken.got.clone()), Some(broken.expected.clone()));
            }
            Error::SavedFor { expected, got, .. } => {
                (self.expected, self.got) = (Some(expected.clone()), Some(got.clone()));
            }
            Error::MissingOutput { name, made } => {
                (self.got, self.expected) = (Some(made.join(", ")), Some(name.clone()));
            }
            Error::RepeatedInput { name } => self.input = Some(name.clone()),
            Error::Write { path, .. } => self.file = Some(path.display().to_string()),
            Error::Input(mismatch) => {
                self.input = Some(mismatch.name.clone());
                self.expected = Some(format!("{}", mismatch.declared));
                self.got = Some(format!("{}", mismatch.got));
                self.operands = operand(&mismatch.got).into_iter().collect();
            }
            _ => {}
        }
    }

    fn add_ir(&mut self, error: &IrError) {
        let known = |shape: &[usize]| OperandInfo {
            dtype: None,
            shape: Some(shape.iter().map(|extent| Some(*extent)).collect()),
        };
        match error {
            IrError::Node { node, op, .. } => {
                (self.node, self.operator) = (Some(node.clone()), Some(op.clone()))
            }
            IrError::MissingValue { node, .. } | IrError::Cycle { node, .. } => {
                self.node = Some(node.clone())
            }
            IrError::UnknownOperator { op, domain, .. } => {
                (self.operator, self.domain) = (Some(op.clone()), Some(domain.clone()));
            }
            IrError::NoFile { path, .. }
            | IrError::NotFile { path, .. }
            | IrError::File { path, .. }
            | IrError::InFile { path, .. } => {
                self.file = Some(path.display().to_string());
            }
            IrError::ExternalMissing { location, .. } | IrError::ExternalIo { location, .. } => {
                self.file = Some(location.clone());
            }
            IrError::DataType { expected, got } | IrError::MixedTypes { expected, got, .. } => {
                (self.expected, self.got) = (Some(expected.to_string()), Some(got.to_string()));
            }
            IrError::InnerExtents { shapes, .. } => self.add_ir(shapes),
            IrError::Shapes { left, right, .. } if self.operands.is_empty() => {
                self.operands = vec![known(left), known(right)];
            }
            IrError::Param { shape, .. } if self.operands.is_empty() => self.operands = vec![known(shape)],
            _ => {}
        }
    }
}

fn operand(ty: &bb::ir::graph::ValueType) -> Option<OperandInfo> {
    use bb::ir::graph::{Dim, ValueType};
    let ValueType::Tensor { dtype, shape } = ty else { return None };
    let extent = |dim: &Dim| if let Dim::Known(extent) = dim { Some(*extent) } else { None };
    let shape = shape.as_ref().map(|dims| dims.iter().map(extent).collect());
    Some(OperandInfo { dtype: Some(*dtype), shape })
}

/// Formats an error and its causes, without repeating a text.
fn texts(chain: &[Source<'_>]) -> Vec<String> {
    let mut texts: Vec<String> = chain.iter().map(ToString::to_string).collect();
    texts.dedup();
    texts
}

/// Formats an error and its causes in one line.
pub(crate) fn told(error: Source<'_>) -> String {
    texts(&chain(error, None)).join(": ")
}

/// Creates an exception of a class of `bb.errors`.
fn make(
    py: Python<'_>,
    class: &str,
    kind: ErrorKind,
    message: &str,
    fill: impl FnOnce(&Bound<'_, PyDict>) -> PyResult<()>,
) -> PyErr {
    let make = || -> PyResult<PyErr> {
        let fields = PyDict::new(py);
        fields.set_item("kind", kind.name())?;
        fill(&fields)?;
        let errors = py.import(intern!(py, "bb.errors"))?;
        let error = errors.getattr(intern!(py, "_make"))?.call1((class, message, fields))?;
        Ok(PyErr::from_value(error))
    };
    make().unwrap_or_else(|error| error)
}

/// Creates the exception for an error.
pub(crate) fn raise(py: Python<'_>, phase: Phase<'_>, error: &Error, given: Option<&RunInputs<'_>>) -> PyErr {
    let mut chain = chain(error, phase.on());
    let kind = phase.kind(error);
    let class = class(phase, kind, &chain);
    let mut details = Details::of(&chain, given);
    let of_caller = matches!(class, "InputError" | "OutputError" | "Cancelled" | "DeadlineExceeded");
    if of_caller || kind == ErrorKind::WrongInput {
        // Removes the backend's error around the cause, because the caller can correct the cause, and the backend only reported it.
        while chain.len() > 1
            && matches!(chain.first().and_then(|e| e.downcast_ref()), Some(Error::Kernel { .. }))
        {
            chain.remove(0);
        }
    }
    let raised = chain.iter().find_map(|error| error.downcast_ref::<PyErr>());
    if let Some(raised) = raised.filter(|raised| !raised.is_instance_of::<PyException>(py)) {
        // Exceptions that do not derive from `Exception`, for example `KeyboardInterrupt`, are raised unchanged.
        return raised.clone_ref(py);
    }
    if class == "UnsupportedError" && details.nodes.is_empty() {
        details.nodes.extend(details.node.clone().zip(details.operator.clone()));
    }
    let texts = texts(&chain);
    let error = make(py, class, kind, &texts.join(": "), |fields| {
        fields.set_item("causes", PyTuple::new(py, texts.iter().skip(1))?)?;
        for (name, value) in [
            ("node", &details.node),
            ("operator", &details.operator),
            ("domain", &details.domain),
            ("backend", &details.backend),
            ("input", &details.input),
            ("expected", &details.expected),
            ("got", &details.got),
            ("filename", &details.file),
        ] {
            if let Some(value) = value {
                fields.set_item(name, value)?;
            }
        }
        if !details.operands.is_empty() {
            let (shapes, dtypes) = (PyList::empty(py), PyList::empty(py));
            for operand in &details.operands {
                match &operand.shape {
                    Some(extents) => shapes.append(PyTuple::new(py, extents)?)?,
                    None => shapes.append(py.None())?,
                }
                dtypes.append(operand.dtype.map(crate::dtypes::word))?;
            }
            fields.set_item("shapes", shapes)?;
            fields.set_item("dtypes", dtypes)?;
        }
        if !details.nodes.is_empty() {
            fields.set_item("nodes", &details.nodes)?;
        }
        Ok(())
    });
    if let Some(raised) = raised {
        error.set_cause(py, Some(raised.clone_ref(py)));
    }
    error
}

/// Creates the exception of class `class` for an error that is not a [`bb::Error`].
pub(crate) fn raise_other(py: Python<'_>, class: &str, kind: ErrorKind, error: Source<'_>) -> PyErr {
    let texts = texts(&chain(error, None));
    make(py, class, kind, &texts.join(": "), |fields| {
        fields.set_item("causes", PyTuple::new(py, texts.iter().skip(1))?)
    })
}

/// Creates the exception for an error of loading a model.
pub(crate) fn raise_load(py: Python<'_>, error: LoadError) -> PyErr {
    match error {
        LoadError::Model(error) => raise(py, Phase::Load, &error, None),
        LoadError::Asked(problem) => raise_problem(py, Phase::Convert, problem, None),
    }
}

/// An input and its declared type.
pub(crate) struct Fed<'a> {
    pub(crate) name: &'a str,
    pub(crate) ty: &'a bb::ir::graph::ValueType,
    pub(crate) object: &'a Bound<'a, PyAny>,
}

/// Creates the exception for an object that cannot become an input, or a result that cannot become an object.
///
/// `phase` is the phase of the backend's errors.
pub(crate) fn raise_problem(
    py: Python<'_>,
    phase: Phase<'_>,
    problem: Problem,
    fed: Option<&Fed<'_>>,
) -> PyErr {
    let chain = chain(&problem, None);
    let (class, kind) = match &problem {
        Problem::Backend(error) => return raise(py, phase, error, None),
        Problem::Python(error) if fed.is_none() => return error.clone_ref(py),
        Problem::NoType { .. } => ("MissingPackage", ErrorKind::Configuration),
        Problem::Compiled => ("InputError", ErrorKind::Configuration),
        Problem::Tensor(error) => (class(Phase::Convert, error.kind(), &chain), error.kind()),
        Problem::ElementType { .. }
        | Problem::Device(_)
        | Problem::NoConstant { .. }
        | Problem::Text { .. }
        | Problem::Objects
        | Problem::Kind { .. }
        | Problem::Digits { .. }
        | Problem::Dlpack(_)
        | Problem::Python(_) => ("InputError", ErrorKind::WrongInput),
    };
    let why = match &problem {
        Problem::Python(error) => error.to_string(),
        _ => texts(&chain).join(": "),
    };
    let message = match fed {
        Some(fed) => {
            format!("input `{}` is declared as {}: {why}", shown(fed.name), sentence(fed.ty))
        }
        None => why,
    };
    let error = make(py, class, kind, &message, |fields| {
        if let Some(fed) = fed {
            fields.set_item("input", fed.name)?;
            fields.set_item("expected", fed.ty.to_string())?;
            fields.set_item("got", crate::convert::type_name(fed.object))?;
        }
        Ok(())
    });
    if let Problem::Python(cause) = problem {
        error.set_cause(py, Some(cause));
    }
    error
}
