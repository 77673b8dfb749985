//! Folders as Optimum and ONNX Runtime GenAI write them.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use bb::ir::proto::{
    AttributeProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorShapeProto, TypeProto,
    ValueInfoProto, attribute_proto, tensor_shape_proto, type_proto,
};
use bb::{DataType, TensorData};
use bb_cpu as _;
use bb_generate::{
    EncoderInput, Engine, EngineOptions, Error, GenerateOptions, Generator, Message, OpenOptions,
};
use prost::Message as _;
use std::path::PathBuf;

const WORDS: usize = 8;
const WIDTH: usize = 4;

/// A folder that is removed with the value.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("bb-generate-onnx-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        std::fs::write(self.0.join(name), bytes).unwrap();
    }

    fn open(&self) -> Result<Generator, Error> {
        Generator::open(&self.0, &bb::backend("cpu").unwrap(), &OpenOptions::default())
    }
}

/// The embedding of each word, which is also the head.
fn table() -> Vec<f32> {
    (0..WORDS * WIDTH).map(|i| ((i * 7 + 3) % 11) as f32 / 5.0 - 1.0).collect()
}

fn value(name: &str, dtype: DataType, extents: &[Option<i64>]) -> ValueInfoProto {
    use tensor_shape_proto::{Dimension, dimension::Value};
    let dim = |(i, extent): (usize, &Option<i64>)| Dimension {
        value: Some(extent.map_or_else(|| Value::DimParam(format!("{name}_{i}")), Value::DimValue)),
        ..Default::default()
    };
    let tensor = type_proto::Tensor {
        elem_type: Some(dtype.to_onnx()),
        shape: Some(TensorShapeProto { dim: extents.iter().enumerate().map(dim).collect() }),
    };
    ValueInfoProto {
        name: Some(name.to_owned()),
        r#type: Some(TypeProto { value: Some(type_proto::Value::TensorType(tensor)), ..Default::default() }),
        ..Default::default()
    }
}

fn node(op: &str, inputs: &[&str], outputs: &[&str], attributes: &[(&str, i64)]) -> NodeProto {
    let attribute = |&(name, i): &(&str, i64)| AttributeProto {
        name: Some(name.to_owned()),
        r#type: Some(attribute_proto::AttributeType::Int as i32),
        i: Some(i),
        ..Default::default()
    };
    NodeProto {
        op_type: Some(op.to_owned()),
        input: inputs.iter().map(|&x| x.to_owned()).collect(),
        output: outputs.iter().map(|&x| x.to_owned()).collect(),
        attribute: attributes.iter().map(attribute).collect(),
        ..Default::default()
    }
}

/// Embeddings, attention with one head, and a head. `cache` names keys and values, before and after.
fn model(cache: [&str; 4], extra: &[ValueInfoProto]) -> Vec<u8> {
    let [past_k, past_v, k, v] = cache;
    let (w, long) = (WIDTH as i64, DataType::I64);
    let past = |name| value(name, DataType::F32, &[None, Some(1), None, Some(w)]);
    let names: Vec<f32> = (0..WIDTH * WORDS).map(|i| table()[i % WORDS * WIDTH + i / WORDS]).collect();
    let heads = [("q_num_heads", 1), ("kv_num_heads", 1), ("is_causal", 1)];
    let output = |name: &str| ValueInfoProto { name: Some(name.to_owned()), ..Default::default() };
    let mut input = vec![
        value("input_ids", long, &[None, None]),
        value("attention_mask", long, &[None, None]),
        value("position_ids", long, &[None, None]),
        past(past_k),
        past(past_v),
    ];
    input.extend_from_slice(extra);
    let graph = GraphProto {
        name: Some("decoder".to_owned()),
        input,
        output: [k, "logits", v].map(output).into(),
        initializer: vec![
            TensorData::new(&[WORDS, WIDTH], &table()).unwrap().to_proto("table"),
            TensorData::new(&[WIDTH, WORDS], &names).unwrap().to_proto("head"),
        ],
        node: vec![
            node("Gather", &["table", "input_ids"], &["x"], &[]),
            node("Attention", &["x", "x", "x", "", past_k, past_v], &["y", k, v], &heads),
            node("MatMul", &["y", "head"], &["logits"], &[]),
        ],
        ..Default::default()
    };
    let opset = OperatorSetIdProto { domain: Some(String::new()), version: Some(23) };
    ModelProto { ir_version: Some(11), opset_import: vec![opset], graph: Some(graph), ..Default::default() }
        .encode_to_vec()
}

