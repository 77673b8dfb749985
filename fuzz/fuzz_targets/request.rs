//! Sends requests to a server with a language model and another model, which must answer each of them.
//!
//! The first byte selects the path, and whether the body is compressed; a path of `0xff` sends the bytes as they are.
#![no_main]

use bb_cpu as _;
use bb_serve::{Config, ModelConfig, Server};
use libfuzzer_sys::fuzz_target;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::LazyLock;
use std::time::Duration;

const PATHS: [&str; 8] = [
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/embeddings",
    "/v2/models/add/infer",
    "/v2/repository/index",
    "/v2/repository/models/add/load",
    "/v2/models/add",
    "/v1/models/tiny",
];

static SERVER: LazyLock<Server> = LazyLock::new(|| {
    let folder = std::env::temp_dir().join(format!("bb-fuzz-request-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for the models");
    let model = |name: &str, file: &str, bytes: &[u8]| {
        let path = folder.join(file);
        std::fs::write(&path, bytes).expect("a file for a model");
        ModelConfig { name: name.to_owned(), path, backend: "cpu(threads=1)".to_owned() }
    };
    let mut config = Config::default();
    config.models = vec![
        model("tiny", "tiny.gguf", include_bytes!("../seeds/gguf/llama-0.gguf")),
        model("add", "model.onnx", include_bytes!("../seeds/add.onnx")),
    ];
    (config.http, config.grpc) = (([127, 0, 0, 1], 0).into(), ([127, 0, 0, 1], 0).into());
    (config.timeout, config.context) = (Duration::from_secs(2), Some(64));
    (config.request_bytes, config.held_bytes) = (1 << 20, 8 << 20);
    Server::start(config).expect("the server starts")
});

fuzz_target!(|data: &[u8]| {
    let Some((&choice, body)) = data.split_first() else { return };
    let bytes = if choice == u8::MAX {
        body.to_vec()
    } else {
        let path = PATHS.get(usize::from(choice) % PATHS.len()).copied().unwrap_or("/");
        let encoding = if choice & 0x40 != 0 { "Content-Encoding: gzip\r\n" } else { "" };
        let method = if usize::from(choice) % PATHS.len() >= 6 { "GET" } else { "POST" };
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n\
             {encoding}Content-Length: {}\r\n\r\n",
            body.len()
        );
        [head.as_bytes(), body].concat()
    };
    let mut stream = TcpStream::connect(SERVER.http()).expect("the server listens");
    // Longer than the server takes for anything.
    stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a time-out");
    // The server may answer, and close, before it has read everything.
    let _ = stream.write_all(&bytes);
    let _ = stream.shutdown(std::net::Shutdown::Write);
    let mut answer = Vec::new();
    if let Err(error) = stream.read_to_end(&mut answer) {
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "no answer");
    }
    if choice != u8::MAX {
        assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 "), "no answer of HTTP");
        assert!(!answer.starts_with(b"HTTP/1.1 500"), "{}", String::from_utf8_lossy(&answer));
    }
});
