//! Starts and stops a server.

use crate::accept::{Listening, accept};
use crate::browser::Browsers;
use crate::config::Config;
use crate::connections::Connections;
use crate::error::Error;
use crate::held_bytes::HeldBytes;
use crate::infer::Shared;
#[cfg(feature = "generate")]
use crate::language::{Languages, is_language_model};
use crate::metrics::{Protocol, ServerMetrics};
use crate::repository::{Repository, is_name};
use crate::tls::Acceptor;
use crate::{freed, grpc, http};
use bb::{CancelToken, RowProof};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tokio::sync::watch;

/// The maximum time that a cancelled run takes to notice the cancellation.
const STOPPING: Duration = Duration::from_secs(5);

/// A running server. Dropping it stops it without waiting; [`shut_down`](Self::shut_down) lets it finish.
pub struct Server {
    runtime: Option<Runtime>,
    shared: Arc<Shared>,
    not_joined: Vec<(String, RowProof)>,
    listening: Vec<tokio::task::JoinHandle<()>>,
    stopping: watch::Sender<bool>,
    readiness: watch::Sender<bool>,
    stop: CancelToken,
    http: SocketAddr,
    grpc: SocketAddr,
    drain: Duration,
    grace: Duration,
}

/// The result of a shutdown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stopped {
    /// Whether all accepted requests were answered. If false, the time ran out and the remaining requests received an error.
    pub finished: bool,
}

impl Server {
    /// Loads the models, and starts to answer requests.
    ///
    /// # Errors
    ///
    /// A typed [`Error`] that names the wrong model, address or limit, and the reason.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// let mut config = bb_serve::Config::default();
    /// config.models.push(bb_serve::ModelConfig {
    ///     name: "classifier".to_owned(),
    ///     path: "model.onnx".into(),
    ///     backend: "cpu".to_owned(),
    /// });
    /// let server = bb_serve::Server::start(config)?;
    /// println!("http://{}/v2", server.http());
    /// server.wait_for_signal()?;
    /// server.shut_down();
    /// # Ok::<(), bb_serve::Error>(())
    /// ```
    pub fn start(config: Config) -> Result<Server, Error> {
        check(&config)?;
        freed::share_areas();
        let tls = |protocol| config.tls.as_ref().map(|files| Acceptor::new(files, protocol)).transpose();
        let (tls_of_http, tls_of_grpc) = (tls(Protocol::Http)?, tls(Protocol::Grpc)?);
        // The addresses are bound first, so that an address that is in use is reported before loading models takes minutes.
        let (http_listener, http) = listen(config.http)?;
        let (grpc_listener, grpc) = listen(config.grpc)?;
        let stop = CancelToken::new();
        #[cfg(feature = "generate")]
        let (languages, config) = {
            let mut config = config;
            let models = std::mem::take(&mut config.models);
            let (languages, others): (Vec<_>, Vec<_>) =
                models.into_iter().partition(|model| is_language_model(&model.path));
            config.models = others;
            (Languages::start(&languages, &config, &stop)?, config)
        };
        let repository = Repository::start(&config, &stop)?;
        let models = repository.models();
        let not_joined = models.iter().filter_map(|model| {
            let proof = model.batching.as_ref()?.proof()?;
            (*proof != RowProof::Independent).then(|| (model.name.clone(), proof.clone()))
        });
        let not_joined = not_joined.collect();
        drop(models);
        let shared = Arc::new(Shared {
            repository,
            #[cfg(feature = "generate")]
            languages,
            held_bytes: HeldBytes::new(config.held_bytes),
            metrics: Arc::new(ServerMetrics::default()),
            timeout: config.timeout,
            request_bytes: config.request_bytes,
            token: config.token.clone(),
            browsers: Browsers::new(&config),
            ready: AtomicBool::new(true),
            open: AtomicBool::new(true),
        });
        let system = |what| move |source| Error::System { what, source };
        let log =
            config.log.as_ref().map(|log| log.start().map_err(system("a thread for the log"))).transpose()?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .max_blocking_threads(4)
            .thread_name("bb-network")
            .enable_all()
            .build()
            .map_err(system("threads for the network"))?;
        let ((stopping, _), (readiness, _)) = (watch::channel(false), watch::channel(true));
        let mut server = Server {
            runtime: None,
            shared: shared.clone(),
            not_joined,
            listening: Vec::new(),
            stopping,
            readiness,
            stop,
            http,
            grpc,
            drain: config.drain,
            grace: config.grace,
        };
        let health = grpc::Health::new();
        let routers = [
            (Protocol::Http, http_listener, http::routes(shared.clone()), tls_of_http),
            (Protocol::Grpc, grpc_listener, grpc::routes(shared.clone(), &health), tls_of_grpc),
        ];
        runtime.spawn(health.follow(server.readiness.subscribe()));
        runtime.spawn(freed::return_to_system(Arc::downgrade(&shared)));
        let (busy, _) = watch::channel(routers.len());
        for (protocol, listener, router, tls) in routers {
            let _within = runtime.enter();
            let listener = tokio::net::TcpListener::from_std(listener)
                .map_err(system("a socket that does not block"))?;
            let stopping = server.stopping.subscribe();
            let (most, per_client) = (config.connections, config.client_connections);
            let connections = Connections::new(protocol, most, per_client, shared.metrics.clone());
            let (shared, log, busy) = (shared.clone(), log.clone(), busy.clone());
            let address = if protocol == Protocol::Http { http } else { grpc };
            let all = Listening { router, protocol, address, shared, connections, tls, log, stopping, busy };
            server.listening.push(runtime.spawn(accept(listener, all)));
        }
        server.runtime = Some(runtime);
        Ok(server)
    }

