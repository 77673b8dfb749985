//! Tests the service against malicious clients, which never read, send slowly, reset connections, pipeline requests and vanish. Their
//! memory is limited and counted, and honest clients always get answers.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

#[path = "service/common/mod.rs"]
mod common;

use bb_ir::DataType;
use bb_serve::protocol::grpc_inference_service_client::GrpcInferenceServiceClient as Client;
use bb_serve::protocol::model_infer_request::InferInputTensor;
use bb_serve::protocol::model_infer_request::InferRequestedOutputTensor;
use bb_serve::protocol::{InferTensorContents, ModelInferRequest, ServerLiveRequest};
use bb_serve::{Config, ModelConfig, Server};
use common::*;
use prost::Message;
use serde_json::json;
use std::io::{BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tonic::Code;
use tonic::transport::Endpoint;

/// The maximum time that an honest client waits for an answer during an attack.
const HONEST: Duration = Duration::from_secs(5);

/// Creates a model that returns the requested number of zeros, so a small request has a large answer.
fn zeros() -> ModelConfig {
    let n = tensor("n", DataType::I64, &["1"]);
    let y = tensor("y", DataType::F32, &["m"]);
    made("zeros", &model(graph(vec![n], vec![node("ConstantOfShape", &["n"], &["y"], vec![])], vec![y])))
}

/// A server whose test runs exclusively, because tests measure the memory of the process and the time of honest clients.
struct Alone {
    server: Server,
    /// The lock is released after the server has ended, because fields are dropped in their order.
    _turn: MutexGuard<'static, ()>,
}

impl Deref for Alone {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}

fn server(change: impl FnOnce(&mut Config)) -> Alone {
    static TURN: Mutex<()> = Mutex::new(());
    // A test that failed leaves nothing behind that this test reads, so a poisoned lock is used anyway.
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let mut config = config(vec![made("double", &double()), zeros(), made("count", &counting())]);
    change(&mut config);
    Alone { server: Server::start(config).unwrap(), _turn }
}

/// Returns a request whose answer has this number of bytes.
fn ask_for(bytes: usize) -> Vec<u8> {
    let input = json!({"name": "n", "datatype": "INT64", "shape": [1], "data": [bytes / 4]});
    let body = json!({"parameters": {"binary_data_output": true}, "inputs": [input]}).to_string();
    request("/v2/models/zeros/infer", &[], body.as_bytes())
}

fn honest(server: &Server) {
    let start = Instant::now();
    assert_eq!(get(server.http(), "/v2/health/ready").status, 200);
    let input = json!({"name": "x", "datatype": "FP32", "shape": [1, 2], "data": [1.5, -2]});
    let answer = post(server.http(), "/v2/models/double/infer", &json!({"inputs": [input]}));
    assert_eq!(answer.json()["outputs"][0]["data"], json!([3.0, -4.0]), "{}", answer.text());
    assert!(start.elapsed() < HONEST, "{:?}", start.elapsed());
}

fn until(what: &str, most: Duration, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + most;
    while !holds() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn closed(server: &Server, protocol: &str, reason: &str) -> f64 {
    metric(server, &format!("bb_connections_closed_total{{protocol=\"{protocol}\",reason=\"{reason}\"}}"))
}

/// Returns the resident memory of the process in bytes, or 0 if the system does not report it.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap_or(0) << 10
}

/// Asserts that the server closes a connection in this time, whatever it sent before.
fn ends(stream: &TcpStream, most: Duration) {
    assert!(ended(stream, most), "the connection is open");
}

/// Returns whether the server closes a connection in this time, whatever it sent before.
fn ended(mut stream: &TcpStream, most: Duration) -> bool {
    let end = Instant::now() + most;
    stream.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    let mut rest = [0; 1 << 16];
    while Instant::now() < end {
        match stream.read(&mut rest) {
            Ok(0) => return true,
            Err(error)
                if !matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) =>
            {
                return true;
            }
            _ => {}
        }
    }
    false
}

