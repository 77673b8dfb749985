//! A server in this process, small models, and a client that sends exactly the bytes of a test.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
#![allow(dead_code, unreachable_pub, missing_docs, reason = "each test uses a part")]

use bb_cpu as _;
use bb_ir::DataType;
use bb_ir::proto::{
    AttributeProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorProto, TensorShapeProto,
    TypeProto, ValueInfoProto, attribute_proto, tensor_shape_proto, type_proto,
};
use bb_reference as _;
use bb_serve::{Config, ModelConfig, Server};
use prost::Message;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Returns the configuration of a model that exists in the repository.
pub fn committed(name: &str) -> ModelConfig {
    let path = case(name).join("model.onnx");
    ModelConfig { name: name.to_owned(), path, backend: "cpu".to_owned() }
}

/// Returns the folder of a model in the repository.
pub fn case(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/models").join(name)
}

/// Writes a model to a new file and serves it under `name`.
pub fn made(name: &str, model: &ModelProto) -> ModelConfig {
    static NEXT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let path = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let path = path.join(format!("serve-{}-{number}-{name}.onnx", std::process::id()));
    std::fs::write(&path, model.encode_to_vec()).unwrap();
    ModelConfig { name: name.to_owned(), path, backend: "cpu".to_owned() }
}

pub fn config(models: Vec<ModelConfig>) -> Config {
    let mut config = Config::default();
    config.models = models;
    config.http = SocketAddr::from(([127, 0, 0, 1], 0));
    config.grpc = config.http;
    config.timeout = Duration::from_secs(20);
    config
}

pub fn start(models: Vec<ModelConfig>) -> Server {
    Server::start(config(models)).unwrap()
}

/// Returns an extent: a number, or a symbolic dimension if the text begins with a letter.
pub fn tensor(name: &str, dtype: DataType, extents: &[&str]) -> ValueInfoProto {
    use tensor_shape_proto::{Dimension, dimension::Value};
    let dim = |text: &&str| {
        let value = text.parse().map(Value::DimValue).unwrap_or(Value::DimParam((*text).to_owned()));
        Dimension { value: Some(value), denotation: None }
    };
    let shape = TensorShapeProto { dim: extents.iter().map(dim).collect() };
    let value = type_proto::Tensor { elem_type: Some(dtype.to_onnx()), shape: Some(shape) };
    typed(name, type_proto::Value::TensorType(value))
}

