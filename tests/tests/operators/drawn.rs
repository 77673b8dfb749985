//! Regression tests of findings of the fuzz targets `graph` and `calls`, on every backend.
#![expect(clippy::unwrap_used, reason = "tests")]

use bb::ext::{ImageOp, MlOp, NnOp};
use bb::ir::op::Param;
use bb::ir::proto::attribute_proto::AttributeType;
use bb::ir::proto::{AttributeProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto};
use bb::{
    BackendHandle, CancelToken, CompileOptions, DataType, Error, Limits, Module, RunOptions, Runtime,
    TensorData, Value,
};
use bb_tests::backends;
use bb_tests::model::{
    node, serialized, untyped, value, with_floats, with_graph, with_int, with_ints, with_texts,
};
use prost::Message;
use std::sync::Arc;

/// Runs one node on operands whose extents are not declared, those that it names.
fn called(on: &Arc<Runtime>, node: NodeProto, operands: &[TensorData]) -> Result<Vec<usize>, Error> {
    called_within(on, node, operands, &CompileOptions::default())
}

/// Runs one node as [`called`] does, with other limits.
fn called_within(
    on: &Arc<Runtime>,
    node: NodeProto,
    operands: &[TensorData],
    options: &CompileOptions,
) -> Result<Vec<usize>, Error> {
    let names = node.input.iter().filter(|name| !name.is_empty());
    let unknown = |x: &TensorData| vec!["?"; x.shape().len()];
    let input = operands.iter().zip(names).map(|(x, name)| value(name, x.dtype().to_onnx(), &unknown(x)));
    let graph = GraphProto {
        name: Some("drawn".to_owned()),
        input: input.collect(),
        output: node.output.iter().map(|name| untyped(name)).collect(),
        node: vec![node],
        ..GraphProto::default()
    };
    let mut model = ModelProto::decode(&*serialized(graph)).unwrap();
    let microsoft = OperatorSetIdProto { domain: Some("com.microsoft".to_owned()), version: Some(1) };
    let learning = OperatorSetIdProto { domain: Some("ai.onnx.ml".to_owned()), version: Some(5) };
    model.opset_import.extend([microsoft, learning]);
    let module = Module::from_bytes(model.encode_to_vec())?;
    let compiled = on.clone().compile(module, options)?;
    let values: Vec<Value> = operands.iter().map(|x| on.constant(x)).collect::<Result<_, _>>()?;
    let results = compiled.run(&values.iter().map(Some).collect::<Vec<_>>())?;
    Ok(results.first().map(|y| y.shape().to_vec()).unwrap_or_default())
}

fn floats(shape: &[usize]) -> TensorData {
    TensorData::new(shape, &vec![0.5f32; shape.iter().product()]).unwrap()
}

/// Makes a call of an operator on operands `x0`, `x1`, …
fn call(op: &str, operands: usize) -> NodeProto {
    let names: Vec<String> = (0..operands).map(|i| format!("x{i}")).collect();
    node(op, &names.iter().map(String::as_str).collect::<Vec<_>>(), &["y"])
}

fn with_text(mut node: NodeProto, name: &str, value: &str) -> NodeProto {
    node.attribute.push(AttributeProto {
        name: Some(name.to_owned()),
        r#type: Some(AttributeType::String as i32),
        s: Some(value.as_bytes().to_vec()),
        ..AttributeProto::default()
    });
    node
}