    /// Returns the address where HTTP listens.
    pub fn http(&self) -> SocketAddr {
        self.http
    }

    /// Returns the address where gRPC listens.
    pub fn grpc(&self) -> SocketAddr {
        self.grpc
    }

    /// Returns the models loaded at start whose requests are not joined into batches although [`Config::max_batch`] allows it, and the
    /// reasons.
    pub fn not_joined(&self) -> impl Iterator<Item = (&str, &RowProof)> {
        self.not_joined.iter().map(|(model, proof)| (model.as_str(), proof))
    }

    /// Blocks until the process receives an interrupt or, on systems that have it, `SIGTERM`.
    ///
    /// # Errors
    ///
    /// [`Error::System`] if the system does not deliver signals.
    pub fn wait_for_signal(&self) -> Result<(), Error> {
        let Some(runtime) = &self.runtime else { return Ok(()) };
        runtime.block_on(signal()).map_err(|source| Error::System { what: "signals", source })
    }

    /// Reports for [`Config::drain`] that the server is not ready, then accepts no more requests, answers the accepted ones within
    /// [`Config::grace`], and ends. Until it has ended, it reports that it is live and not ready.
    pub fn shut_down(mut self) -> Stopped {
        self.shared.ready.store(false, Ordering::Relaxed);
        self.readiness.send_replace(false);
        std::thread::sleep(self.drain);
        let until = Instant::now() + self.grace;
        self.shared.open.store(false, Ordering::Relaxed);
        self.stopping.send_replace(true);
        let mut finished = true;
        if let Some(runtime) = &self.runtime {
            let listening = std::mem::take(&mut self.listening);
            finished = runtime.block_on(async {
                let all = async {
                    for task in listening {
                        // A task that panicked has also ended, so its error does not matter.
                        let _panicked = task.await;
                    }
                };
                tokio::time::timeout_at(until.into(), all).await.is_ok()
            });
            // Connections that are still open owe no answer if no request holds bytes: they are idle or have sent only part of a head.
            finished |= self.shared.held_bytes.held() == 0;
        }
        self.close();
        // Idle workers need a moment to notice that their queues are closed.
        let idle = Instant::now() + Duration::from_secs(1);
        finished &= self.wait_for_workers(if finished { until.max(idle) } else { until });
        if !finished {
            self.abort();
            self.wait_for_workers(Instant::now() + STOPPING);
            // Waits up to one second for the network threads to send the pending error responses. Shutting down the runtime now would
            // truncate them.
            let until = Instant::now() + Duration::from_secs(1);
            while self.shared.held_bytes.held() > 0 && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(2));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        if let Some(runtime) = self.runtime.take() {
            // Gives the network threads time to send the last responses.
            runtime.shutdown_timeout(Duration::from_secs(1));
        }
        Stopped { finished }
    }

