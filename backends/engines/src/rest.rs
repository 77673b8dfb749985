//! What runs the nodes that an engine does not.

use bb::BackendHandle;

/// What a backend does with nodes that its engine cannot run.
#[derive(Debug, Clone)]
pub enum Rest {
    /// They run on this backend, lowered to its operations. A part that the engine fails to run goes there, too.
    On(BackendHandle),
    /// They are refused with [`EngineError::Refused`](crate::EngineError::Refused).
    Refuse,
    /// The whole model is lowered to graphs of primitives, and the engine runs these.
    Primitives,
    /// The engine's table of gaps is ignored: it runs whatever it accepts. This is for testing the table.
    Nothing,
}

impl Rest {
    /// The rest on the CPU backend.
    pub fn on_cpu() -> Rest {
        let cpu = bb::Runtime::<bb_cpu::Cpu>::named("cpu", bb_cpu::Cpu::new());
        Rest::On(BackendHandle::new(cpu))
    }
}
