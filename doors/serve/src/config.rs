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
    /// The model name that clients use in requests.
    pub name: String,
    /// A model file (ONNX or the output of `bb compile`), or a folder. The folder contains either `model.onnx` or `model.bb`, or one
    /// subfolder per version. A subfolder has the version number as its name and contains a file of one of these names. With the feature
    /// `generate`, also a language model: a GGUF file, or a folder with a model and `tokenizer.json`.
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

/// The format of cached keys and values of language models.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum CacheType {
    /// `f32`, the type of the computation.
    #[default]
    F32,
    /// `f16`, so that the same memory has room for twice the number of positions.
    F16,
    /// 8-bit integers with one scale per head, so that the same memory has room for almost four times the number of positions.
    I8,
}

/// The configuration of a server. The defaults suit a small machine; every limit can be changed.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Config {
    /// The models.
    pub models: Vec<ModelConfig>,
    /// The folder whose models clients may load and unload. Without a folder, they may not.
    pub repository: Option<PathBuf>,
    /// The backend of the models in the folder.
    pub repository_backend: String,
    /// The models of [`repository`](Self::repository) that are loaded at start.
    pub load: Vec<String>,
    /// The number of versions of a model that are served, the newest first.
    pub versions: usize,
    /// The address where HTTP listens. Port 0 lets the system choose a port.
    pub http: SocketAddr,
    /// The address where gRPC listens.
    pub grpc: SocketAddr,
    /// The limits of models and of their runs.
    pub limits: Limits,
    /// The options for compiling models. The limits of runs come from `limits`.
    pub compile: CompileOptions,
    /// The token that clients must send, except in requests for liveness and readiness.
    pub token: Option<Token>,
    /// Additional host names that requests may address, and hosts whose web pages may send requests. If there is no token, web pages of all
    /// other hosts are refused. If the server also listens on a loopback address, requests that address other hosts are refused, too.
    pub allow_hosts: Vec<String>,
    /// The certificate and key that encrypt all connections of HTTP and gRPC. Requires the feature `tls`.
    pub tls: Option<TlsFiles>,
    /// The log that receives a line for each request.
    pub log: Option<RequestLog>,
    /// The maximum number of concurrent runs of one model, at most [`bb::most_threads`].
    pub workers: usize,
    /// The maximum number of requests that wait for one model. Further requests are refused.
    pub queue: usize,
    /// The maximum number of rows in a run that joins several requests into a batch. With 1, requests are not joined.
    pub max_batch: usize,
    /// The maximum time that a request waits for other requests to join its batch.
    pub batch_delay: Duration,
    /// The maximum number of answers that one language model generates concurrently. Further requests wait, at most [`queue`](Self::queue)
    /// of them.
    pub sequences: usize,
    /// The maximum number of tokens in a step of a language model, over all its answers and prompts.
    pub step_tokens: usize,
    /// The size in bytes of the key-value cache of a language model, for all its answers.
    pub cache_bytes: usize,
    /// The format of cached keys and values of language models.
    pub cache: CacheType,
    /// The maximum number of tokens of a prompt and its answer. The context length that the model was trained for limits it further. The
    /// default is 8192.
    pub context: Option<usize>,
    /// The maximum time from the first byte of a request to its answer, or to the first token of a generated answer. Afterwards, the
    /// maximum time during which a client reads nothing of the answer.
    pub timeout: Duration,
    /// The maximum size of a request in bytes.
    pub request_bytes: usize,
    /// The maximum size in bytes of all data that requests and their answers keep in memory, until clients have read the answers.
    pub held_bytes: usize,
    /// The maximum number of open connections, separately for HTTP and gRPC.
    pub connections: usize,
    /// The maximum number of these connections from one client address.
    pub client_connections: usize,
    /// The time during a shutdown when the server still accepts requests but reports that it is not ready, so that a load balancer sends no
    /// more requests.
    pub drain: Duration,
    /// The time that a shutdown then waits for queued requests.
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
