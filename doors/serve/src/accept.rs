//! Accepts connections, and ends them: when they end, give way to others, or take too long.

use crate::answer::Answering;
use crate::begun::Begun;
use crate::connections::{Connection, Connections};
use crate::infer::Shared;
use crate::log::LogLines;
use crate::metrics::Protocol;
use crate::stream::Stream;
use crate::tls::Acceptor;
use axum::Router;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout_at};

/// How long a connection of gRPC may take to say that it is one.
const PREFACE: Duration = Duration::from_secs(10);

/// The length of what every connection of HTTP/2 begins with.
const PREFACE_BYTES: usize = 24;

/// How many requests one connection of gRPC may have open.
const STREAMS: u32 = 128;

/// The greatest size of a request's headers.
const HEADERS: usize = 32 << 10;

/// How long a surplus connection lasts.
const SURPLUS: Duration = Duration::from_secs(2);

/// How often a connection is looked at, at least. A shorter time for requests makes it oftener.
const LOOK: Duration = Duration::from_millis(250);

/// How long clients of the late requests, which came after the server began to end, may still read their answers.
const TOLD: Duration = Duration::from_millis(200);

/// How long a connection may wait for the rest of a request when the server ends.
const ENDING: Duration = Duration::from_millis(500);

/// The state that all connections of a listener share.
#[derive(Clone)]
pub(crate) struct Listening {
    pub(crate) router: Router,
    pub(crate) protocol: Protocol,
    /// Where the listener listens.
    pub(crate) address: SocketAddr,
    pub(crate) shared: Arc<Shared>,
    pub(crate) connections: Arc<Connections>,
    pub(crate) tls: Option<Acceptor>,
    pub(crate) log: Option<LogLines>,
    pub(crate) stopping: watch::Receiver<bool>,
    /// How many listeners have connections that came before the end.
    pub(crate) busy: watch::Sender<usize>,
}

/// Accepts connections until `stopping` is set, then waits for their requests, and for the requests of other listeners. Meanwhile, requests
/// for the server's readiness are answered with "not ready".
pub(crate) async fn accept(listener: TcpListener, all: Listening) {
    let mut stopping = all.stopping.clone();
    let (mut running, mut late) = (JoinSet::new(), JoinSet::new());
    let (mut others, mut counted) = (all.busy.subscribe(), true);
    loop {
        let stopped = *stopping.borrow();
        if stopped && running.is_empty() && std::mem::take(&mut counted) {
            all.busy.send_modify(|busy| *busy = busy.saturating_sub(1));
        }
        if stopped && *others.borrow() == 0 {
            break;
        }
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = running.join_next() => continue,
            Some(_) = late.join_next() => continue,
            _ = stopping.wait_for(|stop| *stop), if !stopped => continue,
            _ = others.wait_for(|busy| *busy == 0), if stopped => continue,
        };
        let Ok((stream, client)) = accepted else {
            // Either there are no file descriptors, or the peer is gone. Both pass with time, but not by retrying at once.
            sleep(Duration::from_millis(20)).await;
            continue;
        };
        // Small answers should not wait for more bytes; a system that cannot do that is only slower.
        let _slower = stream.set_nodelay(true);
        let connection = all.connections.admit(client.ip().to_canonical());
        let all = all.clone();
        let set = if stopped { &mut late } else { &mut running };
        set.spawn(async move {
            let registered = Registered(all.connections.clone(), connection);
            serve(stream, &registered.1, all, stopped).await;
        });
    }
    drop(listener);
    // The answers to late connections are a few bytes.
    let told = async { while late.join_next().await.is_some() {} };
    let _cut_off = timeout_at(Instant::now() + TOLD, told).await;
}

/// A connection that is removed when it has ended, however it ends.
struct Registered(Arc<Connections>, Arc<Connection>);

impl Drop for Registered {
    fn drop(&mut self) {
        self.0.remove(&self.1);
    }
}

/// Serves a connection; a late one came after the server began to end.
async fn serve(stream: TcpStream, connection: &Arc<Connection>, all: Listening, late: bool) {
    let ended = served(stream, connection, &all, late);
    let surplus = async {
        match connection.surplus || late {
            true => sleep(SURPLUS).await,
            false => std::future::pending().await,
        }
    };
    tokio::select! {
        () = ended => {}
        () = connection.closed() => {}
        () = surplus => {}
        () = stalled(connection, &all) => all.connections.stalled(),
        () = over(connection, &all), if !late => {}
    }
}