#[test]
fn answers_that_nobody_reads_are_counted_bounded_and_let_go() {
    const MIB: usize = 1 << 20;
    let server = server(|config| {
        config.timeout = Duration::from_secs(4);
        (config.request_bytes, config.held_bytes) = (MIB, 56 * MIB);
    });
    honest(&server);
    let before = resident();
    let mut unread: Vec<TcpStream> = Vec::new();
    for _ in 0..6 {
        let mut stream = TcpStream::connect(server.http()).unwrap();
        stream.write_all(&ask_for(24 * MIB)).unwrap();
        unread.push(stream);
    }
    until("an answer is held", HONEST, || metric(&server, "bb_held_bytes") >= (24 * MIB) as f64);
    let refused = || metric(&server, "bb_requests_total{model=\"zeros\",protocol=\"http\",outcome=\"busy\"}");
    let (mut most_held, mut most_resident) = (0.0f64, 0);
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(1) || refused() == 0.0 {
        honest(&server);
        most_held = most_held.max(metric(&server, "bb_held_bytes"));
        most_resident = most_resident.max(resident());
        assert!(start.elapsed() < Duration::from_secs(15), "there was room for all");
    }
    assert!(most_held <= (56 * MIB) as f64, "{most_held} bytes are held");
    // Memory that is not counted: an answer that is computed and then refused, and free memory that the allocator keeps.
    let grown = most_resident.saturating_sub(before);
    assert!(grown < 200 * MIB, "the process grew by {grown} bytes");
    until("all is given back", Duration::from_secs(12), || metric(&server, "bb_held_bytes") == 0.0);
    assert!(closed(&server, "http", "stalled") >= 1.0);
    honest(&server);
}

#[test]
fn a_slow_client_that_reads_gets_its_answer() {
    let server = server(|config| config.timeout = Duration::from_secs(3));
    let mut stream = TcpStream::connect(server.http()).unwrap();
    stream.write_all(&ask_for(24 << 20)).unwrap();
    // Reading the answer takes longer than the request timeout, but the client reads all the time.
    let (mut got, mut part) = (0, vec![0; 1 << 20]);
    let start = Instant::now();
    while got < 24 << 20 {
        std::thread::sleep(Duration::from_millis(160));
        let n = stream.read(&mut part).unwrap();
        assert!(got > 0 || part.starts_with(b"HTTP/1.1 200 "), "{}", String::from_utf8_lossy(&part[..n]));
        assert!(n > 0, "closed after {got} bytes and {:?}", start.elapsed());
        got += n;
    }
    assert_eq!(closed(&server, "http", "stalled"), 0.0);
}

#[test]
fn peers_that_pipeline_and_never_read_do_not_shut_others_out() {
    let server = server(|config| {
        (config.connections, config.timeout) = (3, Duration::from_secs(2));
    });
    let pipelined = "GET /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n".repeat(6000);
    let attackers: Vec<TcpStream> = (0..3).map(|_| TcpStream::connect(server.http()).unwrap()).collect();
    for mut stream in &attackers {
        stream.set_write_timeout(Some(Duration::from_millis(300))).unwrap();
        // The server reads no further requests while the peer does not read an answer.
        let _full = stream.write_all(pipelined.as_bytes());
    }
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(3) {
        assert_eq!(get(server.http(), "/v2/health/live").status, 200, "after {:?}", start.elapsed());
        std::thread::sleep(Duration::from_millis(50));
    }
    honest(&server);
    attackers.iter().for_each(|stream| ends(stream, Duration::from_secs(5)));
}

#[test]
fn idle_and_half_sent_connections_give_way() {
    let server = server(|config| config.connections = 8);
    let head = "GET /v2/health/live HTTP/1.1\r\nhost: localhost\r\n";
    let body = "POST /v2/models/double/infer HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000\r\n\r\n{";
    for sent in ["", head, body] {
        let held: Vec<TcpStream> = (0..16)
            .map(|_| {
                let mut stream = TcpStream::connect(server.http()).unwrap();
                // The connection may have given way already.
                let _closed = stream.write_all(sent.as_bytes());
                stream
            })
            .collect();
        let start = Instant::now();
        (0..4).for_each(|_| honest(&server));
        assert!(start.elapsed() < HONEST, "{:?} beside {sent:?}", start.elapsed());
        let by_grpc: Vec<TcpStream> = (0..16).map(|_| TcpStream::connect(server.grpc()).unwrap()).collect();
        live_by_grpc(&server).unwrap();
        drop((held, by_grpc));
    }
    assert!(closed(&server, "http", "gave_way") >= 24.0);
    assert_eq!(closed(&server, "http", "surplus"), 0.0);
}

