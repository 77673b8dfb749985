//! Tests that what quantisers write, `DequantizeLinear` before an operator and `QuantizeLinear` behind it, has the bytes of its
//! definition where passes compute with integers and tables, and where they do not.
//!
//! Scales are powers of two and numbers are small, so that floats hold every number on the way exactly: each backend must give
//! the bytes that exact arithmetic gives, halves included.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

mod same_bytes;

use bb::ext::{NnOp, OpSet, QuantOp, ScalarOp};
use bb::ir::op::Family;
use bb::ir::proto::{GraphProto, NodeProto, TensorProto};
use bb::{CompileOptions, DataType, Module, TensorData};
use bb_tests::backends;
use bb_tests::model::{ints, node, serialized, untyped, value, with_int, with_ints};
use std::collections::HashMap;

/// A tensor of exact numbers.
#[derive(Debug, Clone, PartialEq)]
struct Real {
    shape: Vec<usize>,
    elements: Vec<f64>,
}

impl Real {
    fn of(shape: &[usize], element: impl Fn(&[usize]) -> f64) -> Real {
        let mut at = vec![0; shape.len()];
        let mut elements = Vec::new();
        for _ in 0..shape.iter().product() {
            elements.push(element(&at));
            for (index, extent) in at.iter_mut().zip(shape).rev() {
                *index += 1;
                if *index < *extent {
                    break;
                }
                *index = 0;
            }
        }
        Real { shape: shape.to_vec(), elements }
    }

    /// Returns the element that broadcasting puts at these indices.
    fn at(&self, at: &[usize]) -> f64 {
        let own = &at[at.len() - self.shape.len()..];
        let place = |flat, (&i, &extent): (&usize, &usize)| flat * extent + if extent == 1 { 0 } else { i };
        self.elements[own.iter().zip(&self.shape).fold(0, place)]
    }

    fn map(&self, f: impl Fn(f64) -> f64) -> Real {
        Real { shape: self.shape.clone(), elements: self.elements.iter().map(|&x| f(x)).collect() }
    }

    /// Combines with a tensor that broadcasts to this one.
    fn with(&self, other: &Real, f: impl Fn(f64, f64) -> f64) -> Real {
        Real::of(&self.shape, |at| f(self.at(at), other.at(at)))
    }

    fn transposed(&self, perm: &[usize]) -> Real {
        let shape: Vec<usize> = perm.iter().map(|&from| self.shape[from]).collect();
        Real::of(&shape, |at| {
            let mut from = vec![0; at.len()];
            for (&axis, &index) in perm.iter().zip(at) {
                from[axis] = index;
            }
            self.at(&from)
        })
    }

    fn joined(&self, other: &Real, axis: usize) -> Real {
        let mut shape = self.shape.clone();
        shape[axis] += other.shape[axis];
        Real::of(&shape, |at| {
            let mut from = at.to_vec();
            if at[axis] < self.shape[axis] {
                return self.at(&from);
            }
            from[axis] -= self.shape[axis];
            other.at(&from)
        })
    }

    fn times(&self, w: &Real) -> Real {
        let (rows, depth, columns) = (self.shape[0], self.shape[1], w.shape[1]);
        Real::of(&[rows, columns], |at| (0..depth).map(|k| self.at(&[at[0], k]) * w.at(&[k, at[1]])).sum())
    }

    /// Correlates planes with filters, one padding before and behind.
    fn convolved(&self, w: &Real, bias: &[f64], group: usize, stride: usize) -> Real {
        let (&[n, _, h, v], &[m, depth, kh, kv]) = (&self.shape[..], &w.shape[..]) else { panic!() };
        let out = |extent: usize, kernel: usize| (extent + 2 - kernel) / stride + 1;
        Real::of(&[n, m, out(h, kh), out(v, kv)], |at| {
            let first = at[1] / (m / group) * depth;
            let mut sum = bias[at[1]];
            for (c, ky, kx) in (0..depth).flat_map(|c| (0..kh * kv).map(move |k| (c, k / kv, k % kv))) {
                let (y, x) = (at[2] * stride + ky, at[3] * stride + kx);
                if (1..=h).contains(&y) && (1..=v).contains(&x) {
                    sum += self.at(&[at[0], first + c, y - 1, x - 1]) * w.at(&[at[1], c, ky, kx]);
                }
            }
            sum
        })
    }
}

