//! The names that the macros of `bb` expand to. They are not part of the stable API.

mod constructor;

pub use constructor::{ByDefault, Makes, NewFunction, opened_by};

pub use crate::call::{Operands, no_more_params, only};
pub use crate::contract::{Named, OnnxValue};
pub use crate::external::{
    Arc, Box, Family, Option, Result, SmallVec, Vec, at, bool, concat, env, for_each_primitive, inventory,
    ir, module_path, not_of_layer, str, vendor_rows,
};
pub use crate::forward::{
    Constructs, ForwardedCall, ForwardedGraph, Operand, Signature, Types, kept, once, one_node, operand,
    operands, outputs,
};
pub use crate::narrow::execute_itself as execute_planned;
pub use crate::plan::compile_whole_graph;

pub use crate::ext::FamilyTable;
pub use crate::ext::vendor::{
    Accepts, MadeOf, TracedBody, VendorOp, VendorPattern, vendor_body, vendor_call,
};
pub use crate::runtime::{
    Created, Declared, DerivedEnum, DerivedStruct, Device, IsBackend, LayerVendor, Listed, NamedFamily,
    NamedVendor, NoBackend, NoLayer, NotRegistered, NotWritten, OpenOptions, Registration, Runtime, Start,
    Written, family_key, lists_family, names_family,
};
pub use crate::{Backend, BoxError, OpenOption};

pub use crate::ext::OpSet;
pub use crate::layer::{
    self, Delegate, InnerBackend, IsInner, IsLayer, Layer, LayerError, LayerTensor, Written as WrittenMethods,
};
pub use crate::trace::{TraceStop, TracedTensor, Tracer};

/// Expands to its tokens, which are the output of the derive.
#[doc(hidden)]
#[macro_export]
macro_rules! __derived {
    ($($derived:tt)*) => { $($derived)* };
}

use crate::runtime::Identity;
/// Starts a backend under a name. If it lacks element types, it gets them as far as that is exact.
pub fn start<B: Declared>(backend: B, how: Start) -> Arc<Runtime> {
    let identity = Identity { name: how.name, version: B::VERSION, path: B::PATH };
    crate::runtime::start(backend, identity, B::FAMILIES, how.narrow_floats)
}

/// Constructs a backend with options, as the registry does.
///
/// # Errors
///
/// As [`Runtime::open_with`](crate::Runtime::open_with).
pub fn constructed<B: Declared>(options: &OpenOptions) -> Result<B, crate::Error> {
    crate::Runtime::constructed::<B>(options)
}

/// Returns the registration of a struct that has the derive.
pub const fn of_struct<B: DerivedStruct>() -> Registration {
    Registration::of::<B>()
}

/// Returns the registration of an enum that has the derive.
pub const fn of_enum<B: DerivedEnum>() -> Registration {
    Registration::of::<B>()
}
