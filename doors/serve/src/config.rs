//! The configuration of a server.

use crate::log::RequestLog;
use crate::token::Token;
use bb::{CompileOptions, Limits};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// A model to serve.
#[derive(Debug, Clone)]
pub struct ModelConfig {
    /// The name under which clients ask for it.
    pub name: String,
    /// The file: a model, or what `bb compile` wrote. Or a folder: with `model.onnx` or `model.bb`, or with folders that have
    /// one and whose names are the numbers of versions. Or a language model, with the feature `generate`: a GGUF file, or a folder
    /// with a model and `tokenizer.json`.
    pub path: PathBuf,
    /// The name of the backend that runs it.
    pub backend: String,
}

/// The files for the encryption of connections.
#[derive(Debug, Clone)]
pub struct TlsFiles {
    /// The server's certificate and the chain of certificates to its authority, in the format PEM.
    pub certificate: PathBuf,
    /// The private key of the first certificate, in the format PEM.
    pub key: PathBuf,
}

/// How keys and values of language models are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum CacheType {
    /// As they are computed.
    #[default]
    F32,
    /// As halves, so that twice the number of positions have room.
    F16,
    /// As integers of 8 bits with a scale for each head, so that almost four times the number of positions have room.
    I8,
}

/// The configuration of a server. The defaults suit a small machine; every bound can be changed.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Config {
    /// The models.
    pub models: Vec<ModelConfig>,
    /// The folder whose models clients may load and unload. Without a folder, they may not.
    pub repository: Option<PathBuf>,
    /// The backend of the models in the folder.
    pub repository_backend: String,
    /// The models of the folder that are loaded at start.
    pub load: Vec<String>,
    /// How many of the newest versions of a model are served.
    pub versions: usize,
    /// Where HTTP listens; port 0 lets the system choose one.
    pub http: SocketAddr,
    /// Where gRPC listens.
    pub grpc: SocketAddr,
    /// The limits of models and of their runs.
    pub limits: Limits,
    /// How models are compiled. The limits of runs come from `limits`.
    pub compile: CompileOptions,
    /// The token that clients must send, except in requests for liveness and readiness.
    pub token: Option<Token>,
    /// Further names that requests may have as their host, and hosts whose pages in browsers may send requests. Without
    /// a token, the pages of all others are refused, and so are, if the server listens on a loopback address, requests for other hosts.
    pub allow_hosts: Vec<String>,
    /// Encrypts all connections, of HTTP and gRPC; needs the feature `tls`.
    pub tls: Option<TlsFiles>,
    /// Where a line for each request goes.
    pub log: Option<RequestLog>,
    /// How many runs of one model may go on at the same time, at most [`bb::most_threads`].
    pub workers: usize,
    /// How many requests may wait for one model; the next one is refused.
    pub queue: usize,
    /// The greatest number of rows that one run may have, of requests that are joined; 1 joins none.
    pub max_batch: usize,
    /// How long a request may wait for others to be joined with.
    pub batch_delay: Duration,
    /// How many answers of one language model are generated at the same time; others wait, at most [`queue`](Self::queue) of them.
    pub sequences: usize,
    /// How many tokens a step of a language model runs, of all its answers and prompts together.
    pub step_tokens: usize,
    /// The size in bytes of the keys and values of all answers of one language model.
    pub cache_bytes: usize,
    /// How keys and values of language models are kept.
    pub cache: CacheType,
    /// The greatest number of tokens of a prompt and its answer, at most the context length that the model was trained for. Without it,
    /// 8192.
    pub context: Option<usize>,
    /// How long a request may take, from its first byte to its answer, or to the first token of an answer that is generated; then, how
    /// long a client may take nothing of the answer.
    pub timeout: Duration,
    /// The size of one request in bytes.
    pub request_bytes: usize,
    /// The size in bytes of everything that requests and their answers hold at the same time, until clients have taken them.
    pub held_bytes: usize,
    /// The number of connections at the same time, of HTTP and gRPC each.
    pub connections: usize,
    /// The number of connections that one client's address may have of these.
    pub client_connections: usize,
    /// How long a shutdown goes on accepting requests, while the server reports that it is not ready, so that a load balancer sends no more
    /// requests.
    pub drain: Duration,
    /// How long a shutdown then waits for queued requests.
    pub grace: Duration,
}

impl Default for Config {
    fn default() -> Config {
        let local = |port| SocketAddr::from(([127, 0, 0, 1], port));
        Config {
            models: Vec::new(),
            repository: None,
            repository_backend: "cpu".to_owned(),
            load: Vec::new(),
            versions: 1,
            http: local(8000),
            grpc: local(8001),
            limits: Limits::default(),
            compile: CompileOptions::default(),
            token: None,
            allow_hosts: Vec::new(),
            tls: None,
            log: None,
            workers: 1,
            queue: 64,
            max_batch: 1,
            batch_delay: Duration::from_millis(2),
            sequences: 16,
            step_tokens: 256,
            cache_bytes: 1 << 30,
            cache: CacheType::default(),
            context: None,
            timeout: Duration::from_secs(30),
            request_bytes: 64 << 20,
            held_bytes: 512 << 20,
            connections: 512,
            client_connections: 384,
            drain: Duration::ZERO,
            grace: Duration::from_secs(30),
        }
    }
}
