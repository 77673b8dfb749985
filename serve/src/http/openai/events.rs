//! What an engine tells of a request, on its way to the client.

use crate::budget::Lease;
use crate::connections::Computing;
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

/// What an event holds beside its text, and what the probability of a token holds, in bytes.
const EVENT: usize = 128;
const PROBABILITY: usize = 64;

/// What comes of one of the answers of a request: its number, and the event. How many may come is bounded by the tokens of a sequence, and
/// what they hold by the bytes that all requests hold.
pub(super) type Told = (usize, Result<Event, Refusal>);

/// Hands the events of an engine to the request.
pub(super) struct Telling {
    pub(super) number: usize,
    pub(super) to: UnboundedSender<Told>,
    pub(super) lease: Arc<Lease>,
    pub(super) refused: bool,
}

impl Listener for Telling {
    fn receive(&mut self, event: Event) {
        let size = match &event {
            Event::Piece(piece) => {
                let probable = piece.log_probabilities.as_ref().map_or(0, |(_, all)| all.len() + 1);
                piece.text.len() + probable * PROBABILITY
            }
            Event::Embedding(state) => size_of_val(state.as_slice()),
            _ => 0,
        };
        let event = match self.lease.grow(EVENT + size) {
            Ok(()) => Ok(event),
            Err(refusal) => {
                self.refused = true;
                Err(refusal)
            }
        };
        // Who asked may have gone.
        let _gone = self.to.send((self.number, event));
    }

    fn is_gone(&self) -> bool {
        self.refused || self.to.is_closed()
    }
}

/// What writes events as parts of an answer. `None` is the end of all events. Returns whether that was the last part.
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
}

impl<W: Writing> Streamed<W> {
    pub(super) fn body(
        from: UnboundedReceiver<Told>,
        writing: W,
        first: Option<Told>,
        computing: Computing,
    ) -> Body {
        let ready = VecDeque::new();
        let mut streamed = Streamed { from, writing, ready, ended: false, _computing: computing };
        streamed.take(first);
        Body::new(streamed)
    }

    fn take(&mut self, told: Option<Told>) {
        self.ended = self.writing.write(told, &mut self.ready);
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
