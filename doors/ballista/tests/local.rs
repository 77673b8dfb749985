//! Tests the functions in one process: conversion of types in both directions, several outputs, and refused input.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

mod common;

use bb::DataType;
use bb::f16;
use common::{
    ask, batch, column, committed, context, floats, identity, integers, made, refusal, stored, tensor,
};
use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BooleanArray, FixedSizeListArray, Float16Array, Float32Array,
    Float64Array, Int8Array, Int16Array, Int32Array, Int64Array, LargeStringArray, ListArray, StringArray,
    StringViewArray, UInt8Array, UInt16Array, UInt32Array, UInt64Array,
};
use datafusion::arrow::buffer::{OffsetBuffer, ScalarBuffer};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{Field, Float32Type, Int64Type};
use std::sync::Arc;

/// Returns four elements of each type that Arrow has, including the minimum and the maximum.
fn elements() -> Vec<(DataType, ArrayRef)> {
    vec![
        (DataType::Bool, Arc::new(BooleanArray::from(vec![true, false, false, true]))),
        (DataType::U8, Arc::new(UInt8Array::from(vec![0, 1, 200, u8::MAX]))),
        (DataType::U16, Arc::new(UInt16Array::from(vec![0, 1, 300, u16::MAX]))),
        (DataType::U32, Arc::new(UInt32Array::from(vec![0, 1, 70_000, u32::MAX]))),
        (DataType::U64, Arc::new(UInt64Array::from(vec![0, 1, 1 << 40, u64::MAX]))),
        (DataType::I8, Arc::new(Int8Array::from(vec![i8::MIN, -1, 0, i8::MAX]))),
        (DataType::I16, Arc::new(Int16Array::from(vec![i16::MIN, -1, 0, i16::MAX]))),
        (DataType::I32, Arc::new(Int32Array::from(vec![i32::MIN, -1, 0, i32::MAX]))),
        (DataType::I64, Arc::new(Int64Array::from(vec![i64::MIN, -1, 0, i64::MAX]))),
        (DataType::F16, Arc::new(Float16Array::from([-1.5, 0.0, 0.25, 65504.0].map(f16::from_f32).to_vec()))),
        (DataType::F32, Arc::new(Float32Array::from(vec![-1.5, -0.0, f32::MIN_POSITIVE, f32::INFINITY]))),
        (DataType::F64, Arc::new(Float64Array::from(vec![-1.5, -0.0, f64::MIN_POSITIVE, f64::MAX]))),
        (
            DataType::String,
            Arc::new(StringArray::from(vec!["", "a", "größer", "a longer text than a view holds"])),
        ),
    ]
}

fn item(of: &ArrayRef) -> Arc<Field> {
    Arc::new(Field::new("item", of.data_type().clone(), true))
}

/// Returns lists with a fixed size of two elements.
fn pairs(of: &ArrayRef) -> ArrayRef {
    Arc::new(FixedSizeListArray::new(item(of), 2, of.clone(), None))
}

/// Returns lists of two elements, without a fixed size.
fn lists(of: &ArrayRef) -> ArrayRef {
    let offsets = OffsetBuffer::new(ScalarBuffer::from(vec![0, 2, 4]));
    Arc::new(ListArray::new(item(of), offsets, of.clone(), None))
}

fn run(model: &str, table: datafusion::arrow::array::RecordBatch) -> ArrayRef {
    let (context, _) = context();
    ask(&context, table, &format!("SELECT bb_run('{model}', x) FROM t")).unwrap().column(0).clone()
}

#[test]
fn columns_of_every_type_come_back_as_they_were() {
    for (dtype, values) in elements() {
        let model = made("single", &identity(dtype, &["n"]));
        assert_eq!(&run(&model, batch(vec![column("x", values.clone())])), &values, "{dtype}");
    }
}

