//! Tests scans whose iterations are independent, which plans compute together. The expected values follow from the definition of
//! `Scan`: a loop over the parts.
#![expect(clippy::unwrap_used, reason = "tests")]

use bb::onnx::OnnxValue;
use bb::profile::{Activity, Profile};
use bb::{CompileOptions, Module, TensorData};
use bb_ir::proto::NodeProto;
use bb_tests::backends;
use bb_tests::model::{ints, model, node, with_graph, with_int, with_ints};

/// The elements of an input.
fn numbers(count: usize, seed: usize) -> Vec<f32> {
    (0..count).map(|i| ((i * 37 + seed * 11) % 101) as f32 / 50.0 - 1.0).collect()
}

/// The shape and the elements of a result.
type Values = (Vec<usize>, Vec<f32>);

/// Runs a model of one node on two backends. Returns the first backend's results and the number of operations of the run.
fn run(model: &[u8], inputs: &[(&[usize], &[f32])]) -> (Vec<Values>, u64) {
    let mut found: Option<(Vec<Values>, u64)> = None;
    for name in ["cpu", "reference"] {
        let on = backends::start(name).unwrap();
        let module = Module::from_bytes(model.to_vec()).unwrap();
        let graph = on.clone().compile(module, &CompileOptions::default()).unwrap();
        let tensor = |(shape, data): &(&[usize], &[f32])| TensorData::new(shape, data).unwrap();
        let inputs: Vec<_> =
            inputs.iter().map(|x| Some(OnnxValue::Tensor(on.constant(&tensor(x)).unwrap()))).collect();
        let mut profile = Profile::new();
        let results = graph.run_profiled(&inputs, &mut profile).unwrap();
        let results: Vec<Values> = results
            .iter()
            .map(|x| on.to_host(x.tensor().unwrap()).unwrap())
            .map(|x| (x.shape().to_vec(), x.as_slice::<f32>().unwrap().to_vec()))
            .collect();
        let calls = profile
            .rows()
            .iter()
            .filter(|row| row.activity == Activity::Operation)
            .map(|row| row.calls)
            .sum();
        match &found {
            None => found = Some((results, calls)),
            Some((expected, _)) => assert_eq!(shapes(&results), shapes(expected), "{name}"),
        }
    }
    found.unwrap()
}

fn shapes(values: &[Values]) -> Vec<&[usize]> {
    values.iter().map(|(shape, _)| shape.as_slice()).collect()
}

#[track_caller]
fn assert_close(got: &[f32], expected: &[f32]) {
    assert_eq!(got.len(), expected.len());
    for (at, (got, expected)) in got.iter().zip(expected).enumerate() {
        assert!((got - expected).abs() <= 1e-5 * (1.0 + expected.abs()), "{at}: {got}, expected {expected}");
    }
}

/// The squared distances of the rows of `state` to a part `x`, as models of nearest neighbours have them.
fn distances() -> Vec<NodeProto> {
    vec![
        node("Identity", &["state"], &["kept"]),
        node("Identity", &["kept"], &["same"]),
        node("Sub", &["state", "x"], &["difference"]),
        ints("axis", &[1]),
        with_int(node("ReduceSumSquare", &["difference", "axis"], &["sum"]), "keepdims", 0),
        node("Identity", &["sum"], &["distance"]),
    ]
}

fn scan(body: Vec<NodeProto>, inputs: &[&str], outputs: &[&str]) -> NodeProto {
    let node = with_graph(node("Scan", &["a", "xs"], &["last", "all"]), "body", inputs, body, outputs);
    with_int(node, "num_scan_inputs", 1)
}

/// The distances of `rows` rows and `parts` parts of 10 numbers: `[parts, rows]`.
fn expected(a: &[f32], xs: &[f32]) -> Vec<f32> {
    let squared = |a: &[f32], x: &[f32]| a.iter().zip(x).map(|(a, x)| (a - x) * (a - x)).sum();
    xs.chunks(10).flat_map(|x| a.chunks(10).map(move |a| squared(a, x))).collect()
}

#[test]
fn distances_are_computed_together() {
    let node = scan(distances(), &["state", "x"], &["same", "distance"]);
    let model =
        model(&[("a", &[-1, 10]), ("xs", &[-1, 10])], vec![node], &[("last", &[-1, 10]), ("all", &[-1, -1])]);
    // The results of 1,500 parts are too large to be computed together, so the parts are computed in pieces.
    for (rows, parts, most) in [(3, 5, 12), (1, 2, 12), (40, 1500, 32), (3, 1, 12)] {
        let (a, xs) = (numbers(rows * 10, 1), numbers(parts * 10, 2));
        let (results, calls) = run(&model, &[(&[rows, 10], &a), (&[parts, 10], &xs)]);
        let [(_, last), (shape, all)] = results.as_slice() else { panic!("two results") };
        assert_eq!(*last, a);
        assert_eq!(*shape, [parts, rows]);
        assert_close(all, &expected(&a, &xs));
        assert!(calls <= most, "{calls} calls for {parts} parts");
    }
}

