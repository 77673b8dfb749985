//! The native part of the Python package `bb`: sessions, and the exchange of tensors with NumPy and DLPack.
//!
//! The public interface is in the folder `bb` next to this crate's sources, with types in `.pyi` files. Every function here that computes
//! or blocks releases the interpreter's lock; the module `interrupt` lets the interpreter handle signals during that time. Backend methods
//! written in Python take the lock again (`author`).

#[expect(unsafe_code, reason = "arrays of NumPy and capsules of DLPack are read and made through pointers")]
mod arrays;
mod author;
mod cancel;
mod compiled;
mod convert;
mod dtypes;
mod failure;
mod feeds;
mod fields;
#[cfg(feature = "generate")]
mod generator;
mod interrupt;
mod load;
mod loaded;
mod numbers;
mod python_error;
mod report;
mod results;
mod session;
mod tensor_file;
mod types;

use bb_cpu as _;
use bb_layers as _;
use bb_operators as _;
#[cfg(feature = "reference")]
use bb_reference as _;
#[cfg(feature = "wgpu")]
use bb_wgpu as _;
#[cfg(feature = "whole-graph")]
use bb_whole_graph as _;
use pyo3::prelude::*;

/// The native part of the package.
#[pymodule]
mod _bb {
    use pyo3::prelude::*;

    #[pymodule_export]
    use super::author::{
        Graph, Node, case_folders, conformance_case, conformance_tests, end, primitives, register, unregister,
    };
    #[pymodule_export]
    use super::cancel::CancelToken;
    #[cfg(feature = "generate")]
    #[pymodule_export]
    use super::generator::{Generation, Generator};
    #[pymodule_export]
    use super::report::{backend_options, backends, limits, operator_names, operators, pass_switches};
    #[pymodule_export]
    use super::session::Session;
    #[pymodule_export]
    use super::tensor_file::read_tensor;

    #[pymodule_init]
    fn init(_module: &Bound<'_, PyModule>) -> PyResult<()> {
        let advice = bb_core::error::DoorAdvice {
            backend: "the variable `BB_BACKEND_PATH` names libraries of others, and `bb.register` takes a class",
            left_out: "this build of the package does not have it",
            remove: Some("call `bb.unregister('{name}')` before"),
            limits: "",
        };
        advice.give();
        super::loaded::obey_path()
    }
}
