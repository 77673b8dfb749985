//! Tests the service with requests that are small to send and large to process. The server is a separate process with limited memory. A
//! request takes memory in proportion to its size and ends at its deadline, and other clients get answers at the same time.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

#[path = "../service/common/mod.rs"]
mod common;
#[path = "../../../../generate/tests/growth/table.rs"]
mod table;
#[path = "../../../../generate/tests/tiny/mod.rs"]
mod tiny;

mod doubled;
mod grpc;
mod language;
mod openai;
mod process;
mod siege;
mod tensors;
