//! How much an untrusted model may ask for.

use crate::Error;

/// Bounds on what a model may contain.
///
/// The defaults let every honest model pass and keep a hostile one from taking a machine's memory
/// or time before it is refused.
///
/// # Examples
///
/// ```
/// use bb_ir::Limits;
/// let small = Limits { nodes: 1000, ..Limits::default() };
/// assert!(small.nodes < Limits::default().nodes);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// The longest serialized model, in bytes, without external data.
    pub model_bytes: usize,
    /// The most nodes, in all subgraphs together, functions inlined.
    pub nodes: usize,
    /// How deep subgraphs, function calls and types may nest; never more than
    /// [`MAX_NESTING`](Self::MAX_NESTING).
    pub nesting: usize,
    /// The most elements of one constant tensor.
    pub tensor_elements: usize,
    /// The most bytes of one constant tensor.
    pub tensor_bytes: usize,
    /// The most bytes of all constant tensors together, functions inlined.
    pub total_tensor_bytes: usize,
    /// The most bytes of all sparse constants together, which are held dense.
    pub sparse_bytes: usize,
    /// The longest name, in bytes.
    pub name_bytes: usize,
    /// The most bytes of names and attributes other than tensors, functions inlined.
    pub total_text_bytes: usize,
}

impl Limits {
    /// The deepest nesting that any limit allows, so that no traversal exhausts the stack.
    pub const MAX_NESTING: usize = 128;
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            model_bytes: 16 << 30,
            nodes: 1_000_000,
            nesting: 64,
            tensor_elements: 1 << 34,
            tensor_bytes: 16 << 30,
            total_tensor_bytes: 64 << 30,
            sparse_bytes: 1 << 30,
            name_bytes: 64 << 10,
            total_text_bytes: 1 << 30,
        }
    }
}

/// What of the limits a model has used.
#[derive(Debug)]
pub(crate) struct Meter<'l> {
    pub(crate) limits: &'l Limits,
    nodes: usize,
    tensor_bytes: usize,
    sparse_bytes: usize,
    text_bytes: usize,
}

impl<'l> Meter<'l> {
    pub(crate) fn new(limits: &'l Limits) -> Meter<'l> {
        Meter { limits, nodes: 0, tensor_bytes: 0, sparse_bytes: 0, text_bytes: 0 }
    }

    /// Counts one node.
    pub(crate) fn node(&mut self) -> Result<(), Error> {
        self.nodes += 1;
        within("nodes", self.nodes, self.limits.nodes)
    }

    /// Counts the bytes of a constant.
    pub(crate) fn tensor(&mut self, bytes: usize) -> Result<(), Error> {
        within("bytes of a constant", bytes, self.limits.tensor_bytes)?;
        self.tensor_bytes = self.tensor_bytes.saturating_add(bytes);
        within("bytes of all constants", self.tensor_bytes, self.limits.total_tensor_bytes)
    }

    /// The bytes that the next sparse constant may have.
    pub(crate) fn sparse_left(&self) -> usize {
        self.limits.sparse_bytes.saturating_sub(self.sparse_bytes).min(self.limits.tensor_bytes)
    }

    /// Counts the bytes of a sparse constant.
    pub(crate) fn sparse(&mut self, bytes: usize) -> Result<(), Error> {
        self.sparse_bytes = self.sparse_bytes.saturating_add(bytes);
        self.tensor(bytes)
    }

    /// Counts the bytes of a name.
    pub(crate) fn name(&mut self, name: &str) -> Result<(), Error> {
        within("bytes of a name", name.len(), self.limits.name_bytes)?;
        // A name's owner takes memory beside the text itself.
        self.text(name.len() + 32)
    }

    /// Counts bytes that are neither constants nor names.
    pub(crate) fn text(&mut self, bytes: usize) -> Result<(), Error> {
        self.text_bytes = self.text_bytes.saturating_add(bytes);
        within("bytes of names and attributes", self.text_bytes, self.limits.total_text_bytes)
    }

    /// How deep types and subgraphs may nest.
    pub(crate) fn deepest(&self) -> usize {
        self.limits.nesting.min(Limits::MAX_NESTING)
    }

    /// Refuses nesting of `depth`.
    pub(crate) fn nesting(&self, depth: usize) -> Result<(), Error> {
        within("levels of nesting", depth, self.deepest())
    }
}

/// Compares `got` with `limit`.
pub(crate) fn within(what: &'static str, got: usize, limit: usize) -> Result<(), Error> {
    if got > limit { Err(Error::Limit { what, limit, got }) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_add_up_and_saturate() {
        let limits = Limits { total_tensor_bytes: 10, tensor_bytes: usize::MAX, ..Limits::default() };
        let mut meter = Meter::new(&limits);
        assert!(meter.tensor(6).is_ok());
        assert!(meter.tensor(usize::MAX).is_err());
        assert!(meter.tensor(0).is_err());
    }

    #[test]
    fn no_limit_allows_nesting_beyond_the_stack() {
        let limits = Limits { nesting: usize::MAX, ..Limits::default() };
        assert!(Meter::new(&limits).nesting(Limits::MAX_NESTING).is_ok());
        assert!(Meter::new(&limits).nesting(Limits::MAX_NESTING + 1).is_err());
    }
}
