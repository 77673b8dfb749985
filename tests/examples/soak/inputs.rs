//! The models of the soak, and their inputs by the number of a shape.

use bb::conformance::Random;
use bb::ir::proto::{GraphProto, NodeProto};
use bb::{DataType, Module, OpenOptions, Runtime, TensorData};
use bb_cpu::Cpu;
use bb_reference::Reference;
use bb_tests::{backends, model};
use bb_whole_graph::WholeGraph;
use std::path::Path;
use std::sync::Arc;

/// The number of shapes of each model.
pub(super) const SHAPES: usize = 500;

/// The greatest value of a run, in bytes.
pub(super) const VALUE_BYTES: usize = 32 << 20;

/// A model and its inputs.
pub(super) struct Soaked {
    pub(super) name: &'static str,
    /// Makes the inputs of a shape, always the same.
    pub(super) inputs: fn(usize) -> Vec<TensorData>,
    /// Changes inputs so that the run fails before its first operation or later.
    pub(super) spoil: fn(Vec<TensorData>, &mut Random) -> Vec<TensorData>,
}

/// The models.
pub(super) const MODELS: [fn() -> (Soaked, Module); 4] = [decoder, segmenter, detector, assorted];

/// Starts a backend.
pub(super) fn open(name: &str, options: &OpenOptions) -> Arc<Runtime> {
    let opened = match name {
        "cpu" => Runtime::open_with::<Cpu>(options),
        "reference" => Runtime::open_with::<Reference>(options),
        "whole-graph" => Runtime::open_with::<WholeGraph>(options),
        _ => backends::start(name),
    };
    opened.unwrap()
}

fn load(name: &str) -> Module {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/models").join(name);
    Module::load(folder.join("model.onnx")).unwrap()
}

fn floats(shape: &[usize]) -> TensorData {
    let count = shape.iter().product();
    let elements: Vec<f32> = (0..count).map(|i: usize| (i % 23) as f32 / 23.0 - 0.4).collect();
    TensorData::new(shape, &elements).unwrap()
}

fn ints(shape: &[usize], below: i64) -> TensorData {
    let count: usize = shape.iter().product();
    let elements: Vec<i64> = (0..count as i64).map(|i| (i * 7 + 1) % below).collect();
    TensorData::new(shape, &elements).unwrap()
}

/// Changes one input: its element type, its rank, or its elements to `elements`.
fn spoilt(mut data: Vec<TensorData>, at: usize, elements: i64, random: &mut Random) -> Vec<TensorData> {
    let shape = data[at].shape().to_vec();
    data[at] = match random.below(3) {
        0 => TensorData::bools(&shape, &vec![true; shape.iter().product()]).unwrap(),
        1 => data[at].reshaped(&[&[1], shape.as_slice()].concat()).unwrap(),
        _ => TensorData::new(&shape, &vec![elements; shape.iter().product()]).unwrap(),
    };
    data
}

/// A language model with a cache. Shapes: lengths of texts and of caches.
fn decoder() -> (Soaked, Module) {
    let inputs = |shape: usize| {
        let (length, past) = (1 + shape % 25, shape / 25);
        let all = length + past;
        let mask: Vec<bool> = (0..length).flat_map(|i| (0..all).map(move |j| j <= past + i)).collect();
        let mut data = vec![
            ints(&[1, length], 200),
            ints(&[1, length], 30),
            TensorData::bools(&[1, 1, length, all], &mask).unwrap(),
        ];
        data.extend((0..4).map(|_| floats(&[1, 2, past, 16])));
        data
    };
    let spoil = |data: Vec<TensorData>, random: &mut Random| spoilt(data, 0, 1 << 20, random);
    (Soaked { name: "decoder", inputs, spoil }, load("tiny_llama_primitives_op17"))
}

/// A model that finds words. Shapes: lengths of texts.
fn segmenter() -> (Soaked, Module) {
    let inputs = |shape: usize| vec![ints(&[1, 2, shape + 1], 20)];
    let spoil = |data: Vec<TensorData>, random: &mut Random| spoilt(data, 0, 1 << 20, random);
    (Soaked { name: "segmenter", inputs, spoil }, load("attacut_sc"))
}

