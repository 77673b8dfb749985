//! Runs all attacks at the same time, together with honest clients. `bash doors/serve/check siege` runs this for ten minutes in a release
//! build.

use crate::common::{raw, request};
use crate::grpc::message;
use crate::openai;
use crate::process::{Besieged, CACHES, CHAT, INFER, TEXT, gzip};
use serde_json::json;
use std::io::Write;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// The environment variable with the duration of the test, in seconds.
const SECONDS: &str = "BB_SERVE_SIEGE_SECONDS";

const MIB: usize = 1 << 20;

/// The default limit of the bytes of all requests.
const HELD: usize = 512 * MIB;

/// Sends bytes. Then disconnects, or waits for the answer.
fn attack(server: &Besieged, request: &[u8], leaves: bool) {
    if leaves {
        // The server may close the connection before it has read everything.
        let mut stream = TcpStream::connect(server.http).unwrap();
        let _closed = stream.write_all(request);
        std::thread::sleep(Duration::from_millis(50));
    } else {
        let _answer = raw(server.http, request);
    }
}

/// Returns the requests of all attacks over HTTP.
fn attacks() -> Vec<Vec<u8>> {
    let packed = |path: &str, body: &[u8]| {
        request(path, &[("connection", "close"), ("content-encoding", "gzip")], &gzip(body))
    };
    let mut all: Vec<Vec<u8>> =
        openai::kinds(8 * MIB).iter().map(|(path, body, _)| packed(path, body)).collect();
    let texts = [json!("1".repeat(2 * MIB)), json!("word ".repeat(MIB)), json!(vec!["a b"; 17])];
    all.extend(
        texts
            .iter()
            .map(|prompt| packed(TEXT, json!({"model": "tiny", "prompt": prompt}).to_string().as_bytes())),
    );
    let one = |i: usize, j: usize| json!({"type": "object", "properties": {format!("p{i}"): {"const": j}}});
    for parts in [8, 10, 11] {
        let schema: Vec<_> = (0..parts).map(|i| json!({"anyOf": [one(i, 0), one(i, 1)]})).collect();
        let format =
            json!({"type": "json_schema", "json_schema": {"name": "x", "schema": {"allOf": schema}}});
        let body =
            json!({"model": "tiny", "prompt": "Hi", "n": 4, "max_tokens": 8, "response_format": format});
        all.push(packed(TEXT, body.to_string().as_bytes()));
    }
    let stops: Vec<String> = (0..16).map(|i| "x".repeat(150) + &i.to_string()).collect();
    let body = json!({"model": "tiny", "prompt": "Hi", "n": 16, "max_tokens": 50, "ignore_eos": true, "stop": stops});
    all.push(packed(TEXT, body.to_string().as_bytes()));
    let body = json!({"model": "bad", "messages": [{"role": "user", "content": "a"}]});
    all.push(packed(CHAT, body.to_string().as_bytes()));
    all.push(request(
        INFER,
        &[("connection", "close"), ("content-encoding", "gzip")],
        &gzip(b"").repeat(400_000),
    ));
    let zeros = json!({"inputs": [{"name": "n", "datatype": "INT64", "shape": [1], "data": [4 * MIB]}]});
    all.push(packed("/v2/models/zeros/infer", zeros.to_string().as_bytes()));
    all
}

#[test]
fn honest_clients_are_answered_beside_all_attacks_at_once() {
    let seconds = std::env::var(SECONDS).ok().and_then(|text| text.parse().ok()).unwrap_or(20);
    let server = Besieged::start(10.0);
    server.honest();
    let models = server.resident() + CACHES;
    server.forget_peak();
    let (health, over) = (server.health(), AtomicBool::new(false));
    let (attacked, answered) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let requests = attacks();
    let message = gzip(&message("nosuch", "x", "FP32", &[3], &[0x42, 0].repeat(4 * MIB)));
    let (mut worst, end) = (Duration::ZERO, Instant::now() + Duration::from_secs(seconds));
    std::thread::scope(|scope| {
        for attacker in 0..4 {
            let (server, requests, over, attacked) = (&server, &requests, &over, &attacked);
            scope.spawn(move || {
                for (at, bytes) in requests.iter().cycle().skip(attacker * 7).enumerate() {
                    if over.load(Ordering::Relaxed) {
                        break;
                    }
                    attack(server, bytes, at % 3 == 0);
                    attacked.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                crate::grpc::send(&server, crate::grpc::INFER, &[message.clone(), message.clone()]);
                attacked.fetch_add(2, Ordering::Relaxed);
            }
        });
        // If an honest client fails, the attacks end as well.
        let _over = Over(&over);
        while Instant::now() < end {
            let start = Instant::now();
            server.honest();
            worst = worst.max(start.elapsed());
            answered.fetch_add(4, Ordering::Relaxed);
            std::thread::sleep(Duration::from_millis(100));
        }
    });
    let (p99, peak) = (health.ended(), server.peak());
    println!(
        "{seconds} s: {} attacks; {} honest requests answered, the slowest four in {worst:?}; health p99 {p99:?}; at most {} MiB, of \
         which models take {} MiB with full caches",
        attacked.into_inner(),
        answered.into_inner(),
        peak / MIB,
        models / MIB
    );
    let most = Duration::from_millis(if cfg!(debug_assertions) { 1000 } else { 50 });
    assert!(p99 < most, "health took {p99:?}");
    assert!(peak < models + HELD + HELD / 5, "{} MiB", peak / MIB);
    server.rests(Duration::from_secs(30));
    server.honest();
    let left = server.resident();
    println!("{} MiB are left", left / MIB);
    // The margin is for memory that the allocator keeps for each thread.
    assert!(left < models + HELD / 2, "{} MiB", left / MIB);
}

/// A guard that ends the attacks when it is dropped.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