/// How numbers become bytes: the type, the scale and the zero point.
#[derive(Debug, Clone, Copy)]
struct Grid(DataType, f64, i32);

impl Grid {
    fn number(self, byte: i32) -> f64 {
        f64::from(byte - self.2) * self.1
    }

    fn byte(self, x: f64) -> i32 {
        let [least, most] = if self.0 == DataType::I8 { [-128.0, 127.0] } else { [0.0, 255.0] };
        ((x / self.1).round_ties_even() + f64::from(self.2)).clamp(least, most) as i32
    }

    fn bytes(self, x: &Real) -> Vec<i32> {
        x.elements.iter().map(|&x| self.byte(x)).collect()
    }
}

/// Numbers that a simple generator draws.
struct Drawn(u64);

impl Drawn {
    fn below(&mut self, n: u64) -> i32 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((self.0 >> 33) % n) as i32
    }

    /// Draws bytes, as the real numbers that they encode.
    fn real(&mut self, shape: &[usize], grid: Grid) -> Real {
        let least = if grid.0 == DataType::I8 { -128 } else { 0 };
        let elements = (0..shape.iter().product()).map(|_: usize| grid.number(least + self.below(256)));
        Real { shape: shape.to_vec(), elements: elements.collect() }
    }
}

/// A graph of one input, and what of it is written so far.
#[derive(Default)]
struct Graph {
    nodes: Vec<NodeProto>,
    constants: Vec<TensorProto>,
}

fn raw(name: &str, dtype: DataType, shape: &[usize], bytes: Vec<u8>) -> TensorProto {
    let code = match dtype {
        DataType::F32 => 1,
        DataType::U8 => 2,
        DataType::I8 => 3,
        DataType::I32 => 6,
        _ => panic!("no constants of {dtype}"),
    };
    TensorProto {
        name: Some(name.to_owned()),
        data_type: Some(code),
        dims: shape.iter().map(|&extent| extent as i64).collect(),
        raw_data: Some(bytes.into()),
        ..TensorProto::default()
    }
}

impl Graph {
    fn floats(&mut self, name: &str, shape: &[usize], elements: &[f64]) {
        let bytes = elements.iter().flat_map(|&x| (x as f32).to_le_bytes()).collect();
        self.constants.push(raw(name, DataType::F32, shape, bytes));
    }

    fn bytes(&mut self, name: &str, dtype: DataType, shape: &[usize], elements: &[i32]) {
        self.constants.push(raw(name, dtype, shape, elements.iter().map(|&x| x as u8).collect()));
    }

    /// Writes the scale and the zero point of a grid, and returns their names.
    fn grid(&mut self, of: &str, grid: Grid) -> [String; 2] {
        let names = [format!("{of}_scale"), format!("{of}_zero")];
        self.floats(&names[0], &[], &[grid.1]);
        self.bytes(&names[1], grid.0, &[], &[grid.2]);
        names
    }

    /// Dequantizes the bytes `from` into `to`.
    fn dequantize(&mut self, from: &str, to: &str, grid: Grid) {
        let [scale, zero] = self.grid(to, grid);
        self.nodes.push(node("DequantizeLinear", &[from, &scale, &zero], &[to]));
    }

    fn quantize(&mut self, from: &str, to: &str, grid: Grid) {
        let [scale, zero] = self.grid(to, grid);
        self.nodes.push(node("QuantizeLinear", &[from, &scale, &zero], &[to]));
    }

    /// Writes weights as bytes with a scale and a zero point for each entry along `axis`.
    fn weights(&mut self, to: &str, w: &Real, axis: usize, grids: &[Grid]) {
        let along: usize = w.shape[axis + 1..].iter().product();
        let of = |flat: usize| grids[if grids.len() == 1 { 0 } else { flat / along % w.shape[axis] }];
        let bytes: Vec<i32> = w.elements.iter().enumerate().map(|(flat, &x)| of(flat).byte(x)).collect();
        let [name, scale, zero] = ["bytes", "scale", "zero"].map(|part| format!("{to}_{part}"));
        let shape: &[usize] = if grids.len() == 1 { &[] } else { &[grids.len()] };
        self.bytes(&name, grids[0].0, &w.shape, &bytes);
        self.floats(&scale, shape, &grids.iter().map(|grid| grid.1).collect::<Vec<_>>());
        self.bytes(&zero, grids[0].0, shape, &grids.iter().map(|grid| grid.2).collect::<Vec<_>>());
        let dequantize = node("DequantizeLinear", &[&name, &scale, &zero], &[to]);
        self.nodes.push(with_int(dequantize, "axis", axis as i64));
    }

