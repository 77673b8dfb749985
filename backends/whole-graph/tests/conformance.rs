//! Runs the cases of every primitive, as graphs of one node, and the ONNX test cases, as graphs of
//! primitives.

bb::conformance!(bb_whole_graph::WholeGraph::new());
