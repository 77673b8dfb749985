//! The options of `bb serve`.

use super::values::{Limit, bytes, count, seconds, seconds_or_none, threads};
use super::{CacheElements, Rewriting, Threads};
use clap::Args;
use std::net::SocketAddr;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// The models: .onnx files, files that `bb compile` wrote, folders with model.onnx, or folders with versions, for example 1/model.onnx.
    /// With the feature `generate` also language models: .gguf files, or folders with model.onnx and tokenizer.json. Without a name, a
    /// model is called like its file, or like its folder if the file is called model.onnx
    #[arg(required_unless_present = "repository", value_name = "[NAME=]MODEL", value_parser = Served::parse)]
    pub(crate) models: Vec<Served>,
    /// The backend of all models, or of one [default: cpu, if it is linked]
    #[arg(long = "backend", value_name = "[MODEL=]NAME", value_parser = On::parse)]
    pub(crate) backends: Vec<On>,
    /// Let clients load and unload models of this folder: NAME/1/model.onnx, NAME/model.onnx or NAME.onnx. Nothing outside of it
    /// is loaded
    #[arg(long, value_name = "DIR")]
    pub(crate) repository: Option<PathBuf>,
    /// Load a model of the repository at start; may be repeated
    #[arg(long, value_name = "NAME", requires = "repository")]
    pub(crate) load: Vec<String>,
    /// How many of the newest versions of a model are served
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = count)]
    pub(crate) versions: usize,
    /// Refuse requests without the token in this file, as in `authorization: Bearer TOKEN`; health is answered to all
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// Encrypt all connections, with this certificate and the certificates of its authorities (PEM); needs the feature `serve-tls`
    #[arg(long, value_name = "FILE", requires = "key")]
    pub(crate) certificate: Option<PathBuf>,
    /// The private key of the certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "certificate")]
    pub(crate) key: Option<PathBuf>,
    /// Write a line for each request at the end of this file; `-` is standard error
    #[arg(long, value_name = "FILE")]
    pub(crate) log: Option<PathBuf>,
    /// Where HTTP listens; port 0 is any free port
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8000")]
    pub(crate) http: SocketAddr,
    /// Where gRPC listens; port 0 is any free port
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8001")]
    pub(crate) grpc: SocketAddr,
    /// How many runs of one model may go on at the same time
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = threads)]
    pub(crate) workers: usize,
    /// How many requests may wait for one model; more are refused at once
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = count)]
    pub(crate) queue: usize,
    /// Join requests to runs of at most this many rows; 1 joins none. Only models are joined whose rows are proven to be
    /// independent, which `bb inspect` says
    #[arg(long, value_name = "ROWS", default_value_t = 1, value_parser = count)]
    pub(crate) max_batch: usize,
    /// How long a request may wait for others to be joined with
    #[arg(long, value_name = "SECONDS", default_value = "0.002", value_parser = seconds)]
    pub(crate) batch_delay: f64,
    /// How many answers of one language model are generated at the same time
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = count)]
    pub(crate) sequences: usize,
    /// How many tokens a step of a language model runs, of all its answers and prompts together
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = count)]
    pub(crate) step_tokens: usize,
    /// The size of the keys and values of all answers of one language model
    #[arg(long, value_name = "BYTES", default_value = "1GiB", value_parser = bytes)]
    pub(crate) cache_bytes: usize,
    /// How keys and values of language models are kept
    #[arg(long, value_enum, default_value_t)]
    pub(crate) cache: CacheElements,
    /// The greatest number of tokens of a prompt and its answer [default: 8192, at most the model's context length]
    #[arg(long, value_name = "N", value_parser = count)]
    pub(crate) context: Option<usize>,
    /// A further host that requests may be for, and whose pages in browsers may send requests. Without --token-file, other pages are
    /// refused, and on a loopback address also requests for other hosts. May be repeated
    #[arg(long = "allow-host", value_name = "NAME")]
    pub(crate) allow_hosts: Vec<String>,
    /// How long a request may take, or the first token of an answer; then, how long a client may take too little of the answer
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = seconds)]
    pub(crate) timeout: f64,
    /// The size of one request
    #[arg(long, value_name = "BYTES", default_value = "64MiB", value_parser = bytes)]
    pub(crate) request_bytes: usize,
    /// The size of what all requests and answers hold at the same time, until clients have taken them
    #[arg(long, value_name = "BYTES", default_value = "512MiB", value_parser = bytes)]
    pub(crate) held_bytes: usize,
    /// The number of connections at the same time, of HTTP and gRPC each
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = count)]
    pub(crate) connections: usize,
    /// The number of these that one client's address may have
    #[arg(long, value_name = "N", default_value_t = 384)]
    pub(crate) client_connections: usize,
    /// How long the server, asked to end, goes on accepting requests and says that it is not ready, so that who distributes
    /// requests sends them elsewhere
    #[arg(long, value_name = "SECONDS", default_value = "0", value_parser = seconds_or_none)]
    pub(crate) drain: f64,
    /// How long the end waits for requests that were accepted
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = seconds)]
    pub(crate) grace: f64,
    /// Change a limit of models and their computations, as in --limit run_bytes=1GiB; an unknown name lists all limits
    #[arg(long = "limit", value_name = "NAME=VALUE", value_parser = Limit::parse)]
    pub(crate) limits: Vec<Limit>,
    /// Refuse requests if two extents differ although the model gives them the same name; by default, only log a warning
    #[arg(long)]
    pub(crate) strict: bool,
    #[command(flatten)]
    pub(crate) rewriting: Rewriting,
    #[command(flatten)]
    pub(crate) threads: Threads,
}

