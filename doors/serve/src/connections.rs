//! The open connections: limits their number, chooses which of them gives way to a new one, and detects peers that do not read.
//!
//! A connection is in one of these states:
//!
//! - *idle*: it waits for a request, and has received at most a part of the head;
//! - *sending*: it waits for the rest of a request whose head has arrived;
//! - *computing*: it waits for an answer;
//! - *answering*: it waits for the peer to read an answer.
//!
//! At the limit of connections, a new connection replaces an idle one; else one that is sending; else one whose peer does not read its
//! answer. If there is none, the new connection is *surplus*: for a short time, only its requests for health and metrics are answered.

use crate::metrics::{Closed, Protocol, ServerMetrics};
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// The time in milliseconds that a peer may read nothing of its answer before its connection gives way to another one.
const PATIENCE: u64 = 1000;

/// The maximum number of surplus connections. A further one replaces the oldest.
const SURPLUS: usize = 16;

/// The number of bytes that a peer must read within the request timeout. With a smaller number, a peer that reads a byte now and then would
/// keep its connection for ever.
const ENOUGH: u64 = 64 << 10;

/// The open connections of one protocol.
pub(crate) struct Connections {
    open: Mutex<Open>,
    limit: usize,
    per_client: usize,
    protocol: Protocol,
    metrics: Arc<ServerMetrics>,
    start: Instant,
}

#[derive(Default)]
struct Open {
    next: u64,
    all: HashMap<u64, Arc<Connection>>,
}

/// An open connection.
pub(crate) struct Connection {
    number: u64,
    client: IpAddr,
    /// Whether the connection exceeds the limits.
    pub(crate) surplus: bool,
    /// The number of requests whose head has arrived and whose answer is not completely read.
    requests: AtomicUsize,
    computing: AtomicUsize,
    /// The time at which the connection became idle or, if it is not idle, at which the head of its last request arrived.
    since: AtomicU64,
    /// The time since which writing to the peer blocks, plus 1. 0 if writing does not block.
    blocked: AtomicU64,
    /// The number of bytes that the peer has read since `blocked`.
    taken: AtomicU64,
    /// The time at which the body of each answer was last polled, by the number of the answer.
    answers: Mutex<HashMap<u64, u64>>,
    /// A notification with one permit once a request has arrived.
    requested: Notify,
    closed: Notify,
    start: Instant,
}

/// The states of a connection that may give way to another one, in the order of preference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum GivesWay {
    Idle,
    Sending,
    Stalled,
}

impl Connections {
    pub(crate) fn new(
        protocol: Protocol,
        limit: usize,
        per_client: usize,
        metrics: Arc<ServerMetrics>,
    ) -> Arc<Connections> {
        let (open, start) = (Mutex::default(), Instant::now());
        Arc::new(Connections { open, limit, per_client, protocol, metrics, start })
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a connection. May close other connections to make room.
    pub(crate) fn admit(&self, client: IpAddr) -> Arc<Connection> {
        let now = milliseconds(self.start);
        let mut open = self.lock();
        let regular = |open: &Open, of: Option<IpAddr>| {
            let counts = |c: &&Arc<Connection>| !c.surplus && of.is_none_or(|of| of == c.client);
            open.all.values().filter(counts).count()
        };
        let mut fits = true;
        if regular(&open, Some(client)) >= self.per_client {
            fits = self.give_way(&mut open, Some(client), now);
        }
        if fits && regular(&open, None) >= self.limit {
            fits = self.give_way(&mut open, None, now);
        }
        if !fits {
            self.metrics.closed(self.protocol, Closed::Surplus);
            let surplus = open.all.values().filter(|c| c.surplus);
            let oldest = surplus.clone().map(|c| c.number).min();
            if let Some(oldest) = oldest.filter(|_| surplus.count() >= SURPLUS) {
                self.close(&mut open, oldest);
            }
        }
        let number = open.next;
        open.next += 1;
        let connection = Arc::new(Connection {
            number,
            client,
            surplus: !fits,
            requests: AtomicUsize::new(0),
            computing: AtomicUsize::new(0),
            since: AtomicU64::new(now),
            blocked: AtomicU64::new(0),
            taken: AtomicU64::new(0),
            answers: Mutex::default(),
            requested: Notify::new(),
            closed: Notify::new(),
            start: self.start,
        });
        open.all.insert(number, connection.clone());
        self.count(&open);
        connection
    }

    /// Closes the connection that is first to give way, and returns whether there was one. `of` restricts the choice to one client. Among
    /// equal states, a connection of the client with the most connections is first.
    fn give_way(&self, open: &mut Open, of: Option<IpAddr>, now: u64) -> bool {
        let mut clients: HashMap<IpAddr, usize> = HashMap::new();
        open.all.values().for_each(|c| *clients.entry(c.client).or_default() += 1);
        let candidates = open.all.values().filter(|c| !c.surplus && of.is_none_or(|of| of == c.client));
        let order = |c: &Arc<Connection>| {
            let (how, since) = c.gives_way(now)?;
            let most = usize::MAX - clients.get(&c.client).copied().unwrap_or(0);
            Some(((how, most, since, c.number), c.number))
        };
        let first = candidates.filter_map(order).min().map(|(_, number)| number);
        first.inspect(|number| {
            self.close(open, *number);
            self.metrics.closed(self.protocol, Closed::GaveWay);
        });
        first.is_some()
    }

    fn close(&self, open: &mut Open, number: u64) {
        if let Some(connection) = open.all.remove(&number) {
            connection.closed.notify_one();
        }
    }

    /// Removes a connection that has ended.
    pub(crate) fn remove(&self, connection: &Connection) {
        let mut open = self.lock();
        open.all.remove(&connection.number);
        self.count(&open);
    }

    /// Counts a connection that was closed because its peer read too slowly.
    pub(crate) fn stalled(&self) {
        self.metrics.closed(self.protocol, Closed::Stalled);
    }

    fn count(&self, open: &Open) {
        self.metrics.open(self.protocol, open.all.len());
    }
}

impl Connection {
    fn now(&self) -> u64 {
        milliseconds(self.start)
    }

