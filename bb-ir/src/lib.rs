//! Tensors, graphs and their checks: the part of `bb` that does not depend on any backend.
//!
//! This crate defines element types, host tensors, ONNX's protobuf types, the op tables, graph checks, type and
//! shape inference, the wire format, and the registries of picture decoders and pattern engines. The backend
//! contract, the backends and the plans are in the `bb` crate.

// No item of `num_traits` is used. The dependency enables the features that `image` enables, so that programs
// with and without pictures share one build of `num_traits`.
use num_traits as _;

pub mod check;
pub mod compact;
pub mod convert;
mod dtype;
mod dtypes;
mod error;
pub mod file;
mod format;
pub mod graph;
pub mod infer;
mod limits;
mod mapped;
pub mod memory;
mod nearest;
pub mod op;
pub mod opset;
pub mod pace;
pub mod pattern;
pub mod picture;
pub mod proto;
mod shape;
mod tensor;
pub mod text;
mod type_hash;
pub mod wire;

pub use convert::Summary;
pub use dtype::{DataType, Element};
pub use dtypes::DataTypes;
pub use error::{BoxError, Error, ErrorKind, Problems};
pub use limits::{BYTES_FORM, FileAccess, LimitInfo, LimitPhase, Limits, parse_bytes};
pub use nearest::nearest;
pub use shape::{Axis, Shape};
pub use tensor::{
    ALIGNMENT, HostElement, Identity, Strings, StringsBuilder, TensorData, element_count, unpack_into,
};

/// Re-exported, so that callers use the same version of the crate `half`.
pub use half::{bf16, f16};
#[doc(hidden)]
pub use smallvec::SmallVec;
