//! Backends at run time: opened by name, with operations called by index and with type-erased tensors.
//!
//! [`Runtime`] combines a backend with plans, counters and state.

mod added;
mod adopted;
mod answers;
mod ask;
mod backends;
mod bridge;
mod buffers;
mod combined;
mod counter;
mod declared;
mod executable;
mod families;
mod fingerprints;
mod generic;
mod handle;
mod instance_name;
mod instances;
mod layer_names;
mod loaded;
mod methods;
#[cfg(all(test, bb_model))]
mod model;
mod named;
mod numbers;
mod open;
mod opening;
mod operators;
mod plans;
mod registry;
mod requirements;
mod running;
mod service_handles;
mod services;
mod stack;
mod start;
mod status;
mod trial;
mod value;
mod vendor;

pub(crate) use crate::error::BackendId;
pub use added::Added;
pub use adopted::{
    LayerVendor, NamedFamily, NamedVendor, NoBackend, NoLayer, NotRegistered, NotWritten, Written,
    family_key, lists_family, names_family,
};
pub use backends::Backends;
pub use buffers::{BufferId, BufferMeta, Buffers};
pub use combined::{Combined, CombinedRegistration};
pub(crate) use declared::Constructed;
pub use declared::{Created, Declared, DerivedEnum, DerivedStruct, IsBackend, Registration};
pub use executable::{DispatchResult, ErasedExecutable};
pub use handle::{BackendHandle, TypedBackend};
pub use open::{Device, Listed, OpenOptions, Start, check_threads, check_types, most_threads};
pub use registry::{
    LinkedBackend, LinkedBackends, Registry, RegistryBuilder, backend, backend_with, linked_backends,
    supports_device,
};
pub use requirements::Found;
pub use running::Runtime;
pub use service_handles::{KernelsHandle, MemoryHandle};
pub use stack::{LayerRegistration, RegisteredLayer};
pub use status::{Capabilities, State, Status};
pub use trial::is_trial;
pub use value::Value;

pub use crate::contract::catch;
pub use answers::Question;
pub use ask::{Tried, ones};
pub use methods::CallsRows;
pub(crate) use methods::{
    erased_input, erased_methods, erased_output, erased_param, given_param, method_of_values, methods_of,
    methods_of_values,
};
pub(crate) use start::{Identity, start};