#[test]
fn lists_of_every_type_come_back_as_they_were() {
    for (dtype, values) in elements() {
        // Outputs with known extents become lists of a fixed size, and outputs with open extents become other lists, whatever type the
        // column has.
        let known = made("known", &identity(dtype, &["n", "2"]));
        let open = made("open", &identity(dtype, &["n", "w"]));
        for x in [pairs(&values), lists(&values)] {
            let table = || batch(vec![column("x", x.clone())]);
            assert_eq!(&run(&known, table()), &pairs(&values), "{dtype}");
            assert_eq!(&run(&open, table()), &lists(&values), "{dtype}");
        }
    }
}

#[test]
fn texts_of_all_forms_are_taken() {
    let texts = ["", "x", "a text that is longer than twelve bytes"];
    let expected: ArrayRef = Arc::new(StringArray::from(texts.to_vec()));
    let model = made("texts", &identity(DataType::String, &["n"]));
    let forms: [ArrayRef; 3] = [
        expected.clone(),
        Arc::new(LargeStringArray::from(texts.to_vec())),
        Arc::new(StringViewArray::from(texts.to_vec())),
    ];
    for form in forms {
        assert_eq!(&run(&model, batch(vec![column("x", form)])), &expected);
    }
}

#[test]
fn a_slice_of_a_batch_is_read_where_it_lies() {
    for (dtype, values) in elements() {
        let model = made("slice", &identity(dtype, &["n"]));
        let table = batch(vec![column("x", values.clone())]).slice(1, 2);
        assert_eq!(&run(&model, table), &values.slice(1, 2), "{dtype}");
        let model = made("slice-of-lists", &identity(dtype, &["n", "2"]));
        for x in [pairs(&values), lists(&values)] {
            let table = batch(vec![column("x", x)]).slice(1, 1);
            assert_eq!(&run(&model, table), &pairs(&values).slice(1, 1), "{dtype}");
        }
    }
}

