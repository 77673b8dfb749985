//! Backends that wrap ONNX Runtime.
//!
//! | backend | what ONNX Runtime cannot run |
//! |---|---|
//! | `ort`, [`Ort`] | runs on the CPU backend |
//! | `ort-strict`, [`OrtStrict`] | is refused |
//! | `ort-provider`, [`OrtProvider`] | is refused; a provider of another library runs everything |
//!
//! ONNX Runtime is a separate shared library of version [`NEEDED`] or newer. It is searched for when the first of these
//! backends is opened: see [`library`]. A process loads it once and has one environment, whose threads all sessions share.
//! A session runs for one thread at a time, because parts of ONNX Runtime are not thread-safe. Threads that run the same
//! model wait for each other.

mod calls;
mod empty;
mod engine;
mod gaps;
pub mod library;
pub mod plugin;
mod tensors;

pub use engine::{OrtEngine, OrtSession};
pub use gaps::GAPS;
pub use library::{LibraryError, NEEDED};

use bb::OpenOptions;
use bb_engines::{Engine, EngineError, Rest, Whole};
use plugin::{Provider, ProviderError};
use std::path::Path;

/// ONNX Runtime, with the CPU backend for the nodes that it cannot run.
#[derive(bb::Backend)]
#[bb(name = "ort", new = Ort::new)]
pub struct Ort {
    whole: Whole<OrtEngine>,
}

impl Ort {
    /// Creates the backend.
    ///
    /// # Errors
    ///
    /// [`EngineError::Open`] with a [`LibraryError`] if there is no usable library.
    pub fn new() -> Result<Ort, EngineError> {
        Ort::with_rest(Rest::on_cpu())
    }

    /// Creates the backend with another treatment of the nodes that ONNX Runtime cannot run.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    pub fn with_rest(rest: Rest) -> Result<Ort, EngineError> {
        Ok(Ort { whole: Whole::new(opened()?, rest) })
    }
}

/// Only ONNX Runtime. Models that it cannot run are refused.
#[derive(bb::Backend)]
#[bb(name = "ort-strict", new = OrtStrict::new)]
pub struct OrtStrict {
    whole: Whole<OrtEngine>,
}

impl OrtStrict {
    /// Creates the backend.
    ///
    /// # Errors
    ///
    /// [`EngineError::Open`] with a [`LibraryError`] if there is no usable library.
    pub fn new() -> Result<OrtStrict, EngineError> {
        Ok(OrtStrict { whole: Whole::new(opened()?, Rest::Refuse) })
    }

    /// Creates the backend without its table of gaps, so that ONNX Runtime runs all nodes that it accepts. Only for
    /// testing the table.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    pub fn without_table() -> Result<OrtStrict, EngineError> {
        Ok(OrtStrict { whole: Whole::new(opened()?, Rest::Nothing) })
    }
}

/// Only the execution provider of another library. ONNX Runtime runs a model on this provider, or refuses the model.
#[derive(bb::Backend)]
#[bb(
    name = "ort-provider",
    open = OrtProvider::open,
    options(
        library: str = "" => "the file of the provider's library",
        number: u64 = 0 => "the device of the provider, counted from 0"
    )
)]
pub struct OrtProvider {
    whole: Whole<OrtEngine>,
}

impl OrtProvider {
    /// Creates the backend for the device with index `number` of the provider in `library`.
    ///
    /// # Errors
    ///
    /// [`ProviderError`].
    pub fn new(library: &Path, number: usize) -> Result<OrtProvider, ProviderError> {
        let engine = OrtEngine::on(Provider::open(library, number)?)?;
        Ok(OrtProvider { whole: Whole::new(engine, Rest::Nothing) })
    }

    fn open(options: &OpenOptions) -> Result<OrtProvider, bb::BoxError> {
        let library: String = options.own("library")?;
        if library.is_empty() {
            return Err(ProviderError::NoLibrary.into());
        }
        let number: u64 = options.own("number")?;
        Ok(OrtProvider::new(Path::new(&library), usize::try_from(number)?)?)
    }
}

fn opened() -> Result<OrtEngine, EngineError> {
    OrtEngine::new().map_err(|error| EngineError::Open { engine: OrtEngine::NAME, source: error.into() })
}

bb_engines::implement_backend!(Ort);
bb_engines::implement_backend!(OrtStrict);
bb_engines::implement_backend!(OrtProvider);