pub fn typed(name: &str, value: type_proto::Value) -> ValueInfoProto {
    let r#type = TypeProto { value: Some(value), ..Default::default() };
    ValueInfoProto { name: Some(name.to_owned()), r#type: Some(r#type), ..Default::default() }
}

pub fn node(op: &str, inputs: &[&str], outputs: &[&str], attribute: Vec<AttributeProto>) -> NodeProto {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let (input, output) = (names(inputs), names(outputs));
    NodeProto { op_type: Some(op.to_owned()), input, output, attribute, ..Default::default() }
}

pub fn ints(name: &str, ints: &[i64]) -> AttributeProto {
    let r#type = Some(attribute_proto::AttributeType::Ints.into());
    AttributeProto { name: Some(name.to_owned()), ints: ints.to_vec(), r#type, ..Default::default() }
}

pub fn graph(input: Vec<ValueInfoProto>, node: Vec<NodeProto>, output: Vec<ValueInfoProto>) -> GraphProto {
    GraphProto { name: Some("g".to_owned()), input, node, output, ..Default::default() }
}

pub fn model(graph: GraphProto) -> ModelProto {
    let opset = OperatorSetIdProto { domain: None, version: Some(17) };
    ModelProto { ir_version: Some(8), opset_import: vec![opset], graph: Some(graph), ..Default::default() }
}

/// Creates a model that returns its input, with any number of rows of two elements.
pub fn identity(dtype: DataType) -> ModelProto {
    let x = tensor("x", dtype, &["n", "2"]);
    let y = tensor("y", dtype, &["n", "2"]);
    model(graph(vec![x], vec![node("Identity", &["x"], &["y"], vec![])], vec![y]))
}

/// Creates a model that doubles its input, with any number of rows of `w` elements.
pub fn double() -> ModelProto {
    let (x, y) = (tensor("x", DataType::F32, &["n", "w"]), tensor("y", DataType::F32, &["n", "w"]));
    model(graph(vec![x], vec![node("Add", &["x", "x"], &["y"], vec![])], vec![y]))
}

/// Creates a model that subtracts the mean of all rows from each row, so that rows depend on each other.
pub fn centred() -> ModelProto {
    let (x, y) = (tensor("x", DataType::F32, &["n", "2"]), tensor("y", DataType::F32, &["n", "2"]));
    let mean = node("ReduceMean", &["x"], &["m"], vec![ints("axes", &[0])]);
    model(graph(vec![x], vec![mean, node("Sub", &["x", "m"], &["y"], vec![])], vec![y]))
}

/// Creates a model that counts to its input in a loop, so that a test chooses the time of a run. Each iteration also adds vectors. Without
/// them, the iterations that `Limits` allow might end before the service notices that a client has left.
pub fn counting() -> ModelProto {
    let scalar = |name, dtype| tensor(name, dtype, &[]);
    let body = GraphProto {
        name: Some("body".to_owned()),
        input: vec![
            scalar("i", DataType::I64),
            scalar("go", DataType::Bool),
            scalar("before", DataType::I64),
            tensor("slow", DataType::F32, &["8192"]),
        ],
        node: vec![
            node("Identity", &["go"], &["on"], vec![]),
            node("Add", &["before", "one"], &["after"], vec![]),
            node("Add", &["slow", "slow"], &["slower"], vec![]),
        ],
        output: vec![
            scalar("on", DataType::Bool),
            scalar("after", DataType::I64),
            tensor("slower", DataType::F32, &["8192"]),
        ],
        ..Default::default()
    };
    let constant = |name: &str, value: i64| TensorProto {
        name: Some(name.to_owned()),
        data_type: Some(DataType::I64.to_onnx()),
        int64_data: vec![value],
        ..Default::default()
    };
    let body = AttributeProto {
        name: Some("body".to_owned()),
        g: Some(body),
        r#type: Some(attribute_proto::AttributeType::Graph.into()),
        ..Default::default()
    };
    let mut all = graph(
        vec![scalar("n", DataType::I64)],
        vec![node("Loop", &["n", "", "zero", "zeros"], &["count"], vec![body])],
        vec![scalar("count", DataType::I64)],
    );
    let zeros = TensorProto {
        name: Some("zeros".to_owned()),
        dims: vec![8192],
        data_type: Some(DataType::F32.to_onnx()),
        float_data: vec![0.0; 8192],
        ..Default::default()
    };
    all.initializer = vec![constant("zero", 0), constant("one", 1), zeros];
    model(all)
}

/// An answer of the server.
#[derive(Debug, Clone)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// Sends raw bytes and reads one answer. Returns `None` if the server closes the connection without an answer.
pub fn raw(to: SocketAddr, bytes: &[u8]) -> Option<Answer> {
    let mut stream = TcpStream::connect(to).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    // The server may answer and close before it has read everything.
    let _closed = stream.write_all(bytes);
    read(&mut BufReader::new(stream))
}

/// Reads one answer.
pub fn read(from: &mut impl BufRead) -> Option<Answer> {
    let mut line = String::new();
    from.read_line(&mut line).ok().filter(|n| *n > 0)?;
    let status = line.split(' ').nth(1)?.parse().ok()?;
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        from.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        headers.push((name.to_lowercase(), value.to_owned()));
    }
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let mut body = vec![0; length.map_or(0, |(_, value)| value.parse().unwrap())];
    from.read_exact(&mut body).ok()?;
    Some(Answer { status, headers, body })
}

pub fn get(to: SocketAddr, path: &str) -> Answer {
    raw(to, format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").as_bytes())
        .unwrap()
}

/// Builds a request with a body.
pub fn request(path: &str, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut bytes =
        format!("POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n", body.len()).into_bytes();
    for (name, value) in headers {
        bytes.extend(format!("{name}: {value}\r\n").into_bytes());
    }
    bytes.extend(b"\r\n");
    bytes.extend(body);
    bytes
}

pub fn post(to: SocketAddr, path: &str, body: &serde_json::Value) -> Answer {
    raw(to, &request(path, &[("connection", "close")], body.to_string().as_bytes())).unwrap()
}

/// Sends JSON, followed by binary tensors.
pub fn post_binary(to: SocketAddr, path: &str, json: &serde_json::Value, binary: &[u8]) -> Answer {
    let json = json.to_string();
    let length = json.len().to_string();
    let mut body = json.into_bytes();
    body.extend(binary);
    let headers = [("connection", "close"), ("inference-header-content-length", length.as_str())];
    raw(to, &request(path, &headers, &body)).unwrap()
}

/// Creates an empty folder.
pub fn folder(name: &str) -> PathBuf {
    static NEXT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let path = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let path = path.join(format!("serve-{}-folder-{number}-{name}", std::process::id()));
    let _none = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).unwrap();
    path
}

/// Opens a gRPC connection.
pub async fn channel(to: SocketAddr) -> tonic::transport::Channel {
    tonic::transport::Endpoint::from_shared(format!("http://{to}")).unwrap().connect().await.unwrap()
}

/// A client of the inference service.
pub type Client =
    bb_serve::protocol::grpc_inference_service_client::GrpcInferenceServiceClient<tonic::transport::Channel>;

/// Calls a server over gRPC.
pub fn by_grpc<T>(server: &Server, call: impl AsyncFnOnce(Client) -> T) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { call(Client::new(channel(server.grpc()).await)).await })
}

/// Calls a method that the schema does not have, with an empty message.
pub async fn unary(to: SocketAddr, path: &str) -> Result<(), tonic::Status> {
    let mut grpc = tonic::client::Grpc::new(channel(to).await);
    grpc.ready().await.unwrap();
    let path: axum::http::uri::PathAndQuery = path.parse().unwrap();
    let codec = tonic_prost::ProstCodec::<(), ()>::default();
    grpc.unary(tonic::Request::new(()), path, codec).await.map(|_| ())
}

/// A stream of messages.
pub struct Stream<T>(std::vec::IntoIter<T>);

impl<T> Stream<T> {
    pub fn new(messages: impl IntoIterator<Item = T>) -> Stream<T> {
        Stream(messages.into_iter().collect::<Vec<_>>().into_iter())
    }
}

impl<T: Unpin> futures_core::Stream for Stream<T> {
    type Item = T;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<T>> {
        std::task::Poll::Ready(self.0.next())
    }
}

/// Returns the value of a metric.
pub fn metric(server: &Server, name: &str) -> f64 {
    let text = get(server.http(), "/metrics").text();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no `{name}` in\n{text}")).parse().unwrap()
}

/// A log whose lines a test can read.
#[derive(Clone, Default)]
pub struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Lines {
    /// Waits until the log has this number of lines, and returns its text.
    pub fn wait(&self, count: usize) -> String {
        let until = Instant::now() + Duration::from_secs(10);
        loop {
            let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
            if text.lines().count() >= count {
                return text;
            }
            assert!(Instant::now() < until, "{text}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
