//! Operators whose subgraphs run in rounds that the operator determines, for example searches for token sequences.
//!
//! During a run, the plan requests one round after another and runs its subgraph. Rounds are never unrolled.

use super::Item;
use crate::erased::{ErasedBackend, ErasedError, ErasedTensor};
use bb_ir::graph::Node;

/// A round: the subgraph to run and its inputs.
#[derive(Debug)]
pub struct Round<T> {
    /// The name of the attribute that contains the subgraph.
    pub body: &'static str,
    /// The inputs, without the captured values.
    pub given: Vec<Item<T>>,
}

/// The progress of a node whose subgraphs run in rounds.
pub trait Rounds {
    /// Begins a round; returns `None` after the last round.
    ///
    /// # Errors
    ///
    /// The operator's own errors; the backend's own errors.
    fn next(&mut self, on: &ErasedBackend<'_>) -> Result<Option<Round<ErasedTensor>>, ErasedError>;

    /// Receives the results of the subgraph that ran in a round.
    ///
    /// # Errors
    ///
    /// The operator's own errors; the backend's own errors.
    fn absorb(&mut self, on: &ErasedBackend<'_>, results: Vec<Item<ErasedTensor>>)
    -> Result<(), ErasedError>;

    /// Returns the node's results.
    ///
    /// # Errors
    ///
    /// The operator's own errors; the backend's own errors.
    fn finish(self: Box<Self>, on: &ErasedBackend<'_>) -> Result<Vec<Item<ErasedTensor>>, ErasedError>;

    /// Returns the size in bytes of the state between two rounds.
    fn bytes(&self) -> usize;
}

/// A function that begins the rounds of a node with its operands.
pub type BeginRounds =
    fn(&ErasedBackend<'_>, &Node, Vec<Option<Item<ErasedTensor>>>) -> Result<Box<dyn Rounds>, ErasedError>;

/// An operator whose subgraphs run in rounds.
#[derive(Debug)]
pub struct RoundsOperator {
    /// The names of the attributes that contain subgraphs, starting with the one that runs most often. Only the first
    /// is required.
    pub bodies: &'static [&'static str],
    /// Begins the rounds of a node.
    pub begin: BeginRounds,
}
