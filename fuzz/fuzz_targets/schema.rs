//! Compiles JSON schemas and other constraints of answers, and begins an answer with them.
#![no_main]

use bb_cpu as _;
use bb_fuzz::memory;
use bb_generate::{Constraint, GenerateOptions, Generator, OpenOptions};
use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;

/// The bytes that compiling a constraint may take, and the bytes for each of its own.
const MEMORY: usize = 256 << 20;
const TIMES: usize = 4096;

static GENERATOR: LazyLock<Generator> = LazyLock::new(|| {
    let cpu = bb::backend("cpu(threads=1)").expect("the backend is linked");
    let model = include_bytes!("../seeds/gguf/llama-0.gguf").as_slice();
    Generator::from_bytes(model, &cpu, &OpenOptions::default()).expect("the seed is a model")
});

fuzz_target!(|data: &[u8]| {
    let Some((kind, text)) = data.split_first() else { return };
    let Ok(text) = std::str::from_utf8(text) else { return };
    let constraint = match kind {
        b'r' => Constraint::Regex(text.to_owned()),
        b'l' => Constraint::Lark(text.to_owned()),
        _ => Constraint::JsonSchema(text.to_owned()),
    };
    let generator = &*GENERATOR;
    let (compiled, peak) = memory::granted(|| generator.grammar(&constraint));
    assert!(peak <= MEMORY + TIMES * data.len(), "{peak} bytes");
    let grammar = match compiled {
        Ok(grammar) => grammar,
        Err(error) => {
            assert!(error.to_string().len() < 4096);
            return;
        }
    };
    let mut options = GenerateOptions::default();
    (options.tokens, options.grammar) = (8, Some(grammar));
    if let Ok(generation) = generator.sequence().generate(&[0, 1], &options) {
        for piece in generation {
            if piece.is_err() {
                break;
            }
        }
    }
});
