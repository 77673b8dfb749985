//! The error type of this backend.

use bb::services::{OutOfMemory, Pressure, ServiceError};

/// The cause of a failed request to the device.
pub type DeviceError = Box<dyn std::error::Error + Send + Sync + 'static>;

/// An error of an operation of this backend.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WgpuError {
    /// The operation does not accept the operands or parameters.
    #[error(transparent)]
    Bb(#[from] bb::Error),

    /// No adapter was found: no driver is installed, or no adapter has a compute queue.
    #[error("found no adapter; expected a driver for Vulkan, Metal or WebGPU, such as Mesa's")]
    NoAdapter,

    /// No adapter has this index or name.
    #[error("found no adapter `{name}`; the adapters are {known:?}")]
    UnknownAdapter {
        /// The requested name.
        name: String,
        /// The names of the adapters.
        known: Vec<String>,
    },

    /// The adapter did not provide a device.
    #[error("the adapter `{adapter}` gave no device")]
    Open {
        /// The adapter's name.
        adapter: String,
        /// The driver's error.
        #[source]
        source: DeviceError,
    },

    /// The device is lost: its driver was reset, it was unplugged, or it was destroyed. None of its tensors can be read.
    /// Opening the backend again creates a new device.
    #[error("the device is lost: {reason}")]
    Lost {
        /// The driver's message.
        reason: String,
    },

    /// The backend was shut down.
    #[error("the backend was shut down")]
    Shutdown,

    /// The memory limit is reached. The same call can succeed after tensors are dropped.
    #[error("the memory limit of the device is reached")]
    MemoryLimit(#[source] Pressure),

    /// The device has no more memory, or a buffer would be larger than the device allows.
    #[error("the memory of the device is used up: tensors use {used} bytes")]
    Memory {
        /// The total size in bytes of all live tensors.
        used: u64,
        /// The failed allocation.
        #[source]
        source: OutOfMemory,
    },

    /// A tensor, or a part that cannot be divided further, is larger than a binding of the device.
    #[error("`{op}` needs {bytes} bytes in one binding; the device allows {limit}")]
    Binding {
        /// The operation.
        op: &'static str,
        /// The required size in bytes.
        bytes: u64,
        /// The device's limit in bytes.
        limit: u64,
    },

    /// A tensor has more elements than 32-bit indices can address.
    #[error("`{op}`: a tensor of {elements} elements; the device numbers at most {}", u32::MAX)]
    Elements {
        /// The operation.
        op: &'static str,
        /// The number of elements.
        elements: usize,
    },

    /// The tensor belongs to another device.
    #[error("`{op}`: an operand is on another device; copy it by `to_host` and `constant`")]
    OtherDevice {
        /// The operation.
        op: &'static str,
    },

    /// The device refused a command or a shader.
    #[error("the device refused {what}")]
    Refused {
        /// The refused command or object.
        what: &'static str,
        /// The device's error.
        #[source]
        source: DeviceError,
    },

    /// The call would have to block until the device has finished, which a browser's main thread must not do.
    #[error("`{op}` would block, which a browser does not allow; read the tensor with `read`")]
    Blocks {
        /// The operation.
        op: &'static str,
    },
}

impl From<bb::ir::Error> for WgpuError {
    fn from(error: bb::ir::Error) -> WgpuError {
        WgpuError::Bb(error.into())
    }
}

impl From<WgpuError> for ServiceError {
    fn from(error: WgpuError) -> ServiceError {
        match error {
            WgpuError::Lost { reason } => ServiceError::Lost { reason },
            WgpuError::MemoryLimit(pressure) => ServiceError::MemoryLimit(pressure),
            error => ServiceError::own(error),
        }
    }
}

/// The result of an operation of this backend.
pub type Result<T> = std::result::Result<T, WgpuError>;
