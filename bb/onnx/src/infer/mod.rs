//! The rules of operators that tell the types of results before inputs arrive; rows of topics name them.
//!
//! A rule says what is sure and nothing else: what it cannot tell, an odd attribute included, it leaves to the function that
//! runs the node.

pub(crate) mod attention;
pub(crate) mod collections;
pub(crate) mod early;
pub(crate) mod elements;
pub(crate) mod ml;
pub(crate) mod movement;
pub(crate) mod products;
pub(crate) mod windows;