const OPTIMUM: [&str; 4] =
    ["past_key_values.0.key", "past_key_values.0.value", "present.0.key", "present.0.value"];

fn complete(folder: &Folder) {
    let vocabulary: Vec<String> = ["<end>", "a", "b", "c", "d", "e", "f", "g"]
        .iter()
        .enumerate()
        .map(|(i, w)| format!("\"{w}\":{i}"))
        .collect();
    let end = r#"{"id":0,"content":"<end>","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true}"#;
    folder.write(
        "tokenizer.json",
        format!(
            r#"{{"version":"1.0","truncation":null,"padding":null,"added_tokens":[{end}],"normalizer":null,
            "pre_tokenizer":{{"type":"Whitespace"}},"post_processor":null,"decoder":null,
            "model":{{"type":"WordLevel","vocab":{{{}}},"unk_token":"a"}}}}"#,
            vocabulary.join(",")
        ),
    );
    folder.write("config.json", r#"{"vocab_size": 8, "max_position_embeddings": 64, "eos_token_id": 0}"#);
    folder.write(
        "tokenizer_config.json",
        r#"{"bos_token": {"content": "a"}, "eos_token": "<end>", "chat_template":
        "{{ bos_token }}{% for m in messages %} {{ m.content }}{% endfor %}"}"#,
    );
}

/// The logits behind each token, from the definition.
fn logits(tokens: &[usize]) -> Vec<Vec<f64>> {
    let table = table();
    let row = |token: usize| -> Vec<f64> {
        table[token * WIDTH..(token + 1) * WIDTH].iter().map(|&x| f64::from(x)).collect()
    };
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    (0..tokens.len())
        .map(|p| {
            let q = row(tokens[p]);
            let weights: Vec<f64> =
                tokens[..=p].iter().map(|&t| (dot(&q, &row(t)) / (WIDTH as f64).sqrt()).exp()).collect();
            let sum: f64 = weights.iter().sum();
            let mut y = vec![0.0; WIDTH];
            for (&t, weight) in tokens[..=p].iter().zip(&weights) {
                y.iter_mut().zip(row(t)).for_each(|(y, v)| *y += weight / sum * v);
            }
            (0..WORDS).map(|word| dot(&y, &row(word))).collect()
        })
        .collect()
}

fn check(generator: &Generator) {
    let prompt = [3, 1, 4, 1, 5, 2, 6];
    let expected = logits(&prompt.map(|t| t as usize));
    let near = |got: &[f32], expected: &[f64]| {
        assert_eq!(got.len(), expected.len());
        assert!(
            got.iter().zip(expected).all(|(a, b)| (f64::from(*a) - b).abs() < 1e-5),
            "{got:?}, {expected:?}"
        );
    };
    let mut sequence = generator.sequence();
    near(&sequence.all_logits(&prompt).unwrap(), &expected.concat());
    for chunk in [1, 3, 0] {
        near(&generator.sequence().prompt(&prompt, chunk).unwrap().0, &expected[6]);
    }
    assert!(sequence.cache_bytes() == 2 * 7 * WIDTH * 4);
    let (got, reused) = sequence.prompt(&prompt[..4], 0).unwrap();
    assert_eq!(reused, 3);
    near(&got, &expected[3]);
}

#[test]
fn pairs_of_past_and_present_are_found_by_their_names() {
    let folder = Folder::new("optimum");
    complete(&folder);
    folder.write("model.onnx", model(OPTIMUM, &[]));
    let generator = folder.open().unwrap();
    assert_eq!((generator.context(), generator.vocabulary()), (64, WORDS));
    check(&generator);
    assert_eq!(generator.chat(&[Message::new("user", "c d")]).unwrap(), [1, 3, 4]);
    let mut sequence = generator.sequence();
    let mut options = GenerateOptions::default();
    (options.tokens, options.ignore_end) = (5, true);
    let pieces: Vec<_> = sequence.generate(&[3, 1], &options).unwrap().map(Result::unwrap).collect();
    let mut tokens = vec![3, 1];
    for piece in &pieces {
        let last = logits(&tokens).pop().unwrap();
        let best = (0..WORDS).max_by(|&a, &b| last[a].total_cmp(&last[b])).unwrap();
        assert_eq!(piece.token as usize, best);
        tokens.push(best);
    }
}