    /// Writes a bias as integers with the scales given.
    fn bias(&mut self, to: &str, bias: &[f64], scales: &[f64]) {
        let whole = bias.iter().zip(scales).flat_map(|(x, scale)| ((x / scale) as i32).to_le_bytes());
        let [name, scale] = ["integers", "scale"].map(|part| format!("{to}_{part}"));
        self.constants.push(raw(&name, DataType::I32, &[bias.len()], whole.collect()));
        self.floats(&scale, &[scales.len()], scales);
        self.nodes.push(with_int(node("DequantizeLinear", &[&name, &scale], &[to]), "axis", 0));
    }

    fn push(&mut self, node: NodeProto) {
        self.nodes.push(node);
    }

    /// Finishes a graph from the bytes `x` to `outputs`.
    fn finish(self, x: &Input, outputs: &[&str]) -> GraphProto {
        let extents: Vec<String> = x.real.shape.iter().map(|extent| extent.to_string()).collect();
        let mut extents: Vec<&str> = extents.iter().map(String::as_str).collect();
        // Plans hold for any batch.
        extents[0] = "n";
        let code = if x.grid.0 == DataType::I8 { 3 } else { 2 };
        GraphProto {
            name: Some("quantised".to_owned()),
            node: self.nodes,
            initializer: self.constants,
            input: vec![value("x", code, &extents)],
            output: outputs.iter().map(|name| untyped(name)).collect(),
            ..GraphProto::default()
        }
    }
}

/// Input of a run.
struct Input {
    real: Real,
    grid: Grid,
}

impl Input {
    fn drawn(drawn: &mut Drawn, shape: &[usize], grid: Grid) -> Input {
        Input { real: drawn.real(shape, grid), grid }
    }

    fn data(&self) -> TensorData {
        data(self.grid.0, &self.real.shape, &self.grid.bytes(&self.real))
    }
}

fn data(dtype: DataType, shape: &[usize], bytes: &[i32]) -> TensorData {
    match dtype {
        DataType::I8 => TensorData::new(shape, &bytes.iter().map(|&x| x as i8).collect::<Vec<_>>()).unwrap(),
        _ => TensorData::new(shape, &bytes.iter().map(|&x| x as u8).collect::<Vec<_>>()).unwrap(),
    }
}

/// Returns the operations of each run once constants are folded, for a backend with all of `Quant`.
fn operations(graph: &GraphProto) -> Vec<String> {
    let all = QuantOp::ALL.iter().fold(OpSet::default(), |all, &op| all.with(op as u16));
    let nn = OpSet::default().with(NnOp::Conv as u16).with(NnOp::Relu as u16);
    let scalar = [ScalarOp::Maximum, ScalarOp::Minimum, ScalarOp::Sigmoid];
    let scalar = scalar.iter().fold(OpSet::default(), |all, &op| all.with(op as u16));
    let natives = [(Family::Quant, all), (Family::Nn, nn), (Family::Scalar, scalar)];
    let module = Module::from_bytes(serialized(graph.clone())).unwrap();
    let text = module.print_mir_after(&HashMap::new(), &natives, "fold-constants").unwrap();
    let call = |line: &str| Some(line.split_once(" = ")?.1.split_once('(')?.0.to_owned());
    text.lines().filter(|line| line.starts_with('%')).filter_map(call).collect()
}

/// Runs a graph on every backend, with and without integers, and compares the bytes.
fn assert_bytes(graph: &GraphProto, x: &Input, expected: &[(Real, Grid)]) {
    for (name, integers) in backends::NAMES.iter().flat_map(|name| [(name, true), (name, false)]) {
        let on = backends::start(name).unwrap();
        let module = Module::from_bytes(serialized(graph.clone())).unwrap();
        let mut options = CompileOptions::default();
        options.check_passes = true;
        options.passes.integers = integers;
        let compiled = on.clone().compile(module, &options).unwrap();
        let input = on.constant(&x.data()).unwrap();
        for run in 0..2 {
            let outputs = compiled.run(&[Some(&input)]).unwrap();
            for (got, (want, grid)) in outputs.iter().zip(expected) {
                let got = on.to_host(got).unwrap();
                let want = data(grid.0, &want.shape, &grid.bytes(want));
                let same = got.shape() == want.shape() && got.bytes().unwrap() == want.bytes().unwrap();
                assert!(
                    same,
                    "run {run} on {name}, integers: {integers}\n{:?}\n{:?}",
                    got.bytes().unwrap(),
                    want.bytes().unwrap()
                );
            }
        }
    }
}

