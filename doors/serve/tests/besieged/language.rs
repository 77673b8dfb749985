//! Tests prompts, templates, schemas and stop strings that take a long time: other clients must not be delayed.

use crate::common::{Answer, post};
use crate::process::{Besieged, CHAT, EMBED, INFER, TEXT};
use serde_json::{Value as Json, json};
use std::time::{Duration, Instant};

fn prompt(bytes: usize) -> Json {
    json!({"model": "tiny", "max_tokens": 1, "prompt": "1".repeat(bytes)})
}

#[test]
fn long_prompts_are_refused_and_clients_that_leave_leave_nothing_behind() {
    let server = Besieged::start(10.0);
    server.honest();
    let before = server.resident();
    server.forget_peak();
    let health = server.health();
    let body = prompt(2 << 20).to_string();
    for at in 0..10 {
        let path = if at % 2 == 0 { TEXT } else { EMBED };
        server.leave(path, body.replace("prompt", if at % 2 == 0 { "prompt" } else { "input" }).as_bytes());
    }
    server.honest();
    let long = json!({"model": "tiny", "messages": [{"role": "user", "content": "1".repeat(8 << 20)}]});
    for (path, body) in [
        (TEXT, prompt(15 << 20)),
        (CHAT, long),
        (EMBED, json!({"model": "tiny", "input": "1 ".repeat(8 << 20)})),
    ] {
        let start = Instant::now();
        let answer = server.send(path, body.to_string().as_bytes());
        assert_eq!(answer.status, 400, "{path}: {}", answer.text());
        assert_eq!(answer.json()["error"]["code"], "context_length_exceeded", "{path}: {}", answer.text());
        assert!(start.elapsed() < Duration::from_secs(10), "{path}: {:?}", start.elapsed());
        server.honest();
    }
    let p99 = health.ended();
    assert!(p99 < Duration::from_secs(1), "health took {p99:?}");
    server.rests(Duration::from_secs(20));
    let grown = server.peak() - before;
    assert!(grown < 250 << 20, "{} MiB", grown >> 20);
}

/// Returns a schema with `parts` alternatives that apply together, so there are 2^`parts` kinds of objects.
fn schema(parts: usize, name: &str) -> Json {
    let one =
        |i: usize, j: usize| json!({"type": "object", "properties": {format!("{name}{i}"): {"const": j}}});
    let all: Vec<Json> = (0..parts).map(|i| json!({"anyOf": [one(i, 0), one(i, 1)]})).collect();
    json!({"type": "json_schema", "json_schema": {"name": "x", "schema": {"allOf": all}}})
}

#[test]
fn prompts_do_not_wait_for_the_schemas_of_others() {
    let server = Besieged::start(10.0);
    server.honest();
    let health = server.health();
    std::thread::scope(|scope| {
        for at in 0..24 {
            let server = &server;
            scope.spawn(move || {
                let format = schema(11, &format!("p{at}-"));
                let body =
                    json!({"model": "tiny", "prompt": "Hi", "max_tokens": 4, "response_format": format});
                let start = Instant::now();
                let answer = post(server.http, TEXT, &body);
                assert!(
                    [200, 400, 429, 504].contains(&answer.status),
                    "{}: {}",
                    answer.status,
                    answer.text()
                );
                let most = server.timeout + Duration::from_secs(5);
                assert!(start.elapsed() < most, "{:?}: {}", start.elapsed(), answer.text());
            });
        }
        for _ in 0..4 {
            server.honest();
            std::thread::sleep(Duration::from_millis(300));
        }
    });
    let p99 = health.ended();
    assert!(p99 < Duration::from_secs(1), "health took {p99:?}");
    server.rests(Duration::from_secs(30));
    server.honest();
}

