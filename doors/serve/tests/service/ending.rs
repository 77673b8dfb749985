//! Tests the shutdown of a server, as seen by clients that request its readiness.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use crate::common;

use bb_serve::Server;
use bb_serve::protocol::{ServerLiveRequest, ServerReadyRequest};
use common::*;
use serde_json::json;
use std::io::{BufReader, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

fn count(to: i64) -> serde_json::Value {
    json!({"inputs": [{"name": "n", "datatype": "INT64", "shape": [], "data": [to]}]})
}

#[test]
fn while_it_ends_it_lives_and_is_not_ready() {
    let mut config = config(vec![made("count", &counting())]);
    // The time suffices for the requests below on a busy machine.
    config.grace = Duration::from_secs(10);
    config.limits.iterations = 1_000_000_000;
    let server = Server::start(config).unwrap();
    let (http, grpc) = (server.http(), server.grpc());
    let running = std::thread::spawn(move || post(http, "/v2/models/count/infer", &count(1_000_000_000)));
    while metric(&server, "bb_queue_seconds_count{model=\"count\"}") < 1.0 {
        std::thread::sleep(Duration::from_millis(5));
    }
    let ending = std::thread::spawn(move || server.shut_down());
    let until = Instant::now() + Duration::from_secs(10);
    while get(http, "/v2/health/ready").status != 503 {
        assert!(Instant::now() < until, "it says that it is ready");
    }
    assert_eq!(get(http, "/v2/health/live").status, 200);
    assert_eq!(get(http, "/v2/models/count/ready").status, 503);
    let refused = post(http, "/v2/models/count/infer", &count(1));
    assert_eq!(refused.status, 503, "{}", refused.text());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut client = Client::new(channel(grpc).await);
        assert!(client.server_live(ServerLiveRequest {}).await.unwrap().into_inner().live);
        assert!(!client.server_ready(ServerReadyRequest {}).await.unwrap().into_inner().ready);
    });
    assert!(!ending.join().unwrap().finished, "the run takes longer");
    assert_eq!(running.join().unwrap().status, 503);
    assert!(TcpStream::connect(http).is_err());
}

#[test]
fn a_request_on_a_connection_that_was_opened_before_the_end_is_answered() {
    let server = Server::start(config(vec![made("count", &counting())])).unwrap();
    let http = server.http();
    assert_eq!(get(http, "/v2/health/ready").status, 200);
    let mut stream = TcpStream::connect(http).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    // The server accepts the connection in this time. A connection that it has not accepted is closed at the end.
    std::thread::sleep(Duration::from_millis(200));
    let begin = Instant::now();
    let ending = std::thread::spawn(move || server.shut_down());
    std::thread::sleep(Duration::from_millis(100));
    let sent = stream.write_all(b"GET /v2/health/live HTTP/1.1\r\nhost: localhost\r\n\r\n");
    let answer = sent.ok().and_then(|()| read(&mut BufReader::new(&stream)));
    // After this time, a connection without a request is closed.
    if begin.elapsed() < Duration::from_millis(400) {
        let answer = answer.expect("an answer");
        assert_eq!((answer.status, answer.header("connection")), (200, Some("close")));
    }
    assert!(ending.join().unwrap().finished);
}

#[test]
fn requests_are_answered_until_nobody_sends_them_any_more() {
    let mut config = config(vec![made("count", &counting())]);
    config.drain = Duration::from_secs(4);
    let server = Server::start(config).unwrap();
    let http = server.http();
    let start = Instant::now();
    let ending = std::thread::spawn(move || server.shut_down());
    while get(http, "/v2/health/ready").status != 503 {
        assert!(start.elapsed() < Duration::from_secs(3), "it says that it is ready");
    }
    let answer = post(http, "/v2/models/count/infer", &count(5));
    assert_eq!(answer.json()["outputs"][0]["data"], json!([5]), "{}", answer.text());
    assert!(ending.join().unwrap().finished);
    assert!(start.elapsed() >= Duration::from_secs(4), "{:?}", start.elapsed());
}
