//! Accepts connections, and ends them: when they end, give way to others, or take too long.

use crate::answer::Answering;
use crate::connections::{Connection, Connections};
use crate::infer::Shared;
use crate::metrics::Protocol;
use crate::stream::Stream;
use axum::Router;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
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

/// How long a connection may wait for the rest of a request when the server ends.
const ENDING: Duration = Duration::from_millis(500);

/// What all connections of a listener have in common.
#[derive(Clone)]
struct Listening {
    router: Router,
    protocol: Protocol,
    timeout: Duration,
    connections: Arc<Connections>,
    stopping: watch::Receiver<bool>,
}

/// Accepts connections until `stopping` is set, then waits for their requests.
pub(crate) async fn accept(
    listener: TcpListener,
    router: Router,
    shared: Arc<Shared>,
    protocol: Protocol,
    connections: Arc<Connections>,
    mut stopping: watch::Receiver<bool>,
) {
    let timeout = shared.timeout;
    let all = Listening { router, protocol, timeout, connections, stopping: stopping.clone() };
    let mut running = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = running.join_next() => continue,
            _ = stopping.wait_for(|stop| *stop) => break,
        };
        let Ok((stream, client)) = accepted else {
            // There are no file descriptors, or the peer is gone already. Either passes, but not by asking again at once.
            sleep(Duration::from_millis(20)).await;
            continue;
        };
        // Small answers should not wait for more bytes; a system that cannot do that is only slower.
        let _slower = stream.set_nodelay(true);
        let connection = all.connections.admit(client.ip().to_canonical());
        let all = all.clone();
        running.spawn(async move {
            let registered = Registered(all.connections.clone(), connection);
            serve(stream, &registered.1, all).await;
        });
    }
    drop(listener);
    while running.join_next().await.is_some() {}
}

/// A connection that is removed when it has ended, however it ends.
struct Registered(Arc<Connections>, Arc<Connection>);

impl Drop for Registered {
    fn drop(&mut self) {
        self.0.remove(&self.1);
    }
}

async fn serve(stream: TcpStream, connection: &Arc<Connection>, all: Listening) {
    let ended = async {
        match all.protocol {
            Protocol::Http => http(stream, connection, &all).await,
            Protocol::Grpc => grpc(stream, connection, &all).await,
        }
    };
    let surplus = async {
        match connection.surplus {
            true => sleep(SURPLUS).await,
            false => std::future::pending().await,
        }
    };
    tokio::select! {
        () = ended => {}
        () = connection.closed() => {}
        () = surplus => {}
        () = stalled(connection, &all) => all.connections.stalled(),
        () = over(connection, &all) => {}
    }
}

/// Waits until a peer takes too little of what is written to it.
async fn stalled(connection: &Connection, all: &Listening) {
    let mut looks = interval((all.timeout / 4).clamp(Duration::from_millis(10), LOOK));
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while !connection.is_stalled(all.timeout) {
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
    // Whoever sends this is gone with the server.
    let _gone = stopping.wait_for(|stop| *stop).await;
}

async fn http(stream: TcpStream, connection: &Arc<Connection>, all: &Listening) {
    let stream = TokioIo::new(Stream::new(stream, connection.clone()));
    let serving = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(all.timeout)
        .max_buf_size(HEADERS.max(64 << 10))
        .serve_connection(stream, answering(connection, all));
    let mut serving = pin!(serving);
    // An error is a peer that broke off or spoke no HTTP, which was answered if it could be.
    let _broken = tokio::select! {
        ended = serving.as_mut() => ended,
        () = stop(all.stopping.clone()) => {
            serving.as_mut().graceful_shutdown();
            serving.await
        }
    };
}

async fn grpc(stream: TcpStream, connection: &Arc<Connection>, all: &Listening) {
    let begun = tokio::select! {
        begun = begins(&stream, PREFACE.min(all.timeout)) => begun,
        () = stop(all.stopping.clone()) => false,
    };
    if !begun {
        return;
    }
    let stream = TokioIo::new(Stream::new(stream, connection.clone()));
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
        () = stop(all.stopping.clone()) => {
            serving.as_mut().graceful_shutdown();
            serving.await
        }
    };
}

fn answering(connection: &Arc<Connection>, all: &Listening) -> Answering {
    Answering { router: all.router.clone(), connection: connection.clone(), protocol: all.protocol }
}

/// Waits until a peer has sent as many bytes as the preface of HTTP/2 has; returns false if it does not in time.
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
