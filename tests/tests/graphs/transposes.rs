//! Tests that graphs full of transposes, which passes move and cancel, have the bits of their definition, for all extents that
//! a run may bring.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use bb::ext::{NnOp, OpSet};
use bb::ir::op::Family;
use bb::ir::proto::{GraphProto, NodeProto, TensorProto, ValueInfoProto};
use bb::{CompileOptions, Module, TensorData};
use bb_tests::backends;
use bb_tests::model::{ints, node, serialized, untyped, value, with_int, with_ints};
use std::collections::HashMap;

/// A tensor, as the definition computes it.
#[derive(Debug, Clone, PartialEq)]
struct Dense {
    shape: Vec<usize>,
    elements: Vec<f32>,
}

impl Dense {
    /// Makes each element from its indices.
    fn of(shape: &[usize], element: impl Fn(&[usize]) -> f32) -> Dense {
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
        Dense { shape: shape.to_vec(), elements }
    }

    /// Returns the element that broadcasting puts at these indices of a tensor of the same rank or a higher one.
    fn at(&self, at: &[usize]) -> f32 {
        let own = &at[at.len() - self.shape.len()..];
        let flat = own
            .iter()
            .zip(&self.shape)
            .fold(0, |flat, (&i, &extent)| flat * extent + if extent == 1 { 0 } else { i });
        self.elements[flat]
    }

    fn transposed(&self, perm: &[usize]) -> Dense {
        let shape: Vec<usize> = perm.iter().map(|&from| self.shape[from]).collect();
        Dense::of(&shape, |at| {
            let mut from = vec![0; at.len()];
            for (&axis, &index) in perm.iter().zip(at) {
                from[axis] = index;
            }
            self.at(&from)
        })
    }

    fn with(&self, other: &Dense, f: impl Fn(f32, f32) -> f32) -> Dense {
        let rank = self.shape.len().max(other.shape.len());
        let extent = |x: &Dense, axis: usize| match (axis + x.shape.len()).checked_sub(rank) {
            Some(own) => x.shape[own],
            None => 1,
        };
        let shape: Vec<usize> = (0..rank)
            .map(|axis| if extent(self, axis) == 1 { extent(other, axis) } else { extent(self, axis) })
            .collect();
        Dense::of(&shape, |at| f(self.at(at), other.at(at)))
    }

    fn map(&self, f: impl Fn(f32) -> f32) -> Dense {
        Dense { shape: self.shape.clone(), elements: self.elements.iter().map(|&x| f(x)).collect() }
    }

    fn joined(&self, other: &Dense, axis: usize) -> Dense {
        let mut shape = self.shape.clone();
        shape[axis] += other.shape[axis];
        Dense::of(&shape, |at| {
            let mut from = at.to_vec();
            if at[axis] < self.shape[axis] {
                return self.at(&from);
            }
            from[axis] -= self.shape[axis];
            other.at(&from)
        })
    }

    /// The first entry along a dimension, which stays.
    fn first(&self, axis: usize) -> Dense {
        let mut shape = self.shape.clone();
        shape[axis] = 1;
        Dense::of(&shape, |at| self.at(at))
    }

    /// The convolution with filters `[m, c, k, k]`, padded so that it keeps the extents.
    fn convolved(&self, filters: &Dense) -> Dense {
        let (half, s) = (filters.shape[2] / 2, &self.shape);
        Dense::of(&[s[0], filters.shape[0], s[2], s[3]], |at| {
            // Integers, so that each sum is exact in any order.
            let term = |w: &[usize]| {
                let (y, x) = (at[2] + w[2], at[3] + w[3]);
                let inside = (half..s[2] + half).contains(&y) && (half..s[3] + half).contains(&x);
                let pixel = if inside { self.at(&[at[0], w[1], y - half, x - half]) } else { 0.0 };
                pixel * filters.at(&[at[1], w[1], w[2], w[3]])
            };
            Dense::of(&[1, s[1], filters.shape[2], filters.shape[3]], term).elements.iter().sum()
        })
    }
}

/// Numbers that look drawn.
struct Drawn(u64);

impl Drawn {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }

    fn dense(&mut self, shape: &[usize]) -> Dense {
        let elements = (0..shape.iter().product()).map(|_: usize| self.below(7) as f32 - 3.0).collect();
        Dense { shape: shape.to_vec(), elements }
    }

    fn order(&mut self) -> [usize; 4] {
        let mut order = [0, 1, 2, 3];
        for i in (1..4).rev() {
            order.swap(i, self.below(i + 1));
        }
        order
    }
}

