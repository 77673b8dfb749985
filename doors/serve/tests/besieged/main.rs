//! The service beside clients whose requests are small to send and large to read. The server is a process of its own, whose memory is
//! bounded. A request takes memory in proportion to its size, it ends at its deadline, and other clients are answered meanwhile.
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
