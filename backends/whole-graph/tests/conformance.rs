//! Runs the cases of every primitive, with operations as graphs of one node, and ONNX's cases, with graphs of
//! primitives.

bb::conformance!(bb_whole_graph::WholeGraph::new());
