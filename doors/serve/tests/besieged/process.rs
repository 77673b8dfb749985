//! Runs a server in a separate process, and honest clients.

use crate::common::{self, Answer, config, raw, request};
use crate::tiny::{Meta, Quant, Tiny};
use bb_ir::DataType;
use bb_serve::protocol::grpc_inference_service_client::GrpcInferenceServiceClient as Client;
use bb_serve::protocol::model_infer_request::InferInputTensor;
use bb_serve::protocol::{InferTensorContents, ModelInferRequest};
use bb_serve::{ModelConfig, Server};
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value as Json, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The name of the environment variable with the options of the process, as JSON.
const OPTIONS: &str = "BB_SERVE_BESIEGED";

/// The size of the process's address space. An allocation beyond it ends the process.
const ADDRESSES: usize = 6 << 30;

/// The size of the key-value cache of each language model, in bytes.
const CACHE: usize = 32 << 20;

/// The maximum size of the key-value caches of all language models, in bytes.
pub(crate) const CACHES: usize = 3 * CACHE;

/// A chat template that builds a value with 2^40 leaves.
const EXPLODES: &str = "{% set ns = namespace(a=[1]) %}{% for i in range(40) %}{% set ns.a = [ns.a, ns.a] %}{% endfor %}{{ ns.a == ns.a }}{{ ns.a|string }}";

/// A server process. Dropping this kills the process.
pub(crate) struct Besieged {
    child: Child,
    pub(crate) http: SocketAddr,
    pub(crate) grpc: SocketAddr,
    pub(crate) timeout: Duration,
    /// A lock that lets one server run at a time, because tests measure time.
    _turn: MutexGuard<'static, ()>,
}

/// Runs the server in the process that [`Besieged::start`] starts. As an ordinary test, it does nothing.
#[test]
fn serves_in_a_process_of_its_own() {
    let Ok(options) = std::env::var(OPTIONS) else { return };
    let options: Json = serde_json::from_str(&options).unwrap();
    let mut config = config(vec![
        language("tiny", None),
        language("bad", Some(EXPLODES)),
        language(
            "cyclic",
            Some("{% set ns = namespace() %}{% set ns.a = ns %}{{ ns }}{{ ns|tojson }}{{ ns == ns }}"),
        ),
        common::made("double", &common::double()),
        common::made("words", &common::identity(DataType::String)),
        common::made("longs", &common::identity(DataType::I64)),
        common::made("zeros", &zeros()),
    ]);
    config.cache_bytes = CACHE;
    config.timeout = Duration::from_secs_f64(options["timeout"].as_f64().unwrap());
    let server = Server::start(config).unwrap();
    println!("\nlistens {} {}", server.http(), server.grpc());
    std::io::stdout().flush().unwrap();
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
    server.shut_down();
}

/// Creates a model that returns the requested number of zeros, so a small request has a large answer.
fn zeros() -> bb_ir::proto::ModelProto {
    let (n, y) = (common::tensor("n", DataType::I64, &["1"]), common::tensor("y", DataType::F32, &["m"]));
    let node = common::node("ConstantOfShape", &["n"], &["y"], vec![]);
    common::model(common::graph(vec![n], vec![node], vec![y]))
}

fn language(name: &str, template: Option<&str>) -> ModelConfig {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let path = path.join(format!("besieged-{}-{name}.gguf", std::process::id()));
    let mut writer = Tiny { quant: Quant::F32, ..Tiny::default() }.writer();
    if let Some(template) = template {
        writer.replace("tokenizer.chat_template", Meta::Text(template.to_owned()));
    }
    std::fs::write(&path, writer.bytes()).unwrap();
    ModelConfig { name: name.to_owned(), path, backend: "cpu".to_owned() }
}

impl Besieged {
    /// Starts a server whose request timeout has this number of seconds.
    pub(crate) fn start(timeout: f64) -> Besieged {
        static TURN: Mutex<()> = Mutex::new(());
        // A test that failed leaves nothing behind that this test reads, so a poisoned lock is used anyway.
        let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let within = format!("ulimit -v {}; exec \"$0\" \"$@\"", ADDRESSES >> 10);
        let mut child = Command::new("sh")
            .args(["-c", &within])
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", "process::serves_in_a_process_of_its_own", "--nocapture"])
            .env(OPTIONS, json!({"timeout": timeout}).to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let listens = lines.find_map(|line| Some(line.ok()?.strip_prefix("listens ")?.to_owned()));
        let listens = listens.unwrap();
        // Reads the rest of the output, so that the process does not block on a full pipe.
        std::thread::spawn(move || lines.for_each(drop));
        let (http, grpc) = listens.split_once(' ').unwrap();
        let timeout = Duration::from_secs_f64(timeout);
        Besieged { child, http: http.parse().unwrap(), grpc: grpc.parse().unwrap(), timeout, _turn }
    }

    fn of_status(&self, name: &str) -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() << 10
    }

    /// Returns the resident memory of the process, in bytes.
    pub(crate) fn resident(&self) -> usize {
        self.of_status("VmRSS:")
    }

    /// Returns the peak memory of the process since [`forget_peak`](Self::forget_peak), in bytes.
    pub(crate) fn peak(&self) -> usize {
        self.of_status("VmHWM:")
    }

    /// Resets the peak.
    pub(crate) fn forget_peak(&self) {
        std::fs::write(format!("/proc/{}/clear_refs", self.child.id()), "5").unwrap();
    }

