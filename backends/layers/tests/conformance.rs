//! Tests that three nested layers do not change results: the cases of every primitive on three kinds of backends, and some of
//! the ONNX test cases.

use bb_cpu::Cpu;
use bb_layers::{Check, Fault, FaultKind, FaultOptions, Log, Metrics};
use bb_reference::Reference;
use bb_whole_graph::WholeGraph;

/// Wraps a backend in three layers that see every operation. The fault layer never causes a fault.
fn layered<B: bb::InnerBackend>(inner: B) -> Metrics<Log<Fault<B>>> {
    let never = FaultOptions::rate(FaultKind::Error, 0.0, 1);
    Metrics::new(Log::new(Fault::new(inner, never), std::io::sink()))
}

bb::conformance!(cpu, layered(Cpu::new()), cases = 20);
bb::conformance!(reference, layered(Reference), cases = none);
bb::conformance!(whole_graph, layered(WholeGraph::default()), cases = none);
// Do not check values, because some cases divide by zero or take the logarithm of zero.
bb::conformance!(checked, Check::new(Cpu::new(), false), cases = none);
bb::conformance!(erased, layered(bb::Erased::new(Cpu::new())), cases = 20);