#[test]
fn parts_of_any_axis_and_direction_are_computed_together() {
    for (from, to) in [(1, 1), (-1, -1), (1, 0), (0, 1)] {
        for backwards in [[0, 0], [1, 0], [0, 1], [1, 1]] {
            let mut node = scan(distances(), &["state", "x"], &["same", "distance"]);
            for (name, value) in [
                ("scan_input_axes", from),
                ("scan_output_axes", to),
                ("scan_input_directions", backwards[0]),
                ("scan_output_directions", backwards[1]),
            ] {
                node = with_ints(node, name, &[value]);
            }
            let model = model(
                &[("a", &[3, 10]), ("xs", &[-1, -1])],
                vec![node],
                &[("last", &[3, 10]), ("all", &[-1, -1])],
            );
            let (a, xs) = (numbers(30, 1), numbers(70, 2));
            // `xs` has seven rows; the operand has them as columns if it is scanned along another axis.
            let turned: Vec<f32> = (0..10).flat_map(|i| xs.iter().skip(i).step_by(10).copied()).collect();
            let (shape, operand) = if from == 0 { ([7, 10], &xs) } else { ([10, 7], &turned) };
            let (results, calls) = run(&model, &[(&[3, 10], &a), (&shape, operand)]);
            let mut rows: Vec<Vec<f32>> = expected(&a, &xs).chunks(3).map(<[f32]>::to_vec).collect();
            if backwards[0] != backwards[1] {
                rows.reverse();
            }
            let all = match to {
                0 => rows.concat(),
                _ => (0..3).flat_map(|i| rows.iter().filter_map(move |row| row.get(i).copied())).collect(),
            };
            let [_, (shape, got)] = results.as_slice() else { panic!("two results") };
            assert_eq!(*shape, if to == 0 { [7, 3] } else { [3, 7] });
            assert_close(got, &all);
            assert!(calls <= 16, "{calls} calls");
        }
    }
}

#[test]
fn states_that_change_are_computed_one_after_another() {
    let body = vec![node("Add", &["state", "x"], &["next"]), node("Mul", &["next", "x"], &["product"])];
    let node = scan(body, &["state", "x"], &["next", "product"]);
    let model = model(&[("a", &[2]), ("xs", &[4, 2])], vec![node], &[("last", &[2]), ("all", &[4, 2])]);
    let (results, _) =
        run(&model, &[(&[2], &[1.0, 2.0]), (&[4, 2], &[1.0, 1.0, 2.0, 2.0, 3.0, 3.0, 4.0, 4.0])]);
    assert_eq!(
        results,
        [(vec![2], vec![11.0, 12.0]), (vec![4, 2], vec![2.0, 3.0, 8.0, 10.0, 21.0, 24.0, 44.0, 48.0])]
    );
}

#[test]
fn ranks_are_aligned_in_each_iteration() {
    // A part is a number, which is added to a matrix; the matrix is also reduced over all axes.
    let body = vec![
        node("Identity", &["state"], &["same"]),
        node("Add", &["state", "x"], &["sum"]),
        with_int(node("ReduceMax", &["sum"], &["most"]), "keepdims", 0),
        node("Mul", &["sum", "most"], &["y"]),
    ];
    let node = scan(body, &["state", "x"], &["same", "y"]);
    let model = model(&[("a", &[2, 2]), ("xs", &[3])], vec![node], &[("last", &[2, 2]), ("all", &[3, 2, 2])]);
    let (results, _) = run(&model, &[(&[2, 2], &[1.0, 2.0, 3.0, 4.0]), (&[3], &[0.0, 1.0, -5.0])]);
    let all = [4.0, 8.0, 12.0, 16.0, 10.0, 15.0, 20.0, 25.0, 4.0, 3.0, 2.0, 1.0];
    assert_eq!(results, [(vec![2, 2], vec![1.0, 2.0, 3.0, 4.0]), (vec![3, 2, 2], all.to_vec())]);
}

#[test]
fn results_that_no_part_affects_are_repeated() {
    let body = vec![
        node("Identity", &["state"], &["same"]),
        node("Neg", &["state"], &["negative"]),
        node("Identity", &["x"], &["unused"]),
    ];
    let node = scan(body, &["state", "x"], &["same", "negative"]);
    let model = model(&[("a", &[2]), ("xs", &[-1, 1])], vec![node], &[("last", &[2]), ("all", &[-1, 2])]);
    let (results, _) = run(&model, &[(&[2], &[1.0, 2.0]), (&[3, 1], &[0.0; 3])]);
    assert_eq!(results, [(vec![2], vec![1.0, 2.0]), (vec![3, 2], vec![-1.0, -2.0, -1.0, -2.0, -1.0, -2.0])]);
}
