//! Tests that each computation on the host checks for cancellation repeatedly, and ends when the run is cancelled.
//!
//! The tests count checks instead of measuring time, so that no test depends on the machine's speed.

use bb::ir::pace::STRETCH;
use bb::ir::proto::{AttributeProto, GraphProto, NodeProto, attribute_proto::AttributeType};
use bb::onnx::{Class, OnnxValue};
use bb::{CompileOptions, ErasedExecutable, Error, Module, RunOptions, Runtime, TensorData, Value};
use bb_tests::backends;
use bb_tests::model::{node, serialized, untyped, value, with_int, with_ints, with_texts};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// One operator with operands of any length.
struct Long {
    node: NodeProto,
    /// The operands for a length.
    operands: fn(usize) -> Vec<TensorData>,
    /// The length at which it does a few [`STRETCH`]es of work.
    length: usize,
}

fn long(node: NodeProto, length: usize, operands: fn(usize) -> Vec<TensorData>) -> Long {
    Long { node, operands, length }
}

fn of(domain: &str, node: NodeProto) -> NodeProto {
    NodeProto { domain: Some(domain.to_owned()), ..node }
}

fn with_text(mut node: NodeProto, name: &str, text: &str) -> NodeProto {
    node.attribute.push(AttributeProto {
        name: Some(name.to_owned()),
        r#type: Some(AttributeType::String as i32),
        s: Some(text.as_bytes().to_vec()),
        ..AttributeProto::default()
    });
    node
}

/// Different numbers in no order.
fn numbers(n: usize) -> Vec<f32> {
    (0..n as u64).map(|i| (i * 7919 % 1_000_003) as f32).collect()
}

fn floats(shape: &[usize]) -> TensorData {
    TensorData::new(shape, &numbers(shape.iter().product())).unwrap()
}

fn places(n: usize) -> TensorData {
    TensorData::new(&[n], &(0..n as i64).rev().collect::<Vec<_>>()).unwrap()
}

fn ints(n: usize) -> TensorData {
    TensorData::new(&[n], &(0..n as i32).map(|i| i % 1009).collect::<Vec<_>>()).unwrap()
}

/// Different texts in no order.
fn texts(n: usize) -> TensorData {
    let texts: Vec<String> = numbers(n).iter().map(|x| format!("{x} a")).collect();
    TensorData::strings(&[n], &texts).unwrap()
}

fn squares(n: usize) -> TensorData {
    let corners = (0..n).flat_map(|i| [0.0, 2.0 * i as f32, 1.0, 2.0 * i as f32 + 1.0]);
    TensorData::new(&[1, n, 4], &corners.collect::<Vec<_>>()).unwrap()
}

const MANY: usize = 5 * STRETCH;

