//! Backends over `rten`, an inference engine in pure Rust that runs ONNX models.
//!
//! | backend | what rten cannot run |
//! |---|---|
//! | `rten`, [`Rten`] | runs on the CPU backend |
//! | `rten-strict`, [`RtenStrict`] | is refused |
//! | `rten-primitives`, [`RtenPrimitives`] | is refused, but models are lowered to primitives, and rten runs graphs of these |
//!
//! rten has 32-bit floats, 32-bit integers and bytes. Truth values and 64-bit integers are 32-bit integers to it. A run whose
//! 64-bit inputs do not fit is not given to it, but whether the sums and products that it computes of them fit is not
//! known before; a model that needs such numbers wants another backend.
#![forbid(unsafe_code)]

mod engine;
mod gaps;
mod tensors;

pub use engine::{RtenEngine, RtenSession};
pub use gaps::GAPS;

use bb_engines::{Rest, Whole};

/// rten, with the CPU backend for what it cannot run.
#[derive(bb::Backend)]
#[bb(name = "rten")]
pub struct Rten {
    whole: Whole<RtenEngine>,
}

impl Rten {
    /// Makes the backend.
    pub fn new() -> Rten {
        Rten::with_rest(Rest::on_cpu())
    }

    /// Makes the backend with something else for what rten cannot run.
    pub fn with_rest(rest: Rest) -> Rten {
        Rten { whole: Whole::new(RtenEngine, rest) }
    }
}

impl Default for Rten {
    fn default() -> Rten {
        Rten::new()
    }
}

/// rten alone.
#[derive(bb::Backend)]
#[bb(name = "rten-strict")]
pub struct RtenStrict {
    whole: Whole<RtenEngine>,
}

impl RtenStrict {
    /// Makes the backend.
    pub fn new() -> RtenStrict {
        RtenStrict { whole: Whole::new(RtenEngine, Rest::Refuse) }
    }

    /// Makes the backend without its table of gaps: rten runs whatever it accepts. This is for testing the table.
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
    /// Makes the backend.
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
