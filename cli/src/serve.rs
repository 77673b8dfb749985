//! `bb serve`: answers requests for models until it is asked to end.

use crate::error::{Error, Result};
use crate::{args, out, render, session};
use bb_serve::{Config, ModelConfig, Server};
use std::process::ExitCode;
use std::time::Duration;

pub(crate) fn serve(options: &args::Serve) -> Result<ExitCode> {
    session::threads(&options.threads)?;
    let mut config = Config::default();
    config.models = models(options)?;
    config.http = options.http;
    config.grpc = options.grpc;
    config.limits = session::limits_of(&options.limits)?;
    config.compile = session::rewritten(&options.rewriting);
    config.workers = options.workers;
    config.queue = options.queue;
    config.max_batch = options.max_batch;
    config.batch_delay = Duration::from_secs_f64(options.batch_delay);
    config.timeout = Duration::from_secs_f64(options.timeout);
    config.request_bytes = options.request_bytes;
    config.held_bytes = options.held_bytes;
    config.connections = options.connections;
    config.client_connections = options.client_connections;
    config.grace = Duration::from_secs_f64(options.grace);
    let server = Server::start(config)?;
    for (model, proof) in server.not_joined() {
        let proof = render::rows(proof);
        out::note(format_args!("requests for model `{model}` are not joined: its rows are {proof}"));
    }
    out::line(format_args!("HTTP http://{}", server.http()))?;
    out::line(format_args!("gRPC {}", server.grpc()))?;
    out::flush()?;
    server.wait_for_signal()?;
    out::note("ending: no request is accepted any more");
    if server.shut_down().finished {
        return Ok(ExitCode::SUCCESS);
    }
    out::note("the time was over before every request was answered");
    Ok(ExitCode::FAILURE)
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