const X: Grid = Grid(DataType::U8, 0.0625, 128);
const Y: Grid = Grid(DataType::U8, 0.5, 100);

/// Scales for channels, and weights that are multiples of them.
fn filters(drawn: &mut Drawn, shape: &[usize], axis: usize, dtype: DataType, zero: i32) -> (Real, Vec<Grid>) {
    let scales = [0.25, 0.125, 0.5, 0.0625];
    let grids: Vec<Grid> = (0..shape[axis]).map(|i| Grid(dtype, scales[i % 4], zero)).collect();
    let whole = drawn.real(shape, Grid(DataType::U8, 1.0, 128));
    let w = Real::of(shape, |at| {
        let grid = grids[at[axis]];
        grid.number(grid.byte(whole.at(at) / 16.0 * grid.1))
    });
    (w, grids)
}

#[test]
fn convolutions_are_those_of_integers() {
    let mut drawn = Drawn(1);
    for (group, stride, relu) in
        [(1, 1, None), (1, 2, Some("Relu")), (4, 1, Some("Relu")), (2, 1, Some("Clip"))]
    {
        for (from, to, dtype, zero) in [
            (X, Y, DataType::I8, 0),
            (Grid(DataType::I8, 0.125, -3), Grid(DataType::I8, 0.25, 5), DataType::I8, 0),
            (X, Grid(DataType::U8, 0.5, 0), DataType::U8, 130),
            (Grid(DataType::U8, 0.25, 7), Grid(DataType::I8, 0.5, -128), DataType::I8, 4),
        ] {
            let x = Input::drawn(&mut drawn, &[2, 4, 5, 6], from);
            let (w, grids) = filters(&mut drawn, &[16, 4 / group, 3, 3], 0, dtype, zero);
            let scales: Vec<f64> = grids.iter().map(|grid| grid.1 * from.1).collect();
            let bias: Vec<f64> =
                scales.iter().map(|scale| f64::from(drawn.below(400) - 200) * scale).collect();
            let mut graph = Graph::default();
            graph.dequantize("x", "xf", from);
            graph.weights("w", &w, 0, &grids);
            graph.bias("b", &bias, &scales);
            let conv = with_ints(node("Conv", &["xf", "w", "b"], &["c"]), "pads", &[1, 1, 1, 1]);
            let conv = with_ints(conv, "strides", &[stride as i64, stride as i64]);
            graph.push(with_int(conv, "group", group as i64));
            graph.floats("low", &[], &[-2.0]);
            graph.floats("high", &[], &[3.25]);
            match relu {
                Some("Relu") => graph.push(node("Relu", &["c"], &["r"])),
                Some(_) => graph.push(node("Clip", &["c", "low", "high"], &["r"])),
                None => graph.push(node("Identity", &["c"], &["r"])),
            }
            graph.quantize("r", "y", to);
            let graph = graph.finish(&x, &["y"]);
            let y = x.real.convolved(&w, &bias, group, stride).map(|y| match relu {
                Some("Relu") => y.max(0.0),
                Some(_) => y.clamp(-2.0, 3.25),
                None => y,
            });
            // A rectifier changes no byte where zero is the least.
            let least = to.2 == if to.0 == DataType::I8 { -128 } else { 0 };
            let expected: &[&str] = match relu {
                // Convolutions with groups of few filters stay in floats.
                Some("Relu") if group == 4 => &["dequantize_linear", "conv", "relu", "quantize_linear"],
                Some("Relu") if !least => &["qlinear_conv", "lookup"],
                Some("Clip") => &["qlinear_conv", "lookup"],
                _ => &["qlinear_conv"],
            };
            assert_eq!(operations(&graph), expected);
            assert_bytes(&graph, &x, &[(y, to)]);
        }
    }
}

