//! The treatment of nodes that an engine cannot run.

use bb::BackendHandle;

/// How a backend treats nodes that its engine cannot run.
#[derive(Debug, Clone)]
pub enum Rest {
    /// They run on this backend, lowered to its operations. If the engine fails to run a part, the part runs there, too.
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
