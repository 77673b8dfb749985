//! Counts the bytes of gRPC requests as they come, before they are decoded.

use super::inference::grpc_inference_service_server::SERVICE_NAME;
use crate::budget::Lease;
use crate::infer::Shared;
use crate::metrics::Protocol;
use crate::refusal::{Refusal, RefusalKind};
use axum::http::{Request, Response};
use bytes::{Buf, Bytes};
use http_body::{Body as HttpBody, Frame, SizeHint};
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tonic::Status;
use tonic::body::Body;
use tonic::server::NamedService;
use tower_service::Service;

/// The bytes that a request holds; the request takes them when it is decoded.
#[derive(Clone)]
pub(super) struct Held(Arc<Mutex<Option<Lease>>>, Arc<Shared>);

impl Held {
    /// Takes what is held. Bytes that come later would be counted for nobody, but a decoded request is complete.
    pub(super) fn take(&self) -> Lease {
        let lease = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        lease.unwrap_or_else(|| self.1.budget.lease())
    }

    fn grow(&self, bytes: usize) -> Result<(), Status> {
        let lease = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let grown = lease.as_ref().map_or(Ok(()), |lease| lease.grow(bytes));
        grown.map_err(|refusal| {
            self.1.metrics.others.count(Protocol::Grpc, Some(RefusalKind::Busy));
            refusal.into()
        })
    }
}

/// A service whose requests are counted, and end if they do not come within the time that a request has.
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

impl<S> NamedService for HoldBodies<S> {
    const NAME: &'static str = SERVICE_NAME;
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
        let held = Held(Arc::new(Mutex::new(Some(self.shared.budget.lease()))), self.shared.clone());
        let (mut head, body) = request.into_parts();
        head.extensions.insert(held.clone());
        let body = Body::new(Counted { body, held, any: false });
        let answer = self.inner.call(Request::from_parts(head, body));
        // An answer that comes at all comes a little after the deadline, which is counted from the end of the body.
        let longest = 2 * self.shared.timeout + Duration::from_secs(1);
        Box::pin(async move {
            match tokio::time::timeout(longest, answer).await {
                Ok(answer) => answer,
                Err(_) => Ok(Status::from(Refusal::Deadline).into_http()),
            }
        })
    }
}

/// A body whose bytes are held as they come.
struct Counted {
    body: Body,
    held: Held,
    /// Whether a byte came.
    any: bool,
}

impl HttpBody for Counted {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let frame = std::task::ready!(Pin::new(&mut self.body).poll_frame(context));
        if let Some(Ok(frame)) = &frame
            && let Some(data) = frame.data_ref()
        {
            self.any |= data.has_remaining();
            if let Err(refused) = self.held.grow(data.remaining()) {
                return Poll::Ready(Some(Err(refused)));
            }
        }
        if frame.is_none() && !self.any {
            self.any = true;
            return Poll::Ready(Some(Err(Refusal::Messages { got: "no" }.into())));
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.any && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
