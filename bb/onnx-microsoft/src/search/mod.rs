//! Searches: `BeamSearch`, `WhisperBeamSearch`, `GreedySearch` and `Sampling`.
//!
//! A subgraph computes the logits of the next token for each sequence, and a plan runs this subgraph once per step (`rounds.rs`).
//! The tokens are chosen on the host (`scores.rs`, `beams.rs`, `draw.rs`). The state of the subgraphs stays on the backend
//! (`feeds.rs`).
//!
//! Source: the schemas of ONNX Runtime 1.32, and the results of its CPU kernels.

mod beams;
mod draw;
mod feeds;
mod options;
mod rounds;
mod scores;
mod speech;

use bb_core::DataType;
use bb_core::operator::RoundsOperator;
use bb_ir::Error;
use bb_ir::graph::{Dim, Node};
use bb_ir::infer::rule::{NodeFacts, Types, tensor};
use bb_ir::infer::{Rule, SubgraphRule};
use bb_onnx::shared::operators;

/// The name of the operation in errors about memory.
const OP: &str = "a search";

/// How a search selects the next tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SearchKind {
    /// Follows the most probable sequences.
    Beams,
    /// Selects the most probable token.
    Greedy,
    /// Samples a token.
    Sampling,
    /// Follows the most probable sequences of a transcription of speech.
    Speech,
}

impl SearchKind {
    /// Returns whether the most probable sequences are followed.
    fn follows_beams(self) -> bool {
        matches!(self, SearchKind::Beams | SearchKind::Speech)
    }
}

/// Expands to the step-by-step implementation of a kind of search.
macro_rules! rounds {
    ($kind:ident) => {
        const {
            &RoundsOperator {
                bodies: &["decoder", "init_decoder", "encoder"],
                begin: |on, node, operands| rounds::begin(on, SearchKind::$kind, node, operands),
            }
        }
    };
}

/// Expands to the inference rule of a kind of search.
macro_rules! rule {
    ($kind:ident) => {
        Rule::Subgraphs(SubgraphRule {
            check: |node| check(SearchKind::$kind, node),
            types: |at| Some(types(SearchKind::$kind, at)),
        })
    };
}

operators! {
    "com.microsoft" {
        BeamSearch => Rounds(rounds!(Beams)), infer: rule!(Beams);
        GreedySearch => Rounds(rounds!(Greedy)), infer: rule!(Greedy);
        Sampling => Rounds(rounds!(Sampling)), infer: rule!(Sampling);
        WhisperBeamSearch => Rounds(rounds!(Speech)), infer: rule!(Speech);
    }
}

/// Checks the subgraphs and the number of results of a search.
fn check(kind: SearchKind, node: &Node) -> Result<(), Error> {
    check_subgraph(node, "decoder", 2, 1)?;
    let speech = kind == SearchKind::Speech;
    if node.attributes.int("model_type")?.unwrap_or(i64::from(speech)) != 0 {
        check_subgraph(node, "encoder", 2, 0)?;
    }
    let most = match kind {
        SearchKind::Speech => 5,
        SearchKind::Beams => 3,
        SearchKind::Greedy | SearchKind::Sampling => 2,
    };
    let got = node.outputs.len();
    if got <= most { Ok(()) } else { Err(Error::Count { what: "outputs", least: 1, most, got }) }
}

/// Checks that a node has a subgraph with at least these numbers of inputs and outputs.
fn check_subgraph(node: &Node, name: &'static str, inputs: usize, outputs: usize) -> Result<(), Error> {
    let body = node.attributes.graph(name)?.ok_or(Error::MissingAttribute { name, expected: "a graph" })?;
    let counts = [("inputs", body.inputs.len(), inputs), ("outputs", body.outputs.len(), outputs)];
    match counts.into_iter().find(|(_, got, expected)| got < expected) {
        Some((what, got, expected)) => Err(Error::Subgraph { attribute: name, what, expected, got }),
        None => Ok(()),
    }
}

/// Infers the types of a search: sequences of tokens; for a beam search also their scores, and the scores of all tokens.
fn types(kind: SearchKind, at: NodeFacts<'_>) -> Types {
    let batch = at.dims(0).and_then(<[Dim]>::first).cloned().unwrap_or(Dim::Unknown);
    let length = at.extent(1);
    if !kind.follows_beams() {
        let tokens = tensor(Some(DataType::I32), Some(vec![batch.clone(), length]));
        return vec![tokens, tensor(Some(DataType::F32), Some(vec![batch, Dim::Unknown]))];
    }
    let halves = [5, 6].iter().any(|input| at.dtype(*input) == Some(DataType::F16));
    let float = Some(if halves { DataType::F16 } else { DataType::F32 });
    let (beams, returned) = (at.extent(3), at.extent(4));
    let mut results = vec![
        tensor(Some(DataType::I32), Some(vec![batch.clone(), returned.clone(), length])),
        tensor(float, Some(vec![batch.clone(), returned])),
        tensor(float, Some(vec![Dim::Unknown, batch.clone(), beams, Dim::Unknown])),
    ];
    if kind == SearchKind::Speech {
        // The cross-attention weights for the sound, and the probability that the sound contains no speech.
        results.push(tensor(Some(DataType::F32), None));
        results.push(tensor(float, Some(vec![batch])));
    }
    results
}
