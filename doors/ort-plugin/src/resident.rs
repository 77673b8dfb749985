//! Keeps the library in memory when ONNX Runtime unloads it.
//!
//! Threads of a backend's pool run its code until the process ends, and values of threads have destructors in it; without the code,
//! both would crash the process. A library that is loaded again is the same one, so that nothing accumulates.

/// Keeps the library that has this function in memory until the process ends. Where the system offers no way, it does nothing.
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
        // SAFETY: the address is that of a function of this library, and the place has room.
        if unsafe { libc::dladdr(own, info.as_mut_ptr()) } == 0 {
            return;
        }
        // SAFETY: the function said that it wrote all of it.
        let path = unsafe { info.assume_init() }.dli_fname;
        // SAFETY: the path is one that the loader keeps. The library is loaded already, so that no code of it runs now; the handle is
        // never closed.
        unsafe { libc::dlopen(path, libc::RTLD_NOW | libc::RTLD_NOLOAD | libc::RTLD_NODELETE) };
    }
}
