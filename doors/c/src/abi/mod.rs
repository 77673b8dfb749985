//! The C interface: its structures, and the declarations of them that make the header.
//!
//! A structure is written once. The macro expands it to a `#[repr(C)]` struct and to its text in C; a test compiles the header and compares
//! its sizes and offsets with the Rust ones.

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

/// The version of the interface. Another version is another interface; functions that are added change no version.
pub const VERSION: u32 = 1;

/// The name of the symbol that a library exports: a constant of type [`Library`].
pub const SYMBOL: &str = "bb_backend_library";

/// The number that a [`Library`] begins with after its size: `bb_lib` and a zero, so that another symbol of the name is not taken for one.
pub const MAGIC: u64 = u64::from_le_bytes(*b"bb_lib\0\0");

/// [`Library::flags`]: nothing of the library runs or is referred to after the last `close`, so that it may be unloaded.
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

/// Lists all structures, in the order of the header.
pub fn layouts() -> Vec<Layout> {
    let mut all = values::layouts();
    all.push(primitives::layout());
    all.extend(library::layouts());
    all
}
