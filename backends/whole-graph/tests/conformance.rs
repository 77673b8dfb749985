//! Every primitive's cases, on operations that are graphs of one node, and ONNX's, on graphs of primitives.

bb::conformance!(bb_whole_graph::WholeGraph::new());