fn live_by_grpc(server: &Server) -> Result<bool, tonic::Status> {
    by_grpc(server, async |mut client| {
        client.server_live(ServerLiveRequest {}).await.map(|answer| answer.into_inner().live)
    })
}

fn by_grpc<T>(server: &Server, test: impl AsyncFnOnce(Client<tonic::transport::Channel>) -> T) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let to = format!("http://{}", server.grpc());
    runtime.block_on(async {
        let channel = Endpoint::from_shared(to).unwrap().timeout(HONEST).connect().await.unwrap();
        test(Client::new(channel)).await
    })
}

/// A number of iterations that takes longer than a test waits.
const LONG: i64 = 1_000_000;

fn count(to: i64) -> serde_json::Value {
    json!({"inputs": [{"name": "n", "datatype": "INT64", "shape": [], "data": [to]}]})
}

/// Starts requests that compute until the test ends.
fn computing(server: &Server, connections: usize) -> Vec<TcpStream> {
    let body = count(LONG).to_string();
    let streams: Vec<TcpStream> = (0..connections)
        .map(|_| {
            let mut stream = TcpStream::connect(server.http()).unwrap();
            stream.write_all(&request("/v2/models/count/infer", &[], body.as_bytes())).unwrap();
            stream
        })
        .collect();
    // Waits until the requests compute. Before that, their connections would give way to the connections that request metrics.
    std::thread::sleep(Duration::from_millis(500));
    until("they compute or wait", HONEST, || {
        let begun = metric(server, "bb_queue_seconds_count{model=\"count\"}");
        begun + metric(server, "bb_queue_length{model=\"count\"}") >= connections as f64
    });
    streams
}

#[test]
fn surplus_connections_are_refused_and_health_is_answered() {
    let server = server(|config| config.connections = 2);
    let busy = computing(&server, 2);
    let start = Instant::now();
    assert_eq!(get(server.http(), "/v2/health/ready").status, 200);
    let input = json!({"name": "x", "datatype": "FP32", "shape": [1, 1], "data": [1]});
    let refused = post(server.http(), "/v2/models/double/infer", &json!({"inputs": [input]}));
    assert_eq!(refused.status, 503, "{}", refused.text());
    assert!(refused.text().contains("as many connections as it may"), "{}", refused.text());
    // With any number of connections, health requests are answered, and surplus connections are closed soon.
    let silent: Vec<TcpStream> = (0..40).map(|_| TcpStream::connect(server.http()).unwrap()).collect();
    assert_eq!(get(server.http(), "/v2/health/live").status, 200);
    assert!(start.elapsed() < HONEST, "{:?}", start.elapsed());
    ends(&silent[39], Duration::from_secs(4));
    drop((busy, silent));
    until("there is room again", HONEST, || get(server.http(), "/v2").status == 200);
    honest(&server);
}

#[test]
fn one_address_leaves_connections_to_others() {
    let server = server(|config| (config.connections, config.client_connections) = (8, 3));
    let busy = computing(&server, 3);
    assert_eq!(get(server.http(), "/v2").status, 503);
    let other = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        // On Linux, all addresses in 127/8 are local. On other systems, there may be no second address.
        socket.bind("127.0.0.2:0".parse().unwrap()).ok()?;
        let stream = socket.connect(server.http()).await.ok()?.into_std().ok()?;
        stream.set_nonblocking(false).ok()?;
        Some(stream)
    });
    if let Some(mut other) = other {
        other.write_all(b"GET /v2 HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").unwrap();
        assert_eq!(read(&mut BufReader::new(other)).unwrap().status, 200);
    }
    drop(busy);
}

