//! Tests requests of each kind whose size is doubled repeatedly: memory and time must grow at most linearly.

use crate::common::{raw, request};
use crate::grpc::message;
use crate::openai;
use crate::process::{Besieged, INFER};
use crate::table::{Bounds, bounds};
use std::time::Duration;

const MIB: usize = 1 << 20;

/// Sends a request of a size. Returns the memory and the processor time that the server used for it.
fn taken(server: &Besieged, send: impl FnOnce()) -> (usize, Duration) {
    let (before, used) = (server.resident(), server.cpu());
    server.forget_peak();
    send();
    // Waits, because a refused request may not be dropped yet.
    server.rests(Duration::from_secs(30));
    (server.peak().saturating_sub(before), server.cpu() - used)
}

/// Sends requests of 1, 2, 4 and 8 MiB. Each takes at most the memory that the row of `input` in `limits.md` allows, and the time grows
/// with the size.
fn doubled(server: &Besieged, input: &str, what: &str, send: impl Fn(usize)) {
    let Bounds { factor, base } = bounds(input);
    let mut last = None;
    for size in [MIB, 2 * MIB, 4 * MIB, 8 * MIB] {
        let (bytes, time) = taken(server, || send(size));
        println!("{input}, {what}: {size} bytes, {bytes} bytes of memory, {:.3} s", time.as_secs_f64());
        assert!(bytes < factor * size + base, "{what}, {size}: {} MiB", bytes / MIB);
        if let Some(used) = last.replace(time) {
            // The margin is for the resolution of the time, 10 ms, and for a busy machine.
            assert!(time < 4 * used + Duration::from_secs(1), "{what}, {size}: {time:?} after {used:?}");
        }
    }
    server.honest();
}

fn kserve(before: &str, item: &str, after: &str, size: usize) -> Vec<u8> {
    let items = item.repeat(size / item.len());
    format!("{{{before}{}{after}}}", items.trim_end_matches(',')).into_bytes()
}

#[test]
fn requests_of_the_open_inference_protocol_take_a_constant_factor_of_their_size() {
    let server = Besieged::start(30.0);
    server.honest();
    let x =
        |n: usize| format!("\"inputs\":[{{\"name\":\"x\",\"datatype\":\"FP32\",\"shape\":[1,{n}],\"data\":[");
    type Make = Box<dyn Fn(usize) -> Vec<u8>>;
    let kinds: Vec<(&str, Make)> = vec![
        ("numbers", Box::new(move |size| kserve(&x(size / 2), "1,", "]}]", size))),
        ("numbers of another count", Box::new(move |size| kserve(&x(3), "1,", "]}]", size))),
        ("empty lists", Box::new(move |size| kserve(&x(3), "[],", "]}]", size))),
        ("a long number", Box::new(move |size| kserve(&x(1), "7", "]}]", size))),
        (
            "inputs",
            Box::new(|size| {
                kserve("\"inputs\":[", "{\"name\":\"x\",\"datatype\":\"\",\"shape\":[]},", "]", size)
            }),
        ),
        (
            "extents",
            Box::new(|size| {
                kserve("\"inputs\":[{\"name\":\"x\",\"datatype\":\"\",\"shape\":[", "1,", "]}]", size)
            }),
        ),
        (
            "a name",
            Box::new(|size| {
                kserve("\"inputs\":[{\"datatype\":\"\",\"shape\":[1],\"name\":\"", "\\n", "\"}]", size)
            }),
        ),
        (
            "parameters",
            Box::new(|size| kserve("\"inputs\":[],\"parameters\":{\"a\":\"", "\\u00e9", "\"}", size)),
        ),
    ];
    for (what, make) in kinds {
        // A number of two bytes in JSON takes four bytes in the tensor and in its result, and four bytes as text in the answer.
        doubled(&server, "a request of the Open Inference Protocol", what, |size| {
            let answer = server.send(INFER, &make(size));
            assert!([200, 400].contains(&answer.status), "{what}: {}", answer.text());
        });
    }
    doubled(&server, "a tensor of bytes by HTTP", "binary", |size| {
        let elements = size / 4;
        let json = format!(
            "{{\"inputs\":[{{\"name\":\"x\",\"datatype\":\"FP32\",\"shape\":[1,{elements}],\"parameters\":{{\"binary_data_size\":{size}}}}}],\"parameters\":{{\"binary_data_output\":true}}}}"
        );
        let (length, body) = (json.len().to_string(), [json.into_bytes(), vec![0; size]].concat());
        let headers = [("connection", "close"), ("inference-header-content-length", length.as_str())];
        assert_eq!(raw(server.http, &request(INFER, &headers, &body)).unwrap().status, 200);
    });
    let by_grpc = |what: &str, make: &dyn Fn(usize) -> Vec<u8>| {
        // The offset of a string has eight bytes in the input, the run and the result.
        doubled(&server, "a message of gRPC", what, |size| {
            use prost::Message;
            let ask = bb_serve::protocol::ModelInferRequest::decode(make(size).as_slice()).unwrap();
            // Other tests check the answer.
            let _answer = server.by_grpc(async |mut client| client.model_infer(ask).await);
        });
    };
    by_grpc("texts by gRPC", &|size| {
        message("words", "x", "BYTES", &[size as i64 / 4, 2], &[0x42, 0].repeat(size / 2))
    });
    by_grpc("texts for another model by gRPC", &|size| {
        message("double", "x", "FP32", &[1, 2], &[0x42, 0].repeat(size / 2))
    });
}

#[test]
fn requests_of_openais_interface_take_a_constant_factor_of_their_size() {
    let server = Besieged::start(30.0);
    server.honest();
    for at in 0..openai::kinds(MIB).len() {
        let what = format!("kind {at}");
        doubled(&server, "a request of OpenAI's interface", &what, |size| {
            let (path, body, status) = openai::kinds(size).swap_remove(at);
            let answer = server.send(path, &body);
            assert_eq!(answer.status, status, "{what}: {}", answer.text());
        });
    }
}
