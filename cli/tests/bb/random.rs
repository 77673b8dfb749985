//! Tests `--random`: it finds extents for which the model runs, and elements that fit.

use crate::process::{bb, data, folder, write};
use bb::DataType;
use bb::ir::proto::{TensorProto, type_proto};
use bb_tests::model::{model, node, with_int};

/// Sets the types and shapes of a model's inputs; an open extent is a name.
fn typed(inputs: &[(&str, DataType, &[&str])], mut bytes: Vec<u8>, constants: Vec<TensorProto>) -> Vec<u8> {
    use bb::ir::proto::{ModelProto, TensorShapeProto, tensor_shape_proto::Dimension};
    use bb::ir::proto::{TypeProto, ValueInfoProto, tensor_shape_proto::dimension::Value as Extent};
    use prost::Message;
    let mut model = ModelProto::decode(bytes.as_slice()).unwrap();
    let graph = model.graph.as_mut().unwrap();
    graph.initializer.extend(constants);
    graph.input = inputs
        .iter()
        .map(|(name, dtype, extents)| {
            let dim = |text: &&str| Dimension {
                value: match text.parse() {
                    Ok(extent) => Some(Extent::DimValue(extent)),
                    Err(_) if text.is_empty() => None,
                    Err(_) => Some(Extent::DimParam((*text).to_owned())),
                },
                ..Dimension::default()
            };
            let shape = Some(TensorShapeProto { dim: extents.iter().map(dim).collect() });
            let value =
                type_proto::Value::TensorType(type_proto::Tensor { elem_type: Some(dtype.to_onnx()), shape });
            ValueInfoProto {
                name: Some((*name).to_owned()),
                r#type: Some(TypeProto { value: Some(value), ..TypeProto::default() }),
                ..ValueInfoProto::default()
            }
        })
        .collect();
    bytes.clear();
    model.encode(&mut bytes).unwrap();
    bytes
}

