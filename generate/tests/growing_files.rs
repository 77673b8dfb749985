//! The memory and the time of a stranger's GGUF file, tokenizer and text against their size, each dimension doubled by itself.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

mod growth;
mod tiny;

use bb_cpu as _;
use bb_generate::gguf::{Gguf, GgufError};
use bb_generate::{Error, Generator, OpenOptions, Tokens};
use growth::{Bounds, doubled, doubled_within};
use serde_json::json;
use std::error::Error as _;
use tiny::{Drawn, GgufWriter, Meta, Quant, Tiny};

/// The metadata of a tokenizer.
fn tokenizer(kind: &str, texts: Vec<String>, types: Option<i32>) -> GgufWriter {
    let mut writer = GgufWriter::default();
    let count = texts.len();
    writer.key("tokenizer.ggml.model", Meta::Text(kind.to_owned()));
    writer.key("tokenizer.ggml.tokens", Meta::Texts(texts));
    if kind == "llama" {
        writer.key("tokenizer.ggml.scores", Meta::F32s((0..count).map(|i| -(i as f32)).collect()));
    } else {
        writer.key("tokenizer.ggml.merges", Meta::Texts(Vec::new()));
    }
    if let Some(ty) = types {
        writer.key("tokenizer.ggml.token_type", Meta::I32s(vec![ty; count]));
    }
    writer
}

/// Reads a file and its tokenizer. An error is one that names the file's mistake.
fn read(bytes: &[u8]) -> bool {
    match Tokens::from_gguf(&Gguf::read(bytes.to_vec().into()).unwrap()) {
        Ok(tokens) => tokens.encode_within("a aa 0 \u{e9}", 100).is_ok(),
        Err(Error::Tokenizer { .. } | Error::Gguf { .. }) => false,
        Err(error) => panic!("{error}"),
    }
}

fn drawn(drawn: &mut Drawn, length: usize) -> String {
    (0..length).map(|_| char::from(b'a' + drawn.byte() % 26)).collect()
}

fn rises(shape: &str, make: impl Fn(usize) -> GgufWriter) {
    doubled("a GGUF file", shape, (64 << 10, 2 << 20), |size| make(size).bytes(), |bytes| read(bytes));
}

#[test]
fn a_text_that_many_tokens_have_makes_its_pairs_once() {
    let nested = || (1..=256).map(|k| "a".repeat(k));
    rises("equal tokens", |size| {
        let equal = std::iter::repeat_n("a".repeat(256), size / 264);
        tokenizer("llama", nested().chain(equal).collect(), None)
    });
}

#[test]
fn tokens_within_tokens_have_a_bound_of_pairs() {
    rises("all parts of one text", |size| {
        let text = drawn(&mut Drawn::new(1), size);
        let parts = (0..).flat_map(|at| (1..=200usize).map(move |length| (at, length)));
        let mut left = size as isize;
        let fits = |(at, length): &(usize, usize)| {
            left -= *length as isize + 12;
            left > 0 && at + length <= size
        };
        let all = parts.take_while(fits).map(|(at, length)| text[at..at + length].to_owned()).collect();
        tokenizer("llama", all, None)
    });
}

#[test]
fn special_tokens_have_a_bound_of_length() {
    for length in [1, 300, 500, 5000, 50_000] {
        rises(&format!("special tokens of {length} letters"), |size| {
            let mut random = Drawn::new(2);
            let all = (0..size / (length + 12)).map(|i| format!("{i}{}", drawn(&mut random, length)));
            tokenizer("gpt2", all.collect(), Some(3))
        });
    }
}

#[test]
fn ordinary_tokens_and_pairs_take_memory_in_proportion() {
    rises("short tokens", |size| {
        tokenizer("gpt2", (0..size / 16).map(|i| format!("{i:x}")).collect(), Some(1))
    });
    rises("pairs", |size| {
        let letters: Vec<String> = (0..26u8).map(|i| char::from(b'a' + i).to_string()).collect();
        let pairs: Vec<String> =
            (0..676).map(|i| format!("{} {}", letters[i / 26], letters[i % 26])).collect();
        let both = pairs.iter().map(|pair| pair.replace(' ', ""));
        let mut writer = tokenizer("gpt2", letters.iter().cloned().chain(both).collect(), None);
        let many = (0..size / 11).map(|i| pairs[i % pairs.len()].clone()).collect();
        writer.replace("tokenizer.ggml.merges", Meta::Texts(many));
        writer
    });
}