/// Every operator that computes on the host, or may.
fn all() -> Vec<Long> {
    const MS: &str = "com.microsoft";
    const ML: &str = "ai.onnx.ml";
    let unary = |op| node(op, &["a"], &["y"]);
    let binary = |op| node(op, &["a", "b"], &["y"]);
    let ternary = |op| node(op, &["a", "b", "c"], &["y"]);
    let one = |n| vec![floats(&[n])];
    let two_ints = |n| vec![ints(n), ints(n)];
    let scatter = |n| vec![floats(&[n]), places(n), floats(&[n])];
    let roi = |n: usize| {
        let rois = [0f32, 0.0, 7.0, 7.0].repeat(n);
        vec![
            floats(&[1, 1, 8, 8]),
            TensorData::new(&[n, 4], &rois).unwrap(),
            TensorData::new(&[n], &vec![0i64; n]).unwrap(),
        ]
    };
    let max_roi = |n: usize| {
        let rois = [0f32, 0.0, 0.0, 7.0, 7.0].repeat(n);
        vec![floats(&[1, 1, 8, 8]), TensorData::new(&[n, 5], &rois).unwrap()]
    };
    let unpool = |n: usize| {
        let places: Vec<i64> = (0..n as i64).collect();
        vec![floats(&[1, 1, n, 1]), TensorData::new(&[1, 1, n, 1], &places).unwrap()]
    };
    let suppressed = |n: usize| {
        let scores = TensorData::new(&[1, 1, n], &numbers(n)).unwrap();
        vec![squares(n), scores, TensorData::new(&[1], &[n as i64]).unwrap()]
    };
    let weighed = |n: usize| vec![floats(&[n / 4, 4])];
    let half = |n: usize| vec![TensorData::new(&[n], &vec![0.5f32; n]).unwrap()];
    let extents = |n: usize| vec![TensorData::new(&[n], &vec![0f32; n]).unwrap()];
    let n_grams = {
        let node = with_ints(unary("TfIdfVectorizer"), "ngram_counts", &[0, 2]);
        let node = with_ints(node, "ngram_indexes", &[0, 1, 2]);
        let node = with_ints(node, "pool_int64s", &[2, 3, 5, 4]);
        let node = with_int(with_int(node, "min_gram_length", 1), "max_gram_length", 2);
        with_text(with_int(node, "max_skip_count", 100_000), "mode", "TF")
    };
    let mapped = |op| {
        with_ints(with_texts(of(ML, unary(op)), "cats_strings", &["1 a", "2 a"]), "cats_int64s", &[1, 2])
    };
    let encoded =
        with_ints(with_texts(of(ML, unary("LabelEncoder")), "keys_strings", &["1 a"]), "values_int64s", &[1]);
    let tokens = with_text(
        with_int(with_int(of(MS, unary("Tokenizer")), "mark", 0), "mincharnum", 1),
        "pad_value",
        "-",
    );
    let trained =
        |n: usize| vec![floats(&[n]), TensorData::scalar(0.5f32), TensorData::bools(&[], &[true]).unwrap()];
    let hashed = with_int(with_int(ternary("NGramHashMapping"), "max_ngram_size", 2), "n_head_per_ngram", 1);
    let hashed = with_int(hashed, "pad_id", 0);
    vec![
        long(unary("Unique"), MANY, one),
        long(of(MS, node("Unique", &["a"], &["y", "i", "n"])), MANY, one),
        long(unary("NonZero"), MANY, one),
        long(with_int(binary("Compress"), "axis", 0), MANY, |n| {
            vec![floats(&[n]), TensorData::bools(&[n], &vec![true; n]).unwrap()]
        }),
        long(ternary("NonMaxSuppression"), MANY, suppressed),
        long(with_text(unary("StringNormalizer"), "case_change_action", "UPPER"), MANY, |n| vec![texts(n)]),
        long(with_text(node("StringSplit", &["a"], &["y", "n"]), "delimiter", " "), MANY, |n| vec![texts(n)]),
        long(binary("StringConcat"), MANY, |n| vec![texts(n), texts(n)]),
        long(with_text(unary("RegexFullMatch"), "pattern", "(?:[0-9a]{0,50}){0,20} c"), 2000, |n| {
            vec![texts(n)]
        }),
        long(with_text(tokens, "tokenexp", "[0-9]+"), MANY, |n| vec![texts(n)]),
        long(n_grams, MANY, |n| {
            vec![TensorData::new(&[n], &(0..n as i64).map(|i| i % 4 + 2).collect::<Vec<_>>()).unwrap()]
        }),
        long(mapped("CategoryMapper"), MANY, |n| vec![texts(n)]),
        long(encoded, MANY, |n| vec![texts(n)]),
        long(of(MS, unary("MurmurHash3")), MANY, |n| vec![texts(n)]),
        long(of(MS, node("BifurcationDetector", &["a", "b", "c"], &["y", "i"])), MANY, |n| {
            vec![places(n), TensorData::new(&[1], &[0i64]).unwrap(), TensorData::new(&[1], &[0i64]).unwrap()]
        }),
        long(of(MS, unary("DynamicTimeWarping")), MANY, |n| vec![floats(&[n / 4, 4])]),
        long(of(MS, with_int(binary("NGramRepeatBlock"), "ngram_size", 1)), MANY, |n| {
            vec![places(n).reshaped(&[1, n]).unwrap(), floats(&[1, n])]
        }),
        long(of(MS, hashed), MANY, |n| {
            let two = |a: i64, b: i64| TensorData::new(&[2], &[a, b]).unwrap();
            vec![places(n).reshaped(&[1, n]).unwrap(), two(3, 5), TensorData::new(&[1], &[97i64]).unwrap()]
        }),
        long(of(MS, with_int(binary("MoEGroupRouter"), "top_k", 1)), MANY, |n| {
            vec![floats(&[n / 4, 4]), floats(&[4])]
        }),
        long(ternary("Scatter"), MANY, scatter),
        long(ternary("ScatterElements"), MANY, scatter),
        long(ternary("ScatterND"), MANY, |n| {
            vec![floats(&[n]), places(n).reshaped(&[n, 1]).unwrap(), floats(&[n])]
        }),
        long(node("TopK", &["a", "b"], &["y", "i"]), MANY, |n| {
            vec![floats(&[n]), TensorData::new(&[1], &[n as i64 / 2]).unwrap()]
        }),
        long(with_int(with_int(ternary("RoiAlign"), "output_height", 4), "output_width", 4), 10_000, roi),
        long(with_ints(binary("MaxRoiPool"), "pooled_shape", &[2, 2]), 10_000, max_roi),
        long(
            with_ints(with_ints(binary("MaxUnpool"), "kernel_shape", &[2, 1]), "strides", &[2, 1]),
            MANY,
            unpool,
        ),
        long(binary("BitwiseAnd"), MANY, two_ints),
        long(binary("BitwiseOr"), MANY, two_ints),
        long(binary("BitwiseXor"), MANY, two_ints),
        long(unary("BitwiseNot"), MANY, |n| vec![ints(n)]),
        long(with_int(binary("Mod"), "fmod", 1), MANY, |n| {
            vec![floats(&[n]), TensorData::new(&[n], &vec![3f32; n]).unwrap()]
        }),
        long(unary("Bernoulli"), MANY, half),
        long(with_int(unary("Multinomial"), "sample_size", 4), MANY, weighed),
        long(ternary("Dropout"), MANY, trained),
        long(unary("RandomNormalLike"), MANY, extents),
        long(unary("RandomUniformLike"), MANY, extents),
    ]
}

