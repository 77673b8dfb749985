//! Counts the bytes of gRPC requests as they arrive, before the requests are decoded.

use super::frames::Frames;
use super::packed::Packed;
use super::{SMALL, infer};
use crate::compression::Coding;
use crate::held_bytes::{HeldAnswer, Lease};
use crate::infer::Shared;
use crate::metrics::Protocol;
use crate::refusal::{Refusal, RefusalKind};
use axum::http::{HeaderValue, Request, Response};
use bytes::{Buf, Bytes};
use http_body::{Body as HttpBody, Frame, SizeHint};
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tonic::Status;
use tonic::body::Body;
use tonic::server::NamedService;
use tower_service::Service;

/// The lease of a request's bytes, until its body is dropped. Used for all methods except `ModelInfer`.
#[derive(Clone)]
pub(super) struct Held(Arc<Lease>, Arc<Shared>);

impl Held {
    pub(super) fn grow(&self, bytes: usize) -> Result<(), Refusal> {
        let grown = self.0.grow(bytes);
        grown.inspect_err(|_| self.1.metrics.others.count(Protocol::Grpc, Some(RefusalKind::Busy)))
    }
}

/// A service that counts the bytes of its requests, and ends requests that do not arrive within the timeout.
#[derive(Clone)]
pub(super) struct HoldBodies<S> {
    inner: S,
    shared: Arc<Shared>,
}

impl<S> HoldBodies<S> {
    pub(super) fn new(inner: S, shared: Arc<Shared>) -> HoldBodies<S> {
        HoldBodies { inner, shared }
    }
}

impl<S: NamedService> NamedService for HoldBodies<S> {
    const NAME: &'static str = S::NAME;
}

impl<S> Service<Request<Body>> for HoldBodies<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let (mut head, body) = request.into_parts();
        if head.uri.path() == infer::PATH {
            let shared = self.shared.clone();
            return Box::pin(async move { Ok(infer::call(shared, head, body).await) });
        }
        let held = Held(Arc::new(self.shared.held_bytes.lease()), self.shared.clone());
        if let Some(what) = absent(head.uri.path()) {
            self.shared.metrics.others.count(Protocol::Grpc, Some(RefusalKind::Absent));
            return Box::pin(async move { Ok(Status::from(Refusal::Absent { what }).into_http()) });
        }
        // Other codings stay in the header, so that tonic refuses them.
        let coding = head.headers.get(CODING).and_then(|coding| Coding::named(coding.to_str().ok()?));
        if coding.is_some() {
            head.headers.remove(CODING);
        }
        let body = Body::new(BoundedBody {
            body,
            frames: Frames::new(SMALL.min(self.shared.request_bytes), coding),
            held,
            any: false,
        });
        let answer = self.inner.call(Request::from_parts(head, body));
        // Adds a margin, because the deadline counts from the end of the body, and the answer arrives a little after the deadline.
        let longest = 2 * self.shared.timeout + Duration::from_secs(1);
        Box::pin(async move {
            match tokio::time::timeout(longest, answer).await {
                Ok(answer) => answer.map(|answer| packed(answer, coding)),
                Err(_) => Ok(Status::from(Refusal::Deadline).into_http()),
            }
        })
    }
}

/// The header that names the compression of messages.
pub(super) const CODING: &str = "grpc-encoding";

/// Compresses an answer only if its request was compressed. Most clients announce that they accept compression, but few need it.
fn packed(answer: Response<Body>, coding: Option<Coding>) -> Response<Body> {
    // An error has no message to compress.
    let Some(coding) = coding.filter(|_| !answer.headers().contains_key("grpc-status")) else {
        return answer;
    };
    let (mut head, body) = answer.into_parts();
    head.headers.insert(CODING, HeaderValue::from_static(coding.name()));
    let held = head.extensions.get::<HeldAnswer>().cloned();
    Response::from_parts(head, Body::new(Packed::new(body, coding, held)))
}

/// Describes a method of Triton's protocol that this server does not have. Returns `None` for other methods.
fn absent(path: &str) -> Option<&'static str> {
    let method = path.strip_prefix("/inference.GRPCInferenceService/")?;
    match method {
        "ModelStreamInfer" => Some("streams of requests; call `ModelInfer` for each"),
        "TraceSetting" => Some("settings of traces"),
        "LogSettings" => Some("settings of its log that clients change"),
        _ if method.contains("SharedMemory") => Some("shared memory"),
        _ => None,
    }
}

/// A body that counts its bytes as they arrive, and limits its messages.
struct BoundedBody {
    body: Body,
    frames: Frames,
    held: Held,
    /// Whether any byte arrived.
    any: bool,
}

impl HttpBody for BoundedBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = &mut *self;
        loop {
            if let Some(bytes) = ready!(this.frames.poll(context, &this.held)) {
                return Poll::Ready(Some(bytes.map(Frame::data)));
            }
            let frame = ready!(Pin::new(&mut this.body).poll_frame(context));
            match frame {
                Some(Ok(frame)) => {
                    let data = match frame.into_data() {
                        Ok(data) => data,
                        Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
                    };
                    this.any |= data.has_remaining();
                    let taken = this.held.grow(data.len()).and_then(|()| this.frames.push(data, &this.held));
                    if let Err(refused) = taken {
                        return Poll::Ready(Some(Err(refused.into())));
                    }
                }
                None if !this.any => {
                    this.any = true;
                    return Poll::Ready(Some(Err(Refusal::Messages { got: "no" }.into())));
                }
                other => return Poll::Ready(other),
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.any && self.frames.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}
