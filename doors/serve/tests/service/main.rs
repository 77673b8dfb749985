//! Tests the service over HTTP and gRPC: answers, batches, limits and malformed requests.

mod access;
mod batching;
mod bounds;
mod claims;
mod common;
mod compressed;
mod ending;
mod engines;
mod faults;
mod grpc;
mod health;
mod http;
mod malformed;
mod repository;
mod triton;
