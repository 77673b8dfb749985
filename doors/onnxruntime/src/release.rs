//! Releases objects. The functions cannot report errors.

use bb_core::runtime::catch;

/// Runs `f` and catches a panic. Returns `otherwise` after a panic, because the caller cannot report it.
pub(crate) fn quiet<T>(otherwise: T, f: impl FnOnce() -> T) -> T {
    catch(f).unwrap_or(otherwise)
}

/// Drops an object that [`OutPlace::give`](crate::arguments::OutPlace::give) created.
///
/// # Safety
///
/// The pointer is null, or was created by `give` and not dropped.
pub(crate) unsafe fn drop_object<T>(object: *mut T) {
    if !object.is_null() {
        // SAFETY: the caller upholds the safety contract of this function.
        quiet((), || drop(unsafe { Box::from_raw(object) }));
    }
}

/// Defines functions that release an object, or do nothing for null.
macro_rules! releases {
    ($($name:ident($ty:ty);)*) => {$(
        /// Releases an object.
        ///
        /// # Safety
        ///
        /// The pointer is null, or this library created the object and it has not been released.
        pub(crate) unsafe extern "system" fn $name(object: *mut $ty) {
            // SAFETY: the caller upholds the safety contract of this function.
            unsafe { $crate::release::drop_object(object) }
        }
    )*};
}
pub(crate) use releases;
