//! A library of the backend that runs whole graphs.
#![allow(unsafe_code, reason = "the library exports a symbol")]

bb::export_backend!(bb_whole_graph::WholeGraph);
