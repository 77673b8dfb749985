//! Exceptions of errors: the class by what went wrong, the details as fields.

use crate::convert::Problem;
use crate::fields::{Given, Operand};
use crate::load::LoadError;
use crate::types;
use bb::Error;
use bb_cpu::CpuError;
use bb_ir::Error as IrError;
use bb_ir::text::{sentence, shown};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

/// What was being done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// A backend was opened.
    Open,
    /// A model was loaded and checked.
    Load,
    /// A model was compiled.
    Compile,
    /// A model ran.
    Run,
}

type Source<'a> = &'a (dyn std::error::Error + 'static);

/// Looks at an error and at everything that caused it, also where an error shows another as itself.
fn chain<'a>(error: Source<'a>) -> Vec<Source<'a>> {
    let mut all: Vec<Source<'a>> = Vec::new();
    let mut next = Some(error);
    while let Some(error) = next {
        all.push(error);
        let shown: Option<Source<'a>> = match error.downcast_ref::<Error>() {
            Some(Error::Ir(inner)) => Some(inner),
            Some(Error::Narrow(inner)) => Some(inner),
            Some(Error::Input(inner)) => Some(&**inner),
            Some(Error::Number(inner)) => Some(&**inner),
            _ => match error.downcast_ref::<CpuError>() {
                Some(CpuError::Bb(inner)) => Some(inner),
                _ => None,
            },
        };
        next = shown.or_else(|| error.source());
    }
    all
}

