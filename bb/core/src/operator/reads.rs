//! Records the attributes that a function reads, for tests.

use bb_ir::graph::Attribute;
use std::cell::RefCell;
use std::collections::BTreeMap;

/// The attributes that a function read in a call, with the function's defaults for them.
///
/// [`Call::noting`](super::Call::noting) creates a call that records them.
#[derive(Debug, Default)]
pub struct AttributeReads(RefCell<BTreeMap<String, Vec<Attribute>>>);

impl AttributeReads {
    /// Records that an attribute was read, and the function's default for it.
    pub(super) fn note(&self, name: &str, default: Option<Attribute>) {
        self.0.borrow_mut().entry(name.to_owned()).or_default().extend(default);
    }

    /// Returns the names of the attributes that were read, each with the function's defaults for it.
    pub fn into_inner(self) -> BTreeMap<String, Vec<Attribute>> {
        self.0.into_inner()
    }
}