/// Operators that compute on the host but are not tested here, with the reason.
const OTHERS: [(&str, &str); 4] = [
    ("BitCast", "it shares the bytes"),
    ("ImageDecoder", "its libraries are bounded by their own limits"),
    ("RandomNormal", "its extents are attributes; it draws as `RandomNormalLike` does"),
    ("RandomUniform", "its extents are attributes; it draws as `RandomUniformLike` does"),
];

/// Compiles the model of one node, at an opset that has the operator.
fn compiled(on: &Arc<Runtime>, one: &Long) -> Arc<dyn ErasedExecutable> {
    let inputs = (one.operands)(4).into_iter().zip(&one.node.input).map(|(x, name)| {
        let rank = vec!["?"; x.shape().len()];
        value(name, x.dtype().to_onnx(), &rank)
    });
    let graph = GraphProto {
        name: Some("one".to_owned()),
        input: inputs.collect(),
        output: one.node.output.iter().map(|name| untyped(name)).collect(),
        node: vec![one.node.clone()],
        ..GraphProto::default()
    };
    let model = Module::from_bytes(imported(serialized(graph), one.node.op_type())).unwrap();
    on.clone().compile(model, &CompileOptions::default()).unwrap()
}

/// Replaces the opset imports of a test model.
fn imported(model: Vec<u8>, op: &str) -> Vec<u8> {
    use bb::ir::proto::{ModelProto, OperatorSetIdProto};
    use prost::Message;
    let mut model = ModelProto::decode(&*model).unwrap();
    let main = if op == "Scatter" { 10 } else { 23 };
    let opset = |(domain, version): (&str, i64)| OperatorSetIdProto {
        domain: Some(domain.to_owned()),
        version: Some(version),
    };
    model.opset_import = vec![opset(("", main)), opset(("com.microsoft", 1)), opset(("ai.onnx.ml", 3))];
    model.encode_to_vec()
}

/// Runs a model and cancels the run at a given number of cancellation checks. Returns the number of checks and the result.
fn asked(
    on: &Arc<Runtime>,
    model: &dyn ErasedExecutable,
    operands: &[TensorData],
    end: usize,
) -> (usize, Result<(), Error>) {
    let inputs: Vec<Option<OnnxValue<Value>>> =
        operands.iter().map(|x| Some(OnnxValue::Tensor(on.constant(x).unwrap()))).collect();
    let asked = Arc::new(AtomicUsize::new(0));
    let options = {
        let asked = asked.clone();
        RunOptions::default().with_watch(move || asked.fetch_add(1, Ordering::Relaxed) + 1 >= end)
    };
    let ran = options.within(|| model.run_items(&inputs)).map(drop);
    (asked.load(Ordering::Relaxed), ran)
}

