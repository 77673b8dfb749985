//! Tests of code that authors of backends write: declared backends and how they are opened, the calls that reach them, and operations of
//! their own.
//!
//! Each backend that a test here declares is in the list of linked backends of this whole program.

mod application;
mod attributes;
mod carriers;
mod declining;
mod few_types;
mod first_of;
mod graphs;
mod kinds;
mod layers;
mod messages;
mod named_layers;
mod names;
mod opening;
mod own_methods;
mod own_options;
mod passed_over;
mod started;
mod supported;
mod vendor;
