//! Exports the backend that runs whole graphs as a library.

bb::export_backend!(bb_whole_graph::WholeGraph);
