//! Compresses the answer to a request that was compressed.

use super::frames::{HEAD_BYTES, head};
use crate::compression::{self, Coding};
use crate::held_bytes::HeldAnswer;
use crate::refusal::Refusal;
use bytes::{Buf, Bytes, BytesMut};
use http_body::{Body as HttpBody, Frame, SizeHint};
use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::task::JoinHandle;
use tonic::Status;
use tonic::body::Body;

/// A body of one message, which is compressed once all of the message has arrived.
pub(super) struct Packed {
    body: Body,
    coding: Coding,
    held: Option<HeldAnswer>,
    message: BytesMut,
    packing: Option<JoinHandle<Result<VecDeque<Bytes>, Refusal>>>,
    ready: VecDeque<Bytes>,
    /// The frame after the message.
    last: Option<Frame<Bytes>>,
    ended: bool,
}

impl Packed {
    pub(super) fn new(body: Body, coding: Coding, held: Option<HeldAnswer>) -> Packed {
        let (message, ready) = (BytesMut::new(), VecDeque::new());
        Packed { body, coding, held, message, packing: None, ready, last: None, ended: false }
    }

    /// Starts to compress the message.
    fn pack(&mut self) {
        let (message, coding, held) = (self.message.split().freeze(), self.coding, self.held.clone());
        if message.len() < HEAD_BYTES + compression::SMALL {
            if !message.is_empty() {
                self.ready.push_back(message);
            }
            return;
        }
        self.packing = Some(tokio::task::spawn_blocking(move || {
            let mut plain = message;
            plain.advance(HEAD_BYTES);
            let grow = |bytes| held.as_ref().map_or(Ok(()), |held| held.grow(bytes));
            let packed = compression::pack(coding, [&*plain].into_iter(), grow)?;
            Ok([head(true, packed.len()), packed].into())
        }));
    }
}

impl HttpBody for Packed {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = &mut *self;
        loop {
            if let Some(part) = this.ready.pop_front() {
                return Poll::Ready(Some(Ok(Frame::data(part))));
            }
            if let Some(packing) = &mut this.packing {
                let packed = ready!(Pin::new(packing).poll(context));
                this.packing = None;
                match packed.unwrap_or(Err(Refusal::Internal { what: "compressing an answer panicked" })) {
                    Ok(parts) => this.ready = parts,
                    Err(refusal) => {
                        (this.ended, this.last) = (true, None);
                        return Poll::Ready(Some(Err(refusal.into())));
                    }
                }
                continue;
            }
            if this.ended {
                return Poll::Ready(this.last.take().map(Ok));
            }
            match ready!(Pin::new(&mut this.body).poll_frame(context)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => this.message.extend_from_slice(&data),
                    Err(trailers) => {
                        (this.ended, this.last) = (true, Some(trailers));
                        this.pack();
                    }
                },
                Some(Err(status)) => return Poll::Ready(Some(Err(status))),
                None => {
                    this.ended = true;
                    this.pack();
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.ended && self.last.is_none() && self.packing.is_none() && self.ready.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}
