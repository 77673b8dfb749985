//! Tests of `bb generate` with the real binary and a model of no layers' worth of memory.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use tiny::{GgufWriter, Meta};

#[path = "../../generate/tests/tiny/mod.rs"]
mod tiny;

/// A model with one layer whose matrices are 0 but for the embedding, which is also the head: after each of the letters comes the next
/// one, because the embedding of a token is the direction of the token behind it, and each token has a direction of its own.
fn model() -> Vec<u8> {
    let words = ["a", "b", "c", "d", "<|end|>", "Ġ", "x", "y"];
    let (width, count) = (8usize, words.len());
    let mut writer = GgufWriter::default();
    writer.key("general.architecture", Meta::Text("llama".to_owned()));
    for (name, value) in [
        ("block_count", 1u32),
        ("context_length", 32),
        ("embedding_length", 8),
        ("feed_forward_length", 8),
        ("attention.head_count", 1),
    ] {
        writer.key(&format!("llama.{name}"), Meta::U32(value));
    }
    writer.key("llama.attention.layer_norm_rms_epsilon", Meta::F32(1e-5));
    writer.key("tokenizer.ggml.model", Meta::Text("gpt2".to_owned()));
    writer.key("tokenizer.ggml.tokens", Meta::Texts(words.map(str::to_owned).into()));
    writer.key("tokenizer.ggml.token_type", Meta::I32s(vec![1, 1, 1, 1, 3, 1, 1, 1]));
    let template = "{% for m in messages %}{{ m.content }}{% endfor %}";
    writer.key("tokenizer.chat_template", Meta::Text(template.to_owned()));

    let matrix = |f: &dyn Fn(usize, usize) -> f32| -> Vec<f32> {
        (0..count).flat_map(|row| (0..width).map(move |column| (row, column))).map(|(r, c)| f(r, c)).collect()
    };
    let nothing = matrix(&|_, _| 0.0);
    let own = matrix(&|row, column| if row == column { 1.0 } else { 0.0 });
    let behind = matrix(&|row, column| if row == (column + 1) % 8 { 1.0 } else { 0.0 });
    let mut tensor = |name: &str, extents: &[u64], numbers: &[f32]| {
        writer.tensor(name, extents, 0, numbers.iter().flat_map(|x| x.to_le_bytes()).collect());
    };
    tensor("token_embd.weight", &[8, 8], &own);
    tensor("output.weight", &[8, 8], &behind);
    for name in ["attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"] {
        tensor(&format!("blk.0.{name}.weight"), &[8, 8], &nothing);
    }
    for name in ["blk.0.attn_norm.weight", "blk.0.ffn_norm.weight", "output_norm.weight"] {
        tensor(name, &[8], &[1.0; 8]);
    }
    writer.bytes()
}

/// A file that is removed with the value.
struct Model(PathBuf);

impl Model {
    fn new(name: &str, bytes: &[u8]) -> Model {
        let path = std::env::temp_dir().join(format!("bb-cli-generate-{}-{name}", std::process::id()));
        std::fs::write(&path, bytes).unwrap();
        Model(path)
    }

