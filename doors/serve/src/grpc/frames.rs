//! Splits the body of a gRPC call into messages, limits their size, and decompresses them.
//!
//! tonic also decompresses messages, but on the network threads, and without counting the decompressed bytes.

use super::held::Held;
use crate::compression::{self, Coding};
use crate::refusal::Refusal;
use bytes::{Buf, BufMut, Bytes, BytesMut};
use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::task::JoinHandle;
use tonic::Status;

/// The length in bytes of a message's prefix: a flag for compression, and the message's length.
const HEAD: usize = 5;

/// The maximum number of messages of a call. Only clients of the reflection service send more than one.
const MESSAGES: usize = 256;

/// A parser of a request's messages, which receives the bytes as they arrive.
pub(super) struct Frames {
    limit: usize,
    /// The number of messages that have begun.
    count: usize,
    /// The coding of messages whose prefix says that they are compressed.
    coding: Option<Coding>,
    head: [u8; HEAD],
    have: usize,
    /// The number of bytes of the current message that have not arrived.
    left: usize,
    /// The received part of the current message, if the message is compressed.
    packed: Option<BytesMut>,
    /// The task that decompresses a message.
    unpacking: Option<JoinHandle<Result<Bytes, Refusal>>>,
    /// The bytes that the inner service has not read yet.
    ready: VecDeque<Bytes>,
    /// The received bytes after the message that is being decompressed.
    rest: Bytes,
}

impl Frames {
    pub(super) fn new(limit: usize, coding: Option<Coding>) -> Frames {
        Frames {
            limit,
            count: 0,
            coding,
            head: [0; HEAD],
            have: 0,
            left: 0,
            packed: None,
            unpacking: None,
            ready: VecDeque::new(),
            rest: Bytes::new(),
        }
    }

    /// Returns whether the inner service has read all bytes.
    pub(super) fn is_empty(&self) -> bool {
        self.ready.is_empty() && self.unpacking.is_none()
    }

    /// Adds received bytes. The inner service must have read all earlier bytes.
    pub(super) fn push(&mut self, bytes: Bytes, held: &Held) -> Result<(), Refusal> {
        self.rest = bytes;
        self.divide(held)
    }

    /// Returns the next bytes for the inner service, or `Ready(None)` if more bytes must arrive first.
    pub(super) fn poll(
        &mut self,
        context: &mut Context<'_>,
        held: &Held,
    ) -> Poll<Option<Result<Bytes, Status>>> {
        loop {
            if let Some(bytes) = self.ready.pop_front() {
                return Poll::Ready(Some(Ok(bytes)));
            }
            let Some(unpacking) = &mut self.unpacking else { return Poll::Ready(None) };
            let unpacked = std::task::ready!(Pin::new(unpacking).poll(context));
            self.unpacking = None;
            let what = "unpacking a message panicked";
            match unpacked.unwrap_or(Err(Refusal::Internal { what })) {
                Ok(message) => {
                    self.ready.push_back(head(false, message.len()));
                    self.ready.push_back(message);
                }
                Err(refusal) => return Poll::Ready(Some(Err(refusal.into()))),
            }
            if let Err(refusal) = self.divide(held) {
                return Poll::Ready(Some(Err(refusal.into())));
            }
        }
    }

    /// Splits the received bytes into messages, until a message must be decompressed.
    fn divide(&mut self, held: &Held) -> Result<(), Refusal> {
        while self.unpacking.is_none() && !self.rest.is_empty() {
            if self.left == 0 && self.have < HEAD {
                let taken = self.rest.split_to(self.rest.len().min(HEAD - self.have));
                let place = self.head.get_mut(self.have..self.have + taken.len());
                place.unwrap_or_default().copy_from_slice(&taken);
                self.have += taken.len();
                if self.have == HEAD {
                    self.begin()?;
                }
                continue;
            }
            let part = self.rest.split_to(self.rest.len().min(self.left));
            self.left -= part.len();
            match &mut self.packed {
                Some(packed) => packed.extend_from_slice(&part),
                None => self.ready.push_back(part),
            }
            self.end(held);
        }
        Ok(())
    }

    /// Parses the prefix of a message.
    fn begin(&mut self) -> Result<(), Refusal> {
        let mut head = self.head.as_slice();
        let (flag, length) = (head.get_u8(), usize::try_from(head.get_u32()).unwrap_or(usize::MAX));
        if length > self.limit {
            return Err(Refusal::TooLarge { limit: self.limit });
        }
        self.count += 1;
        if self.count > MESSAGES {
            return Err(Refusal::Parts { what: "messages", got: self.count, limit: MESSAGES });
        }
        self.left = length;
        match self.coding {
            Some(_) if flag == 1 && length > 0 => self.packed = Some(BytesMut::new()),
            _ => self.ready.push_back(Bytes::copy_from_slice(&self.head)),
        }
        if length == 0 {
            self.have = 0;
        }
        Ok(())
    }

    /// Completes the current message if all its bytes have arrived.
    fn end(&mut self, held: &Held) {
        if self.left > 0 {
            return;
        }
        self.have = 0;
        if let (Some(packed), Some(coding)) = (self.packed.take(), self.coding) {
            let (limit, held) = (self.limit, held.clone());
            let unpack = move || compression::unpack(coding, &packed, limit, |bytes| held.grow(bytes));
            self.unpacking = Some(tokio::task::spawn_blocking(unpack));
        }
    }
}

/// Builds the prefix of a message.
pub(super) fn head(packed: bool, length: usize) -> Bytes {
    let mut head = BytesMut::with_capacity(HEAD);
    head.put_u8(packed.into());
    // Messages are within `limit`, or were written by tonic, which refuses longer messages.
    head.put_u32(u32::try_from(length).unwrap_or(u32::MAX));
    head.freeze()
}

/// The length of a message's prefix, in bytes.
pub(super) const HEAD_BYTES: usize = HEAD;
