//! Pages in `bb/docs`, the README and CONTRIBUTING, against the sources.

mod architecture;
mod commands;
mod crates_picture;
mod dependencies;
mod error_kinds;
mod guide;
mod limits;
mod links;
mod operators;
mod recipes;
mod rows;
mod runtime;
mod words;
