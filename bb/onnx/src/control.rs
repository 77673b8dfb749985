//! Control flow, which plans and inference take apart.

use super::rows::operators;
use bb_ir::infer::{ControlFlow, Rule, Search};

operators! {
    "" {
        If => ControlFlow(ControlFlow::If), infer: Rule::ControlFlow(ControlFlow::If);
        Loop => ControlFlow(ControlFlow::Loop), infer: Rule::ControlFlow(ControlFlow::Loop);
        Scan => ControlFlow(ControlFlow::Scan), infer: Rule::ControlFlow(ControlFlow::Scan);
        SequenceMap => ControlFlow(ControlFlow::SequenceMap), infer: Rule::ControlFlow(ControlFlow::SequenceMap);
    }
    "com.microsoft" {
        BeamSearch => ControlFlow(ControlFlow::Search(Search::Beams)), infer: Rule::ControlFlow(ControlFlow::Search(Search::Beams));
        GreedySearch => ControlFlow(ControlFlow::Search(Search::Greedy)), infer: Rule::ControlFlow(ControlFlow::Search(Search::Greedy));
        Sampling => ControlFlow(ControlFlow::Search(Search::Sampling)), infer: Rule::ControlFlow(ControlFlow::Search(Search::Sampling));
        WhisperBeamSearch => ControlFlow(ControlFlow::Search(Search::Speech)), infer: Rule::ControlFlow(ControlFlow::Search(Search::Speech));
    }
}
