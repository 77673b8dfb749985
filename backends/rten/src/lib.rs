//! Backends that wrap `rten`, an inference engine in pure Rust that runs ONNX models.
//!
//! | backend | what rten cannot run |
//! |---|---|
//! | `rten`, [`Rten`] | runs on the CPU backend |
//! | `rten-strict`, [`RtenStrict`] | is refused |
//! | `rten-primitives`, [`RtenPrimitives`] | is refused, but models are lowered to primitives, and rten runs graphs of these |
//!
//! rten supports 32-bit floats, 32-bit integers and bytes. Booleans and 64-bit integers are passed to it as 32-bit integers. A
//! run with a 64-bit input that does not fit is not passed to rten. But it is not known in advance whether the intermediate
//! results fit; for a model that needs larger integers, use another backend.
#![forbid(unsafe_code)]

mod engine;
mod gaps;
mod tensors;

pub use engine::{RtenEngine, RtenSession};
pub use gaps::GAPS;

use bb_engines::{Rest, Whole};

/// rten, with the CPU backend for the nodes that it cannot run.
#[derive(bb::Backend)]
#[bb(name = "rten")]
pub struct Rten {
    whole: Whole<RtenEngine>,
}

impl Rten {
    /// Creates the backend.
    pub fn new() -> Rten {
        Rten::with_rest(Rest::on_cpu())
    }

    /// Creates the backend with another treatment of the nodes that rten cannot run.
    pub fn with_rest(rest: Rest) -> Rten {
        Rten { whole: Whole::new(RtenEngine, rest) }
    }
}

impl Default for Rten {
    fn default() -> Rten {
        Rten::new()
    }
}

/// Only rten. Models that it cannot run are refused.
#[derive(bb::Backend)]
#[bb(name = "rten-strict")]
pub struct RtenStrict {
    whole: Whole<RtenEngine>,
}

impl RtenStrict {
    /// Creates the backend.
    pub fn new() -> RtenStrict {
        RtenStrict { whole: Whole::new(RtenEngine, Rest::Refuse) }
    }

    /// Creates the backend without its table of gaps, so that rten runs all nodes that it accepts. Only for testing the table.
    pub fn without_table() -> RtenStrict {
        RtenStrict { whole: Whole::new(RtenEngine, Rest::Nothing) }
    }
}

impl Default for RtenStrict {
    fn default() -> RtenStrict {
        RtenStrict::new()
    }
}

/// rten, with models lowered to primitives.
#[derive(bb::Backend)]
#[bb(name = "rten-primitives")]
pub struct RtenPrimitives {
    whole: Whole<RtenEngine>,
}

impl RtenPrimitives {
    /// Creates the backend.
    pub fn new() -> RtenPrimitives {
        RtenPrimitives { whole: Whole::new(RtenEngine, Rest::Primitives) }
    }
}

impl Default for RtenPrimitives {
    fn default() -> RtenPrimitives {
        RtenPrimitives::new()
    }
}

bb_engines::implement_backend!(Rten);
bb_engines::implement_backend!(RtenStrict);
bb_engines::implement_backend!(RtenPrimitives);
