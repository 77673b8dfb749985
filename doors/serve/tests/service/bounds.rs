//! Tests the limits of queues, time and memory, the shutdown of a server, and models that cannot be served.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use crate::common;

use bb_ir::DataType;
use bb_ir::proto::type_proto;
use bb_serve::{Error, PortFault, Server};
use common::*;
use serde_json::json;
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

const PATH: &str = "/v2/models/count/infer";

/// A number of iterations that takes longer than any test waits, and that `Limits` allow.
const LONG: i64 = 1_000_000;

fn count(to: i64) -> serde_json::Value {
    json!({"inputs": [{"name": "n", "datatype": "INT64", "shape": [], "data": [to]}]})
}

fn counter(change: impl FnOnce(&mut bb_serve::Config)) -> Server {
    let mut config = config(vec![made("count", &counting())]);
    change(&mut config);
    Server::start(config).unwrap()
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(30);
    while !holds() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn send(to: SocketAddr, body: &serde_json::Value) -> TcpStream {
    let mut stream = TcpStream::connect(to).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream.write_all(&request(PATH, &[], body.to_string().as_bytes())).unwrap();
    stream
}

fn answer(from: TcpStream) -> Answer {
    read(&mut std::io::BufReader::new(from)).unwrap()
}

#[test]
fn the_counting_model_counts() {
    let server = counter(|_| ());
    let answer = post(server.http(), PATH, &count(1234));
    assert_eq!(
        answer.json()["outputs"][0],
        json!({"name": "count", "datatype": "INT64", "shape": [], "data": [1234]})
    );
}

#[test]
fn a_full_queue_refuses_and_clients_that_go_make_room() {
    let server = counter(|config| config.queue = 2);
    let running = send(server.http(), &count(LONG));
    until("a run starts", || metric(&server, "bb_queue_seconds_count{model=\"count\"}") == 1.0);
    let waiting: Vec<TcpStream> = (0..2).map(|_| send(server.http(), &count(LONG))).collect();
    until("two wait", || metric(&server, "bb_queue_length{model=\"count\"}") == 2.0);
    let start = Instant::now();
    let refused = post(server.http(), PATH, &count(1));
    assert_eq!((refused.status, refused.header("retry-after")), (429, Some("1")), "{}", refused.text());
    assert!(refused.text().contains("2 requests wait for model `count`"), "{}", refused.text());
    assert!(start.elapsed() < Duration::from_secs(2), "refused after {:?}", start.elapsed());
    // The waiting requests free their slots immediately, and a run without waiting clients ends.
    drop((running, waiting));
    let mut answer = refused;
    until("there is room", || {
        answer = post(server.http(), PATH, &count(3));
        answer.status != 429
    });
    assert_eq!(answer.json()["outputs"][0]["data"], json!([3]));
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    let cancelled = "bb_requests_total{model=\"count\",protocol=\"http\",outcome=\"cancelled\"}";
    until("the clients are counted", || metric(&server, cancelled) == 3.0);
}

#[test]
fn a_request_ends_at_its_deadline_and_so_does_its_run() {
    let server = counter(|config| config.timeout = Duration::from_millis(300));
    let start = Instant::now();
    let late = post(server.http(), PATH, &count(LONG));
    assert_eq!(late.status, 504, "{}", late.text());
    assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
    assert_eq!(post(server.http(), PATH, &count(5)).status, 200);
    let mut asked = count(LONG);
    asked["parameters"] = json!({"timeout": 20_000});
    let start = Instant::now();
    assert_eq!(post(server.http(), PATH, &asked).status, 504);
    assert!(start.elapsed() < Duration::from_millis(280), "{:?}", start.elapsed());
}

#[test]
fn a_body_that_does_not_come_ends_at_the_deadline() {
    let server = counter(|config| config.timeout = Duration::from_millis(200));
    let mut stream = TcpStream::connect(server.http()).unwrap();
    stream
        .write_all(
            format!("POST {PATH} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\n{{").as_bytes(),
        )
        .unwrap();
    assert_eq!(answer(stream).status, 504);
}

#[test]
fn requests_together_hold_no_more_than_allowed() {
    let server = counter(|config| {
        config.request_bytes = 100_000;
        config.held_bytes = 150_000;
    });
    let mut holding = TcpStream::connect(server.http()).unwrap();
    let head = format!("POST {PATH} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100000\r\n\r\n");
    holding.write_all(&[head.as_bytes(), &[b' '; 90_000]].concat()).unwrap();
    until("the bytes came", || metric(&server, "bb_held_bytes") >= 90_000.0);
    let spaces = request(PATH, &[("connection", "close")], &[b' '; 90_000]);
    let refused = raw(server.http(), &spaces).unwrap();
    assert_eq!(refused.status, 429, "{}", refused.text());
    drop(holding);
    until("the bytes are given back", || metric(&server, "bb_held_bytes") == 0.0);
    assert_eq!(raw(server.http(), &spaces).unwrap().status, 400);
}

#[test]
fn a_shutdown_answers_what_was_accepted() {
    let server = counter(|_| ());
    let http = server.http();
    let requests: Vec<TcpStream> = (0..10).map(|_| send(http, &count(20_000))).collect();
    until("all came", || {
        let begun = metric(&server, "bb_queue_seconds_count{model=\"count\"}");
        begun + metric(&server, "bb_queue_length{model=\"count\"}") >= 10.0
    });
    let stopping = std::thread::spawn(move || server.shut_down());
    for request in requests {
        let answer = answer(request);
        assert_eq!(answer.json()["outputs"][0]["data"], json!([20_000]), "{}", answer.text());
    }
    assert!(stopping.join().unwrap().finished);
    assert!(TcpStream::connect(http).is_err());
}

#[test]
fn a_shutdown_ends_in_time_and_answers_the_rest_with_an_error() {
    let server = counter(|config| config.grace = Duration::from_millis(300));
    let requests: Vec<TcpStream> = (0..3).map(|_| send(server.http(), &count(LONG))).collect();
    until("they came", || metric(&server, "bb_queue_length{model=\"count\"}") == 2.0);
    let start = Instant::now();
    assert!(!server.shut_down().finished);
    assert!(start.elapsed() < Duration::from_secs(4), "{:?}", start.elapsed());
    for request in requests {
        let answer = answer(request);
        assert_eq!(answer.status, 503, "{}", answer.text());
    }
}

#[test]
fn peers_that_stay_silent_do_not_make_a_shutdown_fail() {
    let server = counter(|config| config.grace = Duration::from_millis(300));
    let mut begun = TcpStream::connect(server.http()).unwrap();
    begun.write_all(b"GET /v2/health/li").unwrap();
    let nothing = TcpStream::connect(server.http()).unwrap();
    let by_grpc = TcpStream::connect(server.grpc()).unwrap();
    assert_eq!(post(server.http(), PATH, &count(1)).status, 200, "others are answered");
    let start = Instant::now();
    assert!(server.shut_down().finished, "all that was asked was answered");
    assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
    drop((begun, nothing, by_grpc));
}

#[test]
fn values_beyond_the_limits_are_refused() {
    let mut config = config(vec![made("double", &double())]);
    config.limits.value_bytes = 1000;
    let server = Server::start(config).unwrap();
    let ask = |n: usize| {
        let input = json!({"name": "x", "datatype": "FP32", "shape": [n, 1], "data": vec![1; n]});
        post(server.http(), "/v2/models/double/infer", &json!({"inputs": [input]}))
    };
    assert_eq!(ask(200).status, 200);
    let refused = ask(300);
    assert_eq!(refused.status, 500);
    assert!(refused.text().contains("1000"), "{}", refused.text());
}

#[test]
fn several_models_run_on_several_backends() {
    let mut other = made("other", &double());
    other.backend = "reference".to_owned();
    let server = start(vec![made("double", &double()), other]);
    let input = json!({"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 1], "data": [4]}]});
    for (model, platform) in [("double", "bb_cpu"), ("other", "bb_reference")] {
        assert_eq!(get(server.http(), &format!("/v2/models/{model}")).json()["platform"], platform);
        let answer = post(server.http(), &format!("/v2/models/{model}/infer"), &input);
        assert_eq!(answer.json()["outputs"][0]["data"], json!([8.0]));
    }
}

#[test]
fn models_that_the_protocol_cannot_describe_are_refused_at_start() {
    let refuse = |name: &str, input| {
        let output = tensor("y", DataType::F32, &[]);
        let constant = node("Constant", &[], &["y"], vec![float("value_float")]);
        Server::start(config(vec![made(name, &model(graph(vec![input], vec![constant], vec![output])))]))
    };
    let element = tensor("", DataType::F32, &["n"]).r#type.unwrap();
    let sequence = type_proto::Sequence { elem_type: Some(Box::new(element)) };
    let error =
        refuse("sequence", typed("x", type_proto::Value::SequenceType(Box::new(sequence)))).unwrap_err();
    assert!(matches!(error, Error::Port { fault: PortFault::Kind, .. }), "{error}");
    assert!(error.to_string().contains("input `x`"), "{error}");
    let error = refuse("complex", tensor("x", DataType::C64, &["n"])).unwrap_err();
    assert!(matches!(error, Error::Port { fault: PortFault::DataType, .. }), "{error}");
    let unranked = type_proto::Tensor { elem_type: Some(DataType::F32.to_onnx()), shape: None };
    let error = refuse("unranked", typed("x", type_proto::Value::TensorType(unranked))).unwrap_err();
    assert!(matches!(error, Error::Port { fault: PortFault::Rank, .. }), "{error}");
}

fn float(name: &str) -> bb_ir::proto::AttributeProto {
    let r#type = Some(bb_ir::proto::attribute_proto::AttributeType::Float.into());
    bb_ir::proto::AttributeProto { name: Some(name.to_owned()), f: Some(1.0), r#type, ..Default::default() }
}

#[test]
fn false_settings_are_refused_at_start() {
    let start = |change: fn(&mut bb_serve::Config)| {
        let mut config = config(vec![made("double", &double())]);
        change(&mut config);
        Server::start(config).unwrap_err()
    };
    assert!(matches!(start(|config| config.models.clear()), Error::NoModel));
    assert!(matches!(start(|config| config.queue = 0), Error::Zero { name: "queue" }));
    let many = start(|config| config.workers = usize::MAX);
    assert!(matches!(many, Error::TooMany { name: "workers", got: usize::MAX, .. }), "{many}");
    assert!(matches!(start(|config| config.versions = 0), Error::Zero { name: "versions" }));
    assert!(matches!(start(|config| config.models[0].name = "..".to_owned()), Error::Name { .. }));
    assert!(matches!(start(|config| config.load.push("a".to_owned())), Error::NoRepository { .. }));
    assert!(matches!(start(|config| config.repository = Some("none".into())), Error::Repository { .. }));
    assert!(matches!(start(|config| config.held_bytes = 5), Error::Bytes { .. }));
    assert!(matches!(start(|config| config.models.extend_from_within(..)), Error::RepeatedModel { .. }));
    assert!(matches!(start(|config| config.models[0].name = "a/b".to_owned()), Error::Name { .. }));
    assert!(matches!(start(|config| config.models[0].path = "none".into()), Error::Load { .. }));
    assert!(matches!(start(|config| config.models[0].backend = "none".to_owned()), Error::Backend { .. }));
    let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut taken = config(vec![made("double", &double())]);
    taken.http = other.local_addr().unwrap();
    assert!(matches!(Server::start(taken), Err(Error::Listen { .. })));
}