/// `[NAME=]MODEL`: a model, and how clients call it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Served {
    pub(crate) name: String,
    pub(crate) path: PathBuf,
}

impl Served {
    #[expect(clippy::unnecessary_wraps, reason = "clap expects a parser that may fail")]
    fn parse(text: &str) -> Result<Served, std::convert::Infallible> {
        if let Some((name, path)) = text.split_once('=').filter(|(name, _)| !name.contains(['/', '\\'])) {
            return Ok(Served { name: name.to_owned(), path: path.into() });
        }
        let path = PathBuf::from(text);
        let folder = path.parent().filter(|_| path.file_name().is_some_and(|name| name == "model.onnx"));
        let name = folder.and_then(|folder| folder.file_name()).or(path.file_stem());
        let name = name.unwrap_or_default().to_string_lossy().into_owned();
        Ok(Served { name, path })
    }
}

/// `[MODEL=]NAME`: the backend of all models, or of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct On {
    pub(crate) model: Option<String>,
    pub(crate) backend: String,
}

impl On {
    #[expect(clippy::unnecessary_wraps, reason = "clap expects a parser that may fail")]
    fn parse(text: &str) -> Result<On, std::convert::Infallible> {
        // An equals sign in parentheses belongs to an option of the backend.
        Ok(match text.split_once('=').filter(|(model, _)| !model.contains('(')) {
            Some((model, backend)) => On { model: Some(model.to_owned()), backend: backend.to_owned() },
            None => On { model: None, backend: text.to_owned() },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_are_called_as_said_or_like_their_file_or_folder() {
        let name = |text| Served::parse(text).map(|served| served.name);
        assert_eq!(name("a=b/c.onnx"), Ok("a".to_owned()));
        assert_eq!(name("b/c.onnx"), Ok("c".to_owned()));
        assert_eq!(name("b/model.onnx"), Ok("b".to_owned()));
        assert_eq!(name("model.onnx"), Ok("model".to_owned()));
        assert_eq!(name("b=d/c.onnx"), Ok("b".to_owned()));
        assert_eq!(name("d/b=c.onnx"), Ok("b=c".to_owned()));
    }
}
