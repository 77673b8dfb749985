//! Kernels of users: loaded, run and unloaded by name.
//!
//! The runtime stores the names and validates each kernel and each call. A backend only compiles and runs kernels.

use super::ServiceError;
use bb_ir::{DataType, Shape};
use std::sync::Arc;

/// The maximum number of bytes of immediates of one call, on any backend.
pub const IMMEDIATE_BYTES: usize = 128;

/// The format of a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum KernelFormat {
    /// Source text in the WebGPU shading language.
    Wgsl,
    /// A SPIR-V module.
    SpirV,
    /// A Rust function that runs on the host.
    Host,
}

impl std::fmt::Display for KernelFormat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            KernelFormat::Wgsl => "WGSL",
            KernelFormat::SpirV => "SPIR-V",
            KernelFormat::Host => "a Rust function",
        })
    }
}

/// The arguments of a Rust function that runs as a kernel. Bindings are passed as bytes, row-major and little-endian as
/// in [`TensorData`](crate::TensorData).
#[derive(Debug)]
#[non_exhaustive]
pub struct HostArguments<'a> {
    /// The bytes of the inputs, in order.
    pub inputs: &'a [&'a [u8]],
    /// The bytes of the outputs, in order. They are zero before the call.
    pub outputs: &'a mut [Vec<u8>],
    /// The immediates.
    pub immediates: &'a [u8],
    /// The number of workgroups in each direction. The function is called once and loops over them itself.
    pub grid: [u32; 3],
}

impl<'a> HostArguments<'a> {
    /// Creates the arguments of a call.
    pub fn new(
        inputs: &'a [&'a [u8]],
        outputs: &'a mut [Vec<u8>],
        immediates: &'a [u8],
        grid: [u32; 3],
    ) -> HostArguments<'a> {
        HostArguments { inputs, outputs, immediates, grid }
    }
}

/// A kernel that is a Rust function.
pub type HostKernel = Arc<dyn Fn(HostArguments<'_>) -> Result<(), bb_ir::BoxError> + Send + Sync>;

/// The code of a kernel.
#[derive(Clone)]
#[non_exhaustive]
pub enum KernelSource {
    /// Source text in the WebGPU shading language.
    Wgsl(String),
    /// The bytes of a SPIR-V module, in either byte order.
    SpirV(Vec<u8>),
    /// A Rust function.
    Host(HostKernel),
}

impl KernelSource {
    /// Returns the format.
    pub fn format(&self) -> KernelFormat {
        match self {
            KernelSource::Wgsl(_) => KernelFormat::Wgsl,
            KernelSource::SpirV(_) => KernelFormat::SpirV,
            KernelSource::Host(_) => KernelFormat::Host,
        }
    }
}

impl std::fmt::Debug for KernelSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            KernelSource::Wgsl(text) => write!(f, "Wgsl({} bytes)", text.len()),
            KernelSource::SpirV(module) => write!(f, "SpirV({} bytes)", module.len()),
            KernelSource::Host(_) => f.write_str("Host"),
        }
    }
}

/// A kernel as declared by its user.
///
/// Its bindings are buffers in group 0, numbered from 0: first the inputs, which it reads, then the outputs, which it
/// writes.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct UserKernel {
    /// The name under which the kernel is run and unloaded.
    pub name: String,
    /// The code.
    pub source: KernelSource,
    /// The name of the entry point in WGSL and SPIR-V.
    pub entry: String,
    /// The number of inputs.
    pub inputs: usize,
    /// The number of outputs.
    pub outputs: usize,
    /// The number of bytes of immediates.
    pub immediates: usize,
}

impl UserKernel {
    /// Declares a kernel without immediates, whose entry point is `main`.
    pub fn new(name: impl Into<String>, source: KernelSource, inputs: usize, outputs: usize) -> UserKernel {
        UserKernel { name: name.into(), source, entry: "main".to_owned(), inputs, outputs, immediates: 0 }
    }

    /// Declares a Rust function.
    pub fn host(
        name: impl Into<String>,
        inputs: usize,
        outputs: usize,
        run: impl Fn(HostArguments<'_>) -> Result<(), bb_ir::BoxError> + Send + Sync + 'static,
    ) -> UserKernel {
        UserKernel::new(name, KernelSource::Host(Arc::new(run)), inputs, outputs)
    }

    /// Sets the name of the entry point.
    #[must_use]
    pub fn with_entry(mut self, entry: impl Into<String>) -> UserKernel {
        self.entry = entry.into();
        self
    }

    /// Sets the number of bytes of immediates.
    #[must_use]
    pub fn with_immediates(mut self, bytes: usize) -> UserKernel {
        self.immediates = bytes;
        self
    }
}

/// The type of an output that a kernel call computes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OutputSpec {
    /// The element type; strings are refused.
    pub dtype: DataType,
    /// The shape, outermost extent first.
    pub shape: Shape,
}

impl OutputSpec {
    /// Describes an output.
    pub fn new(dtype: DataType, shape: &[usize]) -> OutputSpec {
        OutputSpec { dtype, shape: Shape::from_slice(shape) }
    }
}