#[test]
fn a_head_that_dribbles_ends_with_the_time_for_a_request() {
    let server = server(|config| config.timeout = Duration::from_millis(600));
    let mut stream = TcpStream::connect(server.http()).unwrap();
    let start = Instant::now();
    for byte in b"GET /v2/health/live HTTP/1.1\r\nhost: localhost:8xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
        .iter()
        .cycle()
    {
        if stream.write_all(&[*byte]).is_err() || start.elapsed() > Duration::from_secs(10) {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(start.elapsed() < Duration::from_secs(4), "{:?}", start.elapsed());
    honest(&server);
}

#[test]
fn dribblers_do_not_hold_the_end() {
    let server = server(|config| config.grace = Duration::from_secs(30));
    let streams: Vec<TcpStream> = (0..60).map(|_| TcpStream::connect(server.http()).unwrap()).collect();
    let body = b"POST /v2/models/double/infer HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000\r\n\r\n";
    streams.iter().take(10).for_each(|mut stream| stream.write_all(body).unwrap());
    honest(&server);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                for mut stream in &streams {
                    let _closed = stream.write_all(b"G");
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let start = Instant::now();
        let stopped = server.server.shut_down();
        done.store(true, Ordering::Relaxed);
        assert!(start.elapsed() < Duration::from_secs(4), "{:?}", start.elapsed());
        assert!(stopped.finished, "nothing was left to answer");
    });
}

#[test]
fn peers_that_reset_and_vanish_leave_nothing_behind() {
    let server = server(|_| ());
    for round in 0..60 {
        let mut stream = TcpStream::connect(server.http()).unwrap();
        match round % 4 {
            // Closing a socket with unread bytes resets the connection.
            0 => {
                stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
                stream.peek(&mut [0; 1]).unwrap();
            }
            1 => stream.write_all(&ask_for(8 << 20)).unwrap(),
            2 => stream
                .write_all(b"POST /v2/models/double/infer HTTP/1.1\r\ncontent-length: 99\r\n\r\n{")
                .unwrap(),
            _ => stream
                .write_all(&request("/v2/models/count/infer", &[], count(LONG).to_string().as_bytes()))
                .unwrap(),
        }
        drop(stream);
        if round % 20 == 19 {
            honest(&server);
        }
    }
    until("nothing is left", Duration::from_secs(15), || {
        metric(&server, "bb_held_bytes") == 0.0 && metric(&server, "bb_connections{protocol=\"http\"}") <= 2.0
    });
    honest(&server);
}

/// Returns an HTTP/2 frame of a client.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// Opens a connection with a window of 0, so that the server can send nothing.
fn without_window(to: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(to).unwrap();
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap();
    // Sets SETTINGS_INITIAL_WINDOW_SIZE to 0.
    stream.write_all(&frame(4, 0, 0, &[0, 4, 0, 0, 0, 0])).unwrap();
    stream
}

fn call(stream: &mut TcpStream, number: u32, message: &impl Message) {
    let mut headers = Vec::new();
    for (name, value) in [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", "/inference.GRPCInferenceService/ModelInfer"),
        (":authority", "localhost"),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
    ] {
        // A literal header field without indexing, whose name and value are not compressed.
        headers.push(0);
        for text in [name, value] {
            headers.push(u8::try_from(text.len()).unwrap());
            headers.extend(text.as_bytes());
        }
    }
    let message = message.encode_to_vec();
    let mut body = vec![0];
    body.extend(u32::try_from(message.len()).unwrap().to_be_bytes());
    body.extend(message);
    stream.write_all(&frame(1, 4, number, &headers)).unwrap();
    stream.write_all(&frame(0, 1, number, &body)).unwrap();
}

fn infer(model: &str, input: InferInputTensor) -> ModelInferRequest {
    ModelInferRequest { model_name: model.to_owned(), inputs: vec![input], ..Default::default() }
}

fn input(name: &str, datatype: &str, shape: &[i64], contents: InferTensorContents) -> InferInputTensor {
    let (name, datatype, contents) = (name.to_owned(), datatype.to_owned(), Some(contents));
    InferInputTensor { name, datatype, shape: shape.to_vec(), contents, ..Default::default() }
}

fn zeros_by_grpc(bytes: i64) -> ModelInferRequest {
    let contents = InferTensorContents { int64_contents: vec![bytes / 4], ..Default::default() };
    infer("zeros", input("n", "INT64", &[1], contents))
}

fn doubled_by_grpc(server: &Server) -> Result<Vec<f32>, tonic::Status> {
    let contents = InferTensorContents { fp32_contents: vec![1.5], ..Default::default() };
    let ask = infer("double", input("x", "FP32", &[1, 1], contents));
    let answer = by_grpc(server, async |mut client| client.model_infer(ask).await)?.into_inner();
    Ok(answer.outputs[0].contents.as_ref().unwrap().fp32_contents.clone())
}

#[test]
fn a_connection_of_grpc_without_a_window_is_bounded_and_let_go() {
    const MIB: i64 = 1 << 20;
    let server = server(|config| {
        config.timeout = Duration::from_secs(2);
        (config.request_bytes, config.held_bytes) = (1 << 20, 72 << 20);
    });
    let before = resident();
    let mut streams: Vec<TcpStream> = (0..2).map(|_| without_window(server.grpc())).collect();
    for stream in &mut streams {
        (0..10).for_each(|call_number| call(stream, 2 * call_number + 1, &zeros_by_grpc(16 * MIB)));
    }
    until("answers are held", HONEST, || metric(&server, "bb_held_bytes") >= (16 * MIB) as f64);
    let start = Instant::now();
    let mut most = 0.0f64;
    while start.elapsed() < Duration::from_millis(1200) {
        most = most.max(metric(&server, "bb_held_bytes"));
        assert_eq!(doubled_by_grpc(&server).unwrap(), [3.0]);
        honest(&server);
    }
    assert!(most <= (72 * MIB) as f64, "{most} bytes are held");
    assert!(resident().saturating_sub(before) < 200 << 20, "the process grew to {}", resident());
    until("all is given back", Duration::from_secs(8), || metric(&server, "bb_held_bytes") == 0.0);
    // All requests of the second client may have been refused.
    assert!(closed(&server, "grpc", "stalled") >= 1.0);
    // The order of the calls determines which of the clients had an answer to read, and so was disconnected.
    assert!(streams.iter().any(|stream| ended(stream, HONEST)));
    assert_eq!(doubled_by_grpc(&server).unwrap(), [3.0]);
}

#[test]
fn surplus_connections_of_grpc_are_unavailable_and_health_is_answered() {
    let server = server(|config| config.connections = 1);
    let body = InferTensorContents { int64_contents: vec![LONG], ..Default::default() };
    let mut busy = without_window(server.grpc());
    call(&mut busy, 1, &infer("count", input("n", "INT64", &[], body)));
    until("it computes", HONEST, || metric(&server, "bb_queue_seconds_count{model=\"count\"}") == 1.0);
    assert!(live_by_grpc(&server).unwrap());
    assert_eq!(doubled_by_grpc(&server).unwrap_err().code(), Code::Unavailable);
}

/// A codec that sends any number of messages in a call, which generated clients cannot do.
#[derive(Default)]
struct AnyNumber;

struct Plain<T>(std::marker::PhantomData<T>);

impl tonic::codec::Codec for AnyNumber {
    type Encode = ModelInferRequest;
    type Decode = bb_serve::protocol::ModelInferResponse;
    type Encoder = Plain<ModelInferRequest>;
    type Decoder = Plain<bb_serve::protocol::ModelInferResponse>;

    fn encoder(&mut self) -> Self::Encoder {
        Plain(std::marker::PhantomData)
    }

    fn decoder(&mut self) -> Self::Decoder {
        Plain(std::marker::PhantomData)
    }
}

impl<T: Message> tonic::codec::Encoder for Plain<T> {
    type Item = T;
    type Error = tonic::Status;

    fn encode(&mut self, item: T, to: &mut tonic::codec::EncodeBuf<'_>) -> Result<(), tonic::Status> {
        item.encode(to).map_err(|error| tonic::Status::internal(error.to_string()))
    }
}

impl<T: Message + Default> tonic::codec::Decoder for Plain<T> {
    type Item = T;
    type Error = tonic::Status;

    fn decode(&mut self, from: &mut tonic::codec::DecodeBuf<'_>) -> Result<Option<T>, tonic::Status> {
        T::decode(from).map(Some).map_err(|error| tonic::Status::internal(error.to_string()))
    }
}

/// According to gRPC's table of status codes, "Request cardinality violation (method requires exactly one request but client sent some
/// other number of requests)" is `UNIMPLEMENTED`.
#[test]
fn a_call_has_exactly_one_message() {
    let server = server(|_| ());
    let send = |count: usize| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let to = format!("http://{}", server.grpc());
            let channel = Endpoint::from_shared(to).unwrap().timeout(HONEST).connect().await.unwrap();
            let mut grpc = tonic::client::Grpc::new(channel);
            grpc.ready().await.unwrap();
            let messages: Vec<ModelInferRequest> = (0..count).map(|_| zeros_by_grpc(8)).collect();
            let path =
                axum::http::uri::PathAndQuery::from_static("/inference.GRPCInferenceService/ModelInfer");
            let request = tonic::Request::new(Messages(messages.into_iter()));
            grpc.client_streaming(request, path, AnyNumber).await.map(|_| ())
        })
    };
    send(1).unwrap();
    for count in [0, 2, 3] {
        let status = send(count).unwrap_err();
        assert_eq!(status.code(), Code::Unimplemented, "{count} messages: {status}");
        assert!(status.message().contains("expected exactly one"), "{status}");
    }
}

