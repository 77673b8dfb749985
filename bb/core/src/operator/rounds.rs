//! Operators whose subgraphs run in rounds that only the operator's crate knows, for example searches for sequences of tokens.
//!
//! During a run, the plan requests the rounds one by one and runs the subgraph of each. Rounds are never unrolled.

use super::Item;
use crate::erased::{ErasedBackend, ErasedError, ErasedTensor};
use bb_ir::graph::Node;

/// A round: the name of the attribute with the subgraph, and the inputs of the subgraph.
#[derive(Debug)]
pub struct Round<T> {
    /// The name of the attribute.
    pub body: &'static str,
    /// The inputs, without the captured values.
    pub given: Vec<Item<T>>,
}

/// A node in progress whose subgraphs run in rounds.
pub trait Rounds {
    /// Begins a round; returns `None` after the last round.
    ///
    /// # Errors
    ///
    /// The operator's own; the backend's own.
    fn next(&mut self, on: &ErasedBackend<'_>) -> Result<Option<Round<ErasedTensor>>, ErasedError>;

    /// Stores the results of the subgraph in a round.
    ///
    /// # Errors
    ///
    /// The operator's own; the backend's own.
    fn absorb(&mut self, on: &ErasedBackend<'_>, results: Vec<Item<ErasedTensor>>)
    -> Result<(), ErasedError>;

    /// Returns the node's results.
    ///
    /// # Errors
    ///
    /// The operator's own; the backend's own.
    fn finish(self: Box<Self>, on: &ErasedBackend<'_>) -> Result<Vec<Item<ErasedTensor>>, ErasedError>;

    /// Returns the bytes that are kept between two rounds.
    fn bytes(&self) -> usize;
}

/// Begins the rounds of a node with its operands.
pub type BeginRounds =
    fn(&ErasedBackend<'_>, &Node, Vec<Option<Item<ErasedTensor>>>) -> Result<Box<dyn Rounds>, ErasedError>;

/// An operator whose subgraphs run in rounds.
#[derive(Debug)]
pub struct RoundsOperator {
    /// The attributes that are subgraphs, starting with the one that runs most. Only the first is required.
    pub bodies: &'static [&'static str],
    /// Begins the rounds of a node.
    pub begin: BeginRounds,
}
