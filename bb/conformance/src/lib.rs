//! Tests of the results of every primitive. Any backend can run them: `bb::conformance!(MyBackend)`, as `bb` exports the macro.
//!
//! `cases` has one function per primitive. Its expected values are computed from ONNX's definition, or are literals from NumPy. `topics`
//! tests the rules that hold for all primitives: supported and refused element types, zero extents, views as operands, and invalid
//! arguments. A failing case panics with the operation, the element type and the first element that differs.
//!
//! The tests do not depend on a particular backend, and do not assume that a backend computes on the host.
//!
//! The feature `suite` adds ONNX's own cases and the macro.

mod all;
mod bounded;
mod call;
pub mod cases;
mod check;
mod exit_guard;
mod hint;
mod host;
mod nodes;
pub mod onnx;
mod random;
mod run_call;
mod show;
mod shown_call;
mod slow;
mod subject;
pub mod topics;
mod valid_call;
mod watch;

pub use all::{Test, tests};
pub use bounded::call_limit;
#[doc(hidden)]
pub use bounded::{check_case, check_within};
pub use call::Call;
pub use check::{
    assert_near, assert_numbers, assert_refused, assert_same, assert_tensor, assert_unsupported, difference,
};
pub use hint::TypesDeclaration;
pub use host::{Value, elements, host_numbers, numbers_of, rearranged, sample};
pub use nodes::{NodeComparison, compare_nodes};
pub use random::{Case, Operand, Random};
pub use subject::{Subject, TestEnd, assert_types, numbers, tensor};
pub use watch::RunningCalls;

/// Calls a macro with the names of the topics. The names are preceded by `[tokens]`.
#[doc(hidden)]
#[macro_export]
macro_rules! __for_each_topic {
    ($($callback:ident)::+ $(, $($extra:tt)*)?) => { $($callback)::+! { [$($($extra)*)?]
        element_types zero_extents rank_zero views_as_operands mixed_types wrong_arguments threads erasure graphs
    } };
}

#[cfg(feature = "suite")]
#[doc(hidden)]
#[macro_export]
macro_rules! __conformance {
    ($form:ident $make:expr; [$($dtype:ident)*]; $($cases:tt)?) => {
        #[allow(unused_imports, reason = "the line below must not find it in a function")]
        use $crate::__places::*;
        // In a function, `self` is the enclosing module. It lacks this import, so the call is a compile error; otherwise, the tests would
        // silently not run.
        self::conformance_belongs_outside_of_functions!($form $make; [$($dtype)*]; $($cases)?);
    };
}

/// Expands to the tests of a suite, in the module with the suite's name, or in the module `unnamed_suite`.
///
/// Two suites without a name in one module cause a single error, about the name `unnamed_suite`. The backend is created outside of this
/// module, because the expression may begin with `super`. The line number distinguishes the suites, so that no other item is defined twice.
#[cfg(feature = "suite")]
#[doc(hidden)]
#[macro_export]
macro_rules! __conformance_items {
    (named $($suite:tt)*) => {
        enum SuiteBackend<const LINE: u32> {}
        $crate::__conformance_backend!([SuiteBackend] $($suite)*);
        $crate::__conformance_tests!(SuiteBackend<{ ::core::line!() }>; $($suite)*);
    };
    (unnamed $($suite:tt)*) => {
        $crate::__conformance_backend!([unnamed_suite::SuiteBackend] $($suite)*);
        mod unnamed_suite {
            pub(super) enum SuiteBackend<const LINE: u32> {}
            $crate::__conformance_tests!(super::unnamed_suite::SuiteBackend<{ ::core::line!() }>; $($suite)*);
        }
    };
}

/// Expands to the functions that evaluate the expression of the backend.
#[cfg(feature = "suite")]
#[doc(hidden)]
#[macro_export]
macro_rules! __conformance_backend {
    ([$($on:tt)+] $make:expr; [$($dtype:ident)*]; $($cases:tt)?) => {
        impl $($on)+<{ ::core::line!() }> {
            // Only this function checks that the backend has the trait bound. The tests call it.
            fn make() -> impl $crate::__private::Backend {
                $make
            }

            $crate::__conformance_onnx!($make; $($cases)?);
        }
    };
}

