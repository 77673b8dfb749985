//! Releasing objects, which reports nothing.

use bb_core::runtime::catch;

/// Runs `f`, which cannot report; a panic ends it, and `otherwise` is returned.
pub(crate) fn quiet<T>(otherwise: T, f: impl FnOnce() -> T) -> T {
    catch(f).unwrap_or(otherwise)
}

/// Drops an object that [`OutPlace::give`](crate::arguments::OutPlace::give) made.
///
/// # Safety
///
/// The pointer is null, or was made so and not dropped.
pub(crate) unsafe fn drop_object<T>(object: *mut T) {
    if !object.is_null() {
        // SAFETY: the caller says so.
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
        /// The pointer is null, or this library made the object and it has not been released.
        pub(crate) unsafe extern "system" fn $name(object: *mut $ty) {
            // SAFETY: the caller says so.
            unsafe { $crate::release::drop_object(object) }
        }
    )*};
}
pub(crate) use releases;
