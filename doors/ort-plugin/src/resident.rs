//! Keeps the library in memory although ONNX Runtime unloads it.
//!
//! Pool threads of a backend run the library's code until the process ends, and thread-locals have destructors in it. If the code were
//! unmapped, both would crash the process. Loading the library again reuses it, so nothing accumulates.

/// Keeps this library in memory until the process ends. Does nothing on systems that do not support it.
pub(crate) fn stay() {
    #[cfg(unix)]
    unix::stay();
}

#[cfg(unix)]
mod unix {
    use std::ffi::c_void;
    use std::mem::MaybeUninit;

    pub(super) fn stay() {
        let mut info = MaybeUninit::<libc::Dl_info>::uninit();
        let own = stay as *const c_void;
        // SAFETY: the address belongs to a function of this library, and `info` has room for the result.
        if unsafe { libc::dladdr(own, info.as_mut_ptr()) } == 0 {
            return;
        }
        // SAFETY: the function reported that it has initialized the structure.
        let path = unsafe { info.assume_init() }.dli_fname;
        // SAFETY: the loader keeps the path alive. The library is loaded already, so its initialisers do not run; the handle is never
        // closed.
        unsafe { libc::dlopen(path, libc::RTLD_NOW | libc::RTLD_NOLOAD | libc::RTLD_NODELETE) };
    }
}
