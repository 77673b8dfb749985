//! From a checked graph to something that runs: staged tracing, plans, the interpreter.

mod module;

pub use module::{CompileOptions, Module};

use crate::{Backend, BackendAttrs, Error, Executable};
use bb_ir::proto::GraphProto;
use std::collections::HashMap;

fn later<T>() -> Result<T, Error> {
    Err(Error::UnsupportedOperator { op: String::new(), domain: String::new(), opset: 0 })
}

pub(crate) fn execute<B: Backend + ?Sized>(
    _on: &B,
    _graph: &GraphProto,
    _inputs: HashMap<String, B::Tensor>,
    _attrs: BackendAttrs<'_>,
) -> Result<HashMap<String, B::Tensor>, B::Error> {
    Ok(later()?)
}

pub(crate) fn compile<B: Backend + ?Sized>(_on: &B, _module: Module, _options: &CompileOptions) -> Result<Box<dyn Executable<B>>, B::Error> {
    Ok(later()?)
}

/// Compiles for a backend that runs whole graphs.
pub fn compile_whole_graph<B: Backend + ?Sized>(_on: &B, _module: Module, _options: &CompileOptions) -> Result<Box<dyn Executable<B>>, B::Error> {
    Ok(later()?)
}
