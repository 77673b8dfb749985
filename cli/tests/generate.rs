//! Tests of `bb generate` with the real binary and a model of no layers' worth of memory.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

fn text(text: &str) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat()
}

/// A model with one layer whose matrices are 0 but for the embedding, which is also the head: after each of the letters comes the next
/// one, because the embedding of a token is the direction of the token behind it, and each token has a direction of its own.
fn model() -> Vec<u8> {
    let words = ["a", "b", "c", "d", "<|end|>", "Ġ", "x", "y"];
    let (width, count) = (8usize, words.len());
    let mut keys: Vec<Vec<u8>> = Vec::new();
    let mut key = |name: &str, ty: u32, bytes: Vec<u8>| {
        keys.push([text(name), ty.to_le_bytes().to_vec(), bytes].concat());
    };
    let list = |ty: u32, all: Vec<Vec<u8>>| {
        [ty.to_le_bytes().to_vec(), (all.len() as u64).to_le_bytes().to_vec(), all.concat()].concat()
    };
    key("general.architecture", 8, text("llama"));
    for (name, value) in [
        ("block_count", 1u32),
        ("context_length", 32),
        ("embedding_length", 8),
        ("feed_forward_length", 8),
        ("attention.head_count", 1),
    ] {
        key(&format!("llama.{name}"), 4, value.to_le_bytes().into());
    }
    key("llama.attention.layer_norm_rms_epsilon", 6, 1e-5f32.to_le_bytes().into());
    key("tokenizer.ggml.model", 8, text("gpt2"));
    key("tokenizer.ggml.tokens", 9, list(8, words.iter().map(|word| text(word)).collect()));
    let types: [i32; 8] = [1, 1, 1, 1, 3, 1, 1, 1];
    key("tokenizer.ggml.token_type", 9, list(5, types.iter().map(|ty| ty.to_le_bytes().to_vec()).collect()));
    key("tokenizer.chat_template", 8, text("{% for m in messages %}{{ m.content }}{% endfor %}"));

    let matrix = |f: &dyn Fn(usize, usize) -> f32| -> Vec<f32> {
        (0..count).flat_map(|row| (0..width).map(move |column| (row, column))).map(|(r, c)| f(r, c)).collect()
    };
    let nothing = matrix(&|_, _| 0.0);
    let own = matrix(&|row, column| if row == column { 1.0 } else { 0.0 });
    let behind = matrix(&|row, column| if row == (column + 1) % 8 { 1.0 } else { 0.0 });
    let mut tensors: Vec<(String, Vec<u64>, Vec<f32>)> =
        vec![("token_embd.weight".into(), vec![8, 8], own), ("output.weight".into(), vec![8, 8], behind)];
    for name in ["attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"] {
        tensors.push((format!("blk.0.{name}.weight"), vec![8, 8], nothing.clone()));
    }
    for name in ["blk.0.attn_norm.weight", "blk.0.ffn_norm.weight", "output_norm.weight"] {
        tensors.push((name.into(), vec![8], vec![1.0; 8]));
    }
    let mut file = b"GGUF\x03\0\0\0".to_vec();
    file.extend((tensors.len() as u64).to_le_bytes());
    file.extend((keys.len() as u64).to_le_bytes());
    file.extend(keys.concat());
    let mut data: Vec<u8> = Vec::new();
    for (name, extents, numbers) in &tensors {
        file.extend(text(name));
        file.extend((extents.len() as u32).to_le_bytes());
        file.extend(extents.iter().flat_map(|n| n.to_le_bytes()));
        file.extend(0u32.to_le_bytes());
        file.extend((data.len() as u64).to_le_bytes());
        data.extend(numbers.iter().flat_map(|x| x.to_le_bytes()));
        data.resize(data.len().next_multiple_of(32), 0);
    }
    file.resize(file.len().next_multiple_of(32), 0);
    file.extend(data);
    file
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
    let file = Model::new("messages.json", br#"[{"role": "user", "content": "ab"}]"#);
    assert_eq!(printed(&model.run(&["--messages", file.0.to_str().unwrap()], "")), "cd\n");
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
    failed(model.run(&["--prompt", "a", "--bias", "b"], ""), 2, "expected a token and a number");
    failed(model.run(&["--prompt", ""], ""), 1, "expected one at least");
    failed(model.run(&["--messages", "absent.json"], ""), 1, "absent.json");
    let other = Model::new("other.gguf", b"no model");
    failed(other.run(&["--prompt", "a"], ""), 1, "expected a GGUF file");
    let messages = Model::new("wrong.json", b"{}");
    failed(model.run(&["--messages", messages.0.to_str().unwrap()], ""), 1, "no list of messages");
}
