//! Files of strangers: whatever is wrong in them is an error, and needs no more memory than they have bytes.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

mod tiny;

use bb_cpu as _;
use bb_generate::gguf::{Gguf, GgufError};
use bb_generate::{ChatTemplate, Error, Generator, Message, OpenOptions, Tokens};
use tiny::{GgufWriter, Meta, Quant, Tiny};

fn read(writer: &GgufWriter) -> Result<Gguf, GgufError> {
    Gguf::read(writer.bytes().into())
}

/// A file with one tensor, and a key of each kind.
fn small() -> GgufWriter {
    let mut writer = GgufWriter::default();
    writer.key("a", Meta::U32(7));
    writer.key("b", Meta::Text("text".to_owned()));
    writer.key("c", Meta::Texts(vec!["x".to_owned(), "yz".to_owned()]));
    writer.key("d", Meta::F32(0.5));
    writer.key("e", Meta::Bool(true));
    writer.key("f", Meta::I32s(vec![-1, 2]));
    writer.tensor("t", &[2, 3], 0, vec![0; 24]);
    writer
}

#[test]
fn a_whole_file_is_read_and_every_shorter_one_is_an_error() {
    let bytes = small().bytes();
    let file = Gguf::read(bytes.clone().into()).unwrap();
    assert_eq!(file.uint("a").unwrap(), Some(7));
    assert_eq!(file.text("b").unwrap(), Some("text"));
    assert_eq!(file.texts("c").unwrap().unwrap().len(), 2);
    assert_eq!(file.float("d").unwrap(), Some(0.5));
    assert_eq!(file.truth("e").unwrap(), Some(true));
    assert_eq!(file.tensor("t").unwrap().extents(), [2, 3]);
    for length in 0..bytes.len() {
        assert!(Gguf::read(bytes[..length].to_vec().into()).is_err(), "{length} of {} bytes", bytes.len());
    }
}

/// Each byte of the file is set to several others. What is read then is a file, or an error.
#[test]
fn no_byte_makes_the_reader_panic() {
    let bytes = small().bytes();
    for at in 0..bytes.len() {
        for value in [0, 1, 9, 0x7f, 0x80, 0xff] {
            let mut changed = bytes.clone();
            changed[at] = value;
            if let Ok(file) = Gguf::read(changed.into()) {
                for (_, tensor) in file.tensors() {
                    assert!(tensor.dequantize().is_ok());
                }
            }
        }
    }
}

#[test]
fn counts_beyond_the_file_are_refused_before_anything_is_allocated() {
    for count in [u64::MAX, 1 << 62, 1 << 40] {
        let mut tensors = small();
        tensors.tensors_said = Some(count);
        assert!(matches!(read(&tensors), Err(GgufError::Count { what: "the number of tensors", .. })));
        let mut keys = small();
        keys.keys_said = Some(count);
        assert!(matches!(read(&keys), Err(GgufError::Count { what: "the number of keys", .. })));
        let mut list = small();
        list.key("long", Meta::Raw(9, [&8u32.to_le_bytes()[..], &count.to_le_bytes()].concat()));
        assert!(matches!(read(&list), Err(GgufError::Count { what: "the length of a list", .. })));
        let mut text = small();
        text.key("long", Meta::Raw(8, count.to_le_bytes().to_vec()));
        assert!(matches!(read(&text), Err(GgufError::Truncated { .. } | GgufError::Count { .. })));
    }
}

#[test]
fn lists_of_lists_and_unknown_types_are_refused() {
    let mut nested = small();
    nested.key("n", Meta::Raw(9, [&9u32.to_le_bytes()[..], &1u64.to_le_bytes()].concat()));
    assert!(matches!(read(&nested), Err(GgufError::ValueType { found: 9, .. })));
    let mut unknown = small();
    unknown.key("n", Meta::Raw(13, vec![0; 8]));
    assert!(matches!(read(&unknown), Err(GgufError::ValueType { found: 13, .. })));
    let mut truth = small();
    truth.key("n", Meta::Raw(7, vec![2]));
    assert!(matches!(read(&truth), Err(GgufError::Truth { found: 2, .. })));
    let mut text = small();
    text.key("n", Meta::Raw(8, [&2u64.to_le_bytes()[..], &[0xff, 0xfe]].concat()));
    assert!(matches!(read(&text), Err(GgufError::Text { .. })));
    let mut twice = small();
    twice.key("a", Meta::U32(1));
    assert!(matches!(read(&twice), Err(GgufError::Repeated { what: "key", .. })));
}

