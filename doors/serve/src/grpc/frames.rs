//! The frames of messages in the body of a call: their bounds, and their compression.
//!
//! tonic also unpacks messages, but on the threads of the network, and without counting the unpacked bytes.

use super::held::Held;
use crate::compression::{self, Coding};
use crate::refusal::Refusal;
use bytes::{Buf, BufMut, Bytes, BytesMut};
use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::task::JoinHandle;
use tonic::Status;

/// The bytes before a message: whether it is compressed, and its length.
const HEAD: usize = 5;

/// The most messages of a call. Only clients of reflection send more than one.
const MESSAGES: usize = 256;

/// The messages of a request, as their bytes come.
pub(super) struct Frames {
    limit: usize,
    /// The number of messages that have begun.
    count: usize,
    /// The compression of messages that are marked as compressed.
    coding: Option<Coding>,
    head: [u8; HEAD],
    have: usize,
    /// The number of bytes of the message that have not arrived.
    left: usize,
    /// The message, if it is compressed.
    packed: Option<BytesMut>,
    /// The task that unpacks a message.
    unpacking: Option<JoinHandle<Result<Bytes, Refusal>>>,
    /// The bytes for the next service.
    ready: VecDeque<Bytes>,
    /// The bytes after a message that is being unpacked.
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

    /// Returns whether nothing is left to give on.
    pub(super) fn is_empty(&self) -> bool {
        self.ready.is_empty() && self.unpacking.is_none()
    }

    /// Takes bytes that came, once those before were all given on.
    pub(super) fn push(&mut self, bytes: Bytes, held: &Held) -> Result<(), Refusal> {
        self.rest = bytes;
        self.divide(held)
    }

    /// Returns the next bytes for the service; `Ready(None)` if more have to come.
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

    /// Divides what came into messages, until one has to be unpacked.
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

    /// Reads the head of a message.
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

    /// Completes a message, if all of its bytes have come.
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

/// Makes the prefix of a message.
pub(super) fn head(packed: bool, length: usize) -> Bytes {
    let mut head = BytesMut::with_capacity(HEAD);
    head.put_u8(packed.into());
    // Messages are within `limit`, or were written by tonic, which refuses longer ones.
    head.put_u32(u32::try_from(length).unwrap_or(u32::MAX));
    head.freeze()
}

/// The length of the prefix of a message.
pub(super) const HEAD_BYTES: usize = HEAD;
