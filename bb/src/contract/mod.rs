//! What a backend promises, and the types that its promise mentions.
//!
//! The methods of [`Backend`] that are operations expand from the op table; nothing here computes.

mod attrs;
mod backend;
mod completion;
mod executable;
mod forward;
mod inputs;
mod tensor;

pub use attrs::{BackendAttrs, GraphIdentity};
pub(crate) use attrs::{Caller, KeepsPlans, Plans, plans_of};
pub use backend::Backend;
pub use completion::{Completer, CompletionHandle, ContractResponse, Later};
pub use executable::{Executable, Port};
#[doc(hidden)]
pub use forward::{Types, kept, one_node};
pub use inputs::{InputMismatch, InputProblem, InputSpec};
pub use tensor::{SlotValue, Tensor};

/// The results of one operation; one is held without an allocation.
pub type Outputs<T> = smallvec::SmallVec<[T; 1]>;
