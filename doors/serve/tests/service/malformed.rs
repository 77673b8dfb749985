//! Tests that malformed requests get an error of the protocol, and that the server continues.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use crate::common;

use bb_ir::DataType;
use bb_serve::Server;
use common::*;
use serde_json::{Value, json};

/// A malformed request: the mistake, the request, the status, and a part of the message.
struct Wrong(&'static str, Vec<u8>, u16, &'static str);

const PATH: &str = "/v2/models/double/infer";

fn body(what: &'static str, body: impl AsRef<[u8]>, message: &'static str) -> Wrong {
    Wrong(what, request(PATH, &[], body.as_ref()), 400, message)
}

fn input(change: impl FnOnce(&mut Value)) -> Value {
    let mut input = json!({"name": "x", "datatype": "FP32", "shape": [1, 2], "data": [1, 2]});
    change(&mut input);
    json!({"inputs": [input]})
}

fn changed(what: &'static str, key: &str, to: Value, message: &'static str) -> Wrong {
    body(what, input(|input| input[key] = to).to_string(), message)
}

fn binary(what: &'static str, length: &str, size: Value, tail: &[u8], message: &'static str) -> Wrong {
    let json = json!({"inputs": [
        {"name": "x", "datatype": "FP32", "shape": [1, 2], "parameters": {"binary_data_size": size}},
    ]});
    let json = json.to_string();
    let length = length.replace("JSON", &json.len().to_string());
    let body = [json.as_bytes(), tail].concat();
    Wrong(what, request(PATH, &[("inference-header-content-length", &length)], &body), 400, message)
}

fn words(what: &'static str, tail: &[u8], message: &'static str) -> Wrong {
    let json = json!({"inputs": [
        {"name": "x", "datatype": "BYTES", "shape": [1, 2], "parameters": {"binary_data_size": tail.len()}},
    ]});
    let json = json.to_string();
    let (length, body) = (json.len().to_string(), [json.as_bytes(), tail].concat());
    let path = "/v2/models/words/infer";
    Wrong(what, request(path, &[("inference-header-content-length", &length)], &body), 400, message)
}

