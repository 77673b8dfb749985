//! Backends over ONNX Runtime.
//!
//! | backend | what ONNX Runtime cannot run |
//! |---|---|
//! | `ort`, [`Ort`] | runs on the CPU backend |
//! | `ort-strict`, [`OrtStrict`] | is refused |
//!
//! ONNX Runtime is a library of its own, [`NEEDED`], which is looked for when the first of these backends is opened, not
//! before: see [`library`]. A process loads it once and has one environment, whose threads all sessions share. A session
//! runs for one thread at a time, because parts of ONNX Runtime are not safe for more; threads that run one model wait for
//! each other.

mod engine;
mod gaps;
pub mod library;
mod tensors;

pub use engine::{OrtEngine, OrtSession};
pub use gaps::GAPS;
pub use library::{LibraryError, NEEDED};

use bb_engines::{Engine, EngineError, Rest, Whole};

/// ONNX Runtime, with the CPU backend for what it cannot run.
#[derive(bb::Backend)]
#[bb(name = "ort", new = Ort::new)]
pub struct Ort {
    whole: Whole<OrtEngine>,
}

impl Ort {
    /// Makes the backend.
    ///
    /// # Errors
    ///
    /// [`EngineError::Open`] with a [`LibraryError`] if there is no usable library.
    pub fn new() -> Result<Ort, EngineError> {
        Ort::with_rest(Rest::on_cpu())
    }

    /// Makes the backend with something else for what ONNX Runtime cannot run.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    pub fn with_rest(rest: Rest) -> Result<Ort, EngineError> {
        Ok(Ort { whole: Whole::new(opened()?, rest) })
    }
}

/// ONNX Runtime alone.
#[derive(bb::Backend)]
#[bb(name = "ort-strict", new = OrtStrict::new)]
pub struct OrtStrict {
    whole: Whole<OrtEngine>,
}

impl OrtStrict {
    /// Makes the backend.
    ///
    /// # Errors
    ///
    /// [`EngineError::Open`] with a [`LibraryError`] if there is no usable library.
    pub fn new() -> Result<OrtStrict, EngineError> {
        Ok(OrtStrict { whole: Whole::new(opened()?, Rest::Refuse) })
    }

    /// Makes the backend without its table of gaps: ONNX Runtime runs whatever it accepts. This is for testing the table.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    pub fn without_table() -> Result<OrtStrict, EngineError> {
        Ok(OrtStrict { whole: Whole::new(opened()?, Rest::Nothing) })
    }
}

fn opened() -> Result<OrtEngine, EngineError> {
    OrtEngine::new().map_err(|error| EngineError::Open { engine: OrtEngine::NAME, source: error.into() })
}

bb_engines::implement_backend!(Ort);
bb_engines::implement_backend!(OrtStrict);
