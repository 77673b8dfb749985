//! What errors advise in a program that is not written in Rust.

use std::sync::OnceLock;

/// What a user of a door can do, whose program is in another language: a library that such programs load says it once.
///
/// Without this, errors advise what a program in Rust writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DoorAdvice {
    /// How a backend comes to be known, as in "name its library in the variable `BB_BACKEND_PATH`".
    pub backend: &'static str,
    /// Where to get operators and decoders that were left out, as in "this library was built without them".
    pub left_out: &'static str,
}

static ADVICE: OnceLock<DoorAdvice> = OnceLock::new();

impl DoorAdvice {
    /// Makes the errors of this process advise this. The first call counts, because a library is one door.
    pub fn give(self) {
        ADVICE.get_or_init(|| self);
    }

    /// Returns the advice of the door, if the program came through one.
    pub(crate) fn given() -> Option<&'static DoorAdvice> {
        ADVICE.get()
    }
}

/// Says what to write for what a program in Rust can link, or what the door advises.
pub(crate) fn link(feature: &str, package: &str) -> String {
    match DoorAdvice::given() {
        Some(door) => door.left_out.to_owned(),
        None => format!("add the feature `{feature}` of `bb`, or write `use {package} as _;`"),
    }
}

/// Says where else a node can run: on a backend that does this.
pub(crate) fn elsewhere(does: &str, node: &dyn std::fmt::Display) -> String {
    match DoorAdvice::given() {
        Some(_) => format!("open `first_of(this, other)`, where `other` is the name of a backend that {does}"),
        None => format!("bind the node to a backend that {does}: `.bind_node(\"{node}\", …)`"),
    }
}
