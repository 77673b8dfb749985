//! Whole models, from files and into files.

mod exported;
mod items;
mod models;
mod saved;
mod tracing;
