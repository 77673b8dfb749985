//! Generates text with language models, on any backend of `bb`.
//!
//! [`Generator::open`] opens a GGUF file, or a folder with a model in ONNX's format. A [`TokenSequence`] is a sequence of tokens with its
//! caches, and [`TokenSequence::generate`] is an iterator over the continuation of a prompt.
//!
//! The files of a model are untrusted. Sizes, texts, tokenizers and templates are limited, and invalid ones are reported as errors.
//! Training, and models that are not decoders, are out of scope.
#![forbid(unsafe_code)]

mod answer;
mod blocks;
mod cache;
mod clock;
mod decoder;
mod engine;
mod error;
mod files;
mod generator;
pub mod gguf;
#[cfg(feature = "grammar")]
mod grammar;
#[cfg(not(feature = "grammar"))]
#[path = "no_grammar.rs"]
mod grammar;
mod network;
mod onnx;
mod options;
mod sampler;
mod statistics;
mod stops;
mod template;
mod text;
mod tokens;

// Links the operators of `com.microsoft`, which models in ONNX's format use.
use bb_onnx_microsoft as _;

pub use answer::{End, Piece};
pub use engine::{Engine, EngineOptions, EngineStatistics, Event, Listener, Pooling, Received, Ticket};
pub use error::{ARCHITECTURES, Error};
pub use generator::{Generation, Generator, TokenSequence};
#[cfg(feature = "grammar")]
pub use grammar::{Constraint, Grammar};
pub use onnx::EncoderInput;
pub use options::{CacheType, GenerateOptions, OpenOptions, Products, Sampling};
pub use sampler::LogProbability;
pub use statistics::Statistics;
pub use template::{ChatTemplate, Message};
pub use tokens::Tokens;

/// Compiles the programs in the page about text generation as tests.
#[cfg(all(doctest, feature = "grammar"))]
#[doc = include_str!("../../bb/docs/generation.md")]
mod page {}
