//! Tests language models over OpenAI's interface: complete and streamed answers, limits, and the format of errors. `doors/serve/check`
//! tests with OpenAI's own client.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

#[path = "service/common/mod.rs"]
mod common;
#[path = "../../../generate/tests/tiny/mod.rs"]
mod tiny;

use bb_serve::{CacheType, Config, ModelConfig, Server};
use common::{Answer, config, get, metric, post, raw, request};
use serde_json::{Value as Json, json};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};
use tiny::{CONTEXT, Quant, Tiny};

fn model(name: &str) -> ModelConfig {
    static NEXT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let file = format!("serve-{}-{number}-{name}.gguf", std::process::id());
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(file);
    let tiny = Tiny { quant: Quant::F32, ..Tiny::default() };
    std::fs::write(&path, tiny.writer().bytes()).unwrap();
    ModelConfig { name: name.to_owned(), path, backend: "cpu".to_owned() }
}

fn served(change: impl FnOnce(&mut Config)) -> Server {
    let mut config = config(vec![model("tiny")]);
    change(&mut config);
    Server::start(config).unwrap()
}

const CHAT: &str = "/v1/chat/completions";
const TEXT: &str = "/v1/completions";

fn chat(more: &Json) -> Json {
    let mut body = json!({"model": "tiny", "messages": [{"role": "user", "content": "the 42"}], "max_tokens": 12,
        "temperature": 0, "ignore_eos": true});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

fn text(more: &Json) -> Json {
    let mut body =
        json!({"model": "tiny", "prompt": "the 42", "max_tokens": 12, "temperature": 0, "ignore_eos": true});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

/// Sends a request with a streamed answer, and returns the answer's events.
fn streamed(to: SocketAddr, path: &str, body: &Json) -> Vec<String> {
    let mut stream = TcpStream::connect(to).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let bytes = String::from_utf8(request(path, &[], body.to_string().as_bytes())).unwrap();
    stream.write_all(bytes.replacen("HTTP/1.1", "HTTP/1.0", 1).as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.contains("200") && head.contains("text/event-stream"), "{answer}");
    let events = body.split_terminator("\n\n");
    events.map(|event| event.strip_prefix("data: ").unwrap().to_owned()).collect()
}

fn error(answer: &Answer, status: u16) -> Json {
    assert_eq!(answer.status, status, "{}", answer.text());
    let error = answer.json()["error"].clone();
    assert!(error["message"].is_string() && error["type"].is_string(), "{error}");
    assert!(error.get("param").is_some() && error.get("code").is_some(), "{error}");
    error
}

#[test]
fn models_are_listed() {
    let server = served(|_| ());
    let list = get(server.http(), "/v1/models").json();
    assert_eq!((&list["object"], &list["data"][0]["id"]), (&json!("list"), &json!("tiny")));
    assert_eq!(get(server.http(), "/v1/models/tiny").json()["context_length"], CONTEXT);
    let absent = error(&get(server.http(), "/v1/models/other"), 404);
    assert_eq!((&absent["code"], &absent["param"]), (&json!("model_not_found"), &json!("model")));
    assert!(absent["message"].as_str().unwrap().contains("`tiny`"), "{absent}");
    error(&get(server.http(), "/v1/nothing"), 404);
    error(&get(server.http(), CHAT), 405);
}

#[test]
fn answers_come_however_caches_are_kept() {
    for cache in [CacheType::F32, CacheType::F16, CacheType::I8] {
        let server = served(|config| config.cache = cache);
        let answer = post(server.http(), TEXT, &text(&json!({}))).json();
        assert_eq!(answer["usage"]["completion_tokens"], 12, "{cache:?}: {answer}");
    }
}

#[test]
fn an_answer_is_the_same_whole_and_in_parts() {
    let server = served(|_| ());
    let whole = post(server.http(), CHAT, &chat(&json!({"seed": 3, "temperature": 0.8}))).json();
    assert_eq!(whole["object"], "chat.completion");
    let choice = &whole["choices"][0];
    assert_eq!(
        (&choice["finish_reason"], &choice["message"]["role"]),
        (&json!("length"), &json!("assistant"))
    );
    // The number of the template's tokens is checked in `messages_are_the_tokens_of_the_template` of bb-generate.
    let usage = &whole["usage"];
    assert_eq!((&usage["prompt_tokens"], &usage["completion_tokens"]), (&json!(24), &json!(12)));
    assert_eq!(usage["total_tokens"], 36);
    let given =
        json!({"seed": 3, "temperature": 0.8, "stream": true, "stream_options": {"include_usage": true}});
    let mut events = streamed(server.http(), CHAT, &chat(&given));
    assert_eq!(events.pop().unwrap(), "[DONE]");
    let events: Vec<Json> = events.iter().map(|event| serde_json::from_str(event).unwrap()).collect();
    assert!(
        events
            .iter()
            .all(|event| event["object"] == "chat.completion.chunk" && event["id"] == events[0]["id"])
    );
    assert_eq!(events[0]["choices"][0]["delta"], json!({"role": "assistant", "content": ""}));
    let last = &events[events.len() - 1];
    assert_eq!((&last["choices"], &last["usage"]["completion_tokens"]), (&json!([]), &json!(12)));
    let parts = events.iter().filter_map(|event| event["choices"][0]["delta"]["content"].as_str());
    assert_eq!(parts.collect::<String>(), choice["message"]["content"].as_str().unwrap());
    assert_eq!(events[events.len() - 2]["choices"][0]["finish_reason"], "length");
    // Tests completions, whose prompt may be tokens.
    let whole = post(server.http(), TEXT, &text(&json!({}))).json();
    assert_eq!((&whole["object"], &whole["usage"]["prompt_tokens"]), (&json!("text_completion"), &json!(5)));
    let events = streamed(server.http(), TEXT, &text(&json!({"stream": true})));
    let parts = events.iter().filter_map(|event| serde_json::from_str::<Json>(event).ok());
    let parts = parts.map(|event| event["choices"][0]["text"].as_str().unwrap().to_owned());
    assert_eq!(parts.collect::<String>(), whole["choices"][0]["text"].as_str().unwrap());
}

#[test]
fn eight_at_once_have_the_answers_of_one() {
    let server = served(|_| ());
    let to = server.http();
    let body = |i: usize| {
        chat(&json!({"messages": [{"role": "user", "content": format!("the {i} th")}], "max_tokens": 40}))
    };
    let alone: Vec<Json> = (0..8).map(|i| post(to, CHAT, &body(i)).json()["choices"].clone()).collect();
    let threads: Vec<_> = (0..8)
        .map(|i| std::thread::spawn(move || post(to, CHAT, &body(i)).json()["choices"].clone()))
        .collect();
    let joined: Vec<Json> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    assert_eq!(joined, alone);
    let answered = r#"bb_generation_requests_total{model="tiny",protocol="http",outcome="ok"}"#;
    assert_eq!(metric(&server, answered), 16.0);
    assert_eq!(metric(&server, r#"bb_generation_tokens_total{model="tiny",kind="answer"}"#), 640.0);
    assert_eq!(metric(&server, r#"bb_generation_sequences{model="tiny",state="running"}"#), 0.0);
    assert_eq!(metric(&server, r#"bb_generation_cache_bytes{model="tiny"}"#), 0.0);
}

#[test]
fn requests_say_how_tokens_are_chosen() {
    let server = served(|_| ());
    let ask = |more: Json| post(server.http(), CHAT, &chat(&more)).json();
    // Token 34 is `@`. The bias makes it the most probable token.
    let biased = ask(json!({"logit_bias": {"34": 100}, "max_completion_tokens": 3}));
    let said = biased["choices"][0]["message"]["content"].as_str().unwrap().to_owned();
    assert_eq!(said.chars().count(), 3);
    let token = said.chars().next().unwrap().to_string();
    assert_eq!(said, token.repeat(3));
    // The answer ends before a stop string.
    let stopped = ask(json!({"logit_bias": {"34": 100}, "stop": [token.repeat(2)]}));
    assert_eq!(stopped["choices"][0]["message"]["content"], "");
    assert_eq!(stopped["choices"][0]["finish_reason"], "stop");
    let penalised = ask(json!({"logit_bias": {"34": 100}, "presence_penalty": 2000, "max_tokens": 2}));
    assert_ne!(penalised["choices"][0]["message"]["content"], token.repeat(2));
    let several = ask(json!({"n": 3, "temperature": 1.5, "seed": 5, "max_tokens": 20}));
    let texts: Vec<&Json> =
        several["choices"].as_array().unwrap().iter().map(|choice| &choice["message"]["content"]).collect();
    assert_eq!((texts.len(), &several["usage"]["completion_tokens"]), (3, &json!(60)));
    assert!(texts[0] != texts[1] && texts[1] != texts[2]);
    assert_eq!(several["choices"][2]["index"], 2);
    let probable = ask(json!({"logprobs": true, "top_logprobs": 2, "max_tokens": 4}));
    let of = probable["choices"][0]["logprobs"]["content"].as_array().unwrap();
    assert_eq!((of.len(), of[0]["top_logprobs"].as_array().unwrap().len()), (4, 2));
    assert_eq!(of[0]["logprob"], of[0]["top_logprobs"][0]["logprob"]);
    let of = post(server.http(), TEXT, &text(&json!({"logprobs": 3, "max_tokens": 4}))).json();
    let of = &of["choices"][0]["logprobs"];
    assert_eq!((of["tokens"].as_array().unwrap().len(), &of["text_offset"][0]), (4, &json!(0)));
    let prompts = post(server.http(), TEXT, &text(&json!({"prompt": [[5, 6], [7]], "n": 2}))).json();
    assert_eq!(
        (prompts["choices"].as_array().unwrap().len(), &prompts["usage"]["prompt_tokens"]),
        (4, &json!(3))
    );
}

#[test]
fn texts_have_embeddings() {
    let server = served(|_| ());
    let body = json!({"model": "tiny", "input": ["the 42", "42", "the 42"]});
    let answer = post(server.http(), "/v1/embeddings", &body).json();
    let vector = |i: usize| -> Vec<f64> {
        answer["data"][i]["embedding"].as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect()
    };
    let [first, second, third] = [0, 1, 2].map(vector);
    assert_eq!((first.len(), &answer["usage"]["prompt_tokens"]), (64, &json!(12)));
    assert!((first.iter().map(|x| x * x).sum::<f64>() - 1.0).abs() < 1e-5);
    assert_eq!(first, third);
    assert_ne!(first, second);
    let packed = json!({"model": "tiny", "input": [1, 2, 3], "encoding_format": "base64"});
    let packed = post(server.http(), "/v1/embeddings", &packed).json();
    assert_eq!(packed["data"][0]["embedding"].as_str().unwrap().len(), (64usize * 4).div_ceil(3) * 4);
}

fn of_schema(schema: &Json) -> Json {
    json!({"response_format": {"type": "json_schema", "json_schema": {"name": "answer", "strict": true, "schema": schema}}})
}

#[test]
fn answers_are_json_of_their_schemas() {
    let server = served(|_| ());
    let to = server.http();
    let schema = json!({"type": "object", "properties": {"z": {"enum": ["é", "red"]}, "a": {"type": "integer", "minimum": 3, "maximum": 20}},
        "required": ["z", "a"], "additionalProperties": false});
    let ask = |more: &Json, seed: u64| {
        let mut body = chat(
            &json!({"max_tokens": 100, "temperature": 1.2, "seed": seed, "logit_bias": {"1": -100, "2": -100}}),
        );
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    for seed in 0..4 {
        let body = ask(&of_schema(&schema), seed);
        let answer = post(to, CHAT, &body).json();
        let choice = &answer["choices"][0];
        let text = choice["message"]["content"].as_str().unwrap();
        let value: Json = serde_json::from_str(text).unwrap();
        assert!(
            text.starts_with(r#"{"z":"#) && value["a"].as_u64().is_some_and(|a| (3..=20).contains(&a)),
            "{text}"
        );
        assert_eq!((&choice["finish_reason"], value.as_object().unwrap().len()), (&json!("stop"), 2));
        // The streamed answer is the same.
        let mut body = body;
        body["stream"] = json!(true);
        let events = streamed(to, CHAT, &body);
        let parts = events.iter().filter_map(|event| serde_json::from_str::<Json>(event).ok());
        let parts = parts.map(|event| event["choices"][0]["delta"]["content"].as_str().unwrap().to_owned());
        assert_eq!(parts.collect::<String>(), text);
    }
    let object = post(to, CHAT, &ask(&json!({"response_format": {"type": "json_object"}}), 1)).json();
    assert!(object["choices"][0]["message"]["content"].as_str().unwrap().starts_with('{'), "{object}");
    let any = post(to, CHAT, &ask(&json!({"response_format": {"type": "text"}, "max_tokens": 5}), 1)).json();
    assert_eq!(any["usage"]["completion_tokens"], 5);
    // Several concurrent requests have different schemas. The answers of one request share its schema.
    let threads: Vec<_> = ["red", "green", "blue"]
        .map(|word| {
            let body = ask(
                &json!({"n": 3, "response_format": of_schema(&json!({"const": word}))["response_format"]}),
                7,
            );
            std::thread::spawn(move || {
                for choice in post(to, CHAT, &body).json()["choices"].as_array().unwrap() {
                    assert_eq!(choice["message"]["content"], format!("{word:?}"));
                }
            })
        })
        .into();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let body = text(
        &json!({"max_tokens": 50, "response_format": of_schema(&json!({"enum": [true]}))["response_format"]}),
    );
    assert_eq!(post(to, TEXT, &body).json()["choices"][0]["text"], "true");
}

#[test]
fn wrong_requests_are_told_what_is_wrong() {
    let server = served(|_| ());
    for (path, more, param) in [
        (CHAT, json!({"messages": []}), "messages"),
        (CHAT, json!({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}), "messages"),
        (CHAT, json!({"response_format": {"type": "xml"}}), "response_format"),
        (CHAT, json!({"response_format": "json_object"}), "response_format"),
        (CHAT, json!({"response_format": {"type": "json_schema"}}), "response_format"),
        (
            CHAT,
            json!({"response_format": {"type": "json_schema", "json_schema": {"name": "x"}}}),
            "response_format",
        ),
        (CHAT, of_schema(&json!({"type": "array", "uniqueItems": true})), "response_format"),
        (CHAT, of_schema(&json!("text")), "response_format"),
        (CHAT, of_schema(&json!({"const": "a".repeat(128 << 10)})), "response_format"),
        (TEXT, of_schema(&json!({"$ref": "http://127.0.0.1:1/"})), "response_format"),
        (CHAT, json!({"tools": [{"type": "function"}]}), "tools"),
        (CHAT, json!({"n": 0}), "n"),
        (CHAT, json!({"n": 17}), "n"),
        (CHAT, json!({"max_tokens": 0}), "max_tokens"),
        (CHAT, json!({"top_logprobs": 3}), "top_logprobs"),
        (CHAT, json!({"logprobs": true, "top_logprobs": 21}), "top_logprobs"),
        (CHAT, json!({"logit_bias": {"x": 1}}), "logit_bias"),
        (TEXT, json!({"echo": true}), "echo"),
        (TEXT, json!({"suffix": "x"}), "suffix"),
        (TEXT, json!({"logprobs": 21}), "logprobs"),
        (TEXT, json!({"prompt": []}), "prompt"),
    ] {
        let body = if path == CHAT { chat(&more) } else { text(&more) };
        let found = error(&post(server.http(), path, &body), 400);
        assert_eq!(
            (&found["param"], &found["type"]),
            (&json!(param), &json!("invalid_request_error")),
            "{found}"
        );
    }
    for (more, says) in [
        (json!({"top_p": 2}), "`top_p` is 2"),
        (json!({"temperature": -1}), "`temperature` is -1"),
        (json!({"prompt": ""}), "no tokens"),
        (json!({"prompt": [128]}), "token 128 does not exist"),
    ] {
        let found = error(&post(server.http(), TEXT, &text(&more)), 400);
        assert!(found["message"].as_str().unwrap().contains(says), "{found}");
    }
    let long = text(&json!({"prompt": "a".repeat(CONTEXT + 1)}));
    assert_eq!(error(&post(server.http(), TEXT, &long), 400)["code"], "context_length_exceeded");
    assert_eq!(
        error(&post(server.http(), TEXT, &text(&json!({"model": "x"}))), 404)["code"],
        "model_not_found"
    );
    for body in ["", "{", "[]", "{\"model\": 3}", "{\"model\": \"tiny\"}"] {
        error(&raw(server.http(), &request(CHAT, &[("connection", "close")], body.as_bytes())).unwrap(), 400);
    }
    error(&post(server.http(), "/v1/embeddings", &json!({"model": "tiny", "input": []})), 400);
    error(
        &post(server.http(), "/v1/embeddings", &json!({"model": "tiny", "input": "a", "dimensions": 3})),
        400,
    );
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn open(to: SocketAddr, body: &Json) -> TcpStream {
    let mut stream = TcpStream::connect(to).unwrap();
    stream.write_all(&request(TEXT, &[], body.to_string().as_bytes())).unwrap();
    stream
}

#[test]
fn clients_that_leave_make_room() {
    let server = served(|config| (config.sequences, config.queue) = (1, 2));
    let state = |state: &str| {
        metric(&server, &format!("bb_generation_sequences{{model=\"tiny\",state=\"{state}\"}}"))
    };
    // Requests sequences of the maximum length repeatedly.
    let long = text(&json!({"max_tokens": 100_000, "n": 1, "stream": true}));
    let refused = || post(server.http(), TEXT, &text(&json!({"max_tokens": 1}))).status == 429;
    let mut all = Vec::new();
    until("the queue is never full", || {
        all.push(open(server.http(), &long));
        state("waiting") >= 1.0 && refused()
    });
    let full = post(server.http(), TEXT, &text(&json!({"max_tokens": 1})));
    if full.status == 429 {
        assert_eq!(error(&full, 429)["code"], "rate_limit_exceeded");
    }
    drop(all);
    until("clients that left are still served", || state("running") + state("waiting") == 0.0);
    assert_eq!(post(server.http(), TEXT, &text(&json!({}))).status, 200);
}

#[test]
fn a_token_is_asked_for_in_openais_form() {
    let server = served(|config| config.token = Some(bb_serve::Token::new("secret").unwrap()));
    assert_eq!(error(&get(server.http(), "/v1/models"), 401)["code"], "invalid_api_key");
    let bytes =
        b"GET /v1/models HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer secret\r\nconnection: close\r\n\r\n";
    assert_eq!(raw(server.http(), bytes).unwrap().status, 200);
}

#[test]
fn the_end_lets_answers_finish() {
    let server = served(|_| ());
    let to = server.http();
    let asked = std::thread::spawn(move || post(to, TEXT, &text(&json!({"max_tokens": 150}))));
    until("it never runs", || metric(&server, "bb_generation_steps_total{model=\"tiny\"}") > 0.0);
    assert!(server.shut_down().finished);
    assert_eq!(asked.join().unwrap().json()["usage"]["completion_tokens"], 150);
}
