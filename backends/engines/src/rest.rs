//! The treatment of nodes that an engine cannot run.

use bb::BackendHandle;

/// The treatment of nodes that an engine cannot run.
#[derive(Debug, Clone)]
pub enum Rest {
    /// The nodes run on this backend, lowered to its operations. If the engine fails to run a part, this backend runs
    /// that part, too.
    On(BackendHandle),
    /// The nodes are refused with [`EngineError::Refused`](crate::EngineError::Refused).
    Refuse,
    /// The whole model is lowered to graphs of primitives, which the engine runs.
    Primitives,
    /// The engine's table of gaps is ignored, so that the engine runs all nodes that it accepts. Only for testing the
    /// table.
    Nothing,
}

impl Rest {
    /// Runs the nodes on the CPU backend.
    pub fn on_cpu() -> Rest {
        let cpu = bb::Runtime::named("cpu", bb_cpu::Cpu::new());
        Rest::On(BackendHandle::new(cpu))
    }
}