fn list() -> Vec<Wrong> {
    let good = input(|_| ()).to_string();
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let many = |n: usize, item: &str| vec![item; n].join(",");
    let get = |path: &str| format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n").into_bytes();
    vec![
        body("no body", "", "EOF"),
        body("no JSON", "hello", "expected value"),
        body("JSON that is cut off", &good[..good.len() - 3], "EOF"),
        body("something behind the JSON", format!("{good} x"), "trailing characters"),
        body("a list instead of an object", "[]", "expected an object"),
        body("no UTF-8", [b"{\"id\":\"\xff\"}".as_slice()].concat(), "unicode"),
        body("no inputs", "{}", "missing field `inputs`"),
        body("inputs that are no list", r#"{"inputs": 3}"#, "a list of at most"),
        body("an empty list of inputs", r#"{"inputs": []}"#, "needs the input `x`, FP32 with the extents [n, w]"),
        body("a list instead of an input", r#"{"inputs": [["x", "FP32", [1, 2], {}, [1, 2]]]}"#, "expected an object"),
        body("an unknown field", r#"{"inputs": [], "input": 1}"#, "unknown field `input`"),
        body("a field twice", r#"{"inputs": [], "inputs": []}"#, "duplicate field"),
        body("an id that is no text", r#"{"id": 5, "inputs": []}"#, "invalid type"),
        body("nesting without end", &deep, "invalid"),
        body("nested data without end", format!(r#"{{"inputs":[{{"name":"x","datatype":"FP32","shape":[1,2],"data":{deep}}}]}}"#), "deeper than"),
        body("nested parameters without end", format!(r#"{{"inputs":[],"parameters":{{"a":{deep}}}}}"#), "invalid type"),
        body("too many inputs", format!(r#"{{"inputs":[{}]}}"#, many(2000, r#"{"name":"","datatype":"","shape":[]}"#)), "at most 1024"),
        body("too many extents", format!(r#"{{"inputs":[{{"name":"x","datatype":"FP32","shape":[{}]}}]}}"#, many(65, "1")), "at most 64"),
        body("too many parameters", format!(r#"{{"inputs":[],"parameters":{{{}}}}}"#, (0..65).map(|i| format!("\"p{i}\":1")).collect::<Vec<_>>().join(",")), "at most 64"),
        body("a parameter twice", r#"{"inputs": [], "parameters": {"timeout": 1, "timeout": 2}}"#, "given twice"),
        changed("an unknown input", "name", json!("z"), "has no input `z`; its inputs are `x`"),
        changed("a name that is no text", "name", json!(1), "invalid type"),
        changed("another type", "datatype", json!("FP64"), "elements of FP32, got `FP64`"),
        changed("an unknown type", "datatype", json!("FLOAT"), "got `FLOAT`"),
        changed("another rank", "shape", json!([2]), "[n, w], got [2]"),
        changed("a negative extent", "shape", json!([-1, 2]), "got [-1, 2]"),
        changed("an extent that is no number", "shape", json!(["a", 2]), "invalid type"),
        changed("an extent with a fraction", "shape", json!([1.5, 2]), "invalid type"),
        changed("extents that overflow", "shape", json!([4_611_686_018_427_387_904u64, 8]), "got ["),
        changed("extents that promise too much", "shape", json!([1_000_000_000, 1000]), "does not fit the extents"),
        changed("too few elements", "data", json!([1]), "which are 2 elements; got 1"),
        changed("too many elements", "data", json!([1, 2, 3]), "more than 2 elements"),
        changed("elements nested otherwise", "data", json!([[1], [2]]), "does not fit"),
        changed("elements at several depths", "data", json!([1, [2]]), "not nested as the extents"),
        changed("elements nested too deep", "data", json!([[[1, 2]]]), "deeper than the extents"),
        changed("data that is no list", "data", json!(1), "expected a list"),
        changed("data that is an object", "data", json!({"a": 1}), "FP32"),
        changed("an element that is a text", "data", json!(["a", 2]), "element 0 is no FP32"),
        changed("an element that is a truth value", "data", json!([1, true]), "element 1 is no FP32"),
        changed("an element that is nothing", "data", json!([1, null]), "FP32"),
        changed("an element that is too large", "data", json!([1e39, 2]), "element 0 is no FP32"),
        changed("no data", "data", Value::Null, "has no data; expected `data`"),
        changed("elements in shared memory", "parameters", json!({"shared_memory_region": "a"}), "input `x` is in shared memory"),
        changed("a binary size that is no number", "parameters", json!({"binary_data_size": "a"}), "expected a number of bytes"),
        changed("data twice", "parameters", json!({"binary_data_size": 8}), "has data twice"),
        body("an input twice", json!({"inputs": [input(|_| ())["inputs"][0], input(|_| ())["inputs"][0]]}).to_string(), "given twice"),
        body("an unknown output", json!({"inputs": input(|_| ())["inputs"], "outputs": [{"name": "q"}]}).to_string(), "has no output `q`; its outputs are `y`"),
        body("an output twice", json!({"inputs": input(|_| ())["inputs"], "outputs": [{"name": "y"}, {"name": "y"}]}).to_string(), "asked for twice"),
        body("an output in shared memory", json!({"inputs": input(|_| ())["inputs"], "outputs": [{"name": "y", "parameters": {"shared_memory_region": "a"}}]}).to_string(), "output `y` is in shared memory"),
        body("a number of classes that is none", json!({"inputs": input(|_| ())["inputs"], "outputs": [{"name": "y", "parameters": {"classification": "3"}}]}).to_string(), "a number of classes"),
        body("a sequence that is no number", json!({"inputs": input(|_| ())["inputs"], "parameters": {"sequence_id": -3}}).to_string(), "`sequence_id`"),
        body("a priority that is no number", json!({"inputs": input(|_| ())["inputs"], "parameters": {"priority": "high"}}).to_string(), "`priority`"),
        body("a parameter of another type", json!({"inputs": input(|_| ())["inputs"], "parameters": {"binary_data_output": 1}}).to_string(), "true or false"),
        body("a negative timeout", json!({"inputs": input(|_| ())["inputs"], "parameters": {"timeout": -5}}).to_string(), "microseconds"),
        body("another model than in the path", r#"{"model_name": "other", "inputs": []}"#, "`other`").status(404),
        binary("a length of JSON that is no number", "x", json!(8), &[0; 8], "is `x`"),
        binary("a negative length of JSON", "-1", json!(8), &[0; 8], "is `-1`"),
        binary("a length of JSON beyond the body", "99999", json!(8), &[0; 8], "ends at byte 99999"),
        binary("a length of JSON in its middle", "10", json!(8), &[0; 8], "no inference request"),
        binary("a binary size beyond the body", "JSON", json!(9), &[0; 8], "has 8 bytes, but the inputs have 9"),
        binary("a binary size without end", "JSON", json!(u64::MAX), &[0; 8], "has 8 bytes"),
        binary("a binary size that is too small", "JSON", json!(4), &[0; 8], "are 8 bytes; got 4"),
        binary("binary data that nobody asked for", "JSON", json!(8), &[0; 12], "has 12 bytes, but the inputs have 8"),
        binary("a negative binary size", "JSON", json!(-8), &[0; 8], "expected a number of bytes"),
        words("a text that is cut off", &[9, 0, 0, 0, b'a', 0, 0, 0, 0], "text 0 is cut off"),
        words("a length that is cut off", &[1, 0, 0, 0, b'a', 0, 0, 0], "text 1 is cut off"),
        words("too few texts", &[0, 0, 0, 0], "are 2 elements"),
        words("too many texts", &[0; 12], "text 2 is cut off, or its length is false"),
        Wrong("two lengths of JSON", request(PATH, &[("inference-header-content-length", "2"), ("inference-header-content-length", "2")], b"{}"), 400, "once"),
        Wrong("a body of another encoding", request(PATH, &[("content-encoding", "br")], good.as_bytes()), 415, "`br`"),
        Wrong("a body that is not compressed, as it says", request(PATH, &[("content-encoding", "gzip")], good.as_bytes()), 400, "is not gzip"),
        Wrong("two encodings", request(PATH, &[("content-encoding", "gzip"), ("content-encoding", "gzip")], good.as_bytes()), 415, "`gzip`"),
        Wrong("a body that is too large", format!("POST {PATH} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 999999999999\r\n\r\n").into_bytes(), 413, "more than 1048576 bytes"),
        Wrong("chunks that are too large", format!("POST {PATH} HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n200000\r\n{}\r\n0\r\n\r\n", "a".repeat(0x20_0000)).into_bytes(), 413, "more than"),
        Wrong("an unknown model", request("/v2/models/none/infer", &[], b"{}"), 404, "no model `none`; its models are `double`"),
        Wrong("an unknown version", request("/v2/models/double/versions/2/infer", &[], b"{}"), 404, "has only version `1`, got `2`"),
        Wrong("metadata of an unknown model", get("/v2/models/none"), 404, "no model `none`"),
        Wrong("readiness of an unknown model", get("/v2/models/none/ready"), 404, "no model `none`"),
        Wrong("a path that does not exist", get("/v3"), 404, "nothing at `/v3`"),
        Wrong("a path below a model that does not exist", get("/v2/models/double/nothing"), 404, "nothing at"),
        Wrong("a path that is not UTF-8", get("/v2/models/%ff"), 404, "not UTF-8"),
        Wrong("a path out of a folder", get("/v2/models/..%2f..%2fetc"), 404, "no model `../../etc`"),
        Wrong("inference by GET", get(PATH), 405, "expected POST"),
        Wrong("metadata by POST", request("/v2/models/double", &[], b"{}"), 405, "expected GET"),
        Wrong("a method that does not exist", format!("BREW {PATH} HTTP/1.1\r\nhost: localhost\r\n\r\n").into_bytes(), 405, "does not take BREW"),
    ]
}

impl Wrong {
    fn status(self, status: u16) -> Wrong {
        Wrong(self.0, self.1, status, self.3)
    }
}

fn server() -> Server {
    let mut config = config(vec![made("double", &double()), made("words", &identity(DataType::String))]);
    config.request_bytes = 1 << 20;
    config.held_bytes = 4 << 20;
    Server::start(config).unwrap()
}

fn works(server: &Server) {
    let answer =
        raw(server.http(), &request(PATH, &[("connection", "close")], input(|_| ()).to_string().as_bytes()));
    assert_eq!(answer.unwrap().json()["outputs"][0]["data"], json!([2.0, 4.0]));
}

#[test]
fn every_malformed_request_gets_an_error_of_the_protocol() {
    let server = server();
    let list = list();
    assert!(list.len() >= 40);
    let mut wrong = Vec::new();
    for Wrong(what, bytes, status, message) in &list {
        let answer = raw(server.http(), bytes).unwrap_or_else(|| panic!("{what}: no answer"));
        if answer.status != *status {
            wrong.push(format!("{what}: {status} expected, {} came: {}", answer.status, answer.text()));
            continue;
        }
        assert_eq!(answer.header("content-type"), Some("application/json"), "{what}");
        let error = answer.json()["error"].as_str().unwrap_or_else(|| panic!("{what}: no error")).to_owned();
        if !error.contains(message) {
            wrong.push(format!("{what}: `{message}` is not in: {error}"));
        }
        assert!(error.len() < 2000, "{what}: {} bytes of error", error.len());
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    works(&server);
    assert_eq!(metric(&server, "bb_held_bytes"), 0.0);
    assert_eq!(metric(&server, "bb_queue_length{model=\"double\"}"), 0.0);
    println!("{} malformed requests", list.len());
}

/// Bytes that are not HTTP get no error of the protocol. The connection is closed, and the server continues.
#[test]
fn what_is_no_http_ends_the_connection() {
    let server = server();
    let long = format!("GET / HTTP/1.1\r\nhost: localhost\r\na: {}\r\n\r\n", "a".repeat(1 << 20));
    for bytes in [
        b"\0\x01\x02\r\n\r\n".as_slice(),
        b"GET\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        long.as_bytes(),
    ] {
        if let Some(answer) = raw(server.http(), bytes) {
            assert!((400..506).contains(&answer.status), "{}", answer.status);
        }
    }
    works(&server);
}

/// A client that disconnects in the middle of a request leaves no used bytes behind.
#[test]
fn requests_that_break_off_hold_nothing() {
    let server = server();
    for _ in 0..20 {
        use std::io::Write;
        let mut stream = std::net::TcpStream::connect(server.http()).unwrap();
        let head = format!("POST {PATH} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100000\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(&[b'a'; 50_000]).unwrap();
    }
    let until = std::time::Instant::now() + std::time::Duration::from_secs(10);
    while metric(&server, "bb_held_bytes") > 0.0 || metric(&server, "bb_connections{protocol=\"http\"}") > 1.0
    {
        assert!(std::time::Instant::now() < until, "{}", get(server.http(), "/metrics").text());
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    works(&server);
}
