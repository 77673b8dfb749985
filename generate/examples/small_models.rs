//! Writes small language models with what they answer, and files that are none, for the tests of the module for browsers.
//!
//! The argument is a folder. `runs.json` lists its models, with requests and the tokens that this processor's kernels lead to; `margin` tells
//! how much greater the logit of a token is than the next one, because where both are nearly equal, another processor may choose the other.
//! `refused.json` lists the files that are no models.

#[path = "../tests/tiny/mod.rs"]
mod tiny;

use bb_cpu as _;
use bb_generate::{End, GenerateOptions, Generator, Message, OpenOptions};
use serde_json::{Value as Json, json};
use std::error::Error;
use std::path::Path;
use tiny::{GgufWriter, Meta, Quant, Tiny};

type Fallible<T> = Result<T, Box<dyn Error>>;

/// The number of tokens that each run generates.
const TOKENS: usize = 24;
/// The seed of the runs that sample tokens.
const SEED: u32 = 7;

fn main() -> Fallible<()> {
    let folder = std::env::args().nth(1).ok_or("expected: FOLDER")?;
    let folder = Path::new(&folder);
    std::fs::create_dir_all(folder)?;
    let mut runs = Vec::new();
    for quant in Quant::ALL {
        let file = format!("{quant:?}.gguf").to_lowercase();
        let path = folder.join(&file);
        std::fs::write(&path, Tiny::of(quant).writer().bytes())?;
        for run in runs_of(&path, quant == Quant::F32)? {
            runs.push(with(run, "file", json!(file)));
        }
    }
    std::fs::write(folder.join("runs.json"), serde_json::to_vec_pretty(&runs)?)?;
    let mut refused = Vec::new();
    for (name, bytes) in wrong() {
        let file = format!("{name}.gguf");
        std::fs::write(folder.join(&file), &bytes)?;
        let opened = Generator::from_bytes(bytes, &bb::backend("cpu")?, &OpenOptions::default());
        let error = opened.err().ok_or_else(|| format!("{file} is accepted"))?;
        refused.push(
            json!({ "file": file, "message": error.to_string(), "kind": error.kind().of_model().name() }),
        );
    }
    std::fs::write(folder.join("refused.json"), serde_json::to_vec_pretty(&refused)?)?;
    Ok(())
}

/// Runs a model with greedy decoding, with a stop string, and if `draws` is true also with sampling.
fn runs_of(path: &Path, draws: bool) -> Fallible<Vec<Json>> {
    let generator = Generator::open(path, &bb::backend("cpu")?, &OpenOptions::default())?;
    let messages = [
        Message::new("system", "Be short. Say what you know, and nothing that you do not know."),
        Message::new("user", "What is a tensor?"),
    ];
    let chat = generator.chat(&messages)?;
    let prompt = "the text";
    let text = generator.tokens().encode(prompt)?;
    let greedy = json!({ "maxTokens": TOKENS });
    let mut runs = vec![
        run(&generator, json!(messages), &chat, &greedy)?,
        run(&generator, json!(prompt), &text, &greedy)?,
    ];
    let answer = runs.first().and_then(|run| run["text"].as_str()).unwrap_or_default();
    let stop: String = answer.chars().skip(4).take(2).collect();
    if !stop.is_empty() {
        let options = json!({ "maxTokens": TOKENS, "stop": [stop] });
        runs.push(run(&generator, json!(messages), &chat, &options)?);
    }
    if draws {
        // What the page sends: one message, so that the test of the page can send it, too.
        let message = [Message::new("user", "What is a tensor?")];
        let page = run(&generator, json!(message), &generator.chat(&message)?, &greedy)?;
        runs.push(with(page, "page", json!(true)));
        for options in [
            json!({ "maxTokens": TOKENS, "temperature": 0.8, "seed": SEED }),
            json!({ "maxTokens": TOKENS, "temperature": 1.5, "topK": 20, "topP": 0.9, "minP": 0.01, "seed": SEED }),
            json!({ "maxTokens": TOKENS, "repetitionPenalty": 1.3 }),
        ] {
            runs.push(run(&generator, json!(messages), &chat, &options)?);
        }
    }
    Ok(runs)
}

