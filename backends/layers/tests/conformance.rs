//! Tests that three nested layers change nothing: the cases of every primitive on three kinds of backends, and some of ONNX's.

use bb_cpu::Cpu;
use bb_layers::{Check, Fault, FaultKind, FaultOptions, Log, Metrics};
use bb_reference::Reference;
use bb_whole_graph::WholeGraph;

/// Puts three layers that see every operation on a backend. The fault strikes never.
fn layered<B: bb::InnerBackend>(inner: B) -> Metrics<Log<Fault<B>>> {
    let never = FaultOptions::rate(FaultKind::Error, 0.0, 1);
    Metrics::new(Log::new(Fault::new(inner, never), std::io::sink()))
}

bb::conformance!(cpu, layered(Cpu::new()), cases = 20);
bb::conformance!(reference, layered(Reference), cases = none);
bb::conformance!(whole_graph, layered(WholeGraph::default()), cases = none);
// The cases divide by zero, and take the logarithm of it.
bb::conformance!(checked, Check::new(Cpu::new(), false), cases = none);
bb::conformance!(erased, layered(bb::Erased::new(Cpu::new())), cases = 20);