    /// Returns the processor time that the process has used.
    pub(crate) fn cpu(&self) -> Duration {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
        // Linux reports these times in hundredths of a second, on all architectures.
        let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
        Duration::from_millis(10 * ticks)
    }

    pub(crate) fn held(&self) -> f64 {
        let text = common::get(self.http, "/metrics").text();
        let line = text.lines().find_map(|line| line.strip_prefix("bb_held_bytes ")).unwrap();
        line.parse().unwrap()
    }

    /// Waits until no request uses memory and the process is idle.
    pub(crate) fn rests(&self, within: Duration) {
        let end = Instant::now() + within;
        loop {
            let before = self.cpu();
            std::thread::sleep(Duration::from_millis(250));
            let (held, used) = (self.held(), self.cpu() - before);
            if held == 0.0 && used < Duration::from_millis(100) {
                return;
            }
            assert!(Instant::now() < end, "{held} bytes are held, and {used:?} of 0.25 s were used");
        }
    }

    /// Sends a compressed body, and reads the answer.
    pub(crate) fn send(&self, path: &str, body: &[u8]) -> Answer {
        let packed = gzip(body);
        raw(self.http, &request(path, &[("connection", "close"), ("content-encoding", "gzip")], &packed))
            .unwrap()
    }

    /// Sends a compressed body, and disconnects after a moment.
    pub(crate) fn leave(&self, path: &str, body: &[u8]) {
        let mut stream = TcpStream::connect(self.http).unwrap();
        stream.write_all(&request(path, &[("content-encoding", "gzip")], &gzip(body))).unwrap();
        std::thread::sleep(Duration::from_millis(100));
    }

    /// Sends requests like honest clients, over all interfaces.
    pub(crate) fn honest(&self) {
        for (path, body) in [
            (
                INFER,
                json!({"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 2], "data": [1.5, -2]}]}),
            ),
            (TEXT, json!({"model": "tiny", "prompt": "the 42", "max_tokens": 4, "temperature": 0})),
            (
                CHAT,
                json!({"model": "tiny", "messages": [{"role": "user", "content": "the 42"}], "max_tokens": 4}),
            ),
        ] {
            let start = Instant::now();
            let answer = common::post(self.http, path, &body);
            assert_eq!(answer.status, 200, "{path} after {:?}: {}", start.elapsed(), answer.text());
            assert!(start.elapsed() < self.timeout, "{path}: {:?}", start.elapsed());
        }
        let start = Instant::now();
        assert_eq!(self.double_by_grpc().unwrap(), [3.0]);
        assert!(start.elapsed() < self.timeout, "gRPC: {:?}", start.elapsed());
    }

    fn double_by_grpc(&self) -> Result<Vec<f32>, tonic::Status> {
        let contents = InferTensorContents { fp32_contents: vec![1.5], ..Default::default() };
        let input = infer_input("x", "FP32", &[1, 1], Some(contents));
        let ask =
            ModelInferRequest { model_name: "double".to_owned(), inputs: vec![input], ..Default::default() };
        let answer = self.by_grpc(async |mut client| client.model_infer(ask).await)?.into_inner();
        Ok(answer.outputs[0].contents.as_ref().unwrap().fp32_contents.clone())
    }

    pub(crate) fn by_grpc<T>(&self, call: impl AsyncFnOnce(Client<tonic::transport::Channel>) -> T) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let client = Client::new(common::channel(self.grpc).await);
            call(client.max_encoding_message_size(usize::MAX).max_decoding_message_size(usize::MAX)).await
        })
    }

    /// Requests health repeatedly, until [`ended`](Health::ended) is called on the result.
    pub(crate) fn health(&self) -> Health {
        let (end, to) = (Arc::new(AtomicBool::new(false)), self.http);
        let until = end.clone();
        let asking = std::thread::spawn(move || {
            let mut times = Vec::new();
            while !until.load(Ordering::Relaxed) {
                let start = Instant::now();
                assert_eq!(common::get(to, "/v2/health/live").status, 200);
                times.push(start.elapsed());
                std::thread::sleep(Duration::from_millis(5));
            }
            times
        });
        Health { end, asking }
    }
}

impl Drop for Besieged {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _waited = self.child.wait();
    }
}

pub(crate) const INFER: &str = "/v2/models/double/infer";
pub(crate) const TEXT: &str = "/v1/completions";
pub(crate) const CHAT: &str = "/v1/chat/completions";
pub(crate) const EMBED: &str = "/v1/embeddings";

pub(crate) fn infer_input(
    name: &str,
    datatype: &str,
    shape: &[i64],
    contents: Option<InferTensorContents>,
) -> InferInputTensor {
    let (name, datatype, shape) = (name.to_owned(), datatype.to_owned(), shape.to_vec());
    InferInputTensor { name, datatype, shape, contents, ..Default::default() }
}

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut to = GzEncoder::new(Vec::new(), Compression::fast());
    to.write_all(bytes).unwrap();
    to.finish().unwrap()
}

/// The times of health requests.
pub(crate) struct Health {
    end: Arc<AtomicBool>,
    asking: JoinHandle<Vec<Duration>>,
}

impl Health {
    /// Stops the requests. Returns the 99th percentile of their times.
    pub(crate) fn ended(self) -> Duration {
        self.end.store(true, Ordering::Relaxed);
        let mut times = self.asking.join().unwrap();
        times.sort_unstable();
        times[times.len() * 99 / 100]
    }
}
