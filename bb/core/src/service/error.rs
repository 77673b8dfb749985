//! Errors of services.

use super::{KernelFormat, Pressure};
use bb_ir::BoxError;
use bb_ir::text::{listed, sentence, shown};

/// A service of a backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Service {
    /// [`Lifecycle`](super::Lifecycle).
    Lifecycle,
    /// [`Memory`](super::Memory).
    Memory,
    /// [`Kernels`](super::Kernels).
    Kernels,
}

impl std::fmt::Display for Service {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Service::Lifecycle => "lifecycle",
            Service::Memory => "memory",
            Service::Kernels => "kernels",
        })
    }
}

/// The error of a service. The runtime adds the name of the backend.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServiceError {
    /// The device is lost.
    #[error("the device is lost: {reason}", reason = sentence(.reason))]
    Lost {
        /// The reason.
        reason: String,
    },

    /// The backend does not support this part of the service.
    #[error("the backend does not offer {what}")]
    Unsupported {
        /// The part.
        what: &'static str,
    },

    /// The requested operation would have no effect on this backend.
    #[error("{what} is not needed: {reason}")]
    NotNeeded {
        /// The requested operation.
        what: &'static str,
        /// The reason why it would have no effect.
        reason: &'static str,
    },

    /// An allocation exceeds the memory limit.
    #[error("the memory limit is reached")]
    MemoryLimit(#[source] Pressure),

    /// A buffer of another library or device cannot be used.
    #[error("the foreign buffer cannot be used: {problem}", problem = sentence(.problem))]
    Foreign {
        /// A description of the problem: the expected and the actual value.
        problem: String,
    },

    /// A kernel or its call was refused.
    #[error("kernel `{name}`: {problem}", name = shown(.name))]
    Kernel {
        /// The kernel's name.
        name: String,
        /// The problem.
        problem: KernelProblem,
    },

    /// The backend's own error.
    #[error("the backend failed")]
    Backend(#[source] BoxError),
}

impl ServiceError {
    /// Wraps the backend's own error.
    pub fn own(error: impl Into<BoxError>) -> ServiceError {
        ServiceError::Backend(error.into())
    }
}

/// A problem with a kernel or its call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KernelProblem {
    /// No kernel of this name is loaded.
    #[error("no kernel of this name is loaded; loaded: {loaded}", loaded = listed(.loaded))]
    Unknown {
        /// The names of the loaded kernels.
        loaded: Vec<String>,
    },

    /// A kernel of this name is loaded already.
    #[error("a kernel of this name is loaded already; unload it first")]
    Loaded,

    /// The name, the entry point or the source is empty.
    #[error("its {what} is empty")]
    Empty {
        /// The empty part: `name`, `entry point` or `source`.
        what: &'static str,
    },

    /// The backend does not load kernels of this format.
    #[error("the backend does not load {got}; it loads {expected:?}")]
    Format {
        /// The format of the kernel.
        got: KernelFormat,
        /// The formats that the backend loads.
        expected: Vec<KernelFormat>,
    },

    /// A SPIR-V module has a length that is not a multiple of 4, or is shorter than its header.
    #[error("a SPIR-V module of {bytes} bytes; expected a multiple of 4, and at least 20")]
    SpirVLength {
        /// The number of bytes.
        bytes: usize,
    },

    /// A SPIR-V module does not begin with the magic number.
    #[error("a SPIR-V module that begins with {got:#010x}; expected 0x07230203 in either byte order")]
    SpirVMagic {
        /// The first word, read as little-endian.
        got: u32,
    },

    /// A count differs from the declared count.
    #[error("{what}: expected {expected}, got {got}")]
    Count {
        /// The counted items.
        what: &'static str,
        /// The declared count.
        expected: usize,
        /// The actual count.
        got: usize,
    },

    /// A quantity exceeds its limit.
    #[error("{what}: at most {limit}, got {got}")]
    Limit {
        /// The limited quantity.
        what: &'static str,
        /// The limit.
        limit: u64,
        /// The actual value.
        got: u64,
    },

    /// A binding has string elements, whose size in bytes is not fixed.
    #[error("binding {index} is of strings")]
    Strings {
        /// The index of the binding.
        index: usize,
    },

    /// An output does not match the specification in the call. This is a bug of the backend.
    #[error("output {index} is not what was asked for: expected {expected}, got {got}", expected = sentence(.expected), got = sentence(.got))]
    Output {
        /// The index of the output.
        index: usize,
        /// The element type and shape in the call.
        expected: String,
        /// The element type and shape of the result.
        got: String,
    },

    /// The compiler refused the code.
    #[error("it does not compile: {message}", message = sentence(.message))]
    Compile {
        /// The compiler's message.
        message: String,
    },
}
