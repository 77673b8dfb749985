//! Accepts connections, and closes them when they end, give way to others, or take too long.

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

/// The maximum time for a gRPC connection to send its preface.
const PREFACE: Duration = Duration::from_secs(10);

/// The length in bytes of the preface at the start of every HTTP/2 connection.
const PREFACE_BYTES: usize = 24;

/// The maximum number of open requests on one gRPC connection.
const STREAMS: u32 = 128;

/// The maximum size of a request's headers, in bytes.
const HEADERS: usize = 32 << 10;

/// The maximum lifetime of a surplus connection.
const SURPLUS: Duration = Duration::from_secs(2);

/// The maximum time between two checks of a connection. A short request timeout makes it shorter.
const LOOK: Duration = Duration::from_millis(250);

/// The time that clients have to read the answers to late requests, which arrived after the shutdown began.
const TOLD: Duration = Duration::from_millis(200);

/// The time that a connection has to send the rest of a request when the server shuts down.
const ENDING: Duration = Duration::from_millis(500);

/// The state that all connections of a listener share.
#[derive(Clone)]
pub(crate) struct Listening {
    pub(crate) router: Router,
    pub(crate) protocol: Protocol,
    /// The address of the listener.
    pub(crate) address: SocketAddr,
    pub(crate) shared: Arc<Shared>,
    pub(crate) connections: Arc<Connections>,
    pub(crate) tls: Option<Acceptor>,
    pub(crate) log: Option<LogLines>,
    pub(crate) stopping: watch::Receiver<bool>,
    /// The number of listeners that still have connections from before the shutdown.
    pub(crate) busy: watch::Sender<usize>,
}

/// Accepts connections until `stopping` is set, then waits until the requests of all listeners have ended. During this wait, requests for
/// the server's readiness are answered with "not ready".
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
            // Either there are no file descriptors, or the peer is gone. Both pass with time, so the loop waits before it retries.
            sleep(Duration::from_millis(20)).await;
            continue;
        };
        // Disables Nagle's algorithm, so that small answers are sent immediately. If the system cannot do that, answers are only slower.
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
    // Waits for the answers to late connections, which are only a few bytes.
    let told = async { while late.join_next().await.is_some() {} };
    let _cut_off = timeout_at(Instant::now() + TOLD, told).await;
}

/// A guard that removes a connection from the list when it is dropped.
struct Registered(Arc<Connections>, Arc<Connection>);

impl Drop for Registered {
    fn drop(&mut self) {
        self.0.remove(&self.1);
    }
}

/// Serves a connection. `late` says that it arrived after the shutdown began.
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
    // A client of HTTP/1 may close its sending side after its request.
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
        // Waits for the preface with a time limit, because a silent gRPC peer would keep the connection open for ever.
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

/// Waits until the server shuts down and the connection has nothing left to answer.
async fn over(connection: &Connection, all: &Listening) {
    stop(all.stopping.clone()).await;
    sleep(ENDING).await;
    while !connection.owes_nothing(ENDING / 2) {
        sleep(Duration::from_millis(20)).await;
    }
}

/// Waits until the server shuts down.
async fn stop(mut stopping: watch::Receiver<bool>) {
    // The wait also ends with an error when the server drops the sender.
    let _gone = stopping.wait_for(|stop| *stop).await;
}

/// Waits until the server shuts down. For a connection that arrived after that, waits for ever.
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
        // Waits for a first request, because hyper would close a connection without one although a request may have arrived already. `over`
        // ends a connection that never gets a request.
        connection.requested().await;
    };
    // An error means that the peer broke off or sent invalid HTTP. If possible, it was answered already.
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

/// Waits until a peer has sent the `PREFACE_BYTES` bytes of the HTTP/2 preface. Returns false if the time runs out first.
async fn begins(stream: &TcpStream, time: Duration) -> bool {
    let until = Instant::now() + time;
    let mut bytes = [0; PREFACE_BYTES];
    loop {
        match timeout_at(until, stream.peek(&mut bytes)).await {
            Ok(Ok(PREFACE_BYTES)) => return true,
            // Sleeps, because the peeked bytes stay readable and waiting for readiness would return immediately.
            Ok(Ok(1..)) => sleep(Duration::from_millis(10)).await,
            Ok(Ok(0) | Err(_)) | Err(_) => return false,
        }
        if Instant::now() >= until {
            return false;
        }
    }
}