#[test]
fn products_of_matrices_are_those_of_integers() {
    let mut drawn = Drawn(2);
    for (transposed, several, biased) in
        [(false, true, true), (true, true, true), (true, false, true), (false, false, false)]
    {
        let x = Input::drawn(&mut drawn, &[3, 6], X);
        let shape = if transposed { [5, 6] } else { [6, 5] };
        let axis = usize::from(!transposed);
        let (w, grids) = filters(&mut drawn, &shape, axis, DataType::I8, 0);
        let (w, grids) = match several {
            true => (w, grids),
            false => (
                w.map(|w| Grid(DataType::I8, 0.0625, 0).number(Grid(DataType::I8, 0.0625, 0).byte(w))),
                vec![Grid(DataType::I8, 0.0625, 0)],
            ),
        };
        let scales: Vec<f64> = (0..5).map(|i| grids[i % grids.len()].1 * X.1).collect();
        let bias: Vec<f64> = scales.iter().map(|scale| f64::from(drawn.below(800) - 400) * scale).collect();
        let mut graph = Graph::default();
        graph.dequantize("x", "xf", X);
        graph.weights("w", &w, axis, &grids);
        if biased {
            graph.bias("b", &bias, &scales);
            let gemm = node("Gemm", &["xf", "w", "b"], &["p"]);
            graph.push(with_int(gemm, "transB", i64::from(transposed)));
        } else {
            graph.push(node("MatMul", &["xf", "w"], &["p"]));
        }
        graph.quantize("p", "y", Y);
        let graph = graph.finish(&x, &["y"]);
        let product = x.real.times(&if transposed { w.transposed(&[1, 0]) } else { w });
        let bias = Real { shape: vec![5], elements: bias };
        let y = if biased { product.with(&bias, |y, b| y + b) } else { product };
        let expected: &[&str] =
            if biased { &["matmul_integer", "add", "requantize"] } else { &["matmul_integer", "requantize"] };
        assert_eq!(operations(&graph), expected);
        assert_bytes(&graph, &x, &[(y, Y)]);
    }
}

/// Each graph lacks a requirement of integer sums.
#[test]
fn what_is_not_surely_as_near_stays_a_product_of_floats() {
    let mut drawn = Drawn(3);
    for lack in ["the scale of the bias", "a single reader", "an unread product", "few terms", "a small bias"]
    {
        let depth = if lack == "few terms" { 40_000 } else { 6 };
        let x = Input::drawn(&mut drawn, &[1, depth], X);
        // Of many terms only a few are not zero, so that floats hold the sums.
        let (w, grids) = filters(&mut drawn, &[depth, 4], 1, DataType::I8, 0);
        let w = Real::of(&w.shape, |at| if at[0] < 6 { w.at(at) } else { 0.0 });
        let wrong = if lack == "the scale of the bias" { 2.0 } else { 1.0 };
        let scales: Vec<f64> = grids.iter().map(|grid| grid.1 * X.1 * wrong).collect();
        let large = if lack == "a small bias" { 2147483520.0 } else { 64.0 };
        let bias: Vec<f64> = scales.iter().map(|scale| large * scale).collect();
        let mut graph = Graph::default();
        graph.dequantize("x", "xf", X);
        graph.weights("w", &w, 1, &grids);
        graph.bias("b", &bias, &scales);
        graph.push(node("MatMul", &["xf", "w"], &["p"]));
        graph.push(node("Add", &["p", "b"], &["s"]));
        graph.quantize("s", "y", Y);
        let product = x.real.times(&w);
        let sum = product.with(&Real { shape: vec![4], elements: bias }, |p, b| p + b);
        let (mut outputs, mut expected) = (vec!["y"], vec![(sum, Y)]);
        if lack == "a single reader" || lack == "an unread product" {
            let of = if lack == "a single reader" { "s" } else { "p" };
            graph.push(node("Neg", &[of], &["m"]));
            graph.quantize("m", "z", Y);
            outputs.push("z");
            let of = if of == "s" { &expected[0].0 } else { &product };
            expected.push((of.map(|x| -x), Y));
        }
        let graph = graph.finish(&x, &outputs);
        let found = operations(&graph);
        assert!(found.iter().any(|name| name == "matmul"), "{lack}: {found:?}");
        assert!(!found.iter().any(|name| name.contains("integer")), "{lack}: {found:?}");
        assert_bytes(&graph, &x, &expected);
    }
}

