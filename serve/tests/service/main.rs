//! The service, asked over HTTP and gRPC: answers, batches, bounds and malformed requests.

mod batching;
mod bounds;
mod common;
mod grpc;
mod http;
mod malformed;