/// Like [`asked`], for a run that needs no new plan, because creating a plan also checks for cancellation.
fn asked_with_a_plan(on: &Arc<Runtime>, model: &dyn ErasedExecutable, operands: &[TensorData]) -> usize {
    let [(_, first), (count, second)] = [(); 2].map(|()| asked(on, model, operands, usize::MAX));
    first.and(second).unwrap();
    count
}

/// Returns whether an error is that the run was cancelled, or is caused by it.
fn cancelled(error: &(dyn std::error::Error + 'static)) -> bool {
    let own = error.downcast_ref::<Error>().is_some_and(|error| matches!(error, Error::Cancelled));
    own || error.to_string().contains("the run was cancelled") || error.source().is_some_and(cancelled)
}

/// Expected: an operator checks for cancellation once per `STRETCH` of work, and returns no result after it was cancelled.
#[test]
fn every_operator_on_the_host_ends_with_its_run() {
    let on = backends::start("reference").unwrap();
    for one in all().iter() {
        let (op, model) = (one.node.op_type(), compiled(&on, one));
        let (few, many) = ((one.operands)(8), (one.operands)(one.length));
        let [least, most] = [&few, &many].map(|operands| asked_with_a_plan(&on, &*model, operands));
        assert!(
            most >= least + 3,
            "{op} asks {least} times where it is short, {most} times where it is long"
        );
        for end in [least + 1, least + (most - least) / 2] {
            let (asked, ran) = asked(&on, &*model, &many, end);
            let error = ran.err().unwrap_or_else(|| panic!("{op} goes on after it was told to end"));
            assert!(cancelled(&error), "{op}: {error:?}");
            assert!(asked <= end + 3, "{op} asks {asked} times though it must end after {end}");
        }
    }
}

#[test]
fn every_operator_on_the_host_is_in_the_table_or_has_a_reason() {
    let table = all();
    let mut missing = Vec::new();
    for operator in bb::onnx::operators() {
        if matches!(operator.class, Class::Host | Class::HostByDefault) {
            let there = table
                .iter()
                .any(|one| one.node.op_type() == operator.name && one.node.domain() == operator.domain);
            if !there && !OTHERS.iter().any(|(name, _)| *name == operator.name) {
                missing.push((operator.domain, operator.name));
            }
        }
    }
    assert!(missing.is_empty(), "{missing:?}");
}

/// A run that is over its deadline fails although nothing is left to do.
#[test]
fn a_run_that_is_done_too_late_fails() {
    for backend in ["cpu", "reference", "whole-graph"] {
        let on = backends::start(backend).unwrap();
        let model = compiled(&on, &long(node("Neg", &["a"], &["y"]), 1, |n| vec![floats(&[n])]));
        let count = asked_with_a_plan(&on, &*model, &[floats(&[4])]);
        // The last question comes after the last operation.
        let (_, ran) = asked(&on, &*model, &[floats(&[4])], count);
        assert!(ran.is_err_and(|error| cancelled(&error)), "{backend}");
    }
}

/// The computation of constants while a plan is made ends with the run, too.
#[test]
fn making_a_plan_ends_with_its_run() {
    let on = backends::start("cpu").unwrap();
    let mut constant = node("Constant", &[], &["c"]);
    constant.attribute.push(AttributeProto {
        name: Some("value_floats".to_owned()),
        r#type: Some(AttributeType::Floats as i32),
        floats: numbers(MANY),
        ..AttributeProto::default()
    });
    let graph = GraphProto {
        name: Some("constants".to_owned()),
        input: vec![value("x", 1, &[])],
        output: vec![untyped("z")],
        node: vec![constant, node("Unique", &["c"], &["y"]), node("Add", &["y", "x"], &["z"])],
        ..GraphProto::default()
    };
    let compile = || {
        let model = Module::from_bytes(serialized(graph.clone())).unwrap();
        on.clone().compile(model, &CompileOptions::default()).unwrap()
    };
    let x = [TensorData::scalar(1f32)];
    let (count, ran) = asked(&on, &*compile(), &x, usize::MAX);
    ran.unwrap();
    assert!(count > 10, "{count}");
    for end in [count / 4, count / 2] {
        let (asked, ran) = asked(&on, &*compile(), &x, end);
        assert!(ran.is_err_and(|error| cancelled(&error)) && asked <= end + 3, "{asked} {end}");
    }
}
