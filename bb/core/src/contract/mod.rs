//! The contract between `bb` and its backends, and the types that it uses.
//!
//! The operations of [`Backend`] expand from the op table. This module contains no computations.

mod attrs;
mod backend;
mod budget;
mod buffer;
mod compile_options;
mod compile_setters;
mod completion;
mod executable;
mod families;
mod graph_cache;
mod inputs;
mod inside;
#[cfg(all(test, bb_model))]
mod model;
mod module;
mod own_thread;
mod paced;
mod panics;
mod parted;
mod prepare;
mod run_options;
mod size;
mod switches;
mod tensor;
mod value;

pub(crate) use attrs::Caller;
pub use attrs::{BackendAttrs, GraphIdentity};
pub(crate) use backend::Planned;
pub use backend::{Backend, BackendError, Named};
pub use budget::Budget;
pub use buffer::ResultBuffer;
pub(crate) use buffer::{
    begin as begin_buffers, by_output, copy_from_host, fill as fill_buffers, refused as refused_buffer,
};
pub use compile_options::CompileOptions;
pub use completion::{Completer, CompletionHandle, ContractResponse, Later};
pub use executable::{Executable, Port};
pub use executable::{by_name, by_position};
pub(crate) use families::native_in;
pub use families::{FamilyTable, Native, OpSet};
pub use graph_cache::GraphCache;
pub use inputs::InputSpec;
pub(crate) use inputs::tensor_type;
pub(crate) use inside::{inside, is_inside, nested};
pub use module::Module;
pub(crate) use own_thread::on_own_thread;
pub use panics::catch;
pub(crate) use panics::{contained, contained_in};
pub use parted::{PartValues, PartedGraph, tensors};
pub(crate) use prepare::{AskedOperand, KnownExtents};
pub use prepare::{Kernel, KernelOperand, KernelOperands, PrepareOperand, PrepareStep};
pub use run_options::{CancelToken, RunOptions};
pub use size::check_value;
pub use size::tensor_bytes;
pub(crate) use size::{bytes_of, most_elements, too_large};
pub use switches::{PassSwitch, PassSwitches};
pub use tensor::{SlotValue, Tensor};
pub use value::OnnxValue;

/// The results of one operation; a single result needs no heap allocation.
pub type Outputs<T> = smallvec::SmallVec<[T; 1]>;

/// Converts each result of an operation.
#[inline]
pub(crate) fn mapped<T, U>(results: Outputs<T>, convert: impl Fn(T) -> U) -> Outputs<U> {
    // Most operations have one result, and moving it out is cheaper than moving an iterator.
    match results.into_inner() {
        Ok([only]) => Outputs::from_buf([convert(only)]),
        Err(results) => results.into_iter().map(convert).collect(),
    }
}
