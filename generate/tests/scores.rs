//! Tokenizers whose pairs are chosen by the scores of tokens, beside the definition: of all neighbours that make a token, those of the
//! highest score are joined first, and a character without a token is its bytes.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

mod tiny;

use bb_generate::Tokens;
use bb_generate::gguf::Gguf;
use std::collections::HashMap;
use tiny::{Drawn, GgufWriter, Meta};

const SPACE: &str = "\u{2581}";

/// Tokens that are no bytes and no marks, those of the highest score first.
const PIECES: [&str; 20] = [
    "ab", "▁a", "bc", "▁▁", "ca", "abc", "▁ab", "cab", "ee", "▁the", "th", "he", "▁t", "t", "h", "▁", "a",
    "b", "c", "e",
];

/// The tokens of the vocabulary, their types and their scores.
fn vocabulary() -> (Vec<String>, Vec<i32>, Vec<f32>) {
    let marks =
        ["<unk>", "<s>", "</s>"].map(|text| (text.to_owned(), if text == "<unk>" { 2 } else { 3 }, 0.0));
    let bytes = (0..=255).map(|byte| (format!("<0x{byte:02X}>"), 6, 0.0));
    let pieces = PIECES.iter().enumerate().map(|(i, text)| ((*text).to_owned(), 1, -(i as f32)));
    let all: Vec<(String, i32, f32)> = marks.into_iter().chain(bytes).chain(pieces).collect();
    (
        all.iter().map(|one| one.0.clone()).collect(),
        all.iter().map(|one| one.1).collect(),
        all.iter().map(|one| one.2).collect(),
    )
}

fn tokens(change: impl FnOnce(&mut GgufWriter)) -> Tokens {
    let (texts, types, scores) = vocabulary();
    let mut writer = GgufWriter::default();
    writer.key("tokenizer.ggml.model", Meta::Text("llama".to_owned()));
    writer.key("tokenizer.ggml.tokens", Meta::Texts(texts));
    writer.key("tokenizer.ggml.token_type", Meta::I32s(types));
    writer.key("tokenizer.ggml.scores", Meta::F32s(scores));
    for (what, id) in [("unknown", 0), ("bos", 1), ("eos", 2)] {
        writer.key(&format!("tokenizer.ggml.{what}_token_id"), Meta::U32(id));
    }
    change(&mut writer);
    Tokens::from_gguf(&Gguf::read(writer.bytes().into()).unwrap()).unwrap()
}

/// The definition.
fn defined(text: &str, prefix: bool) -> Vec<u32> {
    let (texts, ..) = vocabulary();
    let ids: HashMap<&str, u32> =
        texts.iter().enumerate().map(|(i, text)| (text.as_str(), i as u32)).collect();
    let rank = |text: &str| PIECES.iter().position(|piece| *piece == text);
    let text = format!("{}{}", if prefix { SPACE } else { "" }, text.replace(' ', SPACE));
    let mut symbols: Vec<String> = text.chars().map(String::from).collect();
    loop {
        let joined = symbols.windows(2).enumerate();
        let best = joined.filter_map(|(at, pair)| rank(&pair.concat()).map(|rank| (rank, at))).min();
        let Some((_, at)) = best else { break };
        let second = symbols.remove(at + 1);
        symbols[at].push_str(&second);
    }
    let of_symbol = |symbol: &String| match ids.get(symbol.as_str()) {
        Some(&id) => vec![id],
        None => symbol.bytes().map(|byte| ids[format!("<0x{byte:02X}>").as_str()]).collect(),
    };
    symbols.iter().flat_map(of_symbol).collect()
}

#[test]
fn tokens_are_joined_by_their_scores() {
    let (with, without) =
        (tokens(|_| {}), tokens(|writer| writer.key("tokenizer.ggml.add_space_prefix", Meta::Bool(false))));
    let mut drawn = Drawn::new(11);
    let characters = ["a", "b", "c", "t", "h", "e", " ", "é", "日", "\n"];
    let mut texts: Vec<String> =
        ["a", "the cab", "  abc  ", "eee", "é", "日本", "a\nb"].map(str::to_owned).into();
    for length in 1..200 {
        let one = |_| characters[usize::from(drawn.byte()) % characters.len()];
        texts.push((0..length % 23 + 1).map(one).collect());
    }
    for text in &texts {
        assert_eq!(with.encode_messages(text).unwrap(), defined(text, true), "{text:?}");
        assert_eq!(without.encode_messages(text).unwrap(), defined(text, false), "{text:?}");
        assert_eq!(with.decode(&with.encode_messages(text).unwrap()).unwrap(), *text);
        // A text that is no message begins with its mark.
        let expected = [&[1][..], &defined(text, true)].concat();
        assert_eq!(with.encode(text).unwrap(), expected, "{text:?}");
    }
}

#[test]
fn scores_of_another_number_than_tokens_are_refused() {
    let (texts, ..) = vocabulary();
    for scores in [vec![0.0; texts.len() - 1], vec![]] {
        let mut writer = GgufWriter::default();
        writer.key("tokenizer.ggml.model", Meta::Text("llama".to_owned()));
        writer.key("tokenizer.ggml.tokens", Meta::Texts(texts.clone()));
        writer.key("tokenizer.ggml.scores", Meta::F32s(scores));
        let file = Gguf::read(writer.bytes().into()).unwrap();
        assert!(matches!(Tokens::from_gguf(&file), Err(bb_generate::Error::Gguf { .. })));
    }
}
