//! Exports any derived backend as a plugin of ONNX Runtime: an execution provider that an unmodified ONNX Runtime loads.
//!
//! A crate of type `cdylib` names its backend:
//!
//! ```ignore
//! bb_ort_plugin::export!(MyBackend);
//! ```
//!
//! Programs in any language then register the library and select its device; `bb/docs/onnxruntime.md` has the commands.
//!
//! The provider claims the nodes that the backend runs natively or lowered, in parts of maximal size. ONNX Runtime runs all other nodes.
//! Each part is compiled once, for all shapes. A node that the provider declines never causes an error.
//!
//! This crate uses the public C interface of ONNX Runtime 1.23. [`raw`] declares the functions and types that are needed.
#![expect(unsafe_code, reason = "calls functions of ONNX Runtime, and is called by it")]

mod api;
mod claim;
mod compiled;
mod description;
mod ending;
mod error;
mod factory;
mod graph;
mod guard;
pub mod lending;
mod provider;
pub mod raw;
mod registrations;
mod resident;
mod settings;

pub use description::Description;
pub use error::PluginError;

/// The items that the expansion of [`export!`] uses.
#[doc(hidden)]
pub mod __private {
    pub use crate::factory::{create, release};
    pub use crate::raw::{OrtApiBase, OrtEpFactory, OrtLogger, Status};
}

/// Exports a derived backend to ONNX Runtime: defines the functions `CreateEpFactories` and `ReleaseEpFactory`.
///
/// The provider is called `bb-NAME`, where `NAME` is the name of the backend. A crate has at most one `export!`. It may forbid unsafe code,
/// because rustc does not apply the lint `unsafe_code` to the expansion of a macro of another crate.
///
/// # Examples
///
/// ```
/// # mod m {
/// bb_ort_plugin::export!(bb_cpu::Cpu);
/// # }
/// ```
///
/// The fields of a [`Description`] may follow; a field that is left out has its default:
///
/// ```
/// # mod m {
/// bb_ort_plugin::export!(bb_cpu::Cpu; vendor = c"My Company", metadata = &[(c"chip", c"mk2")]);
/// # }
/// ```
///
/// A value, a type without the derive, and an unknown field are errors:
///
/// ```compile_fail
/// bb_ort_plugin::export!(bb_cpu::Cpu::default());
/// ```
///
/// ```compile_fail
/// bb_ort_plugin::export!(bb_cpu::Cpu::default(); vendor = c"My Company");
/// ```
///
/// ```compile_fail
/// struct Plain;
/// bb_ort_plugin::export!(Plain);
/// ```
///
/// ```compile_fail
/// bb_ort_plugin::export!(bb_cpu::Cpu; seller = c"My Company");
/// ```
#[macro_export]
macro_rules! export {
    () => { $crate::export!(@not_a_type); };
    (@not_a_type) => {
        ::core::compile_error!(
            "expected the type of a backend, as in `bb_ort_plugin::export!(MyChip);`: the library makes the backend itself, with its `Default` or the \
             constructor of its derive"
        );
    };
    ($first:ident $(:: $rest:ident)* ($($arguments:tt)*) $(; $($fields:tt)*)?) => { $crate::export!(@not_a_type); };
    ($first:ident $(:: $rest:ident)* { $($values:tt)* } $(; $($fields:tt)*)?) => { $crate::export!(@not_a_type); };
    ($first:ident $(:: $rest:ident)*, $($more:tt)+) => { $crate::export!(@not_a_type); };
    ($backend:ty $(; $($field:ident = $value:expr),+ $(,)?)?) => {
        const _: () = {
            #[allow(clippy::needless_update, reason = "all fields may be set")]
            const DESCRIPTION: $crate::Description =
                $crate::Description { $($($field: $value,)+)? ..$crate::Description::DEFAULT };

            /// Creates the factory.
            ///
            /// # Safety
            ///
            /// Only ONNX Runtime calls this function.
            #[unsafe(no_mangle)]
            pub unsafe extern "system" fn CreateEpFactories(
                registration: *const ::core::ffi::c_char,
                base: *const $crate::__private::OrtApiBase,
                _logger: *const $crate::__private::OrtLogger,
                factories: *mut *mut $crate::__private::OrtEpFactory,
                most: usize,
                count: *mut usize,
            ) -> $crate::__private::Status {
                // SAFETY: ONNX Runtime passed the arguments.
                unsafe { $crate::__private::create::<$backend>(registration, base, factories, most, count, DESCRIPTION) }
            }

            /// Releases the factory.
            ///
            /// # Safety
            ///
            /// Only ONNX Runtime calls this function.
            #[unsafe(no_mangle)]
            pub unsafe extern "system" fn ReleaseEpFactory(
                factory: *mut $crate::__private::OrtEpFactory,
            ) -> $crate::__private::Status {
                // SAFETY: the factory was created by `CreateEpFactories`.
                unsafe { $crate::__private::release(factory) }
            }
        };
    };
}
