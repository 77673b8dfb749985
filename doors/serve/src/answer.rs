//! Sends answers to clients in parts, and counts their bytes as used until the client has read them.

use crate::connections::{Connection, InRequest};
use crate::held_bytes::HeldAnswer;
use crate::infer::Shared;
use crate::log::{LogLines, Noted, RequestLine};
use crate::metrics::Protocol;
use crate::refusal::Refusal;
use crate::{grpc, http};
use axum::Router;
use axum::body::Body;
use axum::http::{Request, Response};
use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use hyper::body::Incoming;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Instant;
use tokio::sync::watch;
use tower_service::Service;

/// The size of a part in bytes. HTTP libraries take a part as soon as they have room for some of it, so at most one part in their buffers
/// is no longer counted.
const PART: usize = 16 << 10;

/// The service that handles the requests of one connection.
#[derive(Clone)]
pub(crate) struct Answering {
    pub(crate) router: Router,
    pub(crate) connection: Arc<Connection>,
    pub(crate) protocol: Protocol,
    /// The local address of the connection.
    pub(crate) address: SocketAddr,
    pub(crate) shared: Arc<Shared>,
    pub(crate) log: Option<LogLines>,
    /// Whether the server is shutting down.
    pub(crate) stopping: watch::Receiver<bool>,
}

impl Answering {
    /// Creates the log line of a request, if there is a log.
    fn line(&self, request: &Request<Incoming>) -> Option<RequestLine> {
        Some(RequestLine {
            to: self.log.clone()?,
            metrics: self.shared.metrics.clone(),
            start: Instant::now(),
            client: self.connection.client(),
            protocol: self.protocol.name(),
            method: request.method().as_str().to_owned(),
            path: request.uri().path().to_owned(),
            noted: Arc::default(),
            status: None,
            bytes: 0,
            taken: false,
        })
    }
}

type Answered = Pin<Box<dyn Future<Output = Result<Response<AnswerBody>, Infallible>> + Send>>;

impl hyper::service::Service<Request<Incoming>> for Answering {
    type Response = Response<AnswerBody>;
    type Error = Infallible;
    type Future = Answered;

    fn call(&self, request: Request<Incoming>) -> Answered {
        let within = self.connection.request();
        let mut line = self.line(&request);
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(self.connection.clone());
        if let Some(line) = &line {
            request.extensions_mut().insert::<Arc<Noted>>(line.noted.clone());
        }
        let connection = self.connection.clone();
        let ends = connection.surplus || *self.stopping.borrow();
        let close = ends && self.protocol == Protocol::Http;
        let path = request.uri().path();
        let (is_health, is_open) = match self.protocol {
            Protocol::Http => (http::is_health(path), http::is_open(path)),
            Protocol::Grpc => (grpc::is_health(path), grpc::is_health(path)),
        };
        let token = self.shared.token.as_ref().filter(|_| !is_open);
        let (method, headers) = (request.method(), request.headers());
        let allowed = self.shared.browsers.check(self.address, method, request.uri(), headers);
        let refusal = match (allowed, token) {
            (Err(refusal), _) => Some(refusal),
            (Ok(()), Some(token)) if !token.is_in(headers) => Some(Refusal::NoToken),
            (Ok(()), _) => (self.connection.surplus && !is_health).then_some(Refusal::Connections),
        };
        // The routes are always ready, so `poll_ready` is not needed.
        let answer = match refusal {
            Some(refusal) => {
                if !matches!(refusal, Refusal::Connections) {
                    self.shared.metrics.others.count(self.protocol, Some(refusal.kind()));
                }
                Err(match self.protocol {
                    Protocol::Http => http::refused(path, refusal),
                    Protocol::Grpc => grpc::refused(refusal),
                })
            }
            None => Ok(self.router.clone().call(request)),
        };
        Box::pin(async move {
            let mut response = match answer {
                Ok(answer) => answer.await?,
                Err(refused) => refused,
            };
            if let Some(line) = &mut line {
                // gRPC writes the status of an error into the head of the answer.
                let code =
                    response.headers().get("grpc-status").and_then(|code| code.to_str().ok()?.parse().ok());
                let of_grpc = line.protocol == Protocol::Grpc.name();
                line.status =
                    Some(if of_grpc { code.unwrap_or(0) } else { response.status().as_u16().into() });
            }
            if close {
                let close = axum::http::HeaderValue::from_static("close");
                response.headers_mut().insert(axum::http::header::CONNECTION, close);
            }
            let held = response.extensions_mut().remove::<HeldAnswer>();
            Ok(response.map(|body| AnswerBody::new(body, connection, within, held, line)))
        })
    }
}

/// The body of an answer.
pub(crate) struct AnswerBody {
    body: Body,
    /// The part of the body's last frame that is not sent yet.
    rest: Bytes,
    number: u64,
    connection: Arc<Connection>,
    #[expect(dead_code, reason = "it is there to be dropped")]
    within: InRequest,
    /// The bytes of the answer that count as used, until the last of them is sent. Parts share the memory of the whole answer.
    held: Option<HeldAnswer>,
    /// The log line, which is written when the answer is read or dropped.
    line: Option<RequestLine>,
}

impl AnswerBody {
    fn new(
        body: Body,
        connection: Arc<Connection>,
        within: InRequest,
        held: Option<HeldAnswer>,
        line: Option<RequestLine>,
    ) -> AnswerBody {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        connection.asked(number);
        AnswerBody { body, rest: Bytes::new(), number, connection, within, held, line }
    }
}

impl HttpBody for AnswerBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = &mut *self;
        this.connection.asked(this.number);
        if this.rest.is_empty() {
            let Poll::Ready(frame) = Pin::new(&mut this.body).poll_frame(context) else {
                // The answer is not ready, so the peer waits for the server and must not count as slow.
                this.connection.ended(this.number);
                return Poll::Pending;
            };
            let frame = match frame {
                Some(Ok(frame)) => frame,
                other => return Poll::Ready(other),
            };
            match frame.into_data() {
                Ok(data) => this.rest = data,
                Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
            }
        }
        let part = this.rest.split_to(this.rest.len().min(PART));
        if let Some(line) = &mut this.line {
            line.bytes += part.len();
        }
        if let Some(held) = &mut this.held {
            held.bytes = held.bytes.saturating_sub(part.len());
        }
        this.held.take_if(|held| held.bytes == 0);
        Poll::Ready(Some(Ok(Frame::data(part))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (rest, mut hint) = (self.rest.len() as u64, self.body.size_hint());
        match hint.exact() {
            Some(exact) => hint.set_exact(exact.saturating_add(rest)),
            None => hint.set_lower(hint.lower().saturating_add(rest)),
        }
        hint
    }
}

impl Drop for AnswerBody {
    fn drop(&mut self) {
        self.connection.ended(self.number);
        let ended = self.is_end_stream();
        if let Some(line) = &mut self.line {
            line.taken = ended;
        }
    }
}
