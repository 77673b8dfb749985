//! Graphs: what is accepted, what passes make of them, and how plans run.

mod check;
mod compare;
mod extents;
mod failures;
mod halves;
mod hostile;
mod inputs;
mod messages;
mod not_utf8;
mod operators_named;
mod plans;
mod prepared;
mod quantised;
mod ready;
mod recurrent;
mod refused;
mod rows;
mod scales;
mod spelled_attention;
mod spelled_out;
mod transposes;
mod wrong_results;