fn open(writer: &GgufWriter) -> Result<Generator, Error> {
    Generator::from_bytes(writer.bytes(), &bb::backend("cpu").unwrap(), &OpenOptions::default())
}

/// A model whose only head has more and more elements, with the greatest context.
fn of_head(size: usize) -> GgufWriter {
    let tiny = Tiny {
        quant: Quant::Q4_1,
        width: size,
        heads: 1,
        groups: 1,
        hidden: 32,
        layers: 1,
        ..Tiny::default()
    };
    let mut writer = tiny.writer();
    writer.replace("llama.context_length", Meta::U32(1 << 20));
    writer
}

#[test]
fn heads_and_contexts_have_a_bound() {
    let bounds = Bounds { factor: 60, base: 160 << 20 };
    let opens = |bytes: &Vec<u8>| {
        let opened =
            Generator::from_bytes(bytes.clone(), &bb::backend("cpu").unwrap(), &OpenOptions::default());
        match opened {
            Ok(_) => true,
            Err(Error::Size { most: 1024, .. }) => false,
            Err(error) => panic!("{error}"),
        }
    };
    // A file has four matrices of `head * head` elements of 5 bits.
    doubled_within(
        bounds,
        "a GGUF file",
        "one head",
        (64, 4096),
        |size| of_head(size.next_multiple_of(32)).bytes(),
        opens,
    );
    let context = OpenOptions::default().with_context(1 << 20);
    let found =
        Generator::from_bytes(of_head(512).bytes(), &bb::backend("cpu").unwrap(), &context).unwrap_err();
    assert!(matches!(found, Error::Size { .. }), "{found}");
}

#[test]
fn tokenizers_that_lack_something_are_refused() {
    let of = |change: &dyn Fn(&mut GgufWriter)| {
        let texts = ["a", "b", "ab"].map(str::to_owned).to_vec();
        let mut writer = tokenizer("llama", texts, Some(1));
        change(&mut writer);
        Tokens::from_gguf(&Gguf::read(writer.bytes().into()).unwrap()).map(|_| ())
    };
    let said = |result: Result<(), Error>| {
        let error = result.unwrap_err();
        error.source().map(ToString::to_string).unwrap_or_default()
    };
    assert!(of(&|_| {}).is_ok());
    let scores = |list: [f32; 3]| Meta::F32s(list.to_vec());
    let nan = said(of(&|writer| writer.replace("tokenizer.ggml.scores", scores([0.0, f32::NAN, 0.0]))));
    assert_eq!(nan, "the score of token 1 is NaN, expected a number");
    let few = of(&|writer| writer.replace("tokenizer.ggml.token_type", Meta::I32s(vec![1, 1])));
    assert!(matches!(few, Err(Error::Gguf { source: GgufError::Kind { .. } })), "{few:?}");
    for what in ["eos", "bos", "unknown", "eot"] {
        let beyond = said(of(&|writer| writer.key(&format!("tokenizer.ggml.{what}_token_id"), Meta::U32(3))));
        assert_eq!(beyond, format!("its {what} token is 3, expected at most 2"));
    }
    let mut pairs = tokenizer("gpt2", vec!["a".to_owned()], None);
    assert!(Tokens::from_gguf(&Gguf::read(pairs.bytes().into()).unwrap()).is_ok());
    pairs.replace("tokenizer.ggml.model", Meta::Text("gpt2".to_owned()));
    let mut none = GgufWriter::default();
    none.key("tokenizer.ggml.model", Meta::Text("gpt2".to_owned()));
    none.key("tokenizer.ggml.tokens", Meta::Texts(vec!["a".to_owned()]));
    let missing = Tokens::from_gguf(&Gguf::read(none.bytes().into()).unwrap()).unwrap_err();
    let source = GgufError::MissingKey { key: "tokenizer.ggml.merges".to_owned() };
    assert!(matches!(&missing, Error::Gguf { source: found } if *found == source), "{missing}");
}

