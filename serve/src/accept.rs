//! Accepts connections, within a number and with a time for each to say something.

use crate::infer::Shared;
use crate::metrics::Protocol;
use axum::Router;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, sleep, timeout_at};

/// How long a connection may take to send the head of a request, or be idle.
const HEAD: Duration = Duration::from_secs(60);

/// How long a connection of gRPC may take to say that it is one.
const PREFACE: Duration = Duration::from_secs(10);

/// The length of what every connection of HTTP/2 begins with.
const PREFACE_BYTES: usize = 24;

/// How many requests one connection of gRPC may have open.
const STREAMS: u32 = 256;

/// The greatest size of a request's headers.
const HEADERS: usize = 32 << 10;

/// Accepts connections until `stopping` is set, then waits for their requests.
pub(crate) async fn accept(
    listener: TcpListener,
    router: Router,
    shared: Arc<Shared>,
    protocol: Protocol,
    connections: usize,
    mut stopping: watch::Receiver<bool>,
) {
    let slots = Arc::new(Semaphore::new(connections.min(Semaphore::MAX_PERMITS)));
    let graceful = GracefulShutdown::new();
    loop {
        let next = async {
            let slot = slots.clone().acquire_owned().await;
            (slot, listener.accept().await)
        };
        let (slot, accepted) = tokio::select! {
            next = next => next,
            _ = stopping.wait_for(|stop| *stop) => break,
        };
        let Ok((stream, _)) = accepted else {
            // There are no file descriptors, or the peer is gone already. Either passes, but not by asking again at once.
            sleep(Duration::from_millis(20)).await;
            continue;
        };
        // Small answers should not wait for more bytes; a system that cannot do that is only slower.
        let _slower = stream.set_nodelay(true);
        let service = TowerToHyperService::new(router.clone());
        let open = Open::new(shared.clone(), protocol);
        match protocol {
            Protocol::Http => {
                let connection = hyper::server::conn::http1::Builder::new()
                    .timer(TokioTimer::new())
                    .header_read_timeout(HEAD)
                    .max_buf_size(HEADERS.max(64 << 10))
                    .serve_connection(TokioIo::new(stream), service);
                let connection = graceful.watch(connection);
                tokio::spawn(async move {
                    // An error is a peer that broke off or spoke no HTTP, which was answered if it could be.
                    let _broken = connection.await;
                    drop((open, slot));
                });
            }
            Protocol::Grpc => {
                let watcher = graceful.watcher();
                let mut stopping = stopping.clone();
                tokio::spawn(async move {
                    let begun = tokio::select! {
                        begun = begins(&stream) => begun,
                        _ = stopping.wait_for(|stop| *stop) => false,
                    };
                    if begun {
                        let connection = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                            .timer(TokioTimer::new())
                            .max_concurrent_streams(STREAMS)
                            .max_header_list_size(u32::try_from(HEADERS).unwrap_or(u32::MAX))
                            .initial_stream_window_size(1 << 20)
                            .initial_connection_window_size(4 << 20)
                            .keep_alive_interval(Some(Duration::from_secs(30)))
                            .keep_alive_timeout(Duration::from_secs(20))
                            .serve_connection(TokioIo::new(stream), service);
                        let _broken = watcher.watch(connection).await;
                    }
                    drop((open, slot));
                });
            }
        }
    }
    drop(listener);
    graceful.shutdown().await;
}

/// Waits until a peer has sent as many bytes as the preface of HTTP/2 has; returns false if it does not in time.
async fn begins(stream: &TcpStream) -> bool {
    let until = Instant::now() + PREFACE;
    let mut bytes = [0; PREFACE_BYTES];
    loop {
        match timeout_at(until, stream.peek(&mut bytes)).await {
            Ok(Ok(PREFACE_BYTES)) => return true,
            // A few bytes stay readable, so that waiting for readiness would not wait.
            Ok(Ok(1..)) => sleep(Duration::from_millis(10)).await,
            Ok(Ok(0) | Err(_)) | Err(_) => return false,
        }
        if Instant::now() >= until {
            return false;
        }
    }
}

/// A connection that is counted.
struct Open(Arc<Shared>, Protocol);

impl Open {
    fn new(shared: Arc<Shared>, protocol: Protocol) -> Open {
        let open = Open(shared, protocol);
        open.count(|n| n.fetch_add(1, Ordering::Relaxed));
        open
    }

    fn count(&self, change: impl FnOnce(&std::sync::atomic::AtomicUsize) -> usize) {
        self.0.metrics.connections.get(self.1 as usize).map(change);
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.count(|n| n.fetch_sub(1, Ordering::Relaxed));
    }
}
