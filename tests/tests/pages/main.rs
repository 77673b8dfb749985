//! Pages in `bb/docs`, against the sources.

mod architecture;
mod guide;
mod limits;
mod operators;
mod runtime;
