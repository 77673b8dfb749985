//! The two backends whose answers targets compare.

use bb::{BackendHandle, Runtime};
use bb_cpu::Cpu;
use bb_reference::Reference;
use std::sync::LazyLock;

/// The bytes of unused buffers that the backend with kernels keeps. With its own limit, a target would seem to leak until it
/// keeps a gibibyte.
const KEPT: usize = 64 << 20;

/// The backends: one with kernels for most operations, and one that runs their bodies.
pub static BACKENDS: LazyLock<[BackendHandle; 2]> = LazyLock::new(|| {
    let cpu = Cpu::builder().threads(1).pool_limit(KEPT).build().expect("a thread");
    [BackendHandle::new(Runtime::new(cpu)), BackendHandle::new(Runtime::new(Reference))]
});
