//! Every primitive's cases, on operations that are graphs of one node.

bb::conformance!(bb_whole_graph::WholeGraph::new());