/// The limits of a backend's kernels.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct KernelLimits {
    /// The formats that the backend loads.
    pub formats: Vec<KernelFormat>,
    /// The maximum number of bindings (inputs plus outputs).
    pub bindings: usize,
    /// The maximum number of bytes of one binding.
    pub binding_bytes: u64,
    /// The maximum number of bytes of immediates. More than [`IMMEDIATE_BYTES`] are never allowed.
    pub immediates: usize,
    /// The maximum number of workgroups in each direction.
    pub grid: [u32; 3],
}

impl KernelLimits {
    /// Returns the limits that every WebGPU implementation guarantees, for backends that load these formats.
    pub fn webgpu(formats: Vec<KernelFormat>) -> KernelLimits {
        KernelLimits {
            formats,
            bindings: 8,
            binding_bytes: 128 << 20,
            immediates: IMMEDIATE_BYTES,
            grid: [65535; 3],
        }
    }

    /// Returns these limits with another maximum number of bindings.
    #[must_use]
    pub fn with_bindings(mut self, bindings: usize) -> KernelLimits {
        self.bindings = bindings;
        self
    }

    /// Returns these limits with another maximum size of a binding.
    ///
    /// Units: bytes.
    #[must_use]
    pub fn with_binding_bytes(mut self, bytes: u64) -> KernelLimits {
        self.binding_bytes = bytes;
        self
    }

    /// Returns these limits with another maximum size of immediates.
    ///
    /// Units: bytes.
    #[must_use]
    pub fn with_immediates(mut self, bytes: usize) -> KernelLimits {
        self.immediates = bytes;
        self
    }

    /// Returns these limits with another maximum grid.
    #[must_use]
    pub fn with_grid(mut self, grid: [u32; 3]) -> KernelLimits {
        self.grid = grid;
        self
    }
}

/// A call of a kernel that the runtime has validated.
#[derive(Debug)]
#[non_exhaustive]
pub struct KernelCall<'a, T> {
    /// The inputs, one for each input that the kernel declares.
    pub inputs: &'a [&'a T],
    /// The outputs to compute, one for each output that the kernel declares.
    pub outputs: &'a [OutputSpec],
    /// The immediates, with the number of bytes that the kernel declares.
    pub immediates: &'a [u8],
    /// The number of workgroups in each direction. If one is 0, nothing runs and the outputs are zero.
    pub grid: [u32; 3],
}

impl<'a, T> KernelCall<'a, T> {
    /// Creates a call. The caller must have validated it.
    pub fn new(
        inputs: &'a [&'a T],
        outputs: &'a [OutputSpec],
        immediates: &'a [u8],
        grid: [u32; 3],
    ) -> KernelCall<'a, T> {
        KernelCall { inputs, outputs, immediates, grid }
    }
}

/// A kernel that a backend has compiled. It is dropped after it was unloaded and its last call has ended.
pub trait LoadedKernel<T>: Send + Sync {
    /// Runs the kernel and returns its outputs, with the element types and shapes specified in the call.
    ///
    /// # Errors
    ///
    /// The backend's own error.
    fn run(&self, call: &KernelCall<'_, T>) -> Result<Vec<T>, ServiceError>;

    /// Returns the number of invocations of a workgroup in each direction, if the compiler determined it.
    ///
    /// The default returns `None`. Then the runtime searches the source for constant numbers.
    fn workgroup(&self) -> Option<[u32; 3]> {
        None
    }
}

/// The properties of a loaded kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct KernelInfo {
    /// The name under which it is run and unloaded.
    pub name: String,
    /// The format of the loaded kernel.
    pub format: KernelFormat,
    /// The name of the entry point in WGSL and SPIR-V.
    pub entry: String,
    /// The number of inputs. They are the first bindings.
    pub inputs: usize,
    /// The number of outputs. Their bindings follow the inputs.
    pub outputs: usize,
    /// The number of bytes of immediates.
    pub immediates: usize,
    /// The number of invocations of a workgroup in each direction; `None` if neither the backend nor the source
    /// specifies it, for example for a Rust function.
    pub workgroup: Option<[u32; 3]>,
}

impl KernelInfo {
    /// Describes a loaded kernel.
    pub(crate) fn of(kernel: &UserKernel, workgroup: Option<[u32; 3]>) -> KernelInfo {
        KernelInfo {
            name: kernel.name.clone(),
            format: kernel.source.format(),
            entry: kernel.entry.clone(),
            inputs: kernel.inputs,
            outputs: kernel.outputs,
            immediates: kernel.immediates,
            workgroup: workgroup.or_else(|| super::workgroup::workgroup(kernel)),
        }
    }

    /// Returns the number of bindings (inputs plus outputs).
    pub fn bindings(&self) -> usize {
        self.inputs + self.outputs
    }
}

/// Compiles kernels of users for a backend whose tensors are of type `T`.
pub trait Kernels<T>: Send + Sync {
    /// Returns the limits of kernels. The runtime refuses kernels and calls that exceed them before the backend gets
    /// them.
    fn limits(&self) -> KernelLimits;

    /// Compiles a kernel that the runtime has validated.
    ///
    /// # Errors
    ///
    /// [`ServiceError::Kernel`] if the kernel is faulty; the backend's own error.
    fn load(&self, kernel: &UserKernel) -> Result<Box<dyn LoadedKernel<T>>, ServiceError>;
}
