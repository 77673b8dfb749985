//! `bb::conformance!`. Without the feature `conformance`, it reports that the feature is needed.

/// Tests a backend with the case of every primitive, every topic, and all of ONNX's cases. Each primitive and
/// each topic becomes a `#[test]`; ONNX's cases are one test, `onnx`.
///
/// Write it in a test of your crate, and enable the feature `conformance`: `bb = { path = "…", features = ["conformance"] }` in
/// `[dev-dependencies]`. The argument is an expression that creates a backend. Each test evaluates it once.
///
/// The tests are in a module: a name before the expression is the name of the module, and without one it is `unnamed_suite`. A second
/// suite in the same module needs a name: `bb::conformance!(wide, MyBackend::wide())`. Without one, rustc reports that `unnamed_suite`
/// is defined multiple times.
///
/// The tests of primitives use the element types that the backend declares ([`Backend::types`](crate::Backend::types)). They require
/// that every operation accepts each declared type, and that every other type is refused with an error that names the operation and
/// the type. `onnx` skips the cases that need other types, unless their values can be represented exactly in a declared type. If the
/// backend declares all types but lacks some, the failure says which types to declare. With `types = […]`, the test `listed_types`
/// requires that the backend declares exactly these types.
///
/// Each test of a primitive or a topic creates, uses and drops its backend on one thread. It fails if a call takes longer than a
/// minute, or longer than the number of seconds in the environment variable `BB_CALL_SECONDS`.
///
/// `onnx` fails with a list of each failed case: its name, its operators, and the expected and computed values.
/// Before that, it prints for each operator how many cases passed, failed and were skipped;
/// `cargo test onnx -- --nocapture` also shows this if the test passes. `cases = "text"` only runs the cases
/// whose path contains the text, like the variable `BB_CASES`; `cases = 10` only runs each tenth case, unless `BB_CASES` is
/// set, even if to nothing; `cases = none` omits the test `onnx`. The test
/// uses `bb::conformance::onnx::Suite`.
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
        $crate::__conformance!(unnamed $make; [$($($dtype)+)?]; $($cases)?);
    };
    ($make:expr, cases = $cases:tt, types = [$($dtype:ident),+ $(,)?] $(,)?) => {
        $crate::__conformance!(unnamed $make; [$($dtype)+]; $cases);
    };
    ($make:expr, $option:ident = $($rest:tt)+) => {
        ::core::compile_error!(::core::concat!(
            "`",
            ::core::stringify!($option),
            "` is not an option, or its value has another form: write `bb::conformance!(MyBackend, types = [F32, I64, Bool], cases = 10)`, \
             where `cases` is a text, a number or `none`"
        ));
    };
    () => {
        ::core::compile_error!("write the backend that is tested: `bb::conformance!(MyBackend)`");
    };
    ($make:expr; $($rest:tt)*) => {
        ::core::compile_error!("write commas between the options: `bb::conformance!(MyBackend, cases = 10)`");
    };
    ($make:expr, $option:ident : $($rest:tt)*) => {
        ::core::compile_error!(::core::concat!("write `", ::core::stringify!($option), " = …`, with `=`"));
    };
    ($name:ident, $($rest:tt)+) => {
        mod $name {
            #[allow(unused_imports, reason = "the expression may need none of them")]
            use super::*;
            $crate::__conformance_named!($($rest)+);
        }
    };
    ($make:expr, $($rest:tt)+) => {
        ::core::compile_error!(
            "a name for the tests is an identifier before the backend, and options stand behind it: \
             `bb::conformance!(wide, MyBackend::wide(), types = [F32, I64, Bool], cases = 10)`"
        );
    };
}

/// Expands to the tests of a suite that has a name, in the module of this name.
#[doc(hidden)]
#[macro_export]
macro_rules! __conformance_named {
    ($make:expr $(, types = [$($dtype:ident),+ $(,)?])? $(, cases = $cases:tt)? $(,)?) => {
        $crate::__conformance!(named $make; [$($($dtype)+)?]; $($cases)?);
    };
    ($make:expr, cases = $cases:tt, types = [$($dtype:ident),+ $(,)?] $(,)?) => {
        $crate::__conformance!(named $make; [$($dtype)+]; $cases);
    };
    // Forwards any other input to `conformance!`, which reports the mistake.
    ($($other:tt)*) => {
        $crate::conformance!($($other)*);
    };
}

#[cfg(not(feature = "conformance"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __conformance {
    ($($any:tt)*) => {
        ::core::compile_error!(
            "`bb::conformance!` needs a feature of `bb`: write `bb = { path = \"…\", features = [\"conformance\"] }` in \
             `[dev-dependencies]`"
        );
    };
}