/// Adds a field to an object.
fn with(mut object: Json, field: &str, value: Json) -> Json {
    if let Some(fields) = object.as_object_mut() {
        fields.insert(field.to_owned(), value);
    }
    object
}

fn run(generator: &Generator, from: Json, prompt: &[u32], given: &Json) -> Fallible<Json> {
    let mut options = GenerateOptions::default();
    options.tokens = TOKENS;
    options.log_probabilities = Some(2);
    let number = |name: &str, without: f64| given[name].as_f64().unwrap_or(without);
    options.sampling.temperature = number("temperature", 0.0);
    options.sampling.top_k = number("topK", 0.0) as usize;
    options.sampling.top_p = number("topP", 1.0);
    options.sampling.min_p = number("minP", 0.0);
    options.sampling.repetition_penalty = number("repetitionPenalty", 1.0);
    options.sampling.seed = given["seed"].as_u64();
    options.stop = serde_json::from_value(given.get("stop").cloned().unwrap_or(json!([])))?;
    let (mut pieces, mut end) = (Vec::new(), None);
    for piece in generator.sequence().generate(prompt, &options)? {
        let piece = piece?;
        let margin = match piece.log_probabilities {
            Some((_, top)) => match top.as_slice() {
                [first, second] => first.log_probability - second.log_probability,
                _ => 0.0,
            },
            None => 0.0,
        };
        pieces.push(json!({ "token": piece.token, "text": piece.text, "margin": margin }));
        end = piece.end;
    }
    let text: String = pieces.iter().filter_map(|piece| piece["text"].as_str()).collect();
    let end = match end {
        Some(End::Token) => "token",
        Some(End::Stop) => "stop",
        Some(End::Length) => "length",
        _ => return Err("a run ended otherwise".into()),
    };
    Ok(
        json!({ "from": from, "options": given, "prompt": prompt.len(), "pieces": pieces, "text": text, "end": end }),
    )
}

/// Files that are no language models.
fn wrong() -> Vec<(String, Vec<u8>)> {
    let whole = Tiny::default().writer().bytes();
    let changed = |change: &dyn Fn(&mut GgufWriter)| {
        let mut writer = Tiny::default().writer();
        change(&mut writer);
        writer.bytes()
    };
    let text = |text: &str| Meta::Text(text.to_owned());
    let mut all: Vec<(String, Vec<u8>)> = (0..8)
        .map(|part| {
            let length = whole.len() * part / 8;
            (format!("first-{length}-bytes"), whole.iter().take(length).copied().collect())
        })
        .collect();
    let named = [
        ("no-gguf", b"PK\x03\x04 and so on".to_vec()),
        ("many-tensors", changed(&|file| file.tensors_said = Some(u64::MAX))),
        ("many-keys", changed(&|file| file.keys_said = Some(1 << 40))),
        ("long-text", changed(&|file| file.key("long", Meta::Raw(8, u64::MAX.to_le_bytes().to_vec())))),
        ("unknown-type", changed(&|file| file.key("what", Meta::Raw(99, vec![0; 8])))),
        ("other-architecture", changed(&|file| file.replace("general.architecture", text("mamba")))),
        ("other-tokenizer", changed(&|file| file.replace("tokenizer.ggml.model", text("rwkv")))),
        ("no-words", changed(&|file| file.replace("tokenizer.ggml.tokens", Meta::Texts(Vec::new())))),
        ("no-heads", changed(&|file| file.replace("llama.attention.head_count", Meta::U32(0)))),
        ("many-layers", changed(&|file| file.replace("llama.block_count", Meta::U32(u32::MAX)))),
        ("no-norm", changed(&|file| file.remove_tensor("output_norm.weight"))),
        ("more-tensors", changed(&|file| file.tensor("other.weight", &[32], 0, vec![0; 128]))),
        ("far-tensor", changed(&|file| file.described("far.weight", &[32], 0, 1 << 40))),
        ("wrong-template", changed(&|file| file.replace("tokenizer.chat_template", text("{% for %}")))),
    ];
    all.extend(named.map(|(name, bytes)| (name.to_owned(), bytes)));
    all
}