async fn served(stream: TcpStream, connection: &Arc<Connection>, all: &Listening, late: bool) {
    let time = PREFACE.min(all.shared.timeout);
    // A client of HTTP/1 may end its side of a connection behind its request.
    let stream_of = |tcp| Stream::new(tcp, connection.clone(), all.protocol == Protocol::Http);
    let Some(tls) = &all.tls else {
        return match all.protocol {
            Protocol::Http => http(stream_of(stream), connection, all, late).await,
            Protocol::Grpc => {
                let begun = tokio::select! {
                    begun = begins(&stream, time) => begun,
                    () = stop(all.stopping.clone()), if !late => false,
                };
                if begun {
                    grpc(stream_of(stream), connection, all, late).await;
                }
            }
        };
    };
    let shaken = async {
        let stream = tls.accept(stream_of(stream), time).await?;
        // A peer of gRPC that stays silent now would last for ever.
        match all.protocol {
            Protocol::Http => Some((Some(stream), None)),
            Protocol::Grpc => {
                let begun = timeout_at(Instant::now() + time, Begun::<_, PREFACE_BYTES>::read(stream)).await;
                Some((None, Some(begun.ok()??)))
            }
        }
    };
    let shaken = tokio::select! {
        shaken = shaken => shaken,
        () = stop(all.stopping.clone()), if !late => None,
    };
    match shaken {
        Some((Some(stream), _)) => http(stream, connection, all, late).await,
        Some((_, Some(begun))) => grpc(begun, connection, all, late).await,
        _ => {}
    }
}

/// Waits until a peer reads too little of its answer.
async fn stalled(connection: &Connection, all: &Listening) {
    let mut looks = interval((all.shared.timeout / 4).clamp(Duration::from_millis(10), LOOK));
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while !connection.is_stalled(all.shared.timeout) {
        looks.tick().await;
    }
}

/// Waits until the server ends, and the connection has nothing to answer.
async fn over(connection: &Connection, all: &Listening) {
    stop(all.stopping.clone()).await;
    sleep(ENDING).await;
    while !connection.owes_nothing(ENDING / 2) {
        sleep(Duration::from_millis(20)).await;
    }
}

/// Waits until the server ends.
async fn stop(mut stopping: watch::Receiver<bool>) {
    // The sender is dropped with the server.
    let _gone = stopping.wait_for(|stop| *stop).await;
}

/// Waits until the server ends; for a connection that came after that, for ever.
async fn graceful(all: &Listening, late: bool) {
    match late {
        true => std::future::pending().await,
        false => stop(all.stopping.clone()).await,
    }
}

async fn http<S>(stream: S, connection: &Arc<Connection>, all: &Listening, late: bool)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let stream = TokioIo::new(stream);
    let serving = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(all.shared.timeout)
        .max_buf_size(HEADERS.max(64 << 10))
        .serve_connection(stream, answering(connection, all));
    let mut serving = pin!(serving);
    let ending = async {
        graceful(all, late).await;
        // hyper closes a connection before its first request, although that request may have arrived already. A connection without one ends
        // in `over`.
        connection.requested().await;
    };
    // An error is a peer that broke off or spoke no HTTP, which was answered if it could be.
    let _broken = tokio::select! {
        ended = serving.as_mut() => ended,
        () = ending => {
            serving.as_mut().graceful_shutdown();
            serving.await
        }
    };
}

async fn grpc<S>(stream: S, connection: &Arc<Connection>, all: &Listening, late: bool)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let stream = TokioIo::new(stream);
    let serving = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS)
        .max_header_list_size(u32::try_from(HEADERS).unwrap_or(u32::MAX))
        .max_send_buf_size(64 << 10)
        .initial_stream_window_size(1 << 20)
        .initial_connection_window_size(4 << 20)
        .keep_alive_interval(Some(Duration::from_secs(30)))
        .keep_alive_timeout(Duration::from_secs(20))
        .serve_connection(stream, answering(connection, all));
    let mut serving = pin!(serving);
    let _broken = tokio::select! {
        ended = serving.as_mut() => ended,
        () = graceful(all, late) => {
            serving.as_mut().graceful_shutdown();
            serving.await
        }
    };
}

fn answering(connection: &Arc<Connection>, all: &Listening) -> Answering {
    Answering {
        router: all.router.clone(),
        connection: connection.clone(),
        protocol: all.protocol,
        address: all.address,
        shared: all.shared.clone(),
        log: all.log.clone(),
        stopping: all.stopping.clone(),
    }
}

/// Waits until a peer has sent the `PREFACE_BYTES` bytes of the preface of HTTP/2; returns false if it does not in time.
async fn begins(stream: &TcpStream, time: Duration) -> bool {
    let until = Instant::now() + time;
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