/// A model that finds speech, with branches and a recurrence. Shapes: numbers of sounds, and of samples.
fn detector() -> (Soaked, Module) {
    let inputs = |shape: usize| {
        // More samples are no longer one frame.
        let (batch, samples) = (1 + shape % 20, 512 + 2 * (shape / 20));
        let rate = TensorData::new(&[], &[16_000i64]).unwrap();
        vec![floats(&[batch, samples]), floats(&[2, batch, 128]), rate]
    };
    let spoil = |mut data: Vec<TensorData>, random: &mut Random| {
        data[1] = floats(&[2, 40 + random.below(3), 128]);
        data
    };
    (Soaked { name: "detector", inputs, spoil }, load("silero_vad_op16"))
}

/// A graph of operations that need separate plans or host memory: a mask built from extents, extents that depend on
/// elements, a loop, strings and a sequence. Shapes: extents of the input.
fn assorted() -> (Soaked, Module) {
    let inputs = |shape: usize| {
        let (rows, columns) = (1 + shape % 25, 1 + shape / 25);
        let count = TensorData::new(&[], &[(shape % 12) as i64]).unwrap();
        vec![floats(&[rows, columns]), ints(&[3], rows as i64), count, ints(&[1], 400)]
    };
    let spoil = |data: Vec<TensorData>, random: &mut Random| match random.below(2) {
        // A row that does not exist, or a value that is too large.
        0 => spoilt(data, 1, 1 << 20, random),
        _ => spoilt(data, 3, 1 << 30, random),
    };
    let info = model::value;
    let graph = GraphProto {
        name: Some("assorted".to_owned()),
        node: nodes(),
        input: vec![
            info("x", DataType::F32.to_onnx(), &["rows", "columns"]),
            info("index", DataType::I64.to_onnx(), &["3"]),
            info("count", DataType::I64.to_onnx(), &[]),
            info("size", DataType::I64.to_onnx(), &["1"]),
        ],
        output: ["total", "sums", "picked", "taken", "words", "larger"].map(model::untyped).into(),
        ..GraphProto::default()
    };
    (Soaked { name: "assorted", inputs, spoil }, Module::from_bytes(model::serialized(graph)).unwrap())
}

fn nodes() -> Vec<NodeProto> {
    use model::{node, with_graph, with_int};
    let body = vec![
        node("Identity", &["going"], &["go_on"]),
        node("Add", &["sum", "x"], &["more"]),
        node("Mul", &["more", "half"], &["next"]),
        node("ReduceMax", &["next"], &["greatest"]),
    ];
    let repeated = node("Loop", &["count", "", "masked"], &["total", "sums"]);
    vec![
        node("Shape", &["x"], &["extents"]),
        node("ConstantOfShape", &["extents"], &["nothing"]),
        node("Exp", &["nothing"], &["ones"]),
        node("Trilu", &["ones"], &["mask"]),
        node("Mul", &["x", "mask"], &["masked"]),
        float("half", 0.5),
        with_graph(repeated, "body", &["step", "going", "sum"], body, &["go_on", "next", "greatest"]),
        float("zero", 0.0),
        node("Greater", &["x", "zero"], &["positive"]),
        node("NonZero", &["positive"], &["where"]),
        node("Transpose", &["where"], &["places"]),
        node("GatherND", &["x", "places"], &["picked"]),
        node("Gather", &["masked", "index"], &["row"]),
        node("SequenceConstruct", &["row", "row"], &["rows"]),
        with_int(node("ConcatFromSequence", &["rows"], &["taken"]), "axis", 0),
        with_int(node("Cast", &["index"], &["text"]), "to", DataType::String.to_onnx().into()),
        node("StringConcat", &["text", "text"], &["words"]),
        node("Expand", &["half", "size"], &["long"]),
        node("ReduceSum", &["long"], &["larger"]),
    ]
}

fn float(output: &str, value: f32) -> NodeProto {
    let mut node = model::node("Constant", &[], &[output]);
    node.attribute.push(bb::ir::proto::AttributeProto {
        name: Some("value_float".to_owned()),
        r#type: Some(bb::ir::proto::attribute_proto::AttributeType::Float as i32),
        f: Some(value),
        ..Default::default()
    });
    node
}
