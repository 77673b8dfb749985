//! Reads GGUF files: metadata, tensors, tokenizers and templates; opens those that are models, and generates with them.
#![no_main]

use bb_cpu as _;
use bb_fuzz::memory;
use bb_generate::gguf::Gguf;
use bb_generate::{GenerateOptions, Generator, OpenOptions, Tokens};
use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;

/// Memory limit for reading a file, in addition to the file, in bytes for each of its bytes: a short key becomes an entry of a map.
const TIMES: usize = 64;
/// Memory limit in bytes for opening a model: the tables of angles, and the caches of libraries.
const MODEL: usize = 3 * memory::MOST;

static BACKEND: LazyLock<bb::BackendHandle> =
    LazyLock::new(|| bb::backend("cpu(threads=1)").expect("the backend is linked"));

fuzz_target!(|data: &[u8]| {
    let bytes = bytes::Bytes::copy_from_slice(data);
    let (file, peak) = memory::watched(|| Gguf::read(bytes));
    assert!(peak <= (1 << 20) + TIMES * data.len(), "{peak} bytes");
    let Ok(file) = file else { return };
    for (_, tensor) in file.tensors() {
        let elements: u64 = tensor.extents().iter().product();
        if let Ok(numbers) = tensor.dequantize() {
            assert_eq!(numbers.len() as u64, elements);
        }
    }
    if let Ok(tokens) = Tokens::from_gguf(&file)
        && let Ok(all) = tokens.encode("Hello, world!\n 12")
    {
        let _ = tokens.decode(&all);
    }
    // A model is opened by its path.
    let path = std::env::temp_dir().join(format!("bb-fuzz-{}.gguf", std::process::id()));
    if std::fs::write(&path, data).is_err() {
        return;
    }
    let options = OpenOptions::default().with_context(64);
    let (opened, peak) = memory::granted(|| Generator::open(&path, &BACKEND, &options));
    assert!(peak <= MODEL + TIMES * data.len(), "{peak} bytes");
    if let Ok(generator) = opened {
        let mut options = GenerateOptions::default();
        options.tokens = 3;
        if let Ok(generation) = generator.sequence().generate(&[0, 1], &options) {
            for piece in generation {
                if piece.is_err() {
                    break;
                }
            }
        }
    }
});
