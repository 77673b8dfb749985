//! Serves models over the Open Inference Protocol (KServe v2), by HTTP and gRPC, on any backend of `bb`.
//!
//! [`Server::start`] loads the models of a [`Config`] and answers requests until [`Server::shut_down`]. The server limits the cost of a
//! request before it reads the request: its size, the bytes of all requests together, the length of each model's queue, and its time. A
//! request that exceeds a limit is refused with an error of the protocol. No request waits without end.
//!
//! Models run on their own threads, because a run blocks. The network threads never compute.
//!
//! With the feature `generate`, the server also offers language models through OpenAI's interface.
#![deny(unsafe_code)]

mod accept;
mod answer;
mod batch;
mod begun;
mod browser;
mod cancel;
mod compression;
mod config;
mod connections;
mod datatype;
mod describe;
mod elements;
mod error;
mod freed;
mod grpc;
mod held_bytes;
mod http;
mod infer;
mod labels;
#[cfg(feature = "generate")]
mod language;
mod log;
mod messages;
mod metrics;
mod metrics_text;
mod model;
mod parameters;
mod port;
mod queue;
mod refusal;
mod repository;
mod server;
mod statistics;
mod stream;
mod tls;
mod token;
mod worker;

pub use config::{CacheType, Config, ModelConfig, TlsFiles};
pub use error::{Error, PortFault};
pub use log::RequestLog;
pub use messages::inference as protocol;
pub use server::{Server, Stopped};
pub use token::Token;
