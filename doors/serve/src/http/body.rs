//! Reads the body of a request within the limits and splits it into JSON and binary tensors. Writes the body of an answer.

use super::JSON_LENGTH;
use crate::cancel;
use crate::compression::Coding;
use crate::held_bytes::Lease;
use crate::refusal::{Refusal, shown};
use axum::body::Body;
use axum::http::{HeaderMap, header};
use bytes::{Bytes, BytesMut};
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::BodyExt;
use serde::Serialize;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

/// The maximum number of bytes that are allocated for a body before its bytes arrive, whatever length its headers claim.
const ROOM: usize = 64 << 10;

/// Parses the header with the length of the JSON part, which the extension for binary tensors defines.
pub(super) fn json_length(headers: &HeaderMap) -> Result<Option<usize>, Refusal> {
    let mut values = headers.get_all(JSON_LENGTH).iter();
    let Some(value) = values.next() else { return Ok(None) };
    let text = value.to_str().unwrap_or("no text");
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    let number = text.parse().ok().filter(|_| digits && values.next().is_none());
    number.map(Some).ok_or_else(|| Refusal::Header {
        name: "Inference-Header-Content-Length",
        value: shown(text),
        expected: "the number of bytes of the JSON, once",
    })
}

/// Refuses a body if its headers claim more than `limit` bytes. Returns how the body is compressed.
pub(super) fn check(headers: &HeaderMap, limit: usize) -> Result<Option<Coding>, Refusal> {
    let mut encodings = headers.get_all(header::CONTENT_ENCODING).iter();
    let coding = match encodings.next() {
        None => None,
        Some(encoding) if encoding == "identity" => None,
        Some(encoding) => {
            let text = encoding.to_str().unwrap_or("no text");
            let coding = Coding::named(text).filter(|_| encodings.next().is_none());
            Some(coding.ok_or_else(|| Refusal::Encoding { encoding: shown(text) })?)
        }
    };
    if declared(headers).is_some_and(|length| length > limit) {
        return Err(Refusal::TooLarge { limit });
    }
    Ok(coding)
}

fn declared(headers: &HeaderMap) -> Option<usize> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// Reads a request body into memory, and counts the bytes as used as they arrive.
pub(super) async fn read(
    mut body: Body,
    headers: &HeaderMap,
    limit: usize,
    lease: &Lease,
) -> Result<Bytes, Refusal> {
    let mut bytes = BytesMut::with_capacity(declared(headers).unwrap_or(0).min(ROOM));
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else { return Err(Refusal::Body) };
        let Ok(data) = frame.into_data() else { continue };
        if bytes.len() + data.len() > limit {
            return Err(Refusal::TooLarge { limit });
        }
        lease.grow(data.len())?;
        bytes.extend_from_slice(&data);
    }
    Ok(bytes.freeze())
}

/// Splits a body into its JSON part and its binary part.
pub(super) fn divide(body: &Bytes, json_length: Option<usize>) -> Result<(Bytes, Bytes), Refusal> {
    let length = json_length.unwrap_or(body.len());
    if length > body.len() {
        return Err(Refusal::JsonLength { length, body: body.len() });
    }
    Ok((body.slice(..length), body.slice(length..)))
}

/// The number of bytes of JSON between two checks of the deadline.
const STEP: usize = 64 << 10;

/// Writes JSON, and counts its bytes as used. Stops at the deadline.
pub(super) fn write(answer: &impl Serialize, lease: &Lease) -> Result<Bytes, Refusal> {
    let mut written = Written { bytes: Vec::new(), held: 0, checked: 0, lease, refused: None };
    let result = serde_json::to_writer(&mut written, answer);
    match (result, written.refused) {
        (_, Some(refused)) => Err(refused),
        (Err(error), None) => Err(Refusal::Json(error)),
        (Ok(()), None) => Ok(written.bytes.into()),
    }
}

struct Written<'a> {
    bytes: Vec<u8>,
    held: usize,
    /// The number of written bytes after which the deadline is checked next.
    checked: usize,
    lease: &'a Lease,
    refused: Option<Refusal>,
}

impl io::Write for Written<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let needed = self.bytes.len() + bytes.len();
        if needed > self.checked {
            self.checked = needed + STEP;
            if let Err(over) = cancel::check() {
                self.refused = Some(over);
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
        if needed > self.held {
            // A vector doubles its capacity when it grows, so twice the size is counted.
            let more = needed.max(2 * self.held).max(256) - self.held;
            if let Err(refused) = self.lease.grow(more) {
                self.refused = Some(refused);
                return Err(io::ErrorKind::OutOfMemory.into());
            }
            self.held += more;
            self.bytes.reserve_exact(self.held - self.bytes.len());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A body of several parts, which are sent without copying them into one buffer.
pub(super) struct Parts(VecDeque<Bytes>);

impl Parts {
    pub(super) fn new(mut parts: VecDeque<Bytes>) -> Parts {
        parts.retain(|part| !part.is_empty());
        Parts(parts)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.0.iter().map(|part| &**part)
    }

    pub(super) fn len(&self) -> usize {
        self.0.iter().map(Bytes::len).sum()
    }
}

impl HttpBody for Parts {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.pop_front().map(|part| Ok(Frame::data(part))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.len() as u64)
    }
}