/// Returns the name of the class of an exception, in the module `bb.errors`.
fn class(phase: Phase, chain: &[Source<'_>]) -> &'static str {
    let mut class = match phase {
        Phase::Open => "BackendError",
        Phase::Load | Phase::Compile => "ModelError",
        Phase::Run => "RunError",
    };
    for error in chain {
        if let Some(error) = error.downcast_ref::<Error>() {
            class = match error {
                Error::Cancelled => return "Cancelled",
                Error::DeadlineExceeded => return "DeadlineExceeded",
                Error::Internal(_) => return "InternalError",
                Error::DeviceLost { .. } | Error::ShutDown { .. } | Error::UnknownBackend { .. } => {
                    return "BackendError";
                }
                Error::UnsupportedOperator { .. } | Error::Unsupported { .. } | Error::Refused { .. } => {
                    "UnsupportedError"
                }
                Error::MissingInput { .. }
                | Error::UnknownInput { .. }
                | Error::RepeatedInput { .. }
                | Error::InputCount { .. }
                | Error::NotTensor { .. }
                | Error::Input(_) => return "InputError",
                Error::UnknownValue { .. } | Error::InsideSubgraph { .. } => return "OutputError",
                _ => class,
            };
        } else if let Some(error) = error.downcast_ref::<IrError>() {
            class = match error {
                IrError::Memory { .. } => return "OutOfMemory",
                IrError::Limit { .. } | IrError::TooLarge { .. } => return "LimitError",
                IrError::NoFile { .. } => return "FileNotFound",
                IrError::NotFile { .. } | IrError::File { .. } => return "FileError",
                _ => class,
            };
        } else if let Some(error) = error.downcast_ref::<CpuError>() {
            class = match error {
                CpuError::Memory { .. } | CpuError::Limit(_) => return "OutOfMemory",
                _ => class,
            };
        }
    }
    class
}

/// The details of an error that have fields of their own.
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
    operands: Vec<Operand>,
    nodes: Vec<(String, String)>,
}

impl Details {
    fn of(chain: &[Source<'_>], given: Option<&Given<'_>>) -> Details {
        let mut details = Details::default();
        for error in chain {
            if let Some(error) = error.downcast_ref::<Error>() {
                details.add(error, given);
            } else if let Some(error) = error.downcast_ref::<IrError>() {
                details.add_ir(error);
            }
        }
        details
    }

    fn add(&mut self, error: &Error, given: Option<&Given<'_>>) {
        match error {
            // The innermost node is the one that failed; those around it hold the subgraph.
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
            Error::RepeatedInput { name } => self.input = Some(name.clone()),
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
        let known = |shape: &[usize]| Operand {
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
            IrError::NoFile { path, .. } | IrError::File { path, .. } | IrError::InFile { path, .. } => {
                self.file = Some(path.display().to_string());
            }
            IrError::DataType { expected, got } => {
                (self.expected, self.got) = (Some(expected.to_string()), Some(got.to_string()));
            }
            IrError::Shapes { left, right, .. } if self.operands.is_empty() => {
                self.operands = vec![known(left), known(right)];
            }
            IrError::Param { shape, .. } if self.operands.is_empty() => self.operands = vec![known(shape)],
            _ => {}
        }
    }
}

fn operand(ty: &bb::ir::graph::ValueType) -> Option<Operand> {
    use bb::ir::graph::{Dim, ValueType};
    let ValueType::Tensor { dtype, shape } = ty else { return None };
    let extent = |dim: &Dim| if let Dim::Known(extent) = dim { Some(*extent) } else { None };
    let shape = shape.as_ref().map(|dims| dims.iter().map(extent).collect());
    Some(Operand { dtype: Some(*dtype), shape })
}

/// Writes an error and its causes, each text once.
fn texts(chain: &[Source<'_>]) -> Vec<String> {
    let mut texts: Vec<String> = chain.iter().map(ToString::to_string).collect();
    texts.dedup();
    texts
}

/// Makes an exception of a class of `bb.errors`.
fn make(
    py: Python<'_>,
    class: &str,
    message: &str,
    fill: impl FnOnce(&Bound<'_, PyDict>) -> PyResult<()>,
) -> PyErr {
    let make = || -> PyResult<PyErr> {
        let fields = PyDict::new(py);
        fill(&fields)?;
        let errors = py.import(intern!(py, "bb.errors"))?;
        let error = errors.getattr(intern!(py, "_make"))?.call1((class, message, fields))?;
        Ok(PyErr::from_value(error))
    };
    make().unwrap_or_else(|error| error)
}

/// Makes the exception of an error.
pub(crate) fn raise(py: Python<'_>, phase: Phase, error: &Error, given: Option<&Given<'_>>) -> PyErr {
    let mut chain = chain(error);
    let class = class(phase, &chain);
    if matches!(class, "InputError" | "OutputError" | "Cancelled" | "DeadlineExceeded") {
        // It is the caller who can do something about it, and not the backend, which noticed it.
        while chain.len() > 1
            && matches!(chain.first().and_then(|e| e.downcast_ref()), Some(Error::Kernel { .. }))
        {
            chain.remove(0);
        }
    }
    let details = Details::of(&chain, given);
    let texts = texts(&chain);
    make(py, class, &texts.join(": "), |fields| {
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
    })
}

/// Makes the exception of what went wrong while a model was loaded.
pub(crate) fn raise_load(py: Python<'_>, error: LoadError) -> PyErr {
    match error {
        LoadError::Model(error) => raise(py, Phase::Load, &error, None),
        LoadError::Asked(problem) => raise_problem(py, problem, None),
    }
}

/// An input, and what it is declared as.
pub(crate) struct Fed<'a> {
    pub(crate) name: &'a str,
    pub(crate) ty: &'a bb::ir::graph::ValueType,
    pub(crate) object: &'a Bound<'a, PyAny>,
}

/// Makes the exception of an object that does not become an input, or a result that becomes no object.
pub(crate) fn raise_problem(py: Python<'_>, problem: Problem, fed: Option<&Fed<'_>>) -> PyErr {
    let (class, cause) = match problem {
        Problem::Backend(error) => return raise(py, Phase::Run, &error, None),
        Problem::Python(error) if fed.is_none() => return error,
        Problem::NoType { .. } => ("MissingPackage", None),
        Problem::Python(ref error) => ("InputError", Some(error.clone_ref(py))),
        _ => ("InputError", None),
    };
    let why = match &cause {
        Some(error) => error.to_string(),
        None => texts(&chain(&problem)).join(": "),
    };
    let message = match fed {
        Some(fed) => {
            format!("input `{}` is declared as {}: {why}", shown(fed.name), sentence(types::name(fed.ty)))
        }
        None => why,
    };
    let error = make(py, class, &message, |fields| {
        if let Some(fed) = fed {
            fields.set_item("input", fed.name)?;
            fields.set_item("expected", types::name(fed.ty))?;
            fields.set_item("got", crate::convert::type_name(fed.object))?;
        }
        Ok(())
    });
    if let Some(cause) = cause {
        error.set_cause(py, Some(cause));
    }
    error
}