/// A text of some MiB in a file is not repeated in an error.
#[test]
fn errors_do_not_repeat_long_texts() {
    let long = "x".repeat(3 << 20);
    let length = |error: &dyn std::error::Error| {
        let mut length = error.to_string().len();
        let mut next = error.source();
        while let Some(source) = next {
            length += source.to_string().len();
            next = source.source();
        }
        length
    };
    for key in
        ["general.architecture", "tokenizer.ggml.model", "tokenizer.ggml.pre", "llama.rope.scaling.type"]
    {
        let mut writer = Tiny::default().writer();
        writer.replace(key, Meta::Text(long.clone()));
        let error = open(&writer).unwrap_err();
        assert!(length(&error) < 1000, "{key}: {} bytes", length(&error));
    }
    let mut pairs = Tiny::default().writer();
    pairs.replace("tokenizer.ggml.merges", Meta::Texts(vec![long.clone()]));
    assert!(length(&open(&pairs).unwrap_err()) < 1000);
    let mut names = Tiny::default().writer();
    names.key(&long, Meta::U32(1));
    assert!(length(&open(&names).unwrap_err()) < 1000);
    let mut tensors = Tiny::default().writer();
    tensors.tensor(&long, &[1], 0, vec![0; 4]);
    assert!(length(&open(&tensors).unwrap_err()) < 1000);
    let unknown = json!({"version": "1.0", "normalizer": {"type": long}, "model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}});
    let error = Tokens::from_json(unknown.to_string().as_bytes()).unwrap_err();
    assert!(length(&error) < 1000, "{} bytes", length(&error));
}

/// `tokenizer.json` with more and more of one thing.
#[test]
fn tokenizers_take_memory_in_proportion_to_their_file() {
    let takes = |text: &String| match Tokens::from_json(text.as_bytes()) {
        Ok(tokens) => tokens.encode_within("a aa 0 \u{e9}", 1000).is_ok(),
        Err(Error::Tokenizer { .. }) => false,
        Err(error) => panic!("{error}"),
    };
    let file =
        |added: Vec<serde_json::Value>, normalizer: serde_json::Value, vocabulary: serde_json::Value| {
            json!({"version": "1.0", "added_tokens": added, "normalizer": normalizer,
            "model": {"type": "BPE", "vocab": vocabulary, "merges": []}})
            .to_string()
        };
    let vocabulary = |count: usize| -> serde_json::Value {
        (0..count).map(|i| (format!("{i:x}"), json!(i))).collect::<serde_json::Map<_, _>>().into()
    };
    let rises = |shape: &str, make: &dyn Fn(usize) -> String| {
        doubled("a tokenizer", shape, (64 << 10, 2 << 20), make, takes);
    };
    rises("tokens", &|size| file(Vec::new(), json!(null), vocabulary(size / 14)));
    rises("special tokens", &|size| {
        let one = |i: usize| {
            json!({"id": i + 9, "content": format!("{i:0>300}"), "single_word": false, "lstrip": false, "rstrip": false,
            "normalized": false, "special": true})
        };
        file((0..size / 410).map(one).collect(), json!(null), vocabulary(1))
    });
    rises("steps", &|size| {
        let steps = vec![json!({"type": "NFC"}); size / 15];
        file(Vec::new(), json!({"type": "Sequence", "normalizers": steps}), vocabulary(1))
    });
    rises("lists in a step", &|size| {
        file(Vec::new(), json!({"type": "NFC", "x": vec![json!([]); size / 3]}), vocabulary(1))
    });
}

/// Texts of more and more tokens, up to many more than a sequence has.
#[test]
fn texts_take_memory_for_the_tokens_that_fit() {
    let tokens = Tokens::from_gguf(&Gguf::read(Tiny::default().writer().bytes().into()).unwrap()).unwrap();
    for (shape, unit) in
        [("digits", "7"), ("words", "the a "), ("letters", "x"), ("others", "\u{fdfa}"), ("spaces", " ")]
    {
        let takes = |text: &String| match tokens.encode_within(text, 1 << 20) {
            Ok(_) => true,
            Err(Error::Context { .. }) => false,
            Err(error) => panic!("{error}"),
        };
        doubled(
            "a text for a tokenizer",
            shape,
            (64 << 10, 16 << 20),
            |size| unit.repeat(size / unit.len()),
            takes,
        );
    }
}
