//! Tests the memory and time of reading request bodies of OpenAI's interface.

use crate::process::{Besieged, CHAT, EMBED, TEXT};
use std::time::{Duration, Instant};

const MIB: usize = 1 << 20;

/// Returns a request object with a field of about this size, which consists of repeated items.
pub(crate) fn with(first: &str, open: &str, item: &str, close: &str, size: usize) -> Vec<u8> {
    let items = item.repeat(size / item.len());
    format!("{{\"model\":\"tiny\",{first}{open}{}{close}}}", items.trim_end_matches(',')).into_bytes()
}

const MESSAGES: &str = "\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}],\"max_tokens\":1,";
const PROMPT: &str = "\"prompt\":\"Hi\",\"max_tokens\":1,";

/// Returns kinds of bodies: the path, the field, its items, and the status of the answer.
pub(crate) fn kinds(size: usize) -> Vec<(&'static str, Vec<u8>, u16)> {
    let deep = format!("{}0{}", "[".repeat(100), "]".repeat(100)) + ",";
    let nested = "[".repeat(size / 2) + &"]".repeat(size / 2);
    vec![
        (CHAT, with(MESSAGES, "\"tools\":[", &deep, "]", size), 400),
        (CHAT, with(MESSAGES, "\"zzz\":[", "0,", "]", size), 200),
        (CHAT, with(MESSAGES, "\"zzz\":[", "{\"a\":[]},", "]", size), 200),
        (CHAT, with(MESSAGES, "\"zzz\":", &nested, "", size), 200),
        (CHAT, with(MESSAGES, "", "\"a\":0,", "", size), 200),
        (CHAT, with(MESSAGES, "\"zzz\":", "1", "", size), 200),
        (CHAT, with(MESSAGES, "\"functions\":[", "[0],", "]", size), 400),
        (
            CHAT,
            with(MESSAGES, "\"response_format\":{\"type\":\"json_schema\",\"a\":[", "[0],", "]}", size),
            400,
        ),
        (CHAT, with(MESSAGES, "\"stop\":[", "\"\",", "]", size), 400),
        (CHAT, with(MESSAGES, "\"stop\":\"", "\\n", "\"", size), 400),
        (CHAT, with("", "\"messages\":[", "{\"role\":\"\"},", "]", size), 400),
        (CHAT, with("", "\"messages\":[", "[],", "]", size), 400),
        (
            CHAT,
            with(
                "",
                "\"messages\":[{\"role\":\"user\",\"content\":[",
                "{\"type\":\"text\",\"text\":\"\"},",
                "]}]",
                size,
            ),
            400,
        ),
        (CHAT, with("", "\"messages\":[{\"role\":\"user\",\"tool_calls\":[", "[0],", "]}]", size), 400),
        (TEXT, with("", "\"prompt\":[", "0,", "]", size), 400),
        (TEXT, with("", "\"prompt\":[", "[0],", "]", size), 400),
        (TEXT, with("", "\"prompt\":[", "\"\",", "]", size), 400),
        (TEXT, with("", "\"prompt\":\"", "7", "\"", size), 400),
        (TEXT, with("", "\"prompt\":\"", "\\u00e9", "\"", size), 400),
        (TEXT, with(PROMPT, "\"logit_bias\":{", "\"0\":[0],", "}", size), 400),
        (EMBED, with("", "\"input\":[", "[0],", "]", size), 400),
        (EMBED, with("", "\"input\":[", "0,", "]", size), 400),
        (EMBED, with("", "\"input\":[", "\"\",", "]", size), 400),
        (EMBED, with("\"input\":\"a\",", "\"dimensions\":[", "0,", "]", size), 400),
    ]
}

#[test]
fn bodies_take_memory_in_proportion_to_their_size() {
    let server = Besieged::start(30.0);
    server.honest();
    for (at, (path, body, status)) in kinds(16 * MIB).into_iter().enumerate() {
        let before = server.resident();
        server.forget_peak();
        let start = Instant::now();
        let answer = server.send(path, &body);
        let shown = String::from_utf8_lossy(&body[..120]);
        assert_eq!(answer.status, status, "{at}, {shown}: {}", answer.text());
        let grown = server.peak().saturating_sub(before);
        // Memory is used for the body, a copy of its strings, the parser's copy of a string with escapes, and spare capacity of vectors.
        assert!(grown < 4 * body.len(), "{at}, {shown}: {} MiB", grown / MIB);
        assert!(start.elapsed() < server.timeout, "{at}, {shown}: {:?}", start.elapsed());
    }
    server.honest();
    server.rests(Duration::from_secs(30));
}

/// Sends eight bodies at the same time. Without limits, each would take gigabytes.
#[test]
fn many_large_bodies_at_once_are_within_the_bytes_that_requests_hold() {
    let server = Besieged::start(30.0);
    server.honest();
    let before = server.resident();
    let kinds = kinds(63 * MIB);
    let health = server.health();
    std::thread::scope(|scope| {
        for (path, body, _) in kinds.iter().take(8) {
            let server = &server;
            scope.spawn(move || {
                let answer = server.send(path, body);
                assert!(
                    [200, 400, 429, 504].contains(&answer.status),
                    "{}: {}",
                    answer.status,
                    answer.text()
                );
            });
        }
        server.honest();
    });
    let (p99, grown) = (health.ended(), server.peak() - before);
    assert!(grown < 800 * MIB, "{} MiB", grown / MIB);
    assert!(p99 < Duration::from_secs(1), "health took {p99:?}");
    server.honest();
    server.rests(Duration::from_secs(30));
}
