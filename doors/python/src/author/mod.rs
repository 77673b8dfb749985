//! Backends that authors write in Python: classes with a method for each primitive, or with one method that runs graphs.
//!
//! An [`Instance`](instance::Instance) stores the author's object and calls its methods. [`Methods`](backends::Methods) and
//! [`Graphs`](backends::Graphs) implement the backend contract with it. Each result of a method is checked against the primitive's rule for
//! types and shapes, so that a mistake becomes an error that names the method.

mod backends;
mod conformance;
mod declared;
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
pub(crate) use named::{graphs, primitives, register, unregister};
