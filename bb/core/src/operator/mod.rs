//! Operators: the functions that implement the nodes of a graph, and the tables of these functions.
//!
//! Plans refer to no operator by name. A crate with operators submits an [`OperatorTable`] to `inventory`, in the same
//! way as backends are registered. [`find`] searches all linked tables, and then the operations of vendors. The
//! implementation of an operator is a [`Body`]: a function on tensors, which lowering runs on the
//! [`Tracer`](crate::trace::Tracer); a function on host tensors or on structures; or control flow, which the plan runs.
//! An operator may also determine the order of its subgraphs itself ([`Rounds`]).

mod call;
mod halves;
mod held;
mod missing;
mod reads;
mod rounds;
mod sequence;
mod table;
mod vendor;

pub use crate::contract::OnnxValue;
pub use call::{Body, Call, Function, HostFunction, ItemFunction, ItemResult, OpOutputs, OpResult, one};
pub use halves::{Halves, TensorFunction};
pub use held::{Form, Item};
pub(crate) use held::{Held, MANY};
pub use missing::{OptionalDomain, advice, left_out, missing};
pub use reads::AttributeReads;
pub use rounds::{BeginRounds, Round, Rounds, RoundsOperator};
pub use sequence::{SequenceStep, join, part, position};
pub use table::{
    Class, FoundOperator, OPERATORS, Operator, OperatorTable, added_attributes, find, operators, prepare,
    unlinked,
};
pub(crate) use table::{optional_domains, splits_rows};
pub use vendor::find as find_vendor;