/// Expands to the tests, which call the functions of the type `$on`.
#[cfg(feature = "suite")]
#[doc(hidden)]
#[macro_export]
macro_rules! __conformance_tests {
    ($on:ty; $make:expr; [$($dtype:ident)*]; $($cases:tt)?) => {
        $crate::__private::for_each_primitive!($crate::__conformance_cases, $on);
        $crate::__for_each_topic!($crate::__conformance_topics, $on);
        $crate::__conformance_types!($on; $($dtype)*);
        $crate::__conformance_onnx_test!($on; $($cases)?);
    };
}

#[cfg(feature = "suite")]
#[doc(hidden)]
#[macro_export]
macro_rules! __conformance_types {
    ($on:ty; ) => {};
    ($on:ty; $($dtype:ident)+) => {
        #[test]
        fn listed_types() {
            $crate::assert_types(&<$on>::make(), &[$($crate::__private::DataType::$dtype),+]);
        }
    };
}

#[cfg(feature = "suite")]
#[doc(hidden)]
#[macro_export]
macro_rules! __conformance_onnx {
    ($make:expr; none) => {};
    ($make:expr; [$($any:tt)*]) => {
        ::core::compile_error!("`cases` is a text, a number or `none`, as in `cases = \"node/\"`");
    };
    ($make:expr; $any:ident) => {
        ::core::compile_error!("`cases` is a text, a number or `none`, as in `cases = \"node/\"`");
    };
    ($make:expr; $($chosen:literal)?) => {
        fn onnx() {
            #[allow(unused_imports, reason = "a declared backend has the method itself")]
            use $crate::onnx::{NotBackend as _, Start as _};
            let started = $crate::onnx::Made($make).start();
            let suite = $crate::onnx::Suite::new(started);
            $(let suite = $crate::onnx::Chosen::of($chosen, suite);)?
            suite.check();
        }
    };
}

#[cfg(feature = "suite")]
#[doc(hidden)]
#[macro_export]
macro_rules! __conformance_onnx_test {
    ($on:ty; $($chosen:literal)?) => {
        #[test]
        fn onnx() {
            <$on>::onnx();
        }
    };
    // Another macro reports the invalid input.
    ($on:ty; $other:tt) => {};
}

#[cfg(feature = "suite")]
#[doc(hidden)]
#[macro_export]
macro_rules! __conformance_cases {
    ([$on:ty] $( $(#[$doc:meta])*
       $name:ident $since:literal = $method:ident
       ( $($input:ident : $kind:ident),* $(; $($param:ident : $pkind:ident $(= $default:expr)?),+)? )
       -> $output:ident $({ $($fact:tt)* })?; )*) => {
        $(
            #[test]
            fn $method() {
                $crate::check_case(::core::stringify!($method), <$on>::make, $crate::cases::$method);
            }
        )*
    };
}

#[cfg(feature = "suite")]
#[doc(hidden)]
#[macro_export]
macro_rules! __conformance_topics {
    ([$on:ty] $($topic:ident)*) => {
        $(
            #[test]
            fn $topic() {
                $crate::check_case(::core::stringify!($topic), <$on>::make, $crate::topics::$topic);
            }
        )*
    };
}

/// A macro that the expansion of `bb::conformance!` imports and then calls as an item of the enclosing module. In a function, the import is
/// not an item of the module, so the call does not compile.
#[cfg(feature = "suite")]
#[doc(hidden)]
pub mod __places {
    pub use crate::__conformance_items as conformance_belongs_outside_of_functions;
}

/// Items that the expansions of this crate's macros use.
#[cfg(feature = "suite")]
#[doc(hidden)]
pub mod __private {
    pub use bb_core::__private::for_each_primitive;
    pub use bb_core::{Backend, DataType};
}
