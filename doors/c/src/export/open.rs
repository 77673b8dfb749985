//! The functions that open and close a backend.

use super::Opened;
use crate::abi::{Failure, Items, MemoryUse, Named, Raw, Status, Text};
use crate::failure::{Failed, guarded};
use bb_core::{Declared, Erased, ErrorKind, OpenOptions};

/// Reads a string that the caller lends for the call.
///
/// # Errors
///
/// If the bytes are not UTF-8.
pub fn text<'a>(text: Text) -> Result<&'a str, Failed> {
    // SAFETY: the host lends the bytes for the call, and the text is not kept.
    let bytes = unsafe { text.slice() };
    std::str::from_utf8(bytes)
        .map_err(|e| Failed::new(ErrorKind::WrongInput, format!("a text is not UTF-8: {e}")))
}

/// Converts a list of names and values to options of `bb`.
///
/// # Errors
///
/// As [`OpenOptions::with_text`].
pub fn options(pairs: &[Named]) -> Result<OpenOptions, Failed> {
    let mut options = OpenOptions::default();
    for pair in pairs {
        let (name, value) = (text(pair.name)?, text(pair.value)?);
        if name.is_empty() {
            return Err(Failed::new(
                ErrorKind::Configuration,
                format!("the option with the value `{value}` has no name"),
            ));
        }
        options = options.with_text(name, value).map_err(|error| Failed::of(&error))?;
    }
    Ok(options)
}

/// `bb_library.open`.
pub(super) unsafe extern "C" fn open<B: Declared>(
    pairs: Items<Named>,
    backend: *mut *mut Raw,
    error: *mut Failure,
) -> Status {
    let body = || {
        // SAFETY: the host lends the list for the call.
        let options = options(unsafe { pairs.slice() })?;
        let made = bb_core::__private::constructed::<B>(&options).map_err(|error| match &error {
            // Only the cause is passed on, because the host adds that the backend is not available.
            bb_core::Error::Unavailable { source, .. } => Failed::caused(error.kind(), &**source),
            _ => Failed::of(&error),
        })?;
        let opened = Box::into_raw(Box::new(Opened { erased: Erased::new(made) }));
        // SAFETY: the host lends the place for the call.
        unsafe { backend.write(opened.cast()) };
        Ok(())
    };
    // SAFETY: the host lends `error` for the call.
    unsafe { guarded(error, body) }
}

/// `bb_library.close`.
pub(super) unsafe extern "C" fn close(backend: *mut Raw) {
    // SAFETY: `open` created the pointer, and the host closes it once. A panic while it is dropped must not leave the library.
    drop(bb_core::runtime::catch(|| unsafe { drop(Box::from_raw(backend.cast::<Opened>())) }));
}

/// `bb_library.memory`.
pub(super) unsafe extern "C" fn memory(backend: *mut Raw, into: *mut MemoryUse) {
    // SAFETY: `open` created the backend.
    let Ok(opened) = (unsafe { super::opened(backend) }) else { return };
    let statistics = || bb_core::Backend::memory(&opened.erased).map(|memory| memory.statistics());
    let Ok(Some(known)) = bb_core::runtime::catch(statistics) else { return };
    let all = MemoryUse {
        size: size_of::<MemoryUse>(),
        live: known.live,
        pooled: known.pooled,
        peak: known.peak,
        limit: known.limit.unwrap_or(u64::MAX),
        available: known.available.unwrap_or(u64::MAX),
    };
    // SAFETY: the host lends the structure for the call, and its first field is its size in bytes.
    unsafe { super::fill(into, &all) }
}

/// `bb_library.synchronize`.
pub(super) unsafe extern "C" fn synchronize(backend: *mut Raw, error: *mut Failure) -> Status {
    let body = || {
        // SAFETY: `open` created the backend.
        let opened = unsafe { super::opened(backend) }?;
        let Some(lifecycle) = bb_core::Backend::lifecycle(&opened.erased) else { return Ok(()) };
        lifecycle.synchronize().map_err(|e| Failed::caused(ErrorKind::Device, &e))
    };
    // SAFETY: the host lends `error` for the call.
    unsafe { guarded(error, body) }
}
