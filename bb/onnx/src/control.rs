//! Control-flow operators, which the planner and type inference handle themselves.

use super::rows::operators;
use bb_ir::infer::{ControlFlow, Rule};

operators! {
    "" {
        If => ControlFlow(ControlFlow::If), infer: Rule::ControlFlow(ControlFlow::If);
        Loop => ControlFlow(ControlFlow::Loop), infer: Rule::ControlFlow(ControlFlow::Loop);
        Scan => ControlFlow(ControlFlow::Scan), infer: Rule::ControlFlow(ControlFlow::Scan);
        SequenceMap => ControlFlow(ControlFlow::SequenceMap), infer: Rule::ControlFlow(ControlFlow::SequenceMap);
    }
}