/// A product that the graph returns stays, and so does a product without a constant operand, because its terms are not counted.
#[test]
fn a_product_that_is_returned_or_has_no_constant_stays() {
    let mut drawn = Drawn(4);
    let x = Input::drawn(&mut drawn, &[4, 4], X);
    let (w, grids) = filters(&mut drawn, &[4, 4], 1, DataType::I8, 0);
    for returned in [true, false] {
        let mut graph = Graph::default();
        graph.dequantize("x", "xf", X);
        graph.weights("w", &w, 1, &grids);
        graph.push(with_ints(node("Transpose", &["xf"], &["t"]), "perm", &[1, 0]));
        graph.push(node("MatMul", &["xf", if returned { "w" } else { "t" }], &["p"]));
        graph.quantize("p", "y", Y);
        let graph = graph.finish(&x, if returned { &["y", "p"] } else { &["y"] });
        let found = operations(&graph);
        assert!(found.iter().any(|name| name == "matmul"), "{found:?}");
        let by = if returned { w.clone() } else { x.real.transposed(&[1, 0]) };
        assert_bytes(&graph, &x, &[(x.real.times(&by), Y)]);
    }
}

#[test]
fn functions_of_one_tensor_are_tables() {
    let mut drawn = Drawn(5);
    for (from, to) in [(X, Y), (Grid(DataType::I8, 0.125, -3), Y), (X, Grid(DataType::I8, 0.25, 7))] {
        let x = Input::drawn(&mut drawn, &[2, 3, 5], from);
        let mut graph = Graph::default();
        graph.dequantize("x", "xf", from);
        graph.floats("half", &[1, 1, 1], &[0.5]);
        graph.floats("two", &[], &[2.0]);
        // A value that two steps of the function read, and numbers of any rank.
        graph.push(node("Mul", &["xf", "half"], &["a"]));
        graph.push(node("Add", &["two", "a"], &["b"]));
        graph.push(node("Relu", &["b"], &["c"]));
        graph.push(node("Mul", &["c", "xf"], &["d"]));
        // Quantisers also write numbers as bytes.
        graph.bytes("byte", DataType::I8, &[1], &[-6]);
        graph.dequantize("byte", "quarters", Grid(DataType::I8, 0.25, -2));
        graph.push(node("Sub", &["d", "c"], &["e"]));
        graph.push(node("Add", &["quarters", "e"], &["f"]));
        graph.quantize("f", "y", to);
        let graph = graph.finish(&x, &["y"]);
        assert_eq!(operations(&graph), ["lookup"]);
        let y = x.real.map(|x| (x * 0.5 + 2.0).max(0.0)).with(&x.real, |c, x| c * x - c - 1.0);
        assert_bytes(&graph, &x, &[(y, to)]);
    }
}

/// A function with one number per column does not become a table, and neither does one whose intermediate result is also read
/// elsewhere.
#[test]
fn functions_of_more_than_a_byte_stay() {
    let mut drawn = Drawn(6);
    let x = Input::drawn(&mut drawn, &[2, 3], X);
    for returned in [true, false] {
        let mut graph = Graph::default();
        graph.dequantize("x", "xf", X);
        graph.floats(
            "by",
            if returned { &[] } else { &[3] },
            if returned { &[2.0] } else { &[1.0, 2.0, 4.0] },
        );
        graph.push(node("Mul", &["xf", "by"], &["m"]));
        graph.quantize("m", "y", Y);
        let graph = graph.finish(&x, if returned { &["y", "m"] } else { &["y"] });
        assert_eq!(operations(&graph), ["dequantize_linear", "mul", "quantize_linear"]);
        let by = Real { shape: vec![3], elements: if returned { vec![2.0; 3] } else { vec![1.0, 2.0, 4.0] } };
        assert_bytes(&graph, &x, &[(x.real.with(&by, |x, y| x * y), Y)]);
    }
}