    /// Returns the address of the peer.
    pub(crate) fn client(&self) -> IpAddr {
        self.client
    }

    fn answers(&self) -> MutexGuard<'_, HashMap<u64, u64>> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the connection must close because it gives way to another one.
    pub(crate) async fn closed(&self) {
        self.closed.notified().await;
    }

    /// Records that the head of a request arrived. Dropping the result records that the answer has ended.
    pub(crate) fn request(self: &Arc<Connection>) -> InRequest {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.since.store(self.now(), Ordering::Relaxed);
        self.requested.notify_one();
        InRequest(self.clone())
    }

    /// Waits until the connection has had a request. Only one task may wait.
    pub(crate) async fn requested(&self) {
        self.requested.notified().await;
    }

    /// Records that a request has arrived completely. Dropping the result records that its answer is ready.
    pub(crate) fn computing(self: &Arc<Connection>) -> Computing {
        self.computing.fetch_add(1, Ordering::Relaxed);
        Computing(self.clone())
    }

    /// Records that the body of an answer was polled, so that the answer now waits for its peer.
    pub(crate) fn asked(&self, answer: u64) {
        self.answers().insert(answer, self.now());
    }

    /// Records that an answer was read to its end or dropped, or waits for the server.
    pub(crate) fn ended(&self, answer: u64) {
        self.answers().remove(&answer);
    }

    /// Records that writing to the peer blocks.
    pub(crate) fn blocked(&self) {
        let now = self.now() + 1;
        if self.blocked.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            self.taken.store(0, Ordering::Relaxed);
        }
    }

    /// Records that the peer read bytes.
    pub(crate) fn wrote(&self, bytes: usize) {
        if self.blocked.load(Ordering::Relaxed) == 0 {
            return;
        }
        let bytes = bytes as u64;
        if self.taken.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes) >= ENOUGH {
            self.blocked.store(0, Ordering::Relaxed);
        }
    }

    /// Records that all bytes were written.
    pub(crate) fn flushed(&self) {
        self.blocked.store(0, Ordering::Relaxed);
    }

    /// Returns the time since which the peer has not read enough, or `None` if the server does not wait for the peer.
    fn stalled_since(&self) -> Option<u64> {
        let blocked = self.blocked.load(Ordering::Relaxed).checked_sub(1);
        let asked = self.answers().values().min().copied();
        blocked.into_iter().chain(asked).min()
    }

    /// Returns whether the peer has read too little for longer than `timeout`.
    pub(crate) fn is_stalled(&self, timeout: Duration) -> bool {
        let most = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
        self.stalled_since().is_some_and(|since| self.now().saturating_sub(since) > most)
    }

    /// Returns whether the connection has nothing to answer: it has no request, or nothing more of its requests arrived during `patience`.
    pub(crate) fn owes_nothing(&self, patience: Duration) -> bool {
        let longest = u64::try_from(patience.as_millis()).unwrap_or(u64::MAX);
        let waits = self.now().saturating_sub(self.since.load(Ordering::Relaxed)) >= longest;
        let answering = !self.answers().is_empty() || self.blocked.load(Ordering::Relaxed) != 0;
        waits && self.computing.load(Ordering::Relaxed) == 0 && !answering
    }

    /// Returns whether a request has an answer that is not completely read.
    pub(crate) fn is_in_request(&self) -> bool {
        self.requests.load(Ordering::Relaxed) > 0
    }

    fn gives_way(&self, now: u64) -> Option<(GivesWay, u64)> {
        let since = self.since.load(Ordering::Relaxed);
        if self.computing.load(Ordering::Relaxed) > 0 {
            return None;
        }
        if let Some(stalled) = self.stalled_since() {
            return (now.saturating_sub(stalled) > PATIENCE).then_some((GivesWay::Stalled, stalled));
        }
        let idle = self.requests.load(Ordering::Relaxed) == 0;
        Some((if idle { GivesWay::Idle } else { GivesWay::Sending }, since))
    }
}

/// A guard of a request, until its answer is read.
pub(crate) struct InRequest(Arc<Connection>);

impl Drop for InRequest {
    fn drop(&mut self) {
        self.0.since.store(self.0.now(), Ordering::Relaxed);
        self.0.requests.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A guard of a request, until its answer is ready.
pub(crate) struct Computing(Arc<Connection>);

impl Drop for Computing {
    fn drop(&mut self) {
        self.0.computing.fetch_sub(1, Ordering::Relaxed);
    }
}

fn milliseconds(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
}
