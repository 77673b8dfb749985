//! The events of an engine's request, on their way to the client.

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

/// The bytes that an event holds in addition to its text, and that the probability of a token holds.
const EVENT: usize = 128;
const PROBABILITY: usize = 64;

/// The bytes that the probability of a token holds in an answer that is written as a whole.
const WHOLE: usize = 768;

/// An event of one of the answers of a request. The tokens of a sequence bound the number of events, and the
/// bytes that all requests hold bound their size.
pub(super) struct Told {
    pub(super) number: usize,
    pub(super) event: Result<Event, Refusal>,
    /// The bytes that the event holds.
    pub(super) held: usize,
}

/// Sends the events of an engine to the request.
pub(super) struct Telling {
    number: usize,
    to: UnboundedSender<Told>,
    lease: Arc<Lease>,
    refused: bool,
    /// Whether all events become one answer.
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
        // The client may have left.
        let _gone = self.to.send(Told { number: self.number, event, held });
    }

    fn is_gone(&self) -> bool {
        self.refused || self.to.is_closed()
    }
}

/// Writes events as parts of an answer. `None` is the end of all events. Returns whether that was the last part.
pub(super) trait Writing: Send + Unpin + 'static {
    fn write(&mut self, told: Option<Told>, to: &mut VecDeque<Bytes>) -> bool;
}

/// The body of an answer that is written while it is generated: events of a server, as browsers call them.
pub(super) struct Streamed<W> {
    from: UnboundedReceiver<Told>,
    writing: W,
    ready: VecDeque<Bytes>,
    ended: bool,
    /// The connection does not give way to others meanwhile.
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
        // The next event is read when the client has taken the parts of this one.
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

/// Makes an event of a stream.
pub(super) fn data(json: &serde_json::Value) -> Bytes {
    format!("data: {json}\n\n").into()
}