/// Removes the types of the outputs, which inference then determines.
fn open_outputs(bytes: &[u8]) -> Vec<u8> {
    use bb::ir::proto::ModelProto;
    use prost::Message;
    let mut model = ModelProto::decode(bytes).unwrap();
    model.graph.as_mut().unwrap().output.iter_mut().for_each(|output| output.r#type = None);
    model.encode_to_vec()
}

/// `pooled = MaxPool(x)` with a kernel of 200, where `x: [n, 1, length]`.
fn long() -> Vec<u8> {
    let mut pool = node("MaxPool", &["x"], &["y"]);
    pool.attribute.push(bb::ir::proto::AttributeProto {
        name: Some("kernel_shape".to_owned()),
        r#type: Some(bb::ir::proto::attribute_proto::AttributeType::Ints as i32),
        ints: vec![200],
        ..Default::default()
    });
    typed(
        &[("x", DataType::F32, &["n", "1", "length"])],
        open_outputs(&model(&[], vec![pool], &[("y", &[])])),
        vec![],
    )
}

#[test]
fn extents_that_work_are_found_and_printed() {
    let folder = folder("random-extents");
    let path = write(&folder, "model.onnx", &long());
    let ended = bb(&["run", &path, "--random", "--json"]);
    assert_eq!(ended.code(), 0, "{}", ended.err);
    let json = ended.json();
    assert_eq!(json["extents"], serde_json::json!({ "n": 1, "length": 224 }));
    assert_eq!(json["outputs"][0]["shape"], serde_json::json!([1, 1, 25]));
    assert!(ended.err.contains("n=1, length=224"), "{}", ended.err);
    for command in ["bench", "compare"] {
        let both = ["--backend", "cpu", "--backend", "reference"];
        let rest: &[&str] = if command == "bench" { &["--runs", "1"] } else { &both };
        let ended = bb(&[&[command, &path], rest].concat());
        assert_eq!(ended.code(), 0, "{command}: {}", ended.err);
        assert!(ended.err.contains("n=1, length=224"), "{command}: {}", ended.err);
    }
}

#[test]
fn every_command_accepts_dims_and_shapes() {
    let folder = folder("random-dims");
    let path = write(&folder, "model.onnx", &long());
    let shape = |options: &[&str]| {
        let ended = bb(&[&["run", &path, "--random", "--json"], options].concat());
        assert_eq!(ended.code(), 0, "{}", ended.err);
        let json = ended.json();
        (json["outputs"][0]["shape"].clone(), json["extents"].clone())
    };
    let no = serde_json::json!({});
    assert_eq!(shape(&["--dim", "n=2", "--dim", "length=201"]), (serde_json::json!([2, 1, 2]), no.clone()));
    assert_eq!(shape(&["--shape", "x=3,1,200"]), (serde_json::json!([3, 1, 1]), no));
    assert_eq!(shape(&["--dim", "n=5"]).1, serde_json::json!({ "length": 224 }));
    let both: &[&str] = &["--backend", "cpu", "--backend", "reference"];
    for (command, rest) in
        [("bench", &["--runs", "1"][..]), ("compare", both), ("inspect", &["--stage", "mir"])]
    {
        for option in [["--dim", "length=300"], ["--shape", "x=1,1,300"]] {
            let ended = bb(&[&[command, &path], rest, &option].concat());
            assert_eq!(ended.code(), 0, "{command} {option:?}: {}", ended.err);
        }
    }
}

#[test]
fn unknown_names_and_contradictory_extents_are_refused() {
    let folder = folder("random-refused");
    let path = write(&folder, "model.onnx", &long());
    for (options, expected) in [
        (
            &["--dim", "lenght=300"][..],
            "no input has an extent called `lenght`; the names are `n`, `length`; did you mean `length`?",
        ),
        (&["--shape", "z=1"], "the model has no input `z`"),
        (&["--shape", "x=1,2,300"], "`x` is declared as f32[n, 1, length]"),
        (&["--shape", "x=1,1"], "`x` is declared as f32[n, 1, length]"),
        (
            &["--dim", "n=2", "--shape", "x=1,1,300"],
            "the extent `n` is 2 by --dim n=2 and 1 by --shape x=1,1,300",
        ),
        (&["--shape", "x=1,1,300", "--shape", "x=1,1,300"], "--shape is given twice for `x`"),
        (&["--range", "z=0..1"], "the model has no input `z`"),
        (&["--range", "x=0..1", "--range", "x=0..2"], "--range is given twice for `x`"),
        (&["--range", "0..1e300"], "is of f32"),
    ] {
        for command in ["run", "bench", "compare", "inspect"] {
            if command == "inspect" && options[0] == "--range" {
                continue;
            }
            let mut all = vec![command, &path];
            all.extend(match command {
                "run" => &["--random"][..],
                "compare" => &["--backend", "cpu", "--backend", "reference"],
                "inspect" => &["--stage", "mir"],
                _ => &[],
            });
            all.extend(options);
            let ended = bb(&all);
            assert_eq!(ended.code(), 1, "{all:?}: {}", ended.out);
            assert!(ended.err.contains(expected), "{all:?}: {}", ended.err);
        }
    }
}

#[test]
fn a_failed_search_is_reported_with_its_reason() {
    let folder = folder("random-nothing");
    // No common extents satisfy the two names: y has 7 columns more than x times 3.
    let nodes = vec![node("Concat", &["x", "x", "x"], &["three"]), node("Add", &["three", "y"], &["z"])];
    let nodes: Vec<_> =
        nodes.into_iter().map(|n| if n.op_type() == "Concat" { with_int(n, "axis", 0) } else { n }).collect();
    let bytes = open_outputs(&model(&[], nodes, &[("z", &[])]));
    let bytes = typed(&[("x", DataType::F32, &["a", "5"]), ("y", DataType::F32, &["7", "5"])], bytes, vec![]);
    let ended = bb(&["run", &write(&folder, "model.onnx", &bytes), "--random"]);
    assert_eq!(ended.code(), 1);
    assert!(ended.err.contains("no extents were found with which the model runs"), "{}", ended.err);
    assert!(ended.err.contains("`a`") && ended.err.contains("because"), "{}", ended.err);
}

/// Row `i` of the 50 rows consists of `i`, so `y` shows the identifiers. An identifier of 50 or more is an
/// error, and the greatest of 1000 random ones is at least 40.
#[test]
fn identifiers_lie_within_the_rows_of_their_table() {
    let folder = folder("random-rows");
    let rows: Vec<f32> = (0..100).map(|i| (i / 2) as f32).collect();
    let table = bb::TensorData::new(&[50, 2], &rows).unwrap().to_proto("table");
    let nodes =
        vec![node("Reshape", &["ids", "flat"], &["list"]), node("Gather", &["table", "list"], &["y"])];
    let flat = bb::TensorData::new(&[1], &[-1i64]).unwrap().to_proto("flat");
    let bytes = open_outputs(&model(&[], nodes, &[("y", &[])]));
    let bytes = typed(&[("ids", DataType::I64, &["n", "s"])], bytes, vec![table, flat]);
    let path = write(&folder, "model.onnx", &bytes);
    let output = folder.join("out");
    let ended = bb(&[
        "run",
        &path,
        "--random",
        "--dim",
        "n=10",
        "--dim",
        "s=100",
        "--output",
        output.to_str().unwrap(),
    ]);
    assert_eq!(ended.code(), 0, "{}", ended.err);
    let y = bb::TensorData::from_npy(std::fs::read(output.join("y.npy")).unwrap().into()).unwrap();
    let greatest = y.as_slice::<f32>().unwrap().iter().copied().fold(0.0, f32::max);
    assert!((40.0..50.0).contains(&greatest), "{greatest}");
    let ended = bb(&["run", &path, "--random", "--range", "ids=3..4", "--json"]).json();
    let summary = ended["outputs"][0]["summary"].as_str().unwrap().to_owned();
    assert!(summary.contains("min 3 max 3"), "{summary}");
}

/// A text that is not a key would be mapped to the default, −7.
#[test]
fn texts_are_keys_of_their_encoder() {
    use bb::ir::proto::attribute_proto::AttributeType;
    use bb::ir::proto::{AttributeProto, ModelProto, OperatorSetIdProto};
    use prost::Message;
    let folder = folder("random-keys");
    let mut encoder = with_int(node("LabelEncoder", &["x"], &["y"]), "default_int64", -7);
    encoder.domain = Some("ai.onnx.ml".to_owned());
    encoder.attribute.push(AttributeProto {
        name: Some("keys_strings".to_owned()),
        r#type: Some(AttributeType::Strings as i32),
        strings: vec![b"red".to_vec(), b"green".to_vec()],
        ..AttributeProto::default()
    });
    encoder.attribute.push(AttributeProto {
        name: Some("values_int64s".to_owned()),
        r#type: Some(AttributeType::Ints as i32),
        ints: vec![3, 5],
        ..AttributeProto::default()
    });
    let bytes = open_outputs(&model(&[], vec![encoder], &[("y", &[])]));
    let bytes = typed(&[("x", DataType::String, &["20"])], bytes, vec![]);
    let mut model = ModelProto::decode(bytes.as_slice()).unwrap();
    let import = OperatorSetIdProto { domain: Some("ai.onnx.ml".to_owned()), version: Some(2) };
    model.opset_import.push(import);
    let path = write(&folder, "model.onnx", &model.encode_to_vec());
    let json = bb(&["run", &path, "--random", "--json"]).json();
    let values = json["outputs"][0]["values"].as_array().unwrap();
    assert!(values.contains(&3.into()) && values.contains(&5.into()), "{values:?}");
    assert!(!values.contains(&(-7).into()), "{values:?}");
}

/// Integers fill exactly the requested range, up to the limits of their type.
#[test]
fn random_elements_fill_their_range() {
    let folder = folder("random-ranges");
    for (dtype, range, least, most) in [
        (DataType::I8, "-128..128", -128.0, 127.0),
        (DataType::U4, "0..16", 0.0, 15.0),
        (DataType::I64, "-3..-1", -3.0, -2.0),
        (DataType::F32, "-2..-1", -2.0, -1.0),
    ] {
        let bytes = open_outputs(&model(&[], vec![node("Identity", &["x"], &["y"])], &[("y", &[])]));
        let bytes = typed(&[("x", dtype, &["5000"])], bytes, vec![]);
        let path = write(&folder, "model.onnx", &bytes);
        let ended = bb(&["run", &path, "--random", "--range", range, "--json"]);
        assert_eq!(ended.code(), 0, "{dtype}: {}", ended.err);
        let json = ended.json();
        let values = json["outputs"][0]["values"].as_array().unwrap().iter().map(|v| v.as_f64().unwrap());
        let (low, high) = values.fold((f64::MAX, f64::MIN), |(l, h), v| (l.min(v), h.max(v)));
        assert!((least..=least + 0.01).contains(&low) || low == least, "{dtype}: {low}");
        assert!((most - 0.01..=most).contains(&high), "{dtype}: {high}");
    }
    let bytes = open_outputs(&model(&[], vec![node("Identity", &["x"], &["y"])], &[("y", &[])]));
    for (dtype, range) in [
        (DataType::U8, "0..257"),
        (DataType::U8, "-1..3"),
        (DataType::I32, "0.2..0.8"),
        (DataType::F16, "0..1e6"),
    ] {
        let bytes = typed(&[("x", dtype, &["5"])], bytes.clone(), vec![]);
        let ended = bb(&["run", &write(&folder, "model.onnx", &bytes), "--random", "--range", range]);
        assert!(ended.code() == 1 && ended.err.contains(&format!("is of {dtype}")), "{dtype}: {}", ended.err);
    }
}

#[test]
fn random_texts_truth_values_and_small_types_exist() {
    let folder = folder("random-types");
    for dtype in [
        DataType::String,
        DataType::Bool,
        DataType::BF16,
        DataType::F8E5M2,
        DataType::I4,
        DataType::U64,
        DataType::C64,
        DataType::F64,
    ] {
        let bytes = open_outputs(&model(&[], vec![node("Identity", &["x"], &["y"])], &[("y", &[])]));
        let bytes = typed(&[("x", dtype, &["n", "3"])], bytes, vec![]);
        let ended = bb(&["run", &write(&folder, "model.onnx", &bytes), "--random", "--json"]);
        assert_eq!(ended.code(), 0, "{dtype}: {}", ended.err);
        let output = &ended.json()["outputs"][0];
        assert_eq!((&output["type"], &output["shape"]), (&dtype.name().into(), &serde_json::json!([1, 3])));
    }
}

#[test]
fn real_models_run_on_random_inputs() {
    for name in
        ["attacut_sc", "magika", "silero_vad_op16", "tiny_llama_fused_op23", "tiny_llama_primitives_op17"]
    {
        let path = data().join("models").join(name).join("model.onnx");
        let ended = bb(&["run", path.to_str().unwrap(), "--random"]);
        assert_eq!(ended.code(), 0, "{name}: {}", ended.err);
    }
}

/// Runs a model whose extents nothing says, and returns those that were chosen.
fn found(name: &str, bytes: &[u8]) -> serde_json::Value {
    let folder = folder(name);
    let path = write(&folder, "model.onnx", bytes);
    let ended = bb(&["run", &path, "--random", "--json"]);
    assert_eq!(ended.code(), 0, "{}", ended.err);
    assert!(ended.err.contains("extents that the model demands"), "{}", ended.err);
    for command in ["bench", "compare"] {
        let both = ["--backend", "cpu", "--backend", "reference"];
        let rest: &[&str] = if command == "bench" { &["--runs", "1"] } else { &both };
        let ended = bb(&[&[command, &path], rest].concat());
        assert_eq!(ended.code(), 0, "{command}: {}", ended.err);
    }
    ended.json()["extents"].clone()
}

fn zeros(name: &str, shape: &[usize]) -> TensorProto {
    bb::TensorData::zeros(DataType::F32, shape, 1 << 24).unwrap().to_proto(name)
}

fn integers(name: &str, values: &[i64]) -> TensorProto {
    bb::TensorData::new(&[values.len()], values).unwrap().to_proto(name)
}

#[test]
fn weights_say_the_extents_that_products_sum_over() {
    // 37 is no extent that is usual, and 2 * 27 + 1 neither; the length of a window follows through the nodes before.
    let nodes = vec![
        node("MatMul", &["x", "w"], &["a"]),
        node("Gemm", &["z", "v"], &["b"]),
        node("Concat", &["z", "z", "one"], &["c"]),
        node("MatMul", &["c", "u"], &["d"]),
    ];
    let nodes =
        nodes.into_iter().map(|n| if n.op_type() == "Concat" { with_int(n, "axis", 1) } else { n }).collect();
    let bytes = typed(
        &[("x", DataType::F32, &["n", "k"]), ("z", DataType::F32, &["", ""])],
        open_outputs(&model(&[], nodes, &[("a", &[]), ("b", &[]), ("d", &[])])),
        vec![zeros("w", &[37, 2]), zeros("v", &[27, 3]), zeros("one", &[1, 1]), zeros("u", &[55, 2])],
    );
    assert_eq!(
        found("random-products", &bytes),
        serde_json::json!({ "n": 1, "k": 37, "z[0]": 1, "z[1]": 27 })
    );
}

#[test]
fn weights_say_the_extents_of_recurrent_layers_and_their_states() {
    let lstm = with_int(node("LSTM", &["x", "w", "r", "", "", "h", "c"], &["y"]), "hidden_size", 5);
    let bytes = typed(
        &[
            ("x", DataType::F32, &["time", "batch", "features"]),
            ("h", DataType::F32, &["d", "b", "s"]),
            ("c", DataType::F32, &["", "", ""]),
        ],
        open_outputs(&model(&[], vec![lstm], &[("y", &[])])),
        vec![zeros("w", &[1, 20, 43]), zeros("r", &[1, 20, 5])],
    );
    let extents = found("random-lstm", &bytes);
    assert_eq!((&extents["features"], &extents["d"], &extents["s"]), (&43.into(), &1.into(), &5.into()));
    assert_eq!((&extents["c[0]"], &extents["c[2]"]), (&1.into(), &5.into()));
    assert_eq!((&extents["b"], &extents["c[1]"]), (&extents["batch"], &extents["batch"]));
}

#[test]
fn constants_of_shapes_and_of_broadcasting_say_extents() {
    // `x` has 4 * 6 * 3 elements, `m` broadcasts with 11 columns, and row 70 of `t` is read.
    let nodes = vec![
        node("Reshape", &["x", "shape"], &["a"]),
        node("Add", &["m", "row"], &["b"]),
        node("Gather", &["t", "rows"], &["d"]),
        node("Expand", &["e", "wide"], &["f"]),
    ];
    let bytes = typed(
        &[
            ("x", DataType::F32, &["n", "6", "3"]),
            ("m", DataType::F32, &["batch", "columns"]),
            ("t", DataType::F32, &["rows_of_t", "2"]),
            ("e", DataType::F32, &["batch", "wide_of_e"]),
        ],
        open_outputs(&model(&[], nodes, &[("a", &[]), ("b", &[]), ("d", &[]), ("f", &[])])),
        vec![
            integers("shape", &[4, 18]),
            zeros("row", &[1, 11]),
            integers("rows", &[0, 70]),
            integers("wide", &[1, 13]),
        ],
    );
    let extents = found("random-constants", &bytes);
    assert_eq!(
        (&extents["n"], &extents["columns"], &extents["wide_of_e"]),
        (&4.into(), &11.into(), &13.into())
    );
    assert!(extents["rows_of_t"].as_u64().unwrap() > 70, "{extents}");
}

#[test]
fn an_extent_that_others_determine_is_their_sum() {
    // `t` is the length of the past and the new part together; no choice of equal extents runs.
    let concat = with_int(node("Concat", &["past", "new"], &["all"]), "axis", 0);
    let bytes = typed(
        &[
            ("past", DataType::F32, &["p", "4"]),
            ("new", DataType::F32, &["s", "4"]),
            ("mask", DataType::F32, &["t", "4"]),
            ("w", DataType::F32, &["r", "q"]),
        ],
        open_outputs(&model(
            &[],
            vec![
                concat,
                node("Concat", &["all", "mask"], &["twice"]),
                node("MatMul", &["twice", "w"], &["y"]),
            ]
            .into_iter()
            .map(|n| if n.output[0] == "twice" { with_int(n, "axis", 1) } else { n })
            .collect(),
            &[("y", &[])],
        )),
        vec![],
    );
    let extents = found("random-sum", &bytes);
    let of = |name: &str| extents[name].as_u64().unwrap();
    assert_eq!((of("t"), of("r")), (of("p") + of("s"), 8));
}