#[test]
fn sums_and_products_of_two_tensors_are_those_of_bytes() {
    let mut drawn = Drawn(7);
    for (op, relu, from) in [
        ("Add", false, X),
        ("Add", true, X),
        ("Sub", false, X),
        ("Sub", true, Grid(DataType::I8, 0.25, 6)),
        ("Mul", true, X),
        ("Mul", false, Grid(DataType::I8, 0.25, 6)),
    ] {
        let x = Input::drawn(&mut drawn, &[4, 4], from);
        let other = Grid(from.0, 0.5, 3);
        let mut graph = Graph::default();
        graph.push(with_ints(node("Transpose", &["x"], &["t"]), "perm", &[1, 0]));
        graph.dequantize("x", "xf", from);
        graph.dequantize("t", "tf", other);
        graph.push(node(op, &["xf", "tf"], &["s"]));
        graph.push(node(if relu { "Relu" } else { "Identity" }, &["s"], &["r"]));
        graph.quantize("r", "y", Y);
        let graph = graph.finish(&x, &["y"]);
        let sum = if op == "Mul" { "qlinear_mul" } else { "qlinear_add" };
        let expected: &[&str] = if relu { &["transpose", sum, "lookup"] } else { &["transpose", sum] };
        assert_eq!(operations(&graph), expected);
        let t = x.real.transposed(&[1, 0]).map(|t| other.number(from.byte(t)));
        let y = x.real.with(&t, |x, t| match op {
            "Add" => x + t,
            "Sub" => x - t,
            _ => x * t,
        });
        assert_bytes(&graph, &x, &[(if relu { y.map(|y| y.max(0.0)) } else { y }, Y)]);
    }
}

/// Between each two of these steps quantisers write a `QuantizeLinear` and a `DequantizeLinear`.
#[test]
fn what_only_moves_elements_moves_bytes() {
    let mut drawn = Drawn(8);
    let x = Input::drawn(&mut drawn, &[2, 3, 4], X);
    let mut graph = Graph::default();
    graph.push(ints("shape", &[0, 4, 3]));
    graph.push(ints("start", &[1]));
    graph.push(ints("end", &[4]));
    graph.push(ints("axis", &[1]));
    graph.push(ints("rows", &[2, 0]));
    graph.dequantize("x", "f0", X);
    let moves = [
        with_ints(node("Transpose", &["f0"], &["m0"]), "perm", &[0, 2, 1]),
        node("Reshape", &["f1", "shape"], &["m1"]),
        node("Slice", &["f2", "start", "end", "axis"], &["m2"]),
        with_int(node("Gather", &["f3", "rows"], &["m3"]), "axis", 1),
        with_int(node("Concat", &["f4", "f4"], &["m4"]), "axis", 2),
    ];
    let count = moves.len();
    for (i, one) in moves.into_iter().enumerate() {
        graph.push(one);
        graph.quantize(&format!("m{i}"), &format!("q{i}"), X);
        graph.dequantize(&format!("q{i}"), &format!("f{}", i + 1), X);
    }
    graph.quantize(&format!("f{count}"), "y", X);
    let graph = graph.finish(&x, &["y"]);
    assert_eq!(operations(&graph), ["transpose", "reshape", "slice", "gather", "concat"]);
    let t = x.real.transposed(&[0, 2, 1]);
    let t = Real::of(&[2, 2, 3], |at| t.at(&[at[0], [3, 1][at[1]], at[2]]));
    assert_bytes(&graph, &x, &[(t.joined(&t, 2), X)]);
}

#[test]
fn tensors_of_several_scales_are_quantised_before_they_are_joined() {
    let mut drawn = Drawn(9);
    let x = Input::drawn(&mut drawn, &[2, 4], X);
    let other = Grid(DataType::U8, 0.25, 120);
    let mut graph = Graph::default();
    graph.dequantize("x", "a", X);
    graph.dequantize("x", "b", other);
    graph.dequantize("x", "c", Y);
    graph.push(with_int(node("Concat", &["a", "b", "c"], &["j"]), "axis", 1));
    graph.quantize("j", "y", Y);
    let graph = graph.finish(&x, &["y"]);
    assert_eq!(operations(&graph), ["lookup", "lookup", "concat"]);
    let as_other = |grid: Grid| x.real.map(|number| grid.number(X.byte(number)));
    let y = x.real.joined(&as_other(other), 1).joined(&as_other(Y), 1);
    assert_bytes(&graph, &x, &[(y, Y)]);
}

/// Floats that the graph returns are dequantized from bytes, regardless of other readers of the bytes.
#[test]
fn floats_that_are_returned_stay() {
    let mut drawn = Drawn(10);
    let x = Input::drawn(&mut drawn, &[2, 4], X);
    let mut graph = Graph::default();
    graph.dequantize("x", "a", X);
    graph.push(with_ints(node("Transpose", &["a"], &["t"]), "perm", &[1, 0]));
    graph.quantize("t", "y", X);
    let graph = graph.finish(&x, &["y", "a", "t"]);
    assert_eq!(operations(&graph), ["dequantize_linear", "transpose", "quantize_linear"]);
    assert_bytes(&graph, &x, &[(x.real.transposed(&[1, 0]), X)]);
}
