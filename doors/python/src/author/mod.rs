//! Backends that authors write in Python: classes with the methods of the primitives, or with one that runs graphs.
//!
//! An [`Instance`](instance::Instance) holds the author's object and calls its methods. [`Methods`](backends::Methods) and
//! [`Graphs`](backends::Graphs) implement the contract over it; the table of primitives lists the methods. The result of a
//! method is compared with the primitive's rule, so a mistake becomes an error that names the method.

mod backends;
mod conformance;
mod ending;
mod graph;
mod instance;
mod named;
mod params;
mod steps;
mod tensor;

pub(crate) use conformance::{case_folders, conformance_case, conformance_tests};
pub(crate) use ending::end;
pub(crate) use graph::{Graph, Node};
pub(crate) use named::{primitives, register, unregister};
