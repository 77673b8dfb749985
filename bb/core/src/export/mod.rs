//! Writes a function or a module as an ONNX model for other programs.

mod inlined;
mod model;
mod options;
mod replay;
mod rewrite;
mod save;

pub use crate::trace::Keep;
pub use inlined::inlined;
pub use model::{ModelTrace, trace};
pub use options::{ExportOptions, check_ir_version};
pub use rewrite::TraceStep;
pub use save::save;
pub(crate) use save::write_whole;
