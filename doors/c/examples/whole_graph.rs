//! A library of the backend that runs whole graphs.

bb::export_backend!(bb_whole_graph::WholeGraph);
