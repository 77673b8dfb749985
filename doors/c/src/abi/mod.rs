//! The C interface: its structures in Rust, and their C declarations, which form the header.
//!
//! Each structure is written once. A macro expands it to a `#[repr(C)]` struct and to its declaration in C. A test compiles the header and
//! compares its sizes and offsets with the Rust ones.

#[macro_use]
mod declare;
pub(crate) mod graphs;
mod library;
mod primitives;
pub(crate) use primitives::{c_operand, c_param};
mod values;

pub use library::{Description, Library, OptionSpec};
pub use primitives::Primitives;
pub use values::{
    Data, Devices, Done, Failure, Items, MemoryUse, Named, Parameter, ParameterKind, Raw, RawTensor, Results,
    Slot, Status, Text, status,
};

/// The version of the interface. Versions are not compatible with each other. Adding functions does not change the version.
pub const VERSION: u32 = 1;

/// The name of the symbol that a library exports. The symbol is a constant of type [`Library`].
pub const SYMBOL: &str = "bb_backend_library";

/// The value of a [`Library`]'s second field: `bb_lib` and a zero. It reveals a symbol that has the right name but is not a [`Library`].
pub const MAGIC: u64 = u64::from_le_bytes(*b"bb_lib\0\0");

/// A flag of [`Library::flags`]: after the last `close`, no code of the library runs and nothing refers to the library, so it may be
/// unloaded.
pub const UNLOADS: u32 = 1;

/// The layout of a structure in C.
#[derive(Debug, Clone, Copy)]
pub struct Layout {
    /// The name in C.
    pub name: &'static str,
    /// The size in bytes.
    pub size: usize,
    /// The name and the offset in bytes of each field.
    pub fields: &'static [(&'static str, usize)],
    /// The declaration in C.
    pub(crate) text: fn() -> String,
}

/// Returns the layouts of all structures, in the order of the header.
pub fn layouts() -> Vec<Layout> {
    let mut all = values::layouts();
    all.push(primitives::layout());
    all.extend(library::layouts());
    all
}
