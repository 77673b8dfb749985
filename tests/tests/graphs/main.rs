//! Tests of graphs: checking, passes, and runs of plans.

mod check;
mod compare;
mod extents;
mod failures;
mod halves;
mod hostile;
mod inputs;
mod joint_axes;
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
mod scans;
mod spelled_attention;
mod spelled_out;
mod transposes;
mod wrong_results;
