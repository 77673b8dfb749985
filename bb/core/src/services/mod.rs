//! Optional services of a backend, besides its operations: [`Lifecycle`], [`Memory`] and [`Kernels`].
//!
//! Each is a small trait whose methods have defaults. A backend returns its implementation from
//! [`Backend::lifecycle`](crate::Backend::lifecycle), [`Backend::memory`](crate::Backend::memory) and
//! [`Backend::kernels`](crate::Backend::kernels); a backend that returns `None` works as before. Users reach the
//! services through [`BackendHandle`](crate::BackendHandle), which turns their errors into [`Error`](crate::Error)s
//! that name the backend, and contains their panics.

mod buffers;
mod check;
mod device;
mod error;
mod fingerprint;
mod handles;
mod kernels;
mod lifecycle;
mod memory;
mod requirements;
mod workgroup;

pub use crate::runtime::OfferedServices;
pub use buffers::{BufferFault, BufferId, BufferMeta, Buffers};
pub use check::{check_call, check_kernel, check_spirv};
pub use device::{DeviceInfo, DeviceKind};
pub use error::{KernelProblem, Service, ServiceError};
pub use fingerprint::{Difference, DifferenceList, Fingerprint};
pub use handles::{KernelsHandle, MemoryHandle};
pub use kernels::{
    HostArguments, HostKernel, IMMEDIATE_BYTES, KernelCall, KernelFormat, KernelInfo, KernelLimits,
    KernelSource, Kernels, LoadedKernel, OutputSpec, UserKernel,
};
pub use lifecycle::Lifecycle;
pub use memory::{
    ForeignBuffer, Memory, MemoryStatistics, OutOfMemory, PoolStatistics, Pressure, PressureCallback,
};
pub use requirements::{Candidate, CandidateList, Doubt, Found, Requirements, Unmet};