    fn run(&self, arguments: &[&str], input: &str) -> Output {
        let mut child = Command::new(env!("CARGO_BIN_EXE_bb"))
            .arg("generate")
            .arg(&self.0)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn printed(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn prompts_messages_and_conversations_are_answered() {
    let model = Model::new("letters.gguf", &model());
    let output = model.run(&["--prompt", "a"], "");
    assert_eq!(printed(&output), "bcd\n");
    let remarks = String::from_utf8(output.stderr).unwrap();
    assert!(remarks.contains("prompt: 1 tokens") && remarks.contains("answer: 4 tokens"), "{remarks}");
    assert!(remarks.contains("tokens per second") && remarks.contains("of caches"), "{remarks}");
    assert_eq!(printed(&model.run(&["--raw", "--prompt", "xa", "--tokens", "2"], "")), "bc\n");
    assert_eq!(printed(&model.run(&["--prompt", "a", "--stop", "cd"], "")), "b\n");
    assert_eq!(printed(&model.run(&["--prompt", "a", "--bias", "3=1e9", "--tokens", "3"], "")), "ddd\n");
    assert_eq!(printed(&model.run(&["--chat"], "a\n\nc\n")), "bcd\nd\n");
    for cache in ["f32", "f16", "i8"] {
        assert_eq!(printed(&model.run(&["--prompt", "a", "--cache", cache], "")), "bcd\n");
    }
    let file = Model::new("messages.json", br#"[{"role": "user", "content": "ab"}]"#);
    assert_eq!(printed(&model.run(&["--messages", file.0.to_str().unwrap()], "")), "cd\n");
}

/// The letters of the model, in the order that it prefers, as far as the grammar allows them.
#[test]
fn answers_are_as_their_grammar_has_them() {
    let model = Model::new("grammar.gguf", &model());
    assert_eq!(printed(&model.run(&["--prompt", "a", "--regex", "x?[bc]{3}"], "")), "bcb\n");
    assert_eq!(printed(&model.run(&["--prompt", "a", "--regex", "b{1,2}"], "")), "bb\n");
    assert_eq!(printed(&model.run(&["--chat", "--regex", "(bad|cab)"], "a\nb\n")), "bad\ncab\n");
    let rules = Model::new("rules.lark", b"start: \"b\" (\"a\" | \"d\")~2");
    assert_eq!(printed(&model.run(&["--prompt", "a", "--lark", rules.0.to_str().unwrap()], "")), "baa\n");
    let output = model.run(&["--prompt", "a", "--json", "--regex", "bb"], "");
    let report: serde_json::Value = serde_json::from_str(&printed(&output)).unwrap();
    assert_eq!((&report["end"], &report["text"]), (&"stop".into(), &"bb".into()));
    let failed = |arguments: &[&str], status: i32, words: &str| {
        let output = model.run(&[&["--prompt", "a"], arguments].concat(), "");
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(status), "{text}");
        assert!(text.contains(words), "{text}");
    };
    failed(&["--regex", "("], 1, "unclosed group");
    failed(&["--regex", "a", "--json-object"], 2, "cannot be used with");
    failed(&["--json-schema", "absent.json"], 1, "absent.json");
    let schema = Model::new("schema.json", br#"{"type": "array", "uniqueItems": true}"#);
    failed(&["--json-schema", schema.0.to_str().unwrap()], 1, "uniqueItems");
    // The model has no token with a bracket.
    failed(&["--json-object"], 1, "no token");
}

#[test]
fn json_has_the_tokens_and_the_times() {
    let model = Model::new("json.gguf", &model());
    let output = model.run(&["--prompt", "a", "--json", "--log-probabilities", "2"], "");
    let report: serde_json::Value = serde_json::from_str(&printed(&output)).unwrap();
    assert_eq!(report["text"], "bcd");
    assert_eq!(report["tokens"], serde_json::json!([1, 2, 3, 4]));
    assert_eq!((&report["end"], &report["prompt_tokens"]), (&"end".into(), &1.into()));
    assert_eq!(report["log_probabilities"].as_array().unwrap().len(), 4);
    assert_eq!(report["log_probabilities"][0][0][0], 1);
    assert!(report["answer_tokens_per_second"].as_f64().unwrap() > 0.0);
}

#[test]
fn mistakes_are_errors_with_what_was_expected() {
    let model = Model::new("mistakes.gguf", &model());
    let failed = |output: Output, status: i32, words: &str| {
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(status), "{text}");
        assert!(text.contains(words), "{text}");
    };
    failed(model.run(&[], ""), 2, "--prompt");
    failed(model.run(&["--prompt", "a", "--chat"], ""), 2, "cannot be used with");
    failed(model.run(&["--prompt", "a", "--temperature", "-1"], ""), 2, "");
    failed(model.run(&["--prompt", "a", "--top-p", "2"], ""), 1, "expected 0 to 1");
    failed(model.run(&["--prompt", "a", "--cache", "i4"], ""), 2, "f32, f16, i8");
    failed(model.run(&["--prompt", "a", "--bias", "b"], ""), 2, "expected a token and a number");
    failed(model.run(&["--prompt", ""], ""), 1, "expected one at least");
    failed(model.run(&["--messages", "absent.json"], ""), 1, "absent.json");
    let other = Model::new("other.gguf", b"no model");
    failed(other.run(&["--prompt", "a"], ""), 1, "expected a GGUF file");
    let messages = Model::new("wrong.json", b"{}");
    failed(model.run(&["--messages", messages.0.to_str().unwrap()], ""), 1, "no list of messages");
}