fn initializer(name: &str, x: &Dense) -> TensorProto {
    TensorProto {
        name: Some(name.to_owned()),
        data_type: Some(1),
        dims: x.shape.iter().map(|&extent| extent as i64).collect(),
        float_data: x.elements.clone(),
        ..TensorProto::default()
    }
}

fn permuting(from: &str, to: &str, perm: &[usize]) -> NodeProto {
    let perm: Vec<i64> = perm.iter().map(|&axis| axis as i64).collect();
    with_ints(node("Transpose", &[from], &[to]), "perm", &perm)
}

/// Compiles a graph once on every backend, and compares the bits of its outputs with those given, for each of several runs.
fn assert_runs(graph: &GraphProto, runs: &[(Vec<Dense>, Vec<Dense>)], what: &str) {
    for name in backends::NAMES {
        let on = backends::start(name).unwrap();
        let module = Module::from_bytes(serialized(graph.clone())).unwrap();
        let mut options = CompileOptions::default();
        options.check_passes = true;
        let compiled = on.clone().compile(module, &options).unwrap();
        for (inputs, expected) in runs {
            let upload = |x: &Dense| on.constant(&TensorData::new(&x.shape, &x.elements).unwrap()).unwrap();
            let inputs: Vec<_> = inputs.iter().map(upload).collect();
            let outputs = compiled.run(&inputs.iter().map(Some).collect::<Vec<_>>()).unwrap();
            for (got, want) in outputs.iter().zip(expected) {
                let got = on.to_host(got).unwrap();
                assert_eq!(got.shape(), want.shape, "{what} on {name}");
                let bits = |x: &[f32]| x.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
                assert_eq!(bits(got.as_slice().unwrap()), bits(&want.elements), "{what} on {name}");
            }
        }
    }
}

/// Returns the lowered graph after the pass that moves transposes.
fn moved(graph: &GraphProto) -> String {
    let natives = [(Family::Nn, OpSet::default().with(NnOp::Conv as u16).with(NnOp::Relu as u16))];
    let module = Module::from_bytes(serialized(graph.clone())).unwrap();
    module.print_mir_after(&HashMap::new(), &natives, "move-transposes").unwrap()
}

/// Two convolutions, each between transposes, with a bias, a scale, a residual sum and rectifiers where the channels are last.
#[test]
fn convolutions_with_channels_last_have_the_bits_of_their_definition() {
    const SECOND: [usize; 4] = [0, 3, 1, 2];
    const LAST: [usize; 4] = [0, 2, 3, 1];
    let mut drawn = Drawn(7);
    let [first, second] = [[4, 3, 3, 3], [4, 4, 1, 1]].map(|shape| drawn.dense(&shape));
    let [bias, scale] = [drawn.dense(&[4]), drawn.dense(&[4])];
    let same = |from: &str, to: &str| with_int(node("Cast", &[from], &[to]), "to", 1);
    let nodes = vec![
        permuting("x", "x1", &SECOND),
        with_ints(node("Conv", &["x1", "first"], &["c1"]), "pads", &[1, 1, 1, 1]),
        permuting("c1", "l1", &LAST),
        same("l1", "l2"),
        node("Add", &["l2", "bias"], &["l3"]),
        same("l3", "l4"),
        node("Mul", &["l4", "scale"], &["l5"]),
        node("Relu", &["l5"], &["l6"]),
        same("l6", "l7"),
        permuting("l7", "x2", &SECOND),
        node("Conv", &["x2", "second"], &["c2"]),
        permuting("c2", "l8", &LAST),
        node("Add", &["l8", "bias"], &["l9"]),
        node("Add", &["l9", "l7"], &["l10"]),
        node("Relu", &["l10"], &["y"]),
    ];
    let runs: Vec<(Vec<Dense>, Vec<Dense>)> = [[1, 5, 6, 3], [3, 5, 6, 3], [2, 4, 4, 3], [0, 5, 6, 3]]
        .map(|shape| {
            let x = drawn.dense(&shape);
            let relu = |x: Dense| x.map(|x| if x > 0.0 { x } else { 0.0 });
            let plus = |x: Dense, y: &Dense| x.with(y, |x, y| x + y);
            let one = x.transposed(&SECOND).convolved(&first).transposed(&LAST);
            let one = relu(plus(one, &bias).with(&scale, |x, y| x * y));
            let two = one.transposed(&SECOND).convolved(&second).transposed(&LAST);
            let y = relu(plus(plus(two, &bias), &one));
            (vec![x], vec![y])
        })
        .into();
    let constants = [("first", &first), ("second", &second), ("bias", &bias), ("scale", &scale)];
    let graph = |extents: &[&str]| GraphProto {
        name: Some("last".to_owned()),
        node: nodes.clone(),
        initializer: constants.iter().map(|(name, x)| initializer(name, x)).collect(),
        input: vec![value("x", 1, extents)],
        output: vec![untyped("y")],
        ..GraphProto::default()
    };
    let [fixed, varying] = [["1", "5", "6", "3"], ["n", "h", "w", "3"]].map(|extents| graph(&extents));
    // One at the input, and one at the output.
    for graph in [&fixed, &varying] {
        let text = moved(graph);
        let turned = ["= transpose(input", "= transpose(%"].map(|call| text.matches(call).count());
        assert_eq!(turned, [1, 1], "{text}");
    }
    assert_runs(&fixed, &runs[..1], "fixed extents");
    assert_runs(&varying, &runs, "varying extents");
}