/// A stream of messages.
struct Messages(std::vec::IntoIter<ModelInferRequest>);

impl futures_core::Stream for Messages {
    type Item = ModelInferRequest;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<ModelInferRequest>> {
        std::task::Poll::Ready(self.0.next())
    }
}

#[test]
fn errors_are_short_however_long_the_names_are_that_they_repeat() {
    let server = server(|config| config.request_bytes = 16 << 20);
    let (long, path) = ("\u{202e}ä".repeat(1 << 20), "/v2/models/double/infer");
    let input_of = |name: &str, datatype: &str| json!({"name": name, "datatype": datatype, "shape": [1, 1], "data": [1]});
    let x = input_of("x", "FP32");
    let bodies = [
        json!({"inputs": [x], "outputs": [{"name": long}]}),
        json!({"inputs": [x], "outputs": [{"name": "y", "parameters": {format!("shared_memory_{long}"): 1}}]}),
        json!({"inputs": [input_of(&long, "FP32")]}),
        json!({"inputs": [input_of("x", &long)]}),
        json!({"inputs": [x], long.clone(): 1}),
        json!({"inputs": [x], "id": 1, "model_name": long}),
        json!({"inputs": [x], "parameters": {"priority": long}}),
    ];
    for (at, body) in bodies.iter().enumerate() {
        let answer = post(server.http(), path, body);
        assert!(answer.status == 400 || answer.status == 404, "{at}: {}", answer.status);
        assert!(answer.body.len() < 8 << 10, "{at}: {} bytes", answer.body.len());
    }
    let contents = || InferTensorContents { fp32_contents: vec![1.0], ..Default::default() };
    let x = || input("x", "FP32", &[1, 1], contents());
    let output = |name: &str| InferRequestedOutputTensor { name: name.to_owned(), ..Default::default() };
    let calls = [
        ModelInferRequest { outputs: vec![output(&long)], ..infer("double", x()) },
        infer("double", input(&long, "FP32", &[1, 1], contents())),
        infer("double", input("x", &long, &[1, 1], contents())),
    ];
    for (at, ask) in calls.into_iter().enumerate() {
        let status = by_grpc(&server, async |mut client| client.model_infer(ask).await).unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument, "{at}: {status}");
        assert!(status.message().len() < 4 << 10, "{at}: {} bytes", status.message().len());
    }
}