/// Their caches are the model's own, so that an engine runs one after another, by the same calls.
#[test]
fn an_engine_runs_models_whose_caches_are_their_own() {
    let folder = Folder::new("engine");
    complete(&folder);
    folder.write("model.onnx", model(OPTIMUM, &[]));
    let generator = folder.open().unwrap();
    let mut options = GenerateOptions::default();
    (options.tokens, options.ignore_end) = (9, true);
    let mut bounds = EngineOptions::default();
    (bounds.sequences, bounds.tokens) = (2, 3);
    let mut engine = Engine::new(&generator, bounds);
    let prompts: [&[u32]; 4] = [&[3, 1], &[2], &[7, 6, 5, 4, 3, 2, 1], &[3, 1]];
    let mut tickets: Vec<_> =
        prompts.iter().map(|prompt| engine.generate(prompt, &options).unwrap()).collect();
    drop(tickets.pop());
    while engine.step() {}
    for (ticket, prompt) in tickets.iter_mut().zip(prompts) {
        let mut sequence = generator.sequence();
        let alone: Vec<u32> =
            sequence.generate(prompt, &options).unwrap().map(|piece| piece.unwrap().token).collect();
        let joined: Vec<u32> = ticket.pieces().unwrap().iter().map(|piece| piece.token).collect();
        assert_eq!((joined.len(), joined), (9, alone));
    }
    assert_eq!(engine.statistics().answer_tokens, 27);
}

#[test]
fn names_may_be_those_of_a_configuration() {
    let folder = Folder::new("genai");
    complete(&folder);
    folder.write("model.onnx", model(["old_0_k", "old_0_v", "new_0_k", "new_0_v"], &[]));
    assert!(matches!(folder.open(), Err(Error::Input { .. })));
    folder.write(
        "genai_config.json",
        r#"{"model": {"context_length": 32, "eos_token_id": [0, 7], "decoder": {
        "inputs": {"past_key_names": "old_%d_k", "past_value_names": "old_%d_v"},
        "outputs": {"present_key_names": "new_%d_k", "present_value_names": "new_%d_v"}}}}"#,
    );
    let generator = folder.open().unwrap();
    check(&generator);
    assert!(generator.tokens().is_end(0) && generator.tokens().is_end(7) && !generator.tokens().is_end(3));
}

#[test]
fn what_a_folder_lacks_is_named() {
    let folder = Folder::new("lacks");
    let error = |folder: &Folder| folder.open().unwrap_err();
    assert!(matches!(error(&folder), Error::Form { found: "a folder without a model", .. }));
    folder.write("model.onnx", model(OPTIMUM, &[]));
    assert!(matches!(error(&folder), Error::Form { found: "a folder without a tokenizer", .. }));
    complete(&folder);
    folder.open().unwrap();
    folder.write("config.json", "{}");
    assert!(matches!(error(&folder), Error::Json { file: "config.json", .. }));
    folder.write("config.json", "{");
    assert!(matches!(error(&folder), Error::Json { file: "config.json", source: Some(_), .. }));
    complete(&folder);
    let odd = value("token_type_ids", DataType::I64, &[None, None]);
    folder.write("model.onnx", model(OPTIMUM, &[odd]));
    assert!(matches!(error(&folder), Error::Input { name } if name == "token_type_ids"));
    folder.write("model.onnx", model(["past_key_values.0.key", "past_key_values.0.value", "k", "v"], &[]));
    assert!(matches!(error(&folder), Error::Input { .. }));
    folder.write("model.onnx", b"no model");
    assert!(matches!(error(&folder), Error::Model { .. }));
    folder.write("tokenizer.json", "[]");
    assert!(matches!(error(&folder), Error::Tokenizer { .. }));
}

