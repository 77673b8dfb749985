//! The service, asked over HTTP and gRPC: answers, batches, bounds and malformed requests.

mod access;
mod batching;
mod bounds;
mod common;
mod compressed;
mod ending;
mod grpc;
mod health;
mod http;
mod malformed;
mod repository;
mod triton;
