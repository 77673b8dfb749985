//! The backends of the end-to-end tests, by name.

use crate::device::Device;
use bb::Runtime;
use bb_cpu::Cpu;
use bb_reference::Reference;
use bb_whole_graph::WholeGraph;
use std::sync::Arc;

/// The names that [`start`] accepts.
pub const NAMES: [&str; 4] = ["cpu", "reference", "whole-graph", "device"];

/// Starts the backend called `name`; each call starts a new instance.
///
/// # Errors
///
/// [`bb::Error::UnknownBackend`] if the name is not in [`NAMES`]; [`bb::Error::Unavailable`] if the backend
/// cannot start.
pub fn start(name: &str) -> Result<Arc<Runtime>, bb::Error> {
    match name {
        "cpu" => Runtime::open::<Cpu>(),
        "reference" => Runtime::open::<Reference>(),
        "whole-graph" => Runtime::open::<WholeGraph>(),
        "device" => Runtime::open::<Device>(),
        _ => Err(bb::Error::UnknownBackend {
            nearest: None,
            name: name.to_owned(),
            linked: NAMES.map(str::to_owned).to_vec(),
        }),
    }
}