/// A decoder behind an encoder: attention to its own tokens, then to the states, whose keys and values are caches of their own. `first`
/// computes these of the states, and takes no past; the other way takes both.
fn behind(first: bool) -> Vec<u8> {
    let (w, long) = (WIDTH as i64, DataType::I64);
    let output = |name: &str| ValueInfoProto { name: Some(name.to_owned()), ..Default::default() };
    let past = |what: &str, of: &str| {
        value(&format!("past_key_values.0.{what}.{of}"), DataType::F32, &[None, Some(1), None, Some(w)])
    };
    let mut input =
        vec![value("input_ids", long, &[None, None]), value("encoder_attention_mask", long, &[None, None])];
    let mut nodes = vec![
        node("Gather", &["table", "input_ids"], &["tokens"], &[]),
        node("Unsqueeze", &["tokens", "one"], &["x"], &[]),
    ];
    let (k, v) = ("present.0.decoder.key", "present.0.decoder.value");
    let mut results = vec!["logits", k, v];
    let causal = [("is_causal", 1)];
    let states = if first {
        input.push(value("encoder_hidden_states", DataType::F32, &[None, None, Some(w)]));
        results.extend(["present.0.encoder.key", "present.0.encoder.value"]);
        nodes.push(node("Unsqueeze", &["encoder_hidden_states", "one"], &["present.0.encoder.key"], &[]));
        nodes.push(node("Neg", &["present.0.encoder.key"], &["present.0.encoder.value"], &[]));
        nodes.push(node("Attention", &["x", "x", "x"], &["own"], &causal));
        nodes.push(node("Identity", &["x"], &[k], &[]));
        nodes.push(node("Identity", &["x"], &[v], &[]));
        ["present.0.encoder.key", "present.0.encoder.value"]
    } else {
        for (what, of) in [("decoder", "key"), ("decoder", "value"), ("encoder", "key"), ("encoder", "value")]
        {
            input.push(past(what, of));
        }
        let pasts = ["past_key_values.0.decoder.key", "past_key_values.0.decoder.value"];
        nodes.push(node("Attention", &["x", "x", "x", "", pasts[0], pasts[1]], &["own", k, v], &causal));
        ["past_key_values.0.encoder.key", "past_key_values.0.encoder.value"]
    };
    nodes.extend([
        node("Attention", &["own", states[0], states[1]], &["read"], &[]),
        node("Squeeze", &["read", "one"], &["y"], &[]),
        node("MatMul", &["y", "head"], &["logits"], &[]),
    ]);
    let names: Vec<f32> = (0..WIDTH * WORDS).map(|i| table()[i % WORDS * WIDTH + i / WORDS]).collect();
    encoded(GraphProto {
        name: Some("decoder".to_owned()),
        input,
        output: results.into_iter().map(output).collect(),
        initializer: vec![
            TensorData::new(&[WORDS, WIDTH], &table()).unwrap().to_proto("table"),
            TensorData::new(&[WIDTH, WORDS], &names).unwrap().to_proto("head"),
            TensorData::new(&[1], &[1i64]).unwrap().to_proto("one"),
        ],
        node: nodes,
        ..Default::default()
    })
}

/// States that are embeddings times 2, or features as they are.
fn encoder(features: bool) -> Vec<u8> {
    let output = ValueInfoProto { name: Some("last_hidden_state".to_owned()), ..Default::default() };
    let (input, nodes) = if features {
        let input = value("input_features", DataType::F32, &[None, None, Some(WIDTH as i64)]);
        (vec![input], vec![node("Identity", &["input_features"], &["last_hidden_state"], &[])])
    } else {
        let long = DataType::I64;
        let input = ["input_ids", "attention_mask"].map(|name| value(name, long, &[None, None]));
        let gather = node("Gather", &["table", "input_ids"], &["x"], &[]);
        (input.into(), vec![gather, node("Add", &["x", "x"], &["last_hidden_state"], &[])])
    };
    let table = TensorData::new(&[WORDS, WIDTH], &table()).unwrap().to_proto("table");
    encoded(GraphProto {
        name: Some("encoder".to_owned()),
        input,
        output: vec![output],
        initializer: vec![table],
        node: nodes,
        ..Default::default()
    })
}

fn encoded(graph: GraphProto) -> Vec<u8> {
    let opset = OperatorSetIdProto { domain: Some(String::new()), version: Some(23) };
    ModelProto { ir_version: Some(11), opset_import: vec![opset], graph: Some(graph), ..Default::default() }
        .encode_to_vec()
}

/// Averages of rows, by the products of a query with others.
fn attended(q: &[f64], keys: &[Vec<f64>], values: &[Vec<f64>]) -> Vec<f64> {
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let weights: Vec<f64> = keys.iter().map(|key| (dot(q, key) / (WIDTH as f64).sqrt()).exp()).collect();
    let sum: f64 = weights.iter().sum();
    (0..WIDTH)
        .map(|i| values.iter().zip(&weights).map(|(value, weight)| value[i] * weight / sum).sum())
        .collect()
}

/// The logits behind each token, from the definition.
fn logits_of_source(states: &[Vec<f64>], tokens: &[u32]) -> Vec<Vec<f64>> {
    let row = |token: u32| -> Vec<f64> {
        table()[token as usize * WIDTH..][..WIDTH].iter().map(|&x| f64::from(x)).collect()
    };
    let rows: Vec<Vec<f64>> = tokens.iter().map(|&token| row(token)).collect();
    let negated: Vec<Vec<f64>> = states.iter().map(|x| x.iter().map(|x| -x).collect()).collect();
    (0..tokens.len())
        .map(|p| {
            let own = attended(&rows[p], &rows[..=p], &rows[..=p]);
            let read = attended(&own, states, &negated);
            let dot = |word: u32| row(word).iter().zip(&read).map(|(a, b)| a * b).sum();
            (0..WORDS as u32).map(dot).collect()
        })
        .collect()
}

