//! Loops over elements behind pointers: what operations call once shapes and strides are settled.
//!
//! Kernels check no extents. Each is generic over elements and reached through a function pointer
//! chosen by element type, so that the loops over outer dimensions exist once.

pub(crate) mod binary;
pub(crate) mod number;
pub(crate) mod reduce;
pub(crate) mod strided;
pub(crate) mod unary;
pub(crate) mod vector;
