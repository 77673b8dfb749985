//! Tests requests with tensors, and answers with tensors, at their deadlines.

use crate::common::{self, post, raw, read, request};
use crate::process::{Besieged, INFER, gzip};
use serde_json::{Value as Json, json};
use std::io::{BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

/// The maximum delay of an answer after the deadline, in a test build on a busy machine.
const LATE: Duration = Duration::from_secs(3);

fn input(n: usize) -> Json {
    json!({"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, n], "data": vec![1; n]}]})
}

#[test]
fn an_answer_that_takes_too_long_to_write_ends_at_the_deadline() {
    let server = Besieged::start(1.0);
    let zeros = |n: usize| json!({"inputs": [{"name": "n", "datatype": "INT64", "shape": [1], "data": [n]}]});
    assert_eq!(
        post(server.http, "/v2/models/zeros/infer", &zeros(4)).json()["outputs"][0]["data"],
        json!([0.0, 0.0, 0.0, 0.0])
    );
    for accepted in ["identity", "gzip"] {
        let start = Instant::now();
        let body = zeros(24 << 20).to_string();
        let headers = [("connection", "close"), ("accept-encoding", accepted)];
        let answer = raw(server.http, &request("/v2/models/zeros/infer", &headers, body.as_bytes())).unwrap();
        assert_eq!(answer.status, 504, "{accepted}");
        assert!(start.elapsed() < server.timeout + LATE, "{accepted}: {:?}", start.elapsed());
    }
    server.rests(Duration::from_secs(10));
}

#[test]
fn empty_members_of_gzip_end_at_the_deadline() {
    let server = Besieged::start(2.0);
    for (path, member) in
        [(INFER, gzip(b"")), ("/v1/completions", gzip(b"")), (INFER, [gzip(b""), gzip(b" ")].concat())]
    {
        let body = member.repeat((48 << 20) / member.len());
        let start = Instant::now();
        let headers = [("connection", "close"), ("content-encoding", "gzip")];
        let answer = raw(server.http, &request(path, &headers, &body)).unwrap();
        assert!([400, 504].contains(&answer.status), "{path}: {}", answer.text());
        assert!(start.elapsed() < server.timeout + LATE, "{path}: {:?}", start.elapsed());
    }
    // Deflate blocks that decompress to nothing: three bits, and a length of zero after the next byte boundary.
    let empty = [0, 0, 0, 0xff, 0xff].repeat((48 << 20) / 5);
    let start = Instant::now();
    let headers = [("connection", "close"), ("content-encoding", "deflate")];
    let answer = raw(server.http, &request(INFER, &headers, &empty)).unwrap();
    assert!([400, 504].contains(&answer.status), "{}", answer.text());
    assert!(start.elapsed() < server.timeout + LATE, "{:?}", start.elapsed());
    server.rests(Duration::from_secs(10));
}

#[test]
fn a_client_that_ends_its_side_gets_its_answer() {
    let server = Besieged::start(10.0);
    let chat = json!({"model": "tiny", "messages": [{"role": "user", "content": "the 42"}], "max_tokens": 4});
    for (path, body) in [(INFER, input(2)), (INFER, input(40_000)), ("/v1/chat/completions", chat)] {
        let mut stream = TcpStream::connect(server.http).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.write_all(&request(path, &[], body.to_string().as_bytes())).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut from = BufReader::new(stream);
        let answer = read(&mut from).unwrap();
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        // The server sends nothing more, and closes the connection.
        let start = Instant::now();
        assert_eq!(from.read(&mut [0; 1]).unwrap(), 0, "{path}");
        assert!(start.elapsed() < Duration::from_secs(1), "{path}: {:?}", start.elapsed());
    }
    assert_eq!(common::get(server.http, "/v2/health/live").status, 200);
}