#[test]
fn answers_to_a_source_attend_to_what_an_encoder_makes_of_it() {
    let config =
        r#"{"vocab_size": 8, "max_position_embeddings": 64, "decoder_start_token_id": 2, "eos_token_id": 0}"#;
    for (name, features) in [("tokens", false), ("features", true)] {
        let folder = Folder::new(&format!("encoder-{name}"));
        complete(&folder);
        folder.write("config.json", config);
        folder.write("encoder_model.onnx", encoder(features));
        folder.write("decoder_model.onnx", behind(true));
        folder.write("decoder_with_past_model.onnx", behind(false));
        let generator = folder.open().unwrap();
        assert!(generator.has_encoder() && generator.start() == Some(2));
        let of =
            |token: usize| table()[token * WIDTH..][..WIDTH].iter().map(|&x| 2.0 * f64::from(x)).collect();
        for source in [&[3u32, 7, 1][..], &[5]] {
            let states: Vec<Vec<f64>> = source.iter().map(|&token| of(token as usize)).collect();
            let numbers: Vec<f32> = states.concat().iter().map(|&x| x as f32).collect();
            let data = TensorData::new(&[1, source.len(), WIDTH], &numbers).unwrap();
            let given = if features { EncoderInput::Features(&data) } else { EncoderInput::Tokens(source) };
            let tokens = [2, 6, 4, 1, 3];
            let expected = logits_of_source(&states, &tokens);
            let near = |got: &[f32], expected: &[f64]| {
                assert_eq!(got.len(), expected.len());
                assert!(
                    got.iter().zip(expected).all(|(a, b)| (f64::from(*a) - b).abs() < 1e-5),
                    "{got:?}, {expected:?}"
                );
            };
            let mut sequence = generator.sequence_of(given).unwrap();
            near(&sequence.all_logits(&tokens).unwrap(), &expected.concat());
            for chunk in [0, 1, 2] {
                let mut sequence = generator.sequence_of(given).unwrap();
                near(&sequence.prompt(&tokens, chunk).unwrap().0, &expected[4]);
                // What is there already is kept, and the states with it.
                near(
                    &sequence.prompt(&[2, 6, 5], chunk).unwrap().0,
                    &logits_of_source(&states, &[2, 6, 5])[2],
                );
                near(&sequence.prompt(&[7], chunk).unwrap().0, &logits_of_source(&states, &[7])[0]);
            }
        }
        let other = TensorData::new(&[1, 1, WIDTH], &[0f32; WIDTH]).unwrap();
        let wrong = if features { EncoderInput::Tokens(&[1]) } else { EncoderInput::Features(&other) };
        assert!(matches!(generator.sequence_of(wrong), Err(Error::Source { .. })));
        assert!(matches!(
            generator.sequence().prompt(&[2], 0),
            Err(Error::Source { found: "no source", .. })
        ));
        assert!(matches!(generator.sequence_of(EncoderInput::Tokens(&[])), Err(Error::NoTokens)));
        assert!(matches!(generator.sequence_of(EncoderInput::Tokens(&[99])), Err(Error::Token { .. })));
    }
}

#[test]
fn sources_need_an_encoder() {
    let folder = Folder::new("without-encoder");
    complete(&folder);
    folder.write("model.onnx", model(OPTIMUM, &[]));
    let generator = folder.open().unwrap();
    assert!(!generator.has_encoder() && generator.start().is_none());
    assert!(matches!(generator.sequence_of(EncoderInput::Tokens(&[1])), Err(Error::Source { .. })));
    let folder = Folder::new("lost-encoder");
    complete(&folder);
    folder.write("decoder_model.onnx", behind(true));
    folder.write("decoder_with_past_model.onnx", behind(false));
    assert!(matches!(folder.open(), Err(Error::Lacks { what }) if what.contains("encoder_model.onnx")));
    // The second decoder takes caches that the first one does not give.
    folder.write("encoder_model.onnx", encoder(false));
    folder.open().unwrap();
    folder.write("decoder_with_past_model.onnx", model(OPTIMUM, &[]));
    assert!(matches!(folder.open(), Err(Error::Lacks { what }) if what.contains("each cache")));
}
