//! Backends at run time: found by name, called by operation.

mod declared;

pub use declared::{Declared, Registration};
