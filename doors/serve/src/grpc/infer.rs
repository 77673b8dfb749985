//! Answers `ModelInfer` calls, whose messages may be large.
//!
//! tonic would decode messages on the network threads, before it knows their model. Here a message stays encoded while it arrives. Then a
//! thread that may block decompresses, counts and decodes it: first the names, which are checked against the model, then the elements. The
//! same thread encodes the answer.

use super::SMALL;
use super::contents;
use super::frames::{HEAD_BYTES, head as head_of};
use super::held::CODING;
use crate::compression::{self, Coding};
use crate::connections::Connection;
use crate::held_bytes::{HeldAnswer, Lease};
use crate::infer::{self, Ask, Counted, Shared};
use crate::log::Noted;
use crate::messages::inference::{InferParameter, infer_parameter::ParameterChoice};
use crate::messages::wire::{self, InferRequest};
use crate::metrics::Protocol;
use crate::model::Model;
use crate::parameters::{OfOutput, OfRequest, Parameter};
use crate::refusal::{Refusal, shown};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Response, header};
use bytes::{Buf, Bytes, BytesMut};
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::BodyExt;
use prost::Message;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tonic::body::Body;
use tonic::{Code, Status};

/// The path of the method.
pub(super) const PATH: &str = "/inference.GRPCInferenceService/ModelInfer";

/// Answers a `ModelInfer` call.
pub(super) async fn call(shared: Arc<Shared>, head: Parts, body: Body) -> Response<Body> {
    let mut counted = Counted::new(&shared, Protocol::Grpc);
    let answered = match coding_of(&head.headers) {
        Ok(coding) => answered(&shared, &mut counted, &head, coding, body).await,
        Err(status) => return status.into_http(),
    };
    match counted.end(answered) {
        Ok(response) => response,
        Err(refusal) => Status::from(refusal).into_http(),
    }
}

/// Returns the coding of compressed messages. Returns `None` if messages are not compressed.
fn coding_of(headers: &HeaderMap) -> Result<Option<Coding>, Status> {
    let Some(given) = headers.get(CODING).filter(|given| *given != "identity") else { return Ok(None) };
    let text = given.to_str().unwrap_or("no text");
    Coding::named(text).map(Some).ok_or_else(|| {
        // The gRPC specification of compression requires this code, and the list of supported codings.
        let mut status = Status::new(Code::Unimplemented, Refusal::Encoding { encoding: shown(text) }.text());
        let known = tonic::metadata::MetadataValue::from_static("identity,gzip,deflate");
        status.metadata_mut().insert("grpc-accept-encoding", known);
        status
    })
}

