//! Advice of errors for programs that are not written in Rust.

use std::sync::OnceLock;

/// Advice for users of C, Python, JavaScript and other languages. The library for that language sets it once.
///
/// Without it, errors give advice for a program in Rust.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DoorAdvice {
    /// How to add a backend, as in "name its library in the variable `BB_BACKEND_PATH`".
    pub backend: &'static str,
    /// How to get operators and decoders that this build lacks, as in "this library was built without them".
    pub left_out: &'static str,
    /// How to remove a backend that the program added, as in "call `bb.unregister(name)` before"; `None` if it cannot.
    pub remove: Option<&'static str>,
}

static ADVICE: OnceLock<DoorAdvice> = OnceLock::new();

impl DoorAdvice {
    /// Sets the advice for all errors of this process. Only the first call has an effect.
    pub fn give(self) {
        ADVICE.get_or_init(|| self);
    }

    /// Returns the advice if a library set one.
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

/// Returns the advice to run a node on another backend, one that `does` something.
pub(crate) fn elsewhere(does: &str, node: &dyn std::fmt::Display) -> String {
    match DoorAdvice::given() {
        Some(_) => {
            format!("open `first_of(this, other)`, where `other` is the name of a backend that {does}")
        }
        None => format!("bind the node to a backend that {does}: `.bind_node(\"{node}\", …)`"),
    }
}
