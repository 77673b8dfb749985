//! The traits of optional services, with their data types.

mod buffer_fault;
mod check;
mod device;
mod error;
mod fingerprint;
mod kernels;
mod lifecycle;
mod memory;
mod requirements;
mod workgroup;

pub use buffer_fault::BufferFault;
pub use check::{check_call, check_kernel, check_spirv};
pub use device::{DeviceInfo, DeviceKind};
pub use error::{KernelProblem, Service, ServiceError};
pub use fingerprint::{Difference, DifferenceList, Fingerprint};
pub use kernels::{
    HostArguments, HostKernel, IMMEDIATE_BYTES, KernelCall, KernelFormat, KernelInfo, KernelLimits,
    KernelSource, Kernels, LoadedKernel, OutputSpec, UserKernel,
};
pub use lifecycle::Lifecycle;
pub use memory::{
    ForeignBuffer, Memory, MemoryStatistics, OutOfMemory, PoolStatistics, Pressure, PressureCallback,
};
pub use requirements::{Candidate, CandidateList, Doubt, Requirements, Unmet};
