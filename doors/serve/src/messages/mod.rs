//! The messages of the gRPC service, and their encoding and decoding.

pub(crate) mod codec;
pub(crate) mod wire;

/// The messages of the protocol, its client and its server, generated from `schema/open_inference.proto`.
#[allow(missing_docs, clippy::all, clippy::indexing_slicing, clippy::unwrap_used, reason = "generated")]
#[allow(unreachable_pub, rustdoc::all, reason = "generated")]
#[rustfmt::skip]
pub mod inference;
