//! The network of a model and the caches of a sequence, for each file format of models.

use crate::Error;
use crate::cache::Cache;
use crate::decoder::Decoder;
use crate::onnx::{EncoderInput, NO_ENCODER, OnnxDecoder, Past};
use bb::TensorData;

/// A network that computes logits.
#[derive(Debug)]
pub(crate) enum Network {
    Gguf(Decoder),
    Onnx(OnnxDecoder),
}

/// The caches of a sequence.
#[derive(Debug)]
pub(crate) enum Store {
    Cache(Cache),
    Past(Past),
}

impl Network {
    /// Returns the maximum number of positions of a sequence.
    pub(crate) fn positions(&self) -> usize {
        match self {
            Network::Gguf(decoder) => decoder.positions(),
            Network::Onnx(decoder) => decoder.positions(),
        }
    }

    /// Returns the number of logits of a token.
    pub(crate) fn vocabulary(&self) -> usize {
        match self {
            Network::Gguf(decoder) => decoder.vocabulary(),
            Network::Onnx(decoder) => decoder.vocabulary(),
        }
    }

    /// Creates empty caches.
    pub(crate) fn store(&self) -> Store {
        match self {
            Network::Gguf(decoder) => Store::Cache(decoder.cache()),
            Network::Onnx(_) => Store::Past(Past::default()),
        }
    }

    /// Returns whether the model has an encoder, which reads a source.
    pub(crate) fn has_encoder(&self) -> bool {
        matches!(self, Network::Onnx(decoder) if decoder.has_encoder())
    }

    /// Returns the decoder start token.
    pub(crate) fn start(&self) -> Option<u32> {
        match self {
            Network::Gguf(_) => None,
            Network::Onnx(decoder) => decoder.start(),
        }
    }

    /// Runs the encoder on a source, and creates caches that only have the result.
    pub(crate) fn read(&self, source: EncoderInput<'_>) -> Result<Store, Error> {
        match self {
            Network::Gguf(_) => Err(NO_ENCODER),
            Network::Onnx(decoder) => decoder.read(source).map(Store::Past),
        }
    }

    /// Runs new tokens. Returns the logits after the tokens at the indices `rows`.
    pub(crate) fn step(&self, tokens: &[u32], rows: &[i64], store: &mut Store) -> Result<TensorData, Error> {
        match (self, store) {
            (Network::Gguf(decoder), Store::Cache(cache)) => decoder.step(tokens, rows, cache),
            (Network::Onnx(decoder), Store::Past(past)) => decoder.step(tokens, rows, past),
            _ => Err(Error::Internal { what: "a sequence has the caches of another network" }),
        }
    }
}

impl Store {
    /// Returns the number of cached positions.
    pub(crate) fn len(&self) -> usize {
        match self {
            Store::Cache(cache) => cache.len(),
            Store::Past(past) => past.len(),
        }
    }

    /// Returns the size of the caches, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Store::Cache(cache) => cache.bytes(),
            Store::Past(past) => past.bytes(),
        }
    }

    /// Removes all positions from the index `length` on.
    pub(crate) fn truncate(&mut self, length: usize) -> Result<(), Error> {
        match self {
            Store::Cache(cache) => {
                cache.truncate(length);
                Ok(())
            }
            Store::Past(past) => past.truncate(length),
        }
    }
}
