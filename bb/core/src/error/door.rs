//! Error advice for programs that are not written in Rust.

use std::sync::OnceLock;

/// Advice for users of C, Python, JavaScript and other languages. The bindings for the language set it once.
///
/// If it is not set, errors give advice for Rust programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DoorAdvice {
    /// How to add a backend, for example "name its library in the variable `BB_BACKEND_PATH`".
    pub backend: &'static str,
    /// How to get operators and decoders that this build lacks, for example "this library was built without them".
    pub left_out: &'static str,
    /// How to remove a backend that the program added, where `{name}` becomes its name, for example "call
    /// `bb.unregister('{name}')` before"; `None` if that is impossible.
    pub remove: Option<&'static str>,
    /// The prefix of the options that set limits, for example `limits.`; empty if an option has the name of its limit.
    pub limits: &'static str,
}

static ADVICE: OnceLock<DoorAdvice> = OnceLock::new();

impl DoorAdvice {
    /// Sets the advice for all errors of this process. Only the first call has an effect.
    pub fn give(self) {
        ADVICE.get_or_init(|| {
            bb_ir::Limits::set_option_prefix(self.limits);
            self
        });
    }

    /// Returns the advice if bindings have set it.
    pub(crate) fn given() -> Option<&'static DoorAdvice> {
        ADVICE.get()
    }
}

/// Returns the advice for an optional crate that is not linked.
pub(crate) fn link(feature: &str, package: &str) -> String {
    match DoorAdvice::given() {
        Some(door) => door.left_out.to_owned(),
        None => format!("add the feature `{feature}` of `bb`, or write `use {package} as _;`"),
    }
}

/// Returns the advice for a program without operators.
pub(crate) fn link_operators(door: Option<&DoorAdvice>) -> String {
    match door {
        Some(door) => format!("they are in the part `bb-onnx` of bb, and {}", door.left_out),
        None => "depend on the crate `bb`, or write `use bb_onnx as _;`".to_owned(),
    }
}

/// Returns the advice to bind a node to another backend. `does` describes the required ability.
pub(crate) fn bind(does: &str, node: &dyn std::fmt::Display) -> String {
    format!("bind the node to a backend that {does}: `.bind_node(\"{node}\", …)`")
}

/// Returns advice for programs in Rust, after a semicolon; empty in programs in other languages.
pub(crate) fn in_rust(advice: impl FnOnce() -> String) -> String {
    match DoorAdvice::given() {
        Some(_) => String::new(),
        None => format!("; {}", advice()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_in_other_languages_get_no_advice_about_crates() {
        let door = DoorAdvice {
            backend: "",
            left_out: "this library was built without it",
            remove: None,
            limits: "",
        };
        assert_eq!(
            link_operators(Some(&door)),
            "they are in the part `bb-onnx` of bb, and this library was built without it"
        );
        assert_eq!(link_operators(None), "depend on the crate `bb`, or write `use bb_onnx as _;`");
    }
}
