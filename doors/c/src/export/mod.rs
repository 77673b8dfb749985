//! Exports a Rust backend as a library: implements the functions of the interface for any backend.
//!
//! The functions work on [`Erased`](bb_core::Erased), so that they are compiled once, in this crate. Only the parts that depend on the
//! backend's type (name, construction, devices) are compiled for each backend.

mod described;
mod natives;
pub mod open;
mod primitives;
mod programs;
pub mod tensors;

use crate::abi::{Library, MAGIC, VERSION};
use bb_core::{Declared, Erased};

/// An open backend.
struct Opened {
    erased: Erased,
}

/// Returns the function table of a backend, for [`export_backend!`](crate::export_backend).
pub const fn library<B: Declared>() -> Library {
    Library {
        size: size_of::<Library>(),
        magic: MAGIC,
        version: VERSION,
        // No flags are set: the library must not be unloaded, because pool threads and destructors of thread-locals would run unmapped
        // code.
        flags: 0,
        fingerprint: bb_ir::op::primitives_fingerprint(usize::MAX),
        primitives: &primitives::EXPORTED,
        describe: Some(described::describe::<B>),
        open: Some(open::open::<B>),
        close: Some(open::close),
        to_host: Some(tensors::to_host),
        release: Some(tensors::release),
        types: Some(described::types),
        devices: if B::LISTS_DEVICES { Some(described::devices::<B>) } else { None },
        whole_graphs: Some(programs::whole_graphs),
        compile: Some(programs::compile),
        run: Some(programs::run),
        release_program: Some(programs::release),
        start: None,
        native: Some(natives::native),
        memory: Some(open::memory),
        synchronize: Some(open::synchronize),
        runs_primitive: Some(programs::runs_primitive),
    }
}

/// Exports a backend that has `#[derive(bb::Backend)]` as a library. Write it once, in a crate whose `crate-type` is `["cdylib"]`.
///
/// The macro defines the symbol `bb_backend_library`, so a program or library can contain only one expansion. `bb::load_backend` opens the
/// file that `cargo build` creates.
#[macro_export]
macro_rules! export_backend {
    ($backend:ty) => {
        const _: () = {
            #[allow(unsafe_code, reason = "a symbol that programs look for")]
            // SAFETY: the library is the only one with this name.
            #[unsafe(export_name = "bb_backend_library")]
            static LIBRARY: $crate::abi::Library = $crate::export::library::<$backend>();
        };
    };
}

/// Copies a structure to a buffer of the host. Copies at most the size of the host's structure, which may be smaller because the host may be older.
///
/// # Safety
///
/// `into` is null, or borrowed for the call, and begins with its size in bytes.
unsafe fn fill<T>(into: *mut T, value: &T) {
    if into.is_null() {
        return;
    }
    // SAFETY: the caller upholds the safety contract of this function.
    let room = unsafe { into.cast::<usize>().read() };
    // SAFETY: both structures have that many bytes, and they are not the same.
    unsafe {
        let from = std::ptr::from_ref(value).cast::<u8>();
        std::ptr::copy_nonoverlapping(from, into.cast::<u8>(), room.min(size_of::<T>()));
    }
}

/// Returns the open backend behind a pointer.
///
/// # Safety
///
/// `open` created the pointer, and `close` was not called with it.
unsafe fn opened<'a>(backend: *mut crate::abi::Raw) -> Result<&'a Opened, crate::failure::Failed> {
    let null = || crate::failure::Failed::new(bb_ir::ErrorKind::WrongInput, "expected a backend, got null");
    // SAFETY: the caller upholds the safety contract of this function.
    unsafe { backend.cast::<Opened>().as_ref() }.ok_or_else(null)
}