async fn answered(
    shared: &Arc<Shared>,
    counted: &mut Counted<'_>,
    head: &Parts,
    coding: Option<Coding>,
    body: Body,
) -> Result<Response<Body>, Refusal> {
    if !shared.is_open() {
        return Err(Refusal::ShuttingDown);
    }
    let (start, lease) = (counted.start(), shared.held_bytes.lease());
    let mut deadline = start + shared.timeout;
    if let Some(timeout) = timeout_of(&head.headers)? {
        deadline = deadline.min(start + timeout);
    }
    let limit = shared.request_bytes;
    let reading = message(body, limit, &lease);
    let reading = tokio::time::timeout_at(deadline.into(), reading).await;
    let (packed, message) = reading.map_err(|_| Refusal::Deadline)??;
    let coding_of_message = match (packed, coding) {
        (true, None) => return Err(Refusal::Packing),
        (packed, coding) => coding.filter(|_| packed),
    };
    let connection = head.extensions.get::<Arc<Connection>>();
    let connection = connection.ok_or(Refusal::Internal { what: "a request came past its connection" })?;
    let computing = connection.computing();
    // The decompressed size is unknown, so the message counts as large.
    let size = if coding_of_message.is_some() { usize::MAX } else { message.len() };
    let decode = move || {
        let message = match coding_of_message {
            Some(coding) => compression::unpack(coding, &message, limit, |bytes| lease.grow(bytes))?,
            None => message,
        };
        lease.grow(wire::count_request(&message)?)?;
        let size = message.len();
        let request = InferRequest::decode(message).map_err(|error| Refusal::Protobuf(Some(error)))?;
        Ok((request, lease, size))
    };
    let (request, lease, size) = infer::convert(size, deadline, decode).await?;
    let model = shared.repository.model(&request.model_name, &request.model_version)?;
    counted.of(&model);
    let noted = head.extensions.get::<Arc<Noted>>().cloned();
    if let Some(noted) = &noted {
        noted.note(&model.name, Some(request.id.as_str()).filter(|id| !id.is_empty()));
    }
    let of = model.clone();
    let read = move || read(&of, request, noted, start, deadline, lease);
    let (ask, form) = infer::convert(size, deadline, read).await?;
    let (deadline, wanted) = (ask.deadline, ask.wanted.clone());
    let results = infer::ask(shared, &model, ask).await?;
    let (size, mut held) = infer::hold(shared, &results)?;
    let of = model.clone();
    let write = move || {
        let AnswerFormat { id, raw, classes } = form;
        let answer = contents::write(&of, id, raw, &wanted, &results, &classes, &held)?;
        let length = answer.encoded_len();
        // A message length has 32 bits, so clients refuse longer messages.
        u32::try_from(length).map_err(|_| Refusal::NoRoom { held: length, limit: u32::MAX as usize })?;
        held.grow(HEAD_BYTES + length)?;
        let mut message = BytesMut::with_capacity(HEAD_BYTES + length);
        message.extend_from_slice(&head_of(false, length));
        let what = "a buffer of gRPC did not grow";
        answer.encode(&mut message).map_err(|_| Refusal::Internal { what })?;
        drop((answer, results));
        let mut message = message.freeze();
        // An answer is compressed only if its request was. Most clients announce that they accept compression, but few need it.
        if let Some(coding) = coding.filter(|_| length >= compression::SMALL) {
            message.advance(HEAD_BYTES);
            let packed = compression::pack(coding, [&*message].into_iter(), |bytes| held.grow(bytes))?;
            message = [&*head_of(true, packed.len()), &*packed].concat().into();
        }
        let length = message.len();
        held.keep(length);
        Ok((message, HeldAnswer::new(held, length)))
    };
    let (message, held) = infer::convert(size, deadline, write).await?;
    drop(computing);
    let mut response = Response::new(Body::new(Answer { message: Some(message), ended: false }));
    let grpc = HeaderValue::from_static("application/grpc");
    response.headers_mut().insert(header::CONTENT_TYPE, grpc);
    if let Some(coding) = coding {
        response.headers_mut().insert(CODING, HeaderValue::from_static(coding.name()));
    }
    response.extensions_mut().insert(held);
    Ok(response)
}

/// The format of an answer.
struct AnswerFormat {
    id: String,
    /// Whether the elements are raw bytes.
    raw: bool,
    /// For each output, the number of classes to answer instead of the output.
    classes: Vec<Option<usize>>,
}

/// Checks a request against its model, and reads its elements.
fn read(
    of: &Model,
    request: InferRequest,
    noted: Option<Arc<Noted>>,
    start: Instant,
    deadline: Instant,
    lease: Lease,
) -> Result<(Ask, AnswerFormat), Refusal> {
    let raw = request.inputs.iter().all(|input| input.contents.is_none());
    let mut of_request = OfRequest::default();
    for (name, value) in &request.parameters {
        of_request.read(name, parameter(value))?;
    }
    let deadline = of_request.timeout.map_or(deadline, |timeout| deadline.min(start + timeout));
    let inputs = contents::read(of, &request, &lease)?;
    if let Some(warning) = noted.and_then(|noted| Some((noted, of.contradicted(&inputs)?))) {
        warning.0.warn(&warning.1);
    }
    let names = request.outputs.iter().map(|output| output.name.as_str());
    let wanted = of.wanted(names)?;
    let mut classes = vec![None; wanted.len()];
    for (output, classes) in request.outputs.iter().zip(&mut classes) {
        let mut of_output = OfOutput::default();
        for (name, value) in &output.parameters {
            of_output.read(&output.name, name, parameter(value))?;
        }
        *classes = of_output.classes;
    }
    Ok((Ask { inputs, wanted, deadline, lease }, AnswerFormat { id: request.id, raw, classes }))
}