/// A value of a drawn graph: the dimension of the first input for each of its four dimensions, and its contents in each run.
struct Drawing {
    order: [usize; 4],
    values: Vec<Dense>,
}

/// The graph that is drawn, with the inputs of its runs.
struct Graph {
    drawn: Drawn,
    nodes: Vec<NodeProto>,
    inputs: Vec<ValueInfoProto>,
    constants: Vec<TensorProto>,
    given: Vec<Vec<Dense>>,
    drawings: Vec<Drawing>,
}

/// Batches of the runs of drawn graphs.
const BATCHES: [usize; 3] = [1, 2, 3];

impl Graph {
    fn new(seed: u64) -> Graph {
        let mut drawn = Drawn(seed);
        let values: Vec<Dense> = BATCHES.iter().map(|&n| drawn.dense(&[n, 2, 3, 4])).collect();
        let given = values.iter().map(|x| vec![x.clone()]).collect();
        let inputs = vec![value("v0", 1, &["n", "2", "3", "4"])];
        let drawings = vec![Drawing { order: [0, 1, 2, 3], values }];
        Graph { drawn, nodes: Vec::new(), inputs, constants: Vec::new(), given, drawings }
    }

    fn push(&mut self, node: NodeProto, order: [usize; 4], values: Vec<Dense>) {
        self.nodes.push(node);
        self.drawings.push(Drawing { order, values });
    }

    /// Draws something that broadcasts to a value: an input, whose extents of 1 differ between runs, or a constant.
    fn operand(&mut self, to: usize) -> (String, Vec<Dense>) {
        let constant = self.drawn.below(2) == 0;
        let rank = self.drawn.below(5);
        let name = format!("o{}", self.nodes.len());
        let mut values = Vec::new();
        for run in 0..BATCHES.len() {
            let shape = self.drawings[to].values[run].shape.clone();
            let batch = self.drawings[to].order.iter().position(|&axis| axis == 0).unwrap();
            let own = |(axis, extent): (usize, usize)| match self.drawn.below(2) {
                // A constant has the same extents in all runs.
                0 if !(constant && axis == batch) => extent,
                _ => 1,
            };
            let shape: Vec<usize> = shape.into_iter().enumerate().skip(4 - rank).map(own).collect();
            values.push(self.drawn.dense(&shape));
        }
        if constant {
            self.constants.push(initializer(&name, &values[0]));
            return (name, vec![values.remove(0); BATCHES.len()]);
        }
        self.inputs.push(value(&name, 1, &vec!["?"; rank]));
        for (given, x) in self.given.iter_mut().zip(&values) {
            given.push(x.clone());
        }
        (name, values)
    }

