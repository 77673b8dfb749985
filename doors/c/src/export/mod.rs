//! Libraries of backends in Rust: the functions of the interface over any backend.
//!
//! They are over [`Erased`](bb_core::Erased), so that they are compiled once, in this crate. Only what concerns the type (its name, how it
//! is constructed, its devices) is compiled for each backend.

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

/// Returns the library of a backend, for [`export_backend!`](crate::export_backend).
pub const fn library<B: Declared>() -> Library {
    Library {
        size: size_of::<Library>(),
        magic: MAGIC,
        version: VERSION,
        // The library cannot be unloaded: threads of a pool, and destructors of threads, would run unmapped code.
        flags: 0,
        fingerprint: bb_ir::op::primitives_fingerprint(usize::MAX),
        primitives: &primitives::EXPORTED,
        describe: Some(described::describe::<B>),
        open: Some(open::open::<B>),
        close: Some(open::close),
        to_host: Some(tensors::to_host),
        release: Some(tensors::release),
        types: Some(described::types),
        devices: Some(described::devices::<B>),
        whole_graphs: Some(programs::whole_graphs),
        compile: Some(programs::compile),
        run: Some(programs::run),
        release_program: Some(programs::release),
        start: None,
        native: Some(natives::native),
        memory: Some(open::memory),
        synchronize: Some(open::synchronize),
    }
}

/// Makes a library of a backend that has `#[derive(bb::Backend)]`: write it once, in a crate whose `crate-type` is `["cdylib"]`.
///
/// It defines the symbol `bb_backend_library`, so that two of these cannot be in one program. `bb::load_backend` opens the file that
/// `cargo build` makes.
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

/// Copies a structure that begins with its size to a place of the host, as far as the host knows it.
///
/// # Safety
///
/// `into` is null, or borrowed for the call, and begins with its size in bytes.
unsafe fn fill<T>(into: *mut T, value: &T) {
    if into.is_null() {
        return;
    }
    // SAFETY: what the caller promises.
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
/// `open` made the pointer, and `close` has not ended it.
unsafe fn opened<'a>(backend: *mut crate::abi::Raw) -> Result<&'a Opened, crate::failure::Failed> {
    let null = || crate::failure::Failed::new(bb_ir::ErrorKind::WrongInput, "expected a backend, got null");
    // SAFETY: what the caller promises.
    unsafe { backend.cast::<Opened>().as_ref() }.ok_or_else(null)
}
