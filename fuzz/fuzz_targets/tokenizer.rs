//! Reads `tokenizer.json`, and turns texts into tokens and back.
#![no_main]

use bb_generate::Tokens;
use libfuzzer_sys::fuzz_target;

/// Texts with what tokenizers treat apart: spaces, digits, marks, several scripts, and special tokens.
const TEXTS: [&str; 4] = ["", "Hello, world!", "  12 345\n\tä é 漢字 🦀", "<|im_start|>user\n<s>x</s><unk>"];

fuzz_target!(|data: &[u8]| {
    let Ok(tokens) = Tokens::from_json(data) else { return };
    for text in TEXTS {
        if let Ok(all) = tokens.encode(text) {
            let _ = tokens.decode(&all);
            let _ = all.iter().map(|&token| (tokens.name(token), tokens.is_end(token))).count();
        }
        let _ = tokens.encode_messages(text);
    }
    let _ = tokens.decode(&[0, u32::MAX]);
});