    /// Stops accepting requests.
    fn close(&self) {
        self.shared.repository.close();
        #[cfg(feature = "generate")]
        self.shared.languages.close();
    }

    /// Returns whether all threads of models have ended.
    fn is_idle(&self) -> bool {
        #[cfg(feature = "generate")]
        if !self.shared.languages.is_idle() {
            return false;
        }
        self.shared.repository.is_idle()
    }

    fn wait_for_workers(&self, until: Instant) -> bool {
        while !self.is_idle() {
            if Instant::now() >= until {
                return false;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        true
    }

    /// Cancels running requests, and answers waiting requests with an error.
    fn abort(&self) {
        self.stop.cancel();
        #[cfg(feature = "generate")]
        self.shared.languages.abort();
        self.shared.repository.abort();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.close();
        self.abort();
        self.stopping.send_replace(true);
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("http", &self.http).field("grpc", &self.grpc).finish_non_exhaustive()
    }
}

#[cfg(unix)]
async fn signal() -> std::io::Result<()> {
    let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
    tokio::select! {
        result = tokio::signal::ctrl_c() => result,
        _ = terminate.recv() => Ok(()),
    }
}

#[cfg(not(unix))]
async fn signal() -> std::io::Result<()> {
    tokio::signal::ctrl_c().await
}

fn listen(address: SocketAddr) -> Result<(TcpListener, SocketAddr), Error> {
    let listen = || {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        Ok((listener, address))
    };
    listen().map_err(|source| Error::Listen { address, source })
}

fn check(config: &Config) -> Result<(), Error> {
    if config.models.is_empty() && config.repository.is_none() {
        return Err(Error::NoModel);
    }
    for (index, name) in config.load.iter().enumerate() {
        if !is_name(name) {
            return Err(Error::Name { name: name.clone() });
        }
        let folder = config.repository.clone().unwrap_or_default().join(name);
        let named = config.models.iter().find(|model| model.name == *name).map(|model| model.path.clone());
        let twice = config.load.iter().take(index).any(|first| first == name).then(|| folder.clone());
        if let Some(first) = named.or(twice) {
            return Err(Error::RepeatedModel { name: name.clone(), first, second: folder });
        }
    }
    for (index, model) in config.models.iter().enumerate() {
        let name = &model.name;
        if !is_name(name) {
            return Err(Error::Name { name: name.clone() });
        }
        #[cfg(not(feature = "generate"))]
        if model.path.extension().is_some_and(|end| end.eq_ignore_ascii_case("gguf")) {
            return Err(Error::NoLanguages { model: name.clone(), path: model.path.clone() });
        }
        if let Some(first) = config.models.iter().take(index).find(|first| first.name == *name) {
            let (first, second) = (first.path.clone(), model.path.clone());
            return Err(Error::RepeatedModel { name: name.clone(), first, second });
        }
    }
    let bounds = [
        ("workers", config.workers),
        ("versions", config.versions),
        ("queue", config.queue),
        ("max_batch", config.max_batch),
        ("request_bytes", config.request_bytes),
        ("connections", config.connections),
        ("client_connections", config.client_connections),
        ("sequences", config.sequences),
        ("step_tokens", config.step_tokens),
        ("cache_bytes", config.cache_bytes),
    ];
    if let Some((name, _)) = bounds.into_iter().find(|(_, bound)| *bound == 0) {
        return Err(Error::Zero { name });
    }
    let most = bb::most_threads();
    if config.workers > most {
        return Err(Error::TooMany { name: "workers", got: config.workers, most });
    }
    if config.timeout.is_zero() {
        return Err(Error::Zero { name: "timeout" });
    }
    if config.request_bytes > config.held_bytes {
        return Err(Error::Bytes { request: config.request_bytes, held: config.held_bytes });
    }
    Ok(())
}