/// Reads the only message of a call, and counts its bytes as they arrive. Returns whether the message is compressed.
async fn message(mut body: Body, limit: usize, lease: &Lease) -> Result<(bool, Bytes), Refusal> {
    let (mut head, mut length) = (BytesMut::new(), None);
    let mut message = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else { return Err(Refusal::Body) };
        let Ok(mut data) = frame.into_data() else { continue };
        if length.is_none() {
            head.extend_from_slice(&data.split_to(data.len().min(HEAD_BYTES - head.len())));
            if head.len() < HEAD_BYTES {
                continue;
            }
            let mut rest: &[u8] = &head;
            let (_flag, claimed) = (rest.get_u8(), rest.get_u32() as usize);
            if claimed > limit {
                return Err(Refusal::TooLarge { limit });
            }
            // Reserves little, because the claimed length may be false. The buffer grows as bytes arrive.
            message.reserve(claimed.min(SMALL));
            length = Some(claimed);
        }
        if data.len() > length.unwrap_or(0) - message.len() {
            return Err(Refusal::Messages { got: "several" });
        }
        lease.grow(data.len())?;
        message.extend_from_slice(&data);
    }
    match (head.first(), length) {
        (None, _) => Err(Refusal::Messages { got: "no" }),
        (Some(flag @ 0..=1), Some(length)) if length == message.len() => Ok((*flag == 1, message.freeze())),
        _ => Err(Refusal::Body),
    }
}

/// The body of an answer: its message, followed by the trailers with the status.
struct Answer {
    message: Option<Bytes>,
    ended: bool,
}

impl HttpBody for Answer {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if let Some(message) = self.message.take() {
            return Poll::Ready(Some(Ok(Frame::data(message))));
        }
        if std::mem::replace(&mut self.ended, true) {
            return Poll::Ready(None);
        }
        let mut trailers = HeaderMap::new();
        trailers.insert("grpc-status", HeaderValue::from_static("0"));
        Poll::Ready(Some(Ok(Frame::trailers(trailers))))
    }

    fn is_end_stream(&self) -> bool {
        self.ended
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.message.as_ref().map_or(0, Bytes::len) as u64)
    }
}

fn parameter(value: &InferParameter) -> Parameter {
    match &value.parameter_choice {
        Some(ParameterChoice::BoolParam(value)) => Parameter::Bool(*value),
        Some(ParameterChoice::Uint64Param(number)) => Parameter::Unsigned(*number),
        Some(ParameterChoice::Int64Param(number)) => {
            u64::try_from(*number).map_or(Parameter::Other, Parameter::Unsigned)
        }
        Some(ParameterChoice::StringParam(_)) => Parameter::Text,
        Some(ParameterChoice::DoubleParam(_)) | None => Parameter::Other,
    }
}

/// Parses the client's timeout: up to eight digits and a unit.
fn timeout_of(metadata: &HeaderMap) -> Result<Option<Duration>, Refusal> {
    let Some(value) = metadata.get("grpc-timeout") else { return Ok(None) };
    let text = value.to_str().unwrap_or("no text");
    let wrong = || Refusal::Header {
        name: "grpc-timeout",
        value: shown(text),
        expected: "up to eight digits and one of H, M, S, m, u, n",
    };
    let (digits, unit) = text.split_at_checked(text.len().saturating_sub(1)).ok_or_else(wrong)?;
    let valid = (1..=8).contains(&digits.len()) && digits.bytes().all(|digit| digit.is_ascii_digit());
    let number: u64 = digits.parse().ok().filter(|_| valid).ok_or_else(wrong)?;
    Ok(Some(match unit {
        "H" => Duration::from_secs(3600 * number),
        "M" => Duration::from_secs(60 * number),
        "S" => Duration::from_secs(number),
        "m" => Duration::from_millis(number),
        "u" => Duration::from_micros(number),
        "n" => Duration::from_nanos(number),
        _ => return Err(wrong()),
    }))
}
