//! `bb::conformance!`, which is there without the feature too, to say that it is needed.

/// Runs the case of every primitive, every topic, and every case of ONNX on a backend: one `#[test]` for each primitive
/// and topic, and one, `onnx`, for ONNX's cases.
///
/// Write it in a test of your crate, with the feature `conformance` of `bb` enabled:
/// `bb = { version = "…", features = ["conformance"] }` among `[dev-dependencies]`. The argument is an
/// expression that makes a backend; it is evaluated once per test, and by `onnx` twice where there are `types`. A name
/// before the expression puts the tests into a module.
///
/// A backend that does not support every element type declares those that it does: of all others the tests of primitives
/// then ask that they are refused with an error that names the operation and the type, and `onnx` skips the cases that
/// need them. Where none are declared and the backend lacks some, what fails says which to declare.
///
/// `onnx` fails with a list: each case's name, its operators, what was expected and what came. Before that it prints how
/// many cases passed, failed and were skipped for each operator; `cargo test onnx -- --nocapture` shows that of a test
/// that passes too. `cases = "text"` runs the cases whose path contains the text only, as the variable `BB_CASES` does;
/// `cases = none` leaves `onnx` out. `bb::conformance::onnx::Suite` is what it runs.
///
/// # Examples
///
/// ```text
/// bb::conformance!(MyBackend);
/// bb::conformance!(MyBackend, types = [F32, I64, Bool]);
/// bb::conformance!(on_two_threads, MyBackend::with_threads(2), cases = "node/test_matmul");
/// ```
#[macro_export]
macro_rules! conformance {
    ($make:expr $(, types = [$($dtype:ident),+ $(,)?])? $(, cases = $cases:tt)? $(,)?) => {
        $crate::__conformance!($make; [$($($dtype)+)?]; $($cases)?);
    };
    ($name:ident, $($rest:tt)+) => {
        mod $name {
            #[allow(unused_imports, reason = "the expression may need none of them")]
            use super::*;
            $crate::conformance!($($rest)+);
        }
    };
}

#[cfg(not(feature = "conformance"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __conformance {
    ($($any:tt)*) => {
        ::core::compile_error!(
            "`bb::conformance!` needs a feature of `bb`: write `bb = { version = \"…\", features = [\"conformance\"] }` in \
             `[dev-dependencies]`"
        );
    };
}
