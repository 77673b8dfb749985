//! Pages in `bb/docs`, against the sources.

mod architecture;
mod limits;
mod operators;