#[test]
fn the_shape_of_a_tensor_is_metadata_both_ways() {
    let (context, _) = context();
    let model = made("matrix", &identity(DataType::I32, &["n", "2", "3"]));
    let values: ArrayRef = Arc::new(Int32Array::from((0..12).collect::<Vec<_>>()));
    let x: ArrayRef = Arc::new(FixedSizeListArray::new(item(&values), 6, values, None));
    let described = |shape: &str| {
        let metadata = [
            ("ARROW:extension:name".to_owned(), "arrow.fixed_shape_tensor".to_owned()),
            ("ARROW:extension:metadata".to_owned(), shape.to_owned()),
        ];
        let field =
            Field::new("x", x.data_type().clone(), false).with_metadata(metadata.into_iter().collect());
        batch(vec![(field, x.clone())])
    };
    let sql = format!("SELECT bb_run('{model}', x) AS y FROM t");
    let result = ask(&context, described(r#"{"shape":[2,3]}"#), &sql).unwrap();
    assert_eq!(result.column(0), &x);
    let metadata = result.schema().field(0).metadata().clone();
    assert_eq!(metadata["ARROW:extension:name"], "arrow.fixed_shape_tensor");
    assert_eq!(metadata["ARROW:extension:metadata"], r#"{"shape":[2,3]}"#);
    // A flat list with the same number of elements is reshaped to the matrix, but a list of another shape is refused.
    assert_eq!(ask(&context, batch(vec![column("x", x.clone())]), &sql).unwrap().column(0), &x);
    for (shape, words) in [
        (r#"{"shape":[3,2]}"#, "takes rows of shape [2, 3]; got [Some(3), Some(2)]"),
        (r#"{"shape":[7]}"#, "does not fit lists of 6 elements"),
        (r#"{"shape":[2,3],"permutation":[1,0]}"#, "does not fit lists of 6 elements"),
        ("{", "does not fit lists of 6 elements"),
    ] {
        let message = refusal(&context, described(shape), &sql);
        assert!(message.contains(words), "{message}");
    }
}

#[test]
fn lists_in_lists_become_tensors_and_come_back() {
    let values: ArrayRef = Arc::new(Float32Array::from(vec![1.0, 2.0, 3.0, 4.0]));
    let inner = lists(&values);
    let nested: ArrayRef = Arc::new(ListArray::new(
        item(&inner),
        OffsetBuffer::new(ScalarBuffer::from(vec![0, 1, 2])),
        inner,
        None,
    ));
    let model = made("nested", &identity(DataType::F32, &["n", "h", "w"]));
    assert_eq!(&run(&model, batch(vec![column("x", nested.clone())])), &nested);
}

#[test]
fn a_number_is_a_row_of_one() {
    let values: ArrayRef = Arc::new(Float32Array::from(vec![1.0, 2.0, 3.0]));
    let model = made("ones", &identity(DataType::F32, &["n", "1"]));
    let ones: ArrayRef = Arc::new(FixedSizeListArray::new(item(&values), 1, values.clone(), None));
    assert_eq!(&run(&model, batch(vec![column("x", values)])), &ones);
}

#[test]
fn several_outputs_are_a_struct() {
    let (context, _) = context();
    let model = made("two", &common::sum_and_double("2"));
    let values: ArrayRef = Arc::new(Float32Array::from(vec![1.0, 2.0, 3.0, 4.0]));
    let table = batch(vec![column("x", pairs(&values))]);
    let sql = format!("SELECT bb_run('{model}', x) AS y FROM t");
    let result = ask(&context, table.clone(), &sql).unwrap();
    let y = result.column(0).as_struct();
    assert_eq!(y.column_names(), ["sum", "double"]);
    assert_eq!(y.column(0).as_primitive::<Float32Type>().values(), &[3.0, 7.0]);
    let doubled: ArrayRef = Arc::new(Float32Array::from(vec![2.0, 4.0, 6.0, 8.0]));
    assert_eq!(y.column(1), &pairs(&doubled));
    // The fields of the struct are columns, which list functions accept.
    let sql = format!("SELECT y['sum'] AS s, y['double'][2] AS d FROM ({sql}) WHERE y['sum'] > 5");
    let result = ask(&context, table, &sql).unwrap();
    assert_eq!(result.column(0).as_primitive::<Float32Type>().values(), &[7.0]);
    assert_eq!(result.column(1).as_primitive::<Float32Type>().values(), &[8.0]);
}

#[test]
fn columns_become_the_row_of_a_model_by_make_array() {
    let (context, _) = context();
    let model = made("columns", &common::sum_and_double("3"));
    let table = batch(vec![
        column("a", Arc::new(Float32Array::from(vec![1.0, 2.0]))),
        column("b", Arc::new(Float32Array::from(vec![10.0, 20.0]))),
        column("c", Arc::new(Float32Array::from(vec![100.0, 200.0]))),
    ]);
    let sql = format!("SELECT bb_run('{model}', make_array(a, b, c))['sum'] FROM t");
    let result = ask(&context, table, &sql).unwrap();
    assert_eq!(result.column(0).as_primitive::<Float32Type>().values(), &[111.0, 222.0]);
}

fn close(got: &[f32], expected: &[f32]) {
    // The tolerance is the same as in the tests of the models themselves.
    assert_eq!(got.len(), expected.len());
    let far = got
        .iter()
        .zip(expected)
        .find(|(got, expected)| (*got - *expected).abs() > 1e-5 + 1e-3 * expected.abs());
    assert_eq!(far, None);
}

/// Returns the stored input of a model, as a column of lists.
fn input_of(model: &str) -> datafusion::arrow::array::RecordBatch {
    let (shape, bytes) = stored(model, "input_0.pb");
    let [rows, width] = shape.as_slice() else { panic!("{shape:?}") };
    let values: ArrayRef = Arc::new(Float32Array::from(floats(&bytes)));
    let list = FixedSizeListArray::new(item(&values), i32::try_from(*width).unwrap(), values, None);
    assert_eq!(list.len(), *rows);
    batch(vec![column("x", Arc::new(list))])
}

#[test]
fn committed_models_give_what_onnx_runtime_stored() {
    let (context, _) = context();
    for backend in ["cpu", "reference"] {
        let ask = |name: &str| {
            let sql = format!("SELECT bb_run('{}#backend={backend}', x) FROM t", committed(name));
            ask(&context, input_of(name), &sql).unwrap().column(0).clone()
        };
        let heights = ask("surfaces_gbr");
        let heights = heights.as_fixed_size_list().values().as_primitive::<Float32Type>().values().to_vec();
        close(&heights, &floats(&stored("surfaces_gbr", "output_0.pb").1));
        let classes = ask("skl_random_forest");
        let labels = classes.as_struct().column(0).as_primitive::<Int64Type>().values().to_vec();
        assert_eq!(labels, integers(&stored("skl_random_forest", "output_0.pb").1));
    }
}

#[test]
fn a_sequence_of_maps_is_a_column_of_maps() {
    let (context, _) = context();
    let sql = format!("SELECT bb_run('{}', x) FROM t", committed("skl_ovo"));
    let result = ask(&context, input_of("skl_ovo"), &sql).unwrap();
    let y = result.column(0).as_struct();
    // ONNX Runtime stored labels of shape [40, 1], although the model declares another shape.
    let labels = y.column(0).as_fixed_size_list().values().as_primitive::<Int64Type>().values().to_vec();
    assert_eq!(labels.clone(), integers(&stored("skl_ovo", "output_0.pb").1));
    let maps = y.column(1).as_map();
    assert_eq!(maps.len(), labels.len());
    // The model selects the class with the greatest score.
    for (row, label) in labels.iter().enumerate() {
        let map = maps.value(row);
        let (classes, scores) =
            (map.column(0).as_primitive::<Int64Type>(), map.column(1).as_primitive::<Float32Type>());
        let best = (0..map.len()).max_by(|a, b| scores.value(*a).total_cmp(&scores.value(*b))).unwrap();
        assert_eq!(classes.value(best), *label);
    }
}

#[test]
fn rows_are_cut_into_runs_and_joined() {
    let (context, _) = context();
    let values: ArrayRef = Arc::new(Float32Array::from((0..2000).map(|x| x as f32).collect::<Vec<_>>()));
    let table = batch(vec![column("x", pairs(&values))]);
    let doubled: ArrayRef =
        Arc::new(Float32Array::from((0..2000).map(|x| 2.0 * x as f32).collect::<Vec<_>>()));
    // The second model has an open extent, and its lists from several runs are concatenated, too. Twenty rows need 160 bytes of input and
    // 240 bytes of results, so a limit of 1000 bytes allows fewer than 100 rows per run. All results together are larger, so they have a
    // separate limit.
    for (width, options) in
        [("2", "batch=7"), ("w", "batch=7"), ("2", "batch=1"), ("2", "batch=5000"), ("2", "memory=100000")]
    {
        let model = made("cut", &common::sum_and_double(width));
        let sql = format!("SELECT bb_run('{model}#{options}', x)['double'] FROM t");
        let result = ask(&context, table.clone(), &sql).unwrap();
        let expected = cast(&pairs(&doubled), result.column(0).data_type()).unwrap();
        assert_eq!(result.column(0), &expected, "{width} {options}");
    }
}

#[test]
fn runs_shrink_until_they_fit_into_memory() {
    let (context, _) = context();
    // The sums of 1000 rows take 4 kB, but the squares, which are intermediate values, take 4 MB.
    let x = tensor("x", DataType::F32, &["n", "1"]);
    let shape = bb::ir::proto::TensorProto {
        name: Some("wide".to_owned()),
        dims: vec![2],
        data_type: Some(DataType::I64.to_onnx()),
        int64_data: vec![1, 1000],
        ..Default::default()
    };
    let nodes = vec![
        common::node("Expand", &["x", "wide"], &["many"], vec![]),
        common::node("ReduceMax", &["many"], &["y"], vec![common::ints("axes", &[1])]),
    ];
    let mut model = common::model(vec![x], nodes, vec![tensor("y", DataType::F32, &["n", "1"])]);
    model.graph.as_mut().unwrap().initializer.push(shape);
    let model = made("wide", &model);
    let values: ArrayRef = Arc::new(Float32Array::from((0..1000).map(|x| x as f32).collect::<Vec<_>>()));
    let table = batch(vec![column("x", values.clone())]);
    let expected: ArrayRef = Arc::new(FixedSizeListArray::new(item(&values), 1, values, None));
    let ask = |memory: usize| {
        let sql = format!("SELECT bb_run('{model}#memory={memory}', x) FROM t");
        ask(&context, table.clone(), &sql)
    };
    assert_eq!(ask(200_000).unwrap().column(0), &expected);
    let message = ask(2000).unwrap_err().to_string();
    assert!(message.contains("on a batch of 1 rows") || message.contains("batch_size"), "{message}");
}

#[test]
fn a_model_of_one_row_runs_row_by_row() {
    let values: ArrayRef = Arc::new(Float32Array::from(vec![1.0, 2.0, 3.0, 4.0]));
    let model = made("row", &identity(DataType::F32, &["1", "2"]));
    assert_eq!(&run(&model, batch(vec![column("x", pairs(&values))])), &pairs(&values));
}

#[test]
fn a_model_that_mixes_rows_is_refused_unless_each_row_runs_alone() {
    let (context, _) = context();
    let (x, y) = (tensor("x", DataType::F32, &["n"]), tensor("y", DataType::F32, &["n"]));
    let nodes = vec![
        common::node("ReduceMax", &["x"], &["m"], vec![common::ints("axes", &[0])]),
        common::node("Sub", &["x", "m"], &["y"], vec![]),
    ];
    let model = made("mixing", &common::model(vec![x], nodes, vec![y]));
    let table = || batch(vec![column("x", Arc::new(Float32Array::from(vec![1.0, 5.0, 3.0])) as ArrayRef)]);
    let message = refusal(&context, table(), &format!("SELECT bb_run('{model}', x) FROM t"));
    for part in ["(ReduceMax) computes over the rows", "batch=1"] {
        assert!(message.contains(part), "{message}");
    }
    // A row minus its own maximum is 0.
    let alone = ask(&context, table(), &format!("SELECT bb_run('{model}#batch=1', x) FROM t")).unwrap();
    let zeros: ArrayRef = Arc::new(Float32Array::from(vec![0.0; 3]));
    assert_eq!(alone.column(0), &zeros);
}

#[test]
fn an_input_without_rows_takes_a_literal() {
    let (context, _) = context();
    let inputs = vec![tensor("x", DataType::I64, &["n"]), tensor("s", DataType::I64, &[])];
    let node = common::node("Add", &["x", "s"], &["y"], vec![]);
    let model = made("scalar", &common::model(inputs, vec![node], vec![tensor("y", DataType::I64, &["n"])]));
    let table = || batch(vec![column("x", Arc::new(Int64Array::from(vec![1, 2])))]);
    let sum = ask(&context, table(), &format!("SELECT bb_run('{model}', x, 10) FROM t")).unwrap();
    assert_eq!(sum.column(0).as_primitive::<Int64Type>().values(), &[11, 12]);
    let message = refusal(&context, table(), &format!("SELECT bb_run('{model}', x, x) FROM t"));
    assert!(message.contains("the input `s` has no dimension for rows"), "{message}");
}

#[test]
fn an_empty_table_has_an_empty_result_of_the_same_type() {
    let (context, _) = context();
    let model = made("empty", &common::sum_and_double("2"));
    let values: ArrayRef = Arc::new(Float32Array::from(vec![1.0, 2.0]));
    let table = batch(vec![column("x", pairs(&values))]);
    let sql = format!("SELECT bb_run('{model}', x) FROM t");
    let full = ask(&context, table.clone(), &sql).unwrap();
    let empty = ask(&context, table.slice(0, 0), &sql).unwrap();
    assert_eq!((empty.num_rows(), empty.column(0).data_type()), (0, full.column(0).data_type()));
}

#[test]
fn nulls_and_ragged_lists_are_named_with_their_row() {
    let (context, _) = context();
    let single = made("no-null", &identity(DataType::F32, &["n"]));
    let open = made("ragged", &identity(DataType::F32, &["n", "w"]));
    let values: ArrayRef = Arc::new(Float32Array::from(vec![Some(1.0), Some(2.0), None, Some(4.0)]));
    let full: ArrayRef = Arc::new(Float32Array::from(vec![1.0, 2.0, 3.0, 4.0]));
    let ragged: ArrayRef = Arc::new(ListArray::new(
        item(&full),
        OffsetBuffer::new(ScalarBuffer::from(vec![0, 1, 4])),
        full.clone(),
        None,
    ));
    let no_list: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Float32Type, _, _>(vec![
        Some(vec![Some(1.0)]),
        Some(vec![Some(2.0)]),
        None,
    ]));
    for (model, x, words) in [
        (&single, values.clone(), "the column for the input `x` is null in row 2 of a batch"),
        (&open, pairs(&values), "the column for the input `x` is null in row 1 of a batch"),
        (&open, lists(&values), "the column for the input `x` is null in row 1 of a batch"),
        (&open, no_list, "the column for the input `x` is null in row 2 of a batch"),
        (&open, ragged, "has a list of 3 elements in row 1 of a batch; the first row has 1"),
    ] {
        let message =
            refusal(&context, batch(vec![column("x", x)]), &format!("SELECT bb_run('{model}', x) FROM t"));
        assert!(message.contains(words), "{message}");
    }
}

#[test]
fn wrong_columns_are_refused_before_anything_runs() {
    let (context, _) = context();
    let model = made("types", &identity(DataType::F32, &["n", "2"]));
    let wide: ArrayRef = Arc::new(Float64Array::from(vec![1.0, 2.0, 3.0, 4.0]));
    let right: ArrayRef = Arc::new(Float32Array::from(vec![1.0, 2.0, 3.0, 4.0]));
    let long: ArrayRef = Arc::new(FixedSizeListArray::new(item(&right), 4, right.clone(), None));
    let bytes: ArrayRef = Arc::new(BinaryArray::from(vec![b"a".as_slice()]));
    let text: ArrayRef = Arc::new(StringArray::from(vec!["a"]));
    for (x, words) in [
        (pairs(&wide), "the input `x` takes f32 elements; got a column of"),
        (pairs(&wide), "arrow_cast(column, 'List(Float32)')"),
        (right, "the input `x` takes rows of shape [2]; got []"),
        (long, "the input `x` takes rows of shape [2]; got [Some(4)]"),
        (bytes, "got a column of Binary"),
        (text, "got a column of Utf8"),
    ] {
        let message =
            refusal(&context, batch(vec![column("x", x)]), &format!("SELECT bb_run('{model}', x) FROM t"));
        assert!(message.contains(words), "{message}");
    }
    // The query that the message suggests succeeds.
    let sql = format!("SELECT bb_run('{model}', arrow_cast(x, 'List(Float32)')) FROM t");
    assert_eq!(ask(&context, batch(vec![column("x", pairs(&wide))]), &sql).unwrap().num_rows(), 2);
}

#[test]
fn wrong_models_are_refused_with_what_was_expected() {
    let (context, _) = context();
    let good = made("good", &identity(DataType::F32, &["n"]));
    let table = || batch(vec![column("x", Arc::new(Float32Array::from(vec![1.0])))]);
    let broken = good.replace(".onnx", "-broken.onnx");
    std::fs::write(&broken, b"this is no model").unwrap();
    let halves = made("halves", &identity(DataType::BF16, &["n"]));
    let three = made("three", &identity(DataType::F32, &["3"]));
    let none = made("none", &identity(DataType::F32, &[]));
    let random = common::node("RandomUniformLike", &["x"], &["y"], vec![]);
    let x = || vec![tensor("x", DataType::F32, &["n"])];
    let random = made("random", &common::model(x(), vec![random], vec![tensor("y", DataType::F32, &["n"])]));
    let zeros = "0".repeat(64);
    let hash = bb_ballista::ModelHash::of(&std::fs::read(&good).unwrap()).to_string();
    for (call, words) in [
        (
            "bb_run('/no/such/model.onnx', x)".to_owned(),
            vec!["cannot read the model `/no/such/model.onnx`", "No such file"],
        ),
        (format!("bb_run('{broken}', x)"), vec!["cannot load the model"]),
        (
            format!("bb_run('{good}#backend=quantum', x)"),
            vec!["no backend is named `quantum`", "`cpu`", "`reference`"],
        ),
        (format!("bb_run('{good}#sha256={zeros}', x)"), vec![zeros.as_str(), hash.as_str()]),
        (format!("bb_run('{good}#batch=none', x)"), vec!["the option `batch=none`", "batch=ROWS"]),
        (format!("bb_run('{good}')"), vec!["takes 1 columns: `x` (f32[n])", "got 0 columns"]),
        (format!("bb_run('{good}', x, x)"), vec!["got 2 columns"]),
        (
            "bb_run(x, x)".to_owned(),
            vec!["the first argument of `bb_run` must be a text literal", "got a column"],
        ),
        ("bb_run(7, x)".to_owned(), vec!["must be a text literal"]),
        (format!("bb_run('{halves}', x)"), vec!["the input `x`", "has no form in a column"]),
        (format!("bb_run('{three}', x)"), vec!["must begin with an open dimension for the rows", "got [3]"]),
        (format!("bb_run('{none}', 1.0)"), vec!["must begin with an open dimension for the rows", "got []"]),
        (
            format!("bb_run('{random}', x)"),
            vec!["draws random numbers in `RandomUniformLike`", "bb_run_volatile"],
        ),
        (
            "bb_run('gopher://host/model.onnx', x)".to_owned(),
            vec!["cannot fetch the model `gopher://host/model.onnx`"],
        ),
    ] {
        let message = refusal(&context, table(), &format!("SELECT {call} FROM t"));
        for words in words {
            assert!(message.contains(words), "{call}: {message}");
        }
    }
    let sql =
        format!("SELECT bb_run_volatile('{random}', x) AS a, bb_run_volatile('{random}', x) AS b FROM t");
    let drawn = ask(&context, table(), &sql).unwrap();
    let number = |column: usize| drawn.column(column).as_primitive::<Float32Type>().value(0);
    assert!((0.0..1.0).contains(&number(0)) && (0.0..1.0).contains(&number(1)));
    assert_ne!(number(0).to_bits(), number(1).to_bits());
}

#[test]
fn the_hash_covers_weights_in_other_files() {
    use bb::ir::proto::{StringStringEntryProto, TensorProto, tensor_proto};
    let (context, _) = context();
    let entry = |key: &str, value: &str| StringStringEntryProto {
        key: Some(key.to_owned()),
        value: Some(value.to_owned()),
    };
    let x = tensor("x", DataType::F32, &["n"]);
    let nodes = vec![common::node("Add", &["x", "w"], &["y"], vec![])];
    let mut model = common::model(vec![x], nodes, vec![tensor("y", DataType::F32, &["n"])]);
    let file = format!("{}-weights.bin", std::process::id());
    model.graph.as_mut().unwrap().initializer.push(TensorProto {
        name: Some("w".to_owned()),
        dims: vec![1],
        data_type: Some(DataType::F32.to_onnx()),
        data_location: Some(tensor_proto::DataLocation::External.into()),
        external_data: vec![entry("location", &file)],
        ..Default::default()
    });
    let model = made("external", &model);
    let weights = std::path::Path::new(&model).with_file_name(&file);
    let pinned = |weight: f32| {
        std::fs::remove_file(&weights).ok();
        std::fs::write(&weights, weight.to_le_bytes()).unwrap();
        // Waits, because the clock for file times may be coarse.
        std::thread::sleep(std::time::Duration::from_millis(50));
        let table = batch(vec![column("x", Arc::new(Float32Array::from(vec![1.0])))]);
        let explain = format!("EXPLAIN SELECT bb_run('{model}', x) AS y FROM t");
        let plan = ask(&context, table.clone(), &explain).unwrap();
        let plan = plan.column(1).as_string::<i32>().value(0).to_owned();
        let hash = plan.split("sha256=").nth(1).unwrap().chars().take(64).collect::<String>();
        let result = ask(&context, table, &format!("SELECT bb_run('{model}', x) AS y FROM t")).unwrap();
        assert_eq!(result.column(0).as_primitive::<Float32Type>().values(), &[1.0 + weight]);
        hash
    };
    let (first, second) = (pinned(1.0), pinned(2.0));
    assert_ne!(first, second);
    let table = batch(vec![column("x", Arc::new(Float32Array::from(vec![1.0])))]);
    std::fs::write(&weights, 3f32.to_le_bytes()).unwrap();
    let unknown = "1".repeat(64);
    let message = refusal(&context, table, &format!("SELECT bb_run('{model}#sha256={unknown}', x) FROM t"));
    assert!(message.contains(&unknown) && !message.contains(&second), "{message}");
}

#[test]
fn the_plan_has_the_hash_of_the_model() {
    let (context, _) = context();
    let model = made("pinned", &identity(DataType::F32, &["n"]));
    let hash = bb_ballista::ModelHash::of(&std::fs::read(&model).unwrap()).to_string();
    let table = batch(vec![column("x", Arc::new(Float32Array::from(vec![1.0])))]);
    let plan = ask(&context, table, &format!("EXPLAIN SELECT bb_run('{model}', x) AS y FROM t")).unwrap();
    let plans = plan.column(1).as_string::<i32>();
    assert!(
        plans.iter().flatten().all(|plan| plan.contains(&format!("{model}#backend=cpu&sha256={hash}"))),
        "{plans:?}"
    );
}

#[test]
fn models_come_from_object_stores() {
    use object_store::ObjectStoreExt as _;
    use object_store::memory::InMemory;
    let (context, settings) = context();
    let store = Arc::new(InMemory::new());
    settings.stores.register_store(&"memory://models".parse().unwrap(), store.clone());
    let bytes = std::fs::read(made("stored", &common::sum_and_double("2"))).unwrap();
    common::wait(async move { store.put(&"a/sum.onnx".into(), bytes.into()).await }).unwrap();
    let values: ArrayRef = Arc::new(Float32Array::from(vec![1.0, 2.0]));
    let table = || batch(vec![column("x", pairs(&values))]);
    let sql = "SELECT bb_run('memory://models/a/sum.onnx', x)['sum'] FROM t";
    let result = ask(&context, table(), sql).unwrap();
    assert_eq!(result.column(0).as_primitive::<Float32Type>().values(), &[3.0]);
    let message = refusal(&context, table(), "SELECT bb_run('memory://models/b.onnx', x) FROM t");
    assert!(message.contains("cannot fetch the model `memory://models/b.onnx`"), "{message}");
}
