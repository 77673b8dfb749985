//! `bb serve`: answers requests for models until a signal ends the command.

use crate::error::{Error, Result};
use crate::{args, out, render, session};
use bb_serve::{CacheType, Config, ModelConfig, RequestLog, Server, TlsFiles, Token};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

pub(crate) fn serve(options: &args::Serve) -> Result<ExitCode> {
    session::threads(&options.threads)?;
    let mut config = Config::default();
    config.models = models(options)?;
    config.repository.clone_from(&options.repository);
    config.load.clone_from(&options.load);
    if options.repository.is_some() {
        let on = options.backends.iter().rev().find(|on| on.model.is_none());
        config.repository_backend = session::backend_name(on.map(|on| on.backend.as_str()))?.to_owned();
    }
    config.versions = options.versions;
    config.token = options.token_file.as_deref().map(token).transpose()?;
    config.allow_hosts.clone_from(&options.allow_hosts);
    let tls = options.certificate.as_ref().zip(options.key.as_ref());
    config.tls =
        tls.map(|(certificate, key)| TlsFiles { certificate: certificate.clone(), key: key.clone() });
    config.log = options.log.as_deref().map(log).transpose()?;
    config.http = options.http;
    config.grpc = options.grpc;
    config.limits = session::limits_of(&options.limits)?;
    config.compile = session::rewritten(&options.rewriting).with_strict(options.strict);
    config.workers = options.workers;
    config.queue = options.queue;
    config.max_batch = options.max_batch;
    config.batch_delay = Duration::from_secs_f64(options.batch_delay);
    config.sequences = options.sequences;
    config.step_tokens = options.step_tokens;
    config.cache_bytes = options.cache_bytes;
    config.cache = match options.cache {
        args::CacheElements::F32 => CacheType::F32,
        args::CacheElements::F16 => CacheType::F16,
        args::CacheElements::I8 => CacheType::I8,
    };
    config.context = options.context;
    config.timeout = Duration::from_secs_f64(options.timeout);
    config.request_bytes = options.request_bytes;
    config.held_bytes = options.held_bytes;
    config.connections = options.connections;
    config.client_connections = options.client_connections;
    config.drain = Duration::from_secs_f64(options.drain);
    config.grace = Duration::from_secs_f64(options.grace);
    let server = Server::start(config)?;
    for (model, proof) in server.not_joined() {
        let proof = render::rows(proof);
        out::note(format_args!("requests for model `{model}` are not joined: its rows are {proof}"));
    }
    let scheme = if options.certificate.is_some() { "https" } else { "http" };
    if options.token_file.is_some() && options.certificate.is_none() && !options.http.ip().is_loopback() {
        out::note("the token can be read by who sees the traffic, because connections are not encrypted");
    }
    out::line(format_args!("HTTP {scheme}://{}", server.http()))?;
    out::line(format_args!("gRPC {}", server.grpc()))?;
    out::flush()?;
    server.wait_for_signal()?;
    out::note("ending: the server is not ready any more");
    if server.shut_down().finished {
        return Ok(ExitCode::SUCCESS);
    }
    out::note("the time was over before every request was answered");
    Ok(ExitCode::FAILURE)
}

/// Reads the token from a file, which may end with a line feed.
fn token(path: &Path) -> Result<Token> {
    let text =
        std::fs::read_to_string(path).map_err(|source| Error::Read { path: path.to_owned(), source })?;
    Ok(Token::new(text.trim_end_matches(['\r', '\n']))?)
}

/// Opens the log. `-` is standard error.
fn log(path: &Path) -> Result<RequestLog> {
    if path == Path::new("-") {
        return Ok(RequestLog::new(std::io::stderr()));
    }
    let file = std::fs::OpenOptions::new().append(true).create(true).open(path);
    Ok(RequestLog::new(file.map_err(|source| Error::Write { path: path.to_owned(), source })?))
}

fn models(options: &args::Serve) -> Result<Vec<ModelConfig>> {
    let called = |name: &str| options.models.iter().any(|model| model.name == name);
    if let Some(name) =
        options.backends.iter().filter_map(|on| on.model.as_deref()).find(|name| !called(name))
    {
        let models = options.models.iter().map(|model| model.name.clone()).collect();
        return Err(Error::UnknownServed { name: name.to_owned(), models });
    }
    let model = |served: &args::Served| {
        let find = |of: Option<&str>| options.backends.iter().rev().find(|on| on.model.as_deref() == of);
        let on = find(Some(&served.name)).or_else(|| find(None)).map(|on| on.backend.as_str());
        let backend = session::backend_name(on)?.to_owned();
        Ok(ModelConfig { name: served.name.clone(), path: served.path.clone(), backend })
    };
    options.models.iter().map(model).collect()
}