/// Joins the messages of an error and its causes.
fn chain(error: &Error) -> String {
    let causes = std::iter::successors(std::error::Error::source(error), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

/// An operator, the extents of its first operand, and the extents of the others.
type Case = (&'static str, &'static [usize], &'static [&'static [usize]]);

#[test]
fn results_have_the_extents_of_what_is_normalised() {
    let cases: [Case; 6] = [
        ("InstanceNormalization", &[1, 1, 4], &[&[1], &[2]]),
        ("InstanceNormalization", &[1, 1, 4], &[&[2], &[1]]),
        ("BatchNormalization", &[1, 1, 4], &[&[2], &[2], &[2], &[2]]),
        ("LayerNormalization", &[1, 3], &[&[2, 3]]),
        ("LayerNormalization", &[1, 3], &[&[3], &[2, 1, 3]]),
        ("RMSNormalization", &[1, 3], &[&[2, 3]]),
    ];
    for name in backends::NAMES {
        let on = backends::start(name).unwrap();
        for (op, x, others) in cases {
            let operands: Vec<TensorData> =
                std::iter::once(&x).chain(others).map(|shape| floats(shape)).collect();
            let ran = called(&on, call(op, operands.len()), &operands);
            assert!(ran.is_err(), "{op} of {x:?} and {others:?} on {name} gives {ran:?}");
        }
    }
}

#[test]
fn keys_and_values_are_of_the_batch_of_the_queries() {
    let mut shared = with_int(with_int(call("GroupQueryAttention", 3), "num_heads", 2), "kv_num_heads", 1);
    shared.domain = Some("com.microsoft".to_owned());
    shared.input.extend(["", "", "x3", "x4"].map(str::to_owned));
    let ends = TensorData::new(&[2], &[3i32, 3]).unwrap();
    let total = TensorData::new(&[], &[4i32]).unwrap();
    for name in backends::NAMES {
        let on = backends::start(name).unwrap();
        for (k, v) in [(1, 2), (2, 1), (1, 1)] {
            let operands = [floats(&[2, 2, 4, 8]), floats(&[k, 1, 4, 8]), floats(&[v, 1, 4, 8])];
            let ran = called(&on, call("Attention", 3), &operands);
            assert!(ran.is_err(), "Attention with batches of 2, {k} and {v} on {name} gives {ran:?}");
        }
        let [q, k] = [floats(&[2, 4, 16]), floats(&[1, 4, 8])];
        let operands = [q, k.clone(), k, ends.clone(), total.clone()];
        let ran = called(&on, shared.clone(), &operands);
        assert!(ran.is_err(), "GroupQueryAttention with keys of another batch on {name} gives {ran:?}");
    }
}

/// A loop over constants that doubles strings, so that a plan computes it in advance.
fn doubled(times: i64, elements: usize) -> Vec<u8> {
    let body = vec![node("StringConcat", &["v", "v"], &["w"]), node("Identity", &["go"], &["goes"])];
    let repeat = node("Loop", &["count", "", "text"], &["y"]);
    let graph = GraphProto {
        name: Some("doubled".to_owned()),
        node: vec![with_graph(repeat, "body", &["i", "go", "v"], body, &["goes", "w"])],
        initializer: vec![
            TensorData::scalar(times).to_proto("count"),
            TensorData::strings(&[elements], &vec!["abcd"; elements]).unwrap().to_proto("text"),
        ],
        output: vec![untyped("y")],
        ..GraphProto::default()
    };
    serialized(graph)
}

#[test]
fn strings_that_a_plan_computes_in_advance_are_bounded() {
    let mut limits = Limits::default();
    limits.set("value_bytes", "64KiB").unwrap();
    for name in backends::NAMES {
        let on = backends::start(name).unwrap();
        for (elements, times, limit, fits) in [
            (1, 10, None, true),
            (1, 20, None, false),
            (1, 12, Some("8KiB"), true),
            // Too many elements for a plan to inspect.
            (300, 3, None, true),
            (300, 10, None, false),
        ] {
            limits.set("fold_bytes", limit.unwrap_or("4GiB")).unwrap();
            let options = CompileOptions::default().within(&limits);
            let module = Module::from_bytes(doubled(times, elements)).unwrap();
            let ran = on.clone().compile(module, &options).and_then(|compiled| compiled.run(&[]));
            match ran {
                Ok(results) => {
                    let host = results.first().unwrap().to_host(1 << 20).unwrap();
                    assert!(fits && host.str_at(0).unwrap().len() == 4 << times, "{name}: {times} times");
                }
                Err(error) => {
                    let cause = std::iter::successors(Some(&error as &dyn std::error::Error), |e| e.source());
                    let text = cause.last().unwrap().to_string();
                    assert!(!fits && text.contains("value_bytes"), "{name}: {times} times: {text}");
                }
            }
        }
    }
}

#[test]
fn a_body_ends_when_its_run_must_end() {
    let on = backends::start("reference").unwrap();
    let x = on.constant(&floats(&[2, 3])).unwrap();
    let token = CancelToken::new();
    let options = RunOptions::default().with_cancel(&token);
    assert!(options.within(|| x.softplus()).is_ok());
    token.cancel();
    let error = options.within(|| x.softplus()).unwrap_err();
    let cause = std::iter::successors(Some(&error as &dyn std::error::Error), |e| e.source()).last().unwrap();
    assert_eq!(cause.to_string(), Error::Cancelled.to_string());
}

/// A zero point of two elements would broadcast along the batch.
#[test]
fn a_result_has_the_extents_that_follow_from_declarations() {
    let ones = |shape: &[usize]| TensorData::new(shape, &vec![1u8; shape.iter().product()]).unwrap();
    let dtype = DataType::U8.to_onnx();
    let graph = GraphProto {
        name: Some("drawn".to_owned()),
        node: vec![call("ConvInteger", 3)],
        input: vec![
            value("x0", dtype, &["1", "1", "3", "3"]),
            value("x1", dtype, &["1", "1", "2", "2"]),
            value("x2", dtype, &["n"]),
        ],
        output: vec![untyped("y")],
        ..GraphProto::default()
    };
    let module = Module::from_bytes(serialized(graph)).unwrap();
    for name in backends::NAMES {
        let on = backends::start(name).unwrap();
        let compiled = on.clone().compile(module.clone(), &CompileOptions::default()).unwrap();
        for (count, fits) in [(1, true), (2, false), (1, true)] {
            let operands = [ones(&[1, 1, 3, 3]), ones(&[1, 1, 2, 2]), ones(&[count])];
            let values = operands.each_ref().map(|x| on.constant(x).unwrap());
            let ran = compiled.run(&values.each_ref().map(Some));
            assert_eq!(ran.is_ok(), fits, "{count} zero points on {name}: {ran:?}");
        }
    }
}

#[test]
fn numbers_of_columns_are_not_negative() {
    for name in backends::NAMES {
        let on = backends::start(name).unwrap();
        for width in [i64::MIN, -1] {
            let mut node = with_ints(call("FeatureVectorizer", 1), "inputdimensions", &[width]);
            node.domain = Some("ai.onnx.ml".to_owned());
            let error = called(&on, node, &[floats(&[2, 3])]).unwrap_err();
            assert!(chain(&error).contains("is not negative"), "{name}: {}", chain(&error));
        }
    }
}

#[test]
fn windows_may_lie_beside_their_rows() {
    for name in backends::NAMES {
        let on = backends::start(name).unwrap();
        // The positions of the only window are -2 and 1 in a row of one element.
        let node = with_ints(call("MaxPool", 1), "kernel_shape", &[1, 2]);
        let node = with_ints(with_ints(node, "dilations", &[1, 3]), "pads", &[0, 2, 0, 1]);
        assert_eq!(called(&on, node, &[floats(&[1, 1, 2, 1])]).unwrap(), [1, 1, 2, 1], "{name}");
    }
}

#[test]
fn what_is_quantised_are_integers() {
    let byte = || TensorData::new(&[], &[3u8]).unwrap();
    let scale = || TensorData::new(&[], &[0.5f32]).unwrap();
    let cases: [(&str, Vec<TensorData>); 3] = [
        ("QLinearLeakyRelu", vec![floats(&[2]), scale(), byte(), scale(), byte()]),
        ("QLinearSigmoid", vec![byte(), scale(), byte(), scale(), TensorData::new(&[], &[3i8]).unwrap()]),
        ("QLinearAdd", vec![byte(), scale(), byte(), floats(&[1]), scale(), byte(), scale(), byte()]),
    ];
    for name in backends::NAMES {
        let on = backends::start(name).unwrap();
        for (op, operands) in &cases {
            let mut node = call(op, operands.len());
            node.domain = Some("com.microsoft".to_owned());
            let error = called(&on, node, operands).unwrap_err();
            assert!(chain(&error).contains("elements of"), "{op} on {name}: {}", chain(&error));
        }
    }
}

#[test]
fn positions_of_deformed_windows_are_floats() {
    let params = [
        Param::Ints((&[]).into()),
        Param::Ints((&[]).into()),
        Param::Ints((&[]).into()),
        Param::Int(1),
        Param::Int(1),
    ];
    for name in backends::NAMES {
        let on = BackendHandle::new(backends::start(name).unwrap());
        let zeros = |dtype, shape: &[usize]| {
            on.runtime().constant(&TensorData::zeros(dtype, shape, 1 << 10).unwrap()).unwrap()
        };
        let (x, w) = (zeros(DataType::C64, &[1, 1, 1, 2]), zeros(DataType::C64, &[1, 1, 1, 1]));
        let offset = zeros(DataType::C64, &[1, 2, 1, 2]);
        let operands = [Some(&x), Some(&w), Some(&offset), None, None];
        let error = on.call(ImageOp::DeformConv.spec(), &operands, &params).unwrap_err();
        assert!(chain(&error).contains("c64"), "{name}: {}", chain(&error));
    }
}

#[test]
fn labels_have_one_form() {
    for name in backends::NAMES {
        let on = backends::start(name).unwrap();
        let mut node = node("LinearClassifier", &["x0"], &["y", "scores"]);
        node.domain = Some("ai.onnx.ml".to_owned());
        let node = with_floats(node, "coefficients", &[0.5; 6]);
        let node = with_ints(node, "classlabels_ints", &[1, 2]);
        let node = with_texts(node, "classlabels_strings", &["a", "b"]);
        let error = called(&on, node, &[floats(&[1, 3])]).unwrap_err();
        assert!(chain(&error).contains("only one may list the classes"), "{name}: {}", chain(&error));
    }
}

/// ONNX Runtime gives the same.
#[test]
fn padding_times_infinity_is_no_number() {
    let x = TensorData::new(&[1, 1, 5], &[1.625f32, 1.25, -2.5, 9007199254740992.0, -1.125]).unwrap();
    let w = TensorData::new(&[1, 1, 3], &[f32::INFINITY, -65504.0, -0.875]).unwrap();
    let expected = [f32::NAN, f32::NAN, f32::INFINITY, f32::INFINITY, f32::NEG_INFINITY, f32::INFINITY];
    for name in backends::NAMES {
        let on = BackendHandle::new(backends::start(name).unwrap());
        let [x, w] = [&x, &w].map(|data| on.runtime().constant(data).unwrap());
        let params = [
            Param::Ints((&[1]).into()),
            Param::Ints((&[2, 1]).into()),
            Param::Ints((&[]).into()),
            Param::Int(1),
        ];
        let y = on.call(NnOp::Conv.spec(), &[Some(&x), Some(&w), None], &params).unwrap().remove(0);
        let y = y.to_host(1 << 10).unwrap();
        let same = |(a, b): (&f32, &f32)| a == b || (a.is_nan() && b.is_nan());
        assert!(y.as_slice::<f32>().unwrap().iter().zip(&expected).all(same), "{name}: {y:?}");
    }
}

#[test]
fn scales_of_normalisations_have_the_type_of_the_operand() {
    for name in backends::NAMES {
        let on = backends::start(name).unwrap();
        for op in ["SkipSimplifiedLayerNormalization", "SkipLayerNormalization"] {
            let mut skip = call(op, 3);
            skip.domain = Some("com.microsoft".to_owned());
            let scale = TensorData::new(&[], &[2i64]).unwrap();
            let error = called(&on, skip, &[floats(&[2, 3]), floats(&[2, 3]), scale]).unwrap_err();
            assert!(chain(&error).contains("has elements of i64, expected f32"), "{}", chain(&error));
        }
        let scale = TensorData::new(&[3], &[2i64; 3]).unwrap();
        let error = called(&on, call("RMSNormalization", 2), &[floats(&[2, 3]), scale]).unwrap_err();
        assert!(chain(&error).contains("i64"), "{}", chain(&error));
    }
}

#[test]
fn windows_far_from_each_other_pad_no_more_than_a_window() {
    for name in backends::NAMES {
        let on = backends::start(name).unwrap();
        for strides in [[2, 2_147_483_647], [2_147_483_647, 1]] {
            let pool = with_ints(call("MaxPool", 1), "kernel_shape", &[3, 3]);
            let pool = with_int(with_ints(pool, "strides", &strides), "ceil_mode", 1);
            // A window begins at every second row, and ends within the padding, or beyond it.
            let rows = if strides[0] == 2 { 2 } else { 1 };
            let columns = if strides[1] == 1 { 2 } else { 1 };
            let got = called(&on, pool, &[floats(&[1, 1, 4, 4])]).unwrap();
            assert_eq!(got, [1, 1, rows, columns], "{name} {strides:?}");
        }
    }
}

#[test]
fn a_small_variance_of_halves_is_no_infinite_factor() {
    let cast =
        |x: &TensorData, to| bb::ir::convert::cast(x, to, bb::ir::convert::Rounding::default()).unwrap();
    let half = |x: f32| cast(&TensorData::new(&[1], &[x]).unwrap(), DataType::F16);
    let x = cast(&TensorData::new(&[1, 1], &[0.125f32]).unwrap(), DataType::F16);
    // 1000 / sqrt(1e-5) is above all halves. The product, 39528.5, is between two that are 32 apart.
    let vectors = [1000.0, 0.0, 0.0, 0.0].map(half);
    for name in backends::NAMES {
        let on = BackendHandle::new(backends::start(name).unwrap());
        let operands = std::iter::once(&x).chain(&vectors).map(|data| on.runtime().constant(data).unwrap());
        let operands: Vec<Value> = operands.collect();
        let operands: Vec<Option<&Value>> = operands.iter().map(Some).collect();
        let y = on.call(NnOp::BatchNormalization.spec(), &operands, &[Param::Float(1e-5)]).unwrap().remove(0);
        let y = cast(&y.to_host(1 << 10).unwrap(), DataType::F32);
        assert_eq!(y.as_slice::<f32>().unwrap(), [39520.0], "{name}");
    }
}

#[test]
fn vectors_of_channels_have_one_dimension() {
    for name in backends::NAMES {
        let on = BackendHandle::new(backends::start(name).unwrap());
        let called = |mean: &[usize]| {
            let shapes = [&[0, 3, 4], &[3][..], &[3], mean, &[3]];
            let operands = shapes.map(|shape| on.runtime().constant(&floats(shape)).unwrap());
            on.call(NnOp::BatchNormalization.spec(), &operands.each_ref().map(Some), &[Param::Float(1e-5)])
        };
        assert!(called(&[3]).is_ok_and(|y| y.iter().all(|y| y.shape() == [0, 3, 4])), "{name}");
        assert!(called(&[1, 3]).is_err(), "{name}");
    }
}

#[test]
fn walks_down_trees_have_a_depth_of_any_size() {
    let [x, threshold] =
        [(&[1, 1][..], 0.5f32), (&[1], 0.75)].map(|(shape, x)| TensorData::new(shape, &[x]).unwrap());
    let node = TensorData::new(&[1, 4], &[0i32, 0, 1, 2]).unwrap();
    let root = TensorData::new(&[1], &[0i32]).unwrap();
    let leaves = TensorData::new(&[2, 1], &[10f32, 20.0]).unwrap();
    let params =
        [Param::Int(i64::MAX), Param::Ints((&[0]).into()), Param::Bool(false), Param::Text("sum".into())];
    for name in backends::NAMES {
        let on = BackendHandle::new(backends::start(name).unwrap());
        let operands =
            [&x, &node, &threshold, &root, &leaves].map(|data| on.runtime().constant(data).unwrap());
        let [x, node, threshold, root, leaves] = operands.each_ref().map(Some);
        let operands = [x, node, threshold, root, leaves, None];
        let y = on.call(MlOp::TreeEnsemble.spec(), &operands, &params).unwrap().remove(0);
        assert_eq!(y.to_host(1 << 10).unwrap().as_slice::<f32>().unwrap(), [10.0], "{name}");
    }
}

#[test]
fn only_integers_are_shifted() {
    let shift = |operands: [&TensorData; 2]| {
        let node = with_text(call("BitShift", 2), "direction", "RIGHT");
        backends::NAMES
            .map(|name| called(&backends::start(name).unwrap(), node.clone(), &operands.map(Clone::clone)))
    };
    let words = TensorData::strings(&[2], &["6", "7"]).unwrap();
    let bytes = TensorData::new(&[2], &[6u8, 7]).unwrap();
    for operands in [[&words, &bytes], [&bytes, &words], [&words, &words], [&floats(&[2]), &bytes]] {
        for result in shift(operands) {
            let error = result.unwrap_err();
            assert!(chain(&error).contains("elements of"), "{}", chain(&error));
        }
    }
    for result in shift([&bytes, &bytes]) {
        assert_eq!(result.unwrap(), [2]);
    }
}

#[test]
fn functions_of_strings_take_nothing_else() {
    let tokenizer = with_text(with_text(call("Tokenizer", 1), "pad_value", "#"), "tokenexp", "a");
    let mut tokenizer = with_int(with_int(tokenizer, "mark", 0), "mincharnum", 1);
    tokenizer.domain = Some("com.microsoft".to_owned());
    let matches = with_text(call("RegexFullMatch", 1), "pattern", "a");
    for name in backends::NAMES {
        let on = backends::start(name).unwrap();
        for numbers in [TensorData::new(&[2], &[1i64, 2]).unwrap(), floats(&[0])] {
            let split = node("StringSplit", &["x0"], &["y", "counts"]);
            let one = [call("StringNormalizer", 1), split, tokenizer.clone(), matches.clone()];
            for node in one {
                let error = called(&on, node, std::slice::from_ref(&numbers)).unwrap_err();
                assert!(chain(&error).contains("takes elements of string"), "{}", chain(&error));
            }
            let error = called(&on, call("StringConcat", 2), &[numbers.clone(), numbers]).unwrap_err();
            assert!(chain(&error).contains("takes elements of string"), "{}", chain(&error));
        }
    }
}

#[test]
fn maps_have_floats_as_values() {
    let mut zip = with_ints(call("ZipMap", 1), "classlabels_int64s", &[7, 8]);
    zip.domain = Some("ai.onnx.ml".to_owned());
    for name in backends::NAMES {
        let on = backends::start(name).unwrap();
        let words = TensorData::strings(&[1, 2], &["6", "7"]).unwrap();
        let integers = TensorData::new(&[1, 2], &[6i32, 7]).unwrap();
        let doubles = TensorData::new(&[1, 2], &[6f64, 7.0]).unwrap();
        for x in [words, integers, doubles] {
            let error = called(&on, zip.clone(), &[x]).unwrap_err();
            assert!(chain(&error).contains("takes elements of f32"), "{}", chain(&error));
        }
    }
}

#[test]
fn what_is_quantised_has_the_type_of_its_zero_point() {
    let quantize =
        |dtype: DataType| with_int(call("QuantizeLinear", 3), "output_dtype", i64::from(dtype.to_onnx()));
    for name in backends::NAMES {
        let on = backends::start(name).unwrap();
        let operands = [floats(&[2]), floats(&[]), TensorData::new(&[], &[3u8]).unwrap()];
        let error = called(&on, quantize(DataType::U16), &operands).unwrap_err();
        let expected = "output_dtype is u16, but the zero point has elements of u8";
        assert!(chain(&error).contains(expected), "{}", chain(&error));
        assert_eq!(called(&on, quantize(DataType::U8), &operands).unwrap(), [2]);
    }
}

#[test]
fn a_border_is_bounded_before_its_indices_are_made() {
    let pads = TensorData::new(&[2], &[1i64 << 31, 0]).unwrap();
    for name in backends::NAMES {
        let on = backends::start(name).unwrap();
        let error = called(&on, call("Pad", 2), &[floats(&[3]), pads.clone()]).unwrap_err();
        assert!(chain(&error).contains("value_bytes"), "{name}: {}", chain(&error));
    }
}

#[test]
fn ranges_are_bounded_before_they_are_made() {
    fn bounds<T: bb::Element>(numbers: [T; 3]) -> [TensorData; 3] {
        numbers.map(|number| TensorData::scalar(number))
    }
    let options = CompileOptions::default().within(&Limits { value_bytes: 1 << 16, ..Limits::default() });
    let long = [bounds([1f64, 2e6, 1.0]), bounds([1f32, 2e6, 1.0]), bounds([1i64, 2_000_000, 1])];
    for name in backends::NAMES {
        let on = backends::start(name).unwrap();
        for operands in &long {
            let error = called_within(&on, call("Range", 3), operands, &options).unwrap_err();
            assert!(chain(&error).contains("value_bytes"), "{name}: {}", chain(&error));
        }
        let short = called_within(&on, call("Range", 3), &bounds([1f64, 9.0, 2.0]), &options);
        assert_eq!(short.unwrap(), [4]);
    }
}

#[test]
fn what_is_counted_is_bounded_before_it_is_made() {
    let indices = TensorData::new(&[2], &[0i64, 1]).unwrap();
    let depth = TensorData::scalar(i64::from(i32::MAX));
    for name in backends::NAMES {
        let on = backends::start(name).unwrap();
        let operands = [indices.clone(), depth.clone(), floats(&[2])];
        let error = called(&on, call("OneHot", 3), &operands).unwrap_err();
        assert!(chain(&error).contains("value_bytes"), "{name}: {}", chain(&error));
        let two = TensorData::new(&[2], &[3i64, 3]).unwrap();
        let error = called(&on, call("OneHot", 3), &[indices.clone(), two, floats(&[2])]).unwrap_err();
        assert!(chain(&error).contains("one element"), "{name}: {}", chain(&error));
    }
}

#[test]
fn ranges_have_three_numbers_of_one_type() {
    for name in backends::NAMES {
        let on = backends::start(name).unwrap();
        let [first, last] = [1f64, 9.0].map(TensorData::scalar);
        for (step, expected) in [
            (TensorData::scalar(1f32), "is of type f32, and the first number of type f64"),
            (TensorData::new(&[2], &[1f64, 1.0]).unwrap(), "has the shape [2], expected a scalar"),
            (TensorData::new::<f64>(&[0], &[]).unwrap(), "has the shape [0], expected a scalar"),
        ] {
            let error = called(&on, call("Range", 3), &[first.clone(), last.clone(), step]).unwrap_err();
            assert!(chain(&error).contains(expected), "{name}: {}", chain(&error));
        }
    }
}

#[test]
fn results_have_the_type_that_follows_from_declarations() {
    let doubles = TensorData::new(&[2], &[0.5f64, 1.0]).unwrap();
    for name in backends::NAMES {
        let on = backends::start(name).unwrap();
        let node = node("DynamicQuantizeLinear", &["x0"], &["y", "scale", "zero"]);
        let error = called(&on, node, std::slice::from_ref(&doubles)).unwrap_err();
        assert!(chain(&error).contains("makes a result of type f64"), "{name}: {}", chain(&error));
    }
}
