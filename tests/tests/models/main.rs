//! Whole models, from files and into files.

mod exported;
mod items;
mod models;
mod optimised;
mod saved;
mod tracing;
