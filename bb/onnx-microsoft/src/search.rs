//! Searches over the words that a model writes, which plans and inference take apart.

use bb_ir::infer::{ControlFlow, Rule, Search};
use bb_onnx::shared::operators;

operators! {
    "com.microsoft" {
        BeamSearch => ControlFlow(ControlFlow::Search(Search::Beams)), infer: Rule::ControlFlow(ControlFlow::Search(Search::Beams));
        GreedySearch => ControlFlow(ControlFlow::Search(Search::Greedy)), infer: Rule::ControlFlow(ControlFlow::Search(Search::Greedy));
        Sampling => ControlFlow(ControlFlow::Search(Search::Sampling)), infer: Rule::ControlFlow(ControlFlow::Search(Search::Sampling));
        WhisperBeamSearch => ControlFlow(ControlFlow::Search(Search::Speech)), infer: Rule::ControlFlow(ControlFlow::Search(Search::Speech));
    }
}