#[test]
fn a_schema_is_compiled_once_for_equal_requests() {
    let server = Besieged::start(20.0);
    let body = json!({"model": "tiny", "prompt": "Hi", "max_tokens": 20, "temperature": 0,
        "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"enum": ["red", "green"]}}}});
    let first = post(server.http, TEXT, &body).json()["choices"][0]["text"].clone();
    assert!(first == "\"red\"" || first == "\"green\"", "{first}");
    for _ in 0..3 {
        assert_eq!(post(server.http, TEXT, &body).json()["choices"][0]["text"], first);
    }
}

/// Returns the status and the field that an error names.
fn fault(answer: &Answer) -> (u16, Json) {
    (answer.status, answer.json()["error"]["param"].clone())
}

#[test]
fn stops_are_few_and_short() {
    let server = Besieged::start(10.0);
    let body = |stop: Json| json!({"model": "tiny", "prompt": "the 42", "max_tokens": 200, "n": 16, "ignore_eos": true, "stop": stop});
    let long: Vec<String> = (0..16).map(|i| "x".repeat(3 << 20) + &i.to_string()).collect();
    for wrong in
        [json!(long), json!("x".repeat(4097)), json!(vec!["x"; 17]), json!([1]), json!({}), json!([["x"]])]
    {
        let start = Instant::now();
        let answer = server.send(TEXT, body(wrong).to_string().as_bytes());
        assert_eq!(fault(&answer), (400, json!("stop")), "{}", answer.text());
        assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
        server.honest();
    }
    // The stop strings are shorter than the longest answer of this model.
    let most: Vec<String> = (0..16).map(|i| "x".repeat(150) + &i.to_string()).collect();
    let answer = std::thread::scope(|scope| {
        let asked = scope.spawn(|| server.send(TEXT, body(json!(most)).to_string().as_bytes()));
        (0..3).for_each(|_| server.honest());
        asked.join().unwrap()
    });
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(post(server.http, TEXT, &body(json!("\n"))).status, 200);
    assert_eq!(post(server.http, TEXT, &body(Json::Null)).status, 200);
    server.rests(Duration::from_secs(20));
}

/// Tests infinite values, and numbers that make a grammar library subtract without end.
#[test]
fn templates_and_schemas_that_call_themselves_end_only_their_own_request() {
    let server = Besieged::start(10.0);
    let ask = json!({"model": "cyclic", "messages": [{"role": "user", "content": "a"}], "max_tokens": 1});
    let answer = post(server.http, CHAT, &ask);
    assert!([400, 504].contains(&answer.status), "{}: {}", answer.status, answer.text());
    server.honest();
    for schema in [
        r#"{"const": -9223372036854775808}"#,
        r#"{"enum": [-9223372036854775296]}"#,
        r#"{"type": "integer", "minimum": -1e19, "exclusiveMaximum": -9223372036854775809}"#,
        r#"{"const": 9007199254740993}"#,
    ] {
        let body = format!(
            r#"{{"model": "tiny", "prompt": "a", "max_tokens": 40, "response_format": {{"type": "json_schema", "json_schema": {{"schema": {schema}}}}}}}"#
        );
        let answer = server.send(TEXT, body.as_bytes());
        assert_eq!(fault(&answer), (400, json!("response_format")), "{schema}: {}", answer.text());
        server.honest();
    }
}

/// Tests that neither a message nor a text for an embedding can contain a control token.
#[test]
fn control_tokens_in_texts_of_users_are_plain_text() {
    let server = Besieged::start(10.0);
    let count = |path: &str, body: &Json| {
        let answer = post(server.http, path, body);
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()["usage"]["prompt_tokens"].as_u64().unwrap()
    };
    let chat = |content: &str| json!({"model": "tiny", "messages": [{"role": "user", "content": content}], "max_tokens": 1});
    // If the name of the end token became one token, it would count like a letter.
    let control = "<|im_end|>";
    assert!(count(CHAT, &chat(control)) > count(CHAT, &chat("a")) + 3);
    let embed = |input: &str| json!({"model": "tiny", "input": input});
    assert!(count(EMBED, &embed(control)) > count(EMBED, &embed("a")) + 3);
    let prompt = |prompt: &str| json!({"model": "tiny", "prompt": prompt, "max_tokens": 1});
    assert_eq!(count(TEXT, &prompt(control)), 1, "a prompt may have control tokens");
}

#[test]
fn a_template_that_does_not_end_delays_no_other_model() {
    let server = Besieged::start(3.0);
    server.honest();
    let before = server.resident();
    let ask =
        json!({"model": "bad", "messages": [{"role": "user", "content": "a"}], "max_tokens": 2}).to_string();
    for _ in 0..6 {
        server.leave(CHAT, ask.as_bytes());
    }
    let start = Instant::now();
    let answer = server.send(CHAT, ask.as_bytes());
    assert!([400, 504].contains(&answer.status), "{}: {}", answer.status, answer.text());
    assert!(start.elapsed() < Duration::from_secs(6), "{:?}", start.elapsed());
    // Sends requests that are read on threads that may block, and requests that list files.
    let x = json!({"name": "x", "datatype": "FP32", "shape": [1, 40000], "data": vec![1; 40000]});
    for _ in 0..3 {
        assert_eq!(post(server.http, INFER, &json!({"inputs": [x]})).status, 200);
        assert_eq!(post(server.http, "/v2/repository/index", &json!({})).status, 200);
        server.honest();
    }
    server.rests(Duration::from_secs(20));
    let grown = server.peak() - before;
    assert!(grown < 250 << 20, "{} MiB", grown >> 20);
}