    /// Adds a node of a drawn operator on drawn values.
    fn grow(&mut self) {
        let x = self.drawn.below(self.drawings.len());
        let (name, to) = (format!("v{x}"), format!("v{}", self.drawings.len()));
        let (order, values) = (self.drawings[x].order, self.drawings[x].values.clone());
        let zipped = |a: &[Dense], b: &[Dense], f: fn(&Dense, &Dense) -> Dense| -> Vec<Dense> {
            a.iter().zip(b).map(|(a, b)| f(a, b)).collect()
        };
        match self.drawn.below(9) {
            0..=3 => {
                let perm = self.drawn.order();
                let values = values.iter().map(|x| x.transposed(&perm)).collect();
                self.push(permuting(&name, &to, &perm), perm.map(|axis| order[axis]), values);
            }
            4 => self.push(
                node("Neg", &[&name], &[&to]),
                order,
                values.iter().map(|x| x.map(|x| -x)).collect(),
            ),
            5 => {
                let (other, operands) = self.operand(x);
                let sums = zipped(&values, &operands, |x, y| x.with(y, |x, y| x * y));
                self.push(node("Mul", &[&name, &other], &[&to]), order, sums);
            }
            6 => {
                let axis = self.drawn.below(4);
                let values = values.iter().map(|x| x.first(axis)).collect();
                let indices = format!("i{to}");
                self.nodes.push(ints(&indices, &[0]));
                let first = with_int(node("Gather", &[&name, &indices], &[&to]), "axis", axis as i64);
                self.push(first, order, values);
            }
            kind => {
                // Another value with the same dimensions in the same places.
                let y = (0..self.drawings.len()).rev().find(|&y| {
                    let other = &self.drawings[y];
                    let same = |(a, b): (&Dense, &Dense)| a.shape == b.shape;
                    y != x && other.order == order && other.values.iter().zip(&values).all(same)
                });
                let y = y.unwrap_or(x);
                let (other, operands) = (format!("v{y}"), self.drawings[y].values.clone());
                if kind == 7 {
                    let less = zipped(&values, &operands, |x, y| x.with(y, |x, y| x - y));
                    self.push(node("Sub", &[&name, &other], &[&to]), order, less);
                } else {
                    // Of two that are equal the second, so that a zero has its sign.
                    self.nodes.push(node("Greater", &[&name, &other], &[&format!("g{to}")]));
                    let larger =
                        zipped(&values, &operands, |x, y| x.with(y, |x, y| if x > y { x } else { y }));
                    let chosen = node("Where", &[&format!("g{to}"), &name, &other], &[&to]);
                    self.push(chosen, order, larger);
                }
            }
        }
    }

    /// Joins the last value with another along a drawn axis, and turns it.
    fn join(&mut self) {
        let last = self.drawings.len() - 1;
        let axis = self.drawn.below(4);
        let joined: Vec<Dense> =
            self.drawings[last].values.iter().map(|x| x.joined(&x.map(|x| x + 1.0), axis)).collect();
        let (from, order) = (format!("v{last}"), self.drawings[last].order);
        self.constants.push(initializer("one", &Dense { shape: vec![], elements: vec![1.0] }));
        self.nodes.push(node("Add", &[&from, "one"], &["more"]));
        let to = format!("v{}", self.drawings.len());
        let joining = with_int(node("Concat", &[&from, "more"], &[&to]), "axis", axis as i64 - 4);
        self.push(joining, order, joined);
        let (perm, from) = (self.drawn.order(), to);
        let values: Vec<Dense> = self.drawings[last + 1].values.iter().map(|x| x.transposed(&perm)).collect();
        let to = format!("v{}", self.drawings.len());
        self.push(permuting(&from, &to, &perm), order, values);
    }
}

#[test]
fn drawn_graphs_have_the_bits_of_their_definition() {
    let mut steps = 0;
    for seed in 0..64 {
        let mut graph = Graph::new(seed);
        for _ in 0..14 {
            graph.grow();
        }
        graph.join();
        let count = graph.drawings.len();
        let returned = [count - 1, graph.drawn.below(count - 1)];
        let proto = GraphProto {
            name: Some("drawn".to_owned()),
            node: graph.nodes.clone(),
            initializer: graph.constants.clone(),
            input: graph.inputs.clone(),
            output: returned.iter().map(|at| untyped(&format!("v{at}"))).collect(),
            ..GraphProto::default()
        };
        let text = moved(&proto);
        let (_, count) = text.split_once("pass move-transposes: ").unwrap();
        steps += count.lines().next().unwrap().parse::<usize>().unwrap();
        let mut runs = Vec::new();
        for (run, inputs) in graph.given.iter().enumerate() {
            let expected = returned.iter().map(|&at| graph.drawings[at].values[run].clone()).collect();
            runs.push((inputs.clone(), expected));
        }
        assert_runs(&proto, &runs, &format!("graph {seed}"));
    }
    assert!(steps > 64, "{steps} steps were moved in all graphs together");
}
