//! Passes the events of an engine's request to the client.

use crate::connections::Computing;
use crate::held_bytes::Lease;
use crate::refusal::Refusal;
use axum::body::Body;
use bb_generate::{Event, Listener};
use bytes::Bytes;
use http_body::{Body as HttpBody, Frame};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};

/// The bytes that count as used for an event in addition to its text, and for the log-probability of a token.
const EVENT: usize = 128;
const PROBABILITY: usize = 64;

/// The bytes that count as used for the log-probability of a token if the answer is not streamed.
const WHOLE: usize = 768;

/// An event of one choice of a request. The maximum number of tokens limits the number of events, and the limit on bytes of all requests
/// limits their size.
pub(super) struct Told {
    pub(super) number: usize,
    pub(super) event: Result<Event, Refusal>,
    /// The bytes that count as used for the event.
    pub(super) held: usize,
}

/// A listener that sends the events of an engine to the request's task.
pub(super) struct Telling {
    number: usize,
    to: UnboundedSender<Told>,
    lease: Arc<Lease>,
    refused: bool,
    /// Whether the answer is not streamed, so that all events are collected into one answer.
    pub(super) whole: bool,
}

impl Telling {
    pub(super) fn new(number: usize, to: UnboundedSender<Told>, lease: Arc<Lease>) -> Telling {
        Telling { number, to, lease, refused: false, whole: true }
    }
}

impl Listener for Telling {
    fn receive(&mut self, event: Event) {
        let probability = if self.whole { WHOLE } else { PROBABILITY };
        let size = match &event {
            Event::Piece(piece) => {
                let probable = piece.log_probabilities.as_ref().map_or(0, |(_, all)| all.len() + 1);
                piece.text.len() + probable * probability
            }
            Event::Embedding(state) => size_of_val(state.as_slice()),
            _ => 0,
        };
        let held = EVENT + size;
        let (event, held) = match self.lease.grow(held) {
            Ok(()) => (Ok(event), held),
            Err(refusal) => {
                self.refused = true;
                (Err(refusal), 0)
            }
        };
        // The send fails if the client has left, which is not an error.
        let _gone = self.to.send(Told { number: self.number, event, held });
    }

    fn is_gone(&self) -> bool {
        self.refused || self.to.is_closed()
    }
}

/// Writes events as parts of an answer.
pub(super) trait Writing: Send + Unpin + 'static {
    fn write(&mut self, told: Option<Told>, to: &mut VecDeque<Bytes>) -> bool;
}

/// The body of a streamed answer, in the format of server-sent events.
pub(super) struct Streamed<W> {
    from: UnboundedReceiver<Told>,
    writing: W,
    ready: VecDeque<Bytes>,
    ended: bool,
    /// A guard that prevents the connection from giving way to others while the answer is generated.
    _computing: Computing,
    lease: Arc<Lease>,
}

impl<W: Writing> Streamed<W> {
    pub(super) fn body(
        from: UnboundedReceiver<Told>,
        writing: W,
        first: Option<Told>,
        computing: Computing,
        lease: Arc<Lease>,
    ) -> Body {
        let ready = VecDeque::new();
        let mut streamed = Streamed { from, writing, ready, ended: false, _computing: computing, lease };
        streamed.take(first);
        Body::new(streamed)
    }

    fn take(&mut self, told: Option<Told>) {
        let held = told.as_ref().map_or(0, |told| told.held);
        self.ended = self.writing.write(told, &mut self.ready);
        // Returns the event's bytes now, because the next event is read only after the client has read these parts.
        self.lease.give_back(held);
    }
}

impl<W: Writing> HttpBody for Streamed<W> {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = &mut *self;
        loop {
            if let Some(part) = this.ready.pop_front() {
                return Poll::Ready(Some(Ok(Frame::data(part))));
            }
            if this.ended {
                return Poll::Ready(None);
            }
            match this.from.poll_recv(context) {
                Poll::Ready(told) => this.take(told),
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.ended && self.ready.is_empty()
    }
}

/// Encodes JSON as a server-sent event.
pub(super) fn data(json: &serde_json::Value) -> Bytes {
    format!("data: {json}\n\n").into()
}
