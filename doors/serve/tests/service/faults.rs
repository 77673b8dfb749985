//! Tests injected faults of a backend: clients get either an error with the node's name or the correct answer, and no resource leaks.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use crate::common;

use bb_layers as _;
use bb_serve::ModelConfig;
use common::*;
use serde_json::json;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// The number of concurrent clients, and the number of requests of each.
const ASKED: (u8, u8) = (8, 25);

#[test]
fn a_fault_is_an_error_of_its_request_alone() {
    for (kind, told) in [
        ("error", "an injected fault"),
        ("panic", "an injected panic"),
        ("shape", "result 0: expected f32[1, 2]"),
    ] {
        // Only the layer `check` notices a result of a wrong shape.
        let backend = format!("check+fault(kind={kind}, rate=0.3, seed=7, op=add)+cpu");
        let server = start(vec![ModelConfig { backend, ..made("double", &double()) }]);
        let counts = Mutex::new([0usize; 2]);
        let ask = |n: f32| {
            let x = json!({"name": "x", "datatype": "FP32", "shape": [1, 2], "data": [n, -n]});
            post(server.http(), "/v2/models/double/infer", &json!({"inputs": [x]}))
        };
        std::thread::scope(|scope| {
            for client in 0..ASKED.0 {
                let (ask, counts) = (&ask, &counts);
                scope.spawn(move || {
                    for at in 0..ASKED.1 {
                        let n = f32::from(client) * 100.0 + f32::from(at);
                        let answer = ask(n);
                        let failed = usize::from(answer.status != 200);
                        counts.lock().unwrap()[failed] += 1;
                        match failed {
                            0 => assert_eq!(answer.json()["outputs"][0]["data"], json!([2.0 * n, -2.0 * n])),
                            _ => {
                                assert!(answer.status >= 500, "{kind}: {} {}", answer.status, answer.text());
                                assert!(
                                    answer.text().contains("node `y` (Add) failed")
                                        && answer.text().contains(told),
                                    "{kind}: {}",
                                    answer.text()
                                );
                            }
                        }
                    }
                });
            }
        });
        let [right, failed] = counts.into_inner().unwrap();
        let all = usize::from(ASKED.0) * usize::from(ASKED.1);
        assert!(right > all / 4 && failed > all / 20, "{kind}: {right} right, {failed} failed");
        let started = Instant::now();
        let held = || get(server.http(), "/metrics").text().contains("\nbb_held_bytes 0\n");
        while !held() {
            assert!(started.elapsed() < Duration::from_secs(20), "{kind}: bytes are held");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