#[test]
fn tensors_are_inside_the_file_aligned_and_apart() {
    let with = |change: &dyn Fn(&mut GgufWriter)| {
        let mut writer = small();
        change(&mut writer);
        read(&writer)
    };
    let described = |extents: &[u64], ty: u32, offset: u64| {
        let extents = extents.to_vec();
        with(&move |writer: &mut GgufWriter| writer.described("u", &extents, ty, offset))
    };
    assert!(matches!(described(&[2], 0, 8), Err(GgufError::Offset { .. })));
    assert!(matches!(described(&[2], 0, 1 << 40), Err(GgufError::Outside { .. })));
    assert!(matches!(described(&[2], 0, u64::MAX - 31), Err(GgufError::Outside { .. })));
    assert!(matches!(described(&[2], 0, 0), Err(GgufError::Overlap { .. })));
    assert!(matches!(described(&[u64::MAX, 2], 0, 32), Err(GgufError::Extents { .. })));
    assert!(matches!(
        described(&[1 << 62], 0, 32),
        Err(GgufError::Extents { .. } | GgufError::Outside { .. })
    ));
    assert!(matches!(described(&[0], 0, 32), Err(GgufError::Extents { .. })));
    assert!(matches!(described(&[], 0, 32), Err(GgufError::Dimensions { found: 0, .. })));
    assert!(matches!(described(&[1; 5], 0, 32), Err(GgufError::Dimensions { found: 5, .. })));
    assert!(matches!(described(&[33], 3, 32), Err(GgufError::Row { block: 32, .. })));
    assert!(matches!(described(&[32], 4, 32), Err(GgufError::TensorType { found: 4, .. })));
    let again = with(&|writer| writer.tensor("t", &[1], 0, vec![0; 4]));
    assert!(matches!(again, Err(GgufError::Repeated { what: "tensor", .. })));
    for alignment in [0, 3, 1 << 20] {
        let odd = with(&move |writer| writer.key("general.alignment", Meta::U32(alignment)));
        assert!(matches!(odd, Err(GgufError::Alignment { .. })), "{alignment}");
    }
}

#[test]
fn other_files_and_versions_are_refused() {
    assert!(matches!(Gguf::read(b"GGML".to_vec().into()), Err(GgufError::Magic { .. })));
    assert!(matches!(Gguf::read(Vec::new().into()), Err(GgufError::Magic { .. })));
    for version in [0u32, 1, 4, 3u32.swap_bytes()] {
        let mut bytes = small().bytes();
        bytes[4..8].copy_from_slice(&version.to_le_bytes());
        assert!(matches!(Gguf::read(bytes.into()), Err(GgufError::Version { .. })), "{version}");
    }
}

fn open(writer: &GgufWriter) -> Result<Generator, Error> {
    let path = std::env::temp_dir().join(format!(
        "bb-generate-hostile-{}-{:?}.gguf",
        std::process::id(),
        std::thread::current().id()
    ));
    std::fs::write(&path, writer.bytes()).unwrap();
    let opened = Generator::open(&path, &bb::backend("cpu").unwrap(), &OpenOptions::default());
    std::fs::remove_file(&path).unwrap();
    opened
}

/// A model with one key changed.
fn changed(key: &str, value: Meta) -> Result<Generator, Error> {
    let mut writer = Tiny::default().writer();
    writer.replace(key, value);
    open(&writer)
}

