//! The items of other crates and of the standard library that macros name.

pub use bb_derive::{at, not_of_layer, vendor_rows};
pub use bb_ir as ir;
pub use bb_ir::for_each_primitive;
pub use bb_ir::op::Family;
pub use inventory;
pub use smallvec::SmallVec;
pub use std::boxed::Box;
pub use std::option::Option;
pub use std::primitive::{bool, str};
pub use std::result::Result;
pub use std::sync::Arc;
pub use std::vec::Vec;
pub use std::{concat, env, module_path};
