//! Takes a request from its inputs to its answer, for both protocols.

use crate::batch::BatchKey;
use crate::browser::Browsers;
use crate::cancel::{CancelOnDrop, check};
use crate::held_bytes::{HeldBytes, Lease};
use crate::metrics::{Outcomes, Protocol, ServerMetrics};
use crate::model::Model;
use crate::queue::{Answer, Client, Job, NotTaken, Waiting};
use crate::refusal::{Refusal, RefusalKind};
use crate::repository::Repository;
use crate::token::Token;
use bb::{CancelToken, RunOptions, TensorData};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// The minimum size in bytes of requests and answers that are converted on a thread that may block.
const LARGE: usize = 64 << 10;

/// The state that all requests share.
pub(crate) struct Shared {
    pub(crate) repository: Arc<Repository>,
    #[cfg(feature = "generate")]
    pub(crate) languages: crate::language::Languages,
    pub(crate) held_bytes: Arc<HeldBytes>,
    pub(crate) metrics: Arc<ServerMetrics>,
    pub(crate) timeout: Duration,
    pub(crate) request_bytes: usize,
    pub(crate) token: Option<Token>,
    pub(crate) browsers: Browsers,
    /// Whether the server reports that it is ready.
    pub(crate) ready: AtomicBool,
    /// Whether the server accepts requests.
    pub(crate) open: AtomicBool,
}

impl Shared {
    pub(crate) fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Relaxed)
    }

    pub(crate) fn is_open(&self) -> bool {
        self.open.load(Ordering::Relaxed)
    }
}

/// Runs `work` on this thread if `bytes` is small, else on a thread that may block. The work ends at the deadline or when the client
/// leaves: work that has not begun is dropped, and running work ends at its next [`check`](crate::cancel::check).
///
/// # Errors
///
/// [`Refusal::Deadline`] at the deadline, even if the work continues until its next check.
pub(crate) async fn convert<T: Send + 'static>(
    bytes: usize,
    deadline: Instant,
    work: impl FnOnce() -> Result<T, Refusal> + Send + 'static,
) -> Result<T, Refusal> {
    let options = RunOptions::default().with_deadline(deadline);
    if bytes < LARGE {
        return options.within(work);
    }
    let token = CancelToken::new();
    let options = options.with_cancel(&token);
    let _cancel = CancelOnDrop(token);
    let work = move || options.within(|| check().and_then(|()| work()));
    match tokio::time::timeout_at(deadline.into(), tokio::task::spawn_blocking(work)).await {
        Ok(done) => {
            done.unwrap_or(Err(Refusal::Internal { what: "converting a request or an answer panicked" }))
        }
        Err(_) => Err(Refusal::Deadline),
    }
}

/// A request whose inputs are complete.
pub(crate) struct Ask {
    pub(crate) inputs: Vec<Option<TensorData>>,
    pub(crate) wanted: Vec<usize>,
    pub(crate) deadline: Instant,
    pub(crate) lease: Lease,
}

/// Puts a request into the queue of its model and waits for the answer.
pub(crate) async fn ask(shared: &Shared, model: &Model, ask: Ask) -> Answer {
    let client = Arc::new(Client::default());
    let waiting = Waiting(client.clone());
    let (answer, answered) = oneshot::channel();
    let kind = model
        .batching
        .as_ref()
        .and_then(|batching| BatchKey::of(&ask.inputs, batching.rows).filter(|kind| batching.may_join(kind)));
    let Ask { inputs, wanted, deadline, lease } = ask;
    let job = Job { inputs, wanted, kind, arrived: Instant::now(), deadline, client, answer, lease };
    model.queue.push(job).map_err(|why| match why {
        NotTaken::Full => Refusal::QueueFull { model: model.name.clone(), limit: model.queue.limit() },
        NotTaken::Closed if shared.is_open() => Refusal::Replaced { model: model.name.clone() },
        NotTaken::Closed => Refusal::ShuttingDown,
    })?;
    let answer = tokio::time::timeout_at(deadline.into(), answered).await;
    drop(waiting);
    match answer {
        Ok(Ok(answer)) => answer,
        // A worker answers every job that it takes, unless the worker's thread ends before.
        Ok(Err(_)) => Err(Refusal::ShuttingDown),
        Err(_) => Err(Refusal::Deadline),
    }
}

/// Counts the bytes of results as used, or refuses the answer because requests and answers use too many bytes.
pub(crate) fn hold(shared: &Shared, results: &[TensorData]) -> Result<(usize, Lease), Refusal> {
    let (size, lease) = (results.iter().map(TensorData::byte_len).sum(), shared.held_bytes.lease());
    lease.grow(size)?;
    Ok((size, lease))
}

/// A guard that counts a request when it is dropped, whether the request succeeded or not.
pub(crate) struct Counted<'a> {
    shared: &'a Shared,
    model: Option<Arc<Model>>,
    protocol: Protocol,
    start: Instant,
    refused: Option<RefusalKind>,
}

impl<'a> Counted<'a> {
    pub(crate) fn new(shared: &'a Shared, protocol: Protocol) -> Counted<'a> {
        // If the request is dropped without a recorded result, its client has left, so it counts as cancelled.
        let refused = Some(RefusalKind::Cancelled);
        Counted { shared, model: None, protocol, start: Instant::now(), refused }
    }

    pub(crate) fn start(&self) -> Instant {
        self.start
    }

    pub(crate) fn of(&mut self, model: &Arc<Model>) {
        self.model = Some(model.clone());
    }

    pub(crate) fn end<T>(mut self, result: Result<T, Refusal>) -> Result<T, Refusal> {
        self.refused = result.as_ref().err().map(Refusal::kind);
        result
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        let requests: &Outcomes = match &self.model {
            Some(model) => &model.metrics.requests,
            None => &self.shared.metrics.others,
        };
        requests.count(self.protocol, self.refused);
        if let Some(model) = &self.model {
            let took = self.start.elapsed();
            model.metrics.requests_took.record(took);
            let of = &model.statistics;
            if self.refused.is_none() { of.success.add(took) } else { of.fail.add(took) }
        }
    }
}