#[test]
fn sizes_that_do_not_fit_are_errors() {
    assert!(open(&Tiny::default().writer()).is_ok());
    for key in [
        "llama.block_count",
        "llama.embedding_length",
        "llama.feed_forward_length",
        "llama.attention.head_count",
        "llama.attention.head_count_kv",
        "llama.context_length",
        "llama.rope.dimension_count",
    ] {
        for value in [0, 3, 1 << 19, u32::MAX] {
            if key == "llama.context_length" && (1..1 << 24).contains(&value) {
                continue;
            }
            assert!(changed(key, Meta::U32(value)).is_err(), "{key} = {value}");
        }
        assert!(matches!(changed(key, Meta::Text("many".to_owned())), Err(Error::Gguf { .. })), "{key}");
    }
    for epsilon in [f32::NAN, f32::INFINITY, 0.0, -1.0] {
        let key = "llama.attention.layer_norm_rms_epsilon";
        assert!(matches!(changed(key, Meta::F32(epsilon)), Err(Error::Unserved { .. })), "{epsilon}");
    }
}

#[test]
fn other_kinds_are_named_with_those_that_are_read() {
    let error = changed("general.architecture", Meta::Text("mamba".to_owned())).unwrap_err();
    assert!(error.to_string().contains("`mamba`") && error.to_string().contains("`llama`"), "{error}");
    let error = changed("tokenizer.ggml.model", Meta::Text("rwkv".to_owned())).unwrap_err();
    assert!(matches!(error, Error::TokenizerKind { .. }), "{error}");
    let error = changed("tokenizer.ggml.pre", Meta::Text("unheard".to_owned())).unwrap_err();
    assert!(matches!(error, Error::TokenizerKind { .. }), "{error}");
}

#[test]
fn a_missing_tensor_or_one_of_other_extents_is_named() {
    let mut writer = Tiny::default().writer();
    writer.remove_tensor("blk.1.ffn_up.weight");
    let error = open(&writer).unwrap_err();
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert!(source.contains("blk.1.ffn_up.weight"), "{source}");
    let mut writer = Tiny::default().writer();
    writer.remove_tensor("output_norm.weight");
    writer.tensor("output_norm.weight", &[32], 0, vec![0; 128]);
    assert!(matches!(open(&writer), Err(Error::Gguf { source: GgufError::Shape { .. } })));
}

#[test]
fn a_tensor_that_is_not_computed_with_is_named() {
    for name in ["rope_factors_long.weight", "blk.0.attn_qkv.bias", "blk.2.ffn_up.weight"] {
        let mut writer = Tiny::default().writer();
        writer.tensor(name, &[4], 0, vec![0; 16]);
        let error = open(&writer).unwrap_err();
        assert!(matches!(&error, Error::Tensor { name: found } if found == name), "{error}");
    }
}

#[test]
fn tokenizers_that_contradict_themselves_are_errors() {
    let merges = |list: &[&str]| Meta::Texts(list.iter().map(|&x| x.to_owned()).collect());
    for list in [&["nospace"][..], &["a zzz"], &["a b"], &["absent absent"]] {
        assert!(
            matches!(changed("tokenizer.ggml.merges", merges(list)), Err(Error::Tokenizer { .. })),
            "{list:?}"
        );
    }
    assert!(changed("tokenizer.ggml.tokens", Meta::U32(3)).is_err());
    for json in
        [&b""[..], b"{}", b"[1", br#"{"model":{"type":"BPE","vocab":{"a":0,"b":1},"merges":["a b"]}}"#]
    {
        assert!(matches!(Tokens::from_json(json), Err(Error::Tokenizer { .. })));
    }
}

#[test]
fn templates_of_strangers_are_bounded() {
    let messages = [Message::new("user", "Hi")];
    for source in [
        "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
        "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
        "{{ messages[9].content.x }}",
        "{{ nothing() }}",
        "{% include 'other' %}",
    ] {
        assert!(
            ChatTemplate::new(source, "", "").and_then(|t| t.render(&messages, true)).is_err(),
            "{source}"
        );
    }
}

/// A model whose weights are no numbers gives an error and no token.
#[test]
fn logits_that_are_no_numbers_are_errors() {
    let mut tiny = Tiny { quant: Quant::F32, ..Tiny::default() };
    tiny.norm = f32::NAN;
    let generator = open(&tiny.writer()).unwrap();
    let mut session = generator.sequence();
    let mut generation = session.generate(&[1, 2], &Default::default()).unwrap();
    assert!(matches!(generation.next(), Some(Err(Error::Logit { .. }))));
    assert!(generation.next().is_none());
}
