//! Compares recurrent cells with their definition, computed in `f64` element by element.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use bb::ext::{GruOptions, LstmOptions, Nn, NnOp, RnnOptions};
use bb::ir::op::Param;
use bb::{Backend, DataType, KernelOperand, KernelOperands, PrepareOperand, PrepareStep, Tensor, TensorData};
use bb_cpu::{Array, Cpu};

/// Returns numbers of both signs, which depend on `seed`.
fn numbers(len: usize, seed: usize) -> Vec<f32> {
    (0..len).map(|i| (((i + seed) * 7919 + 13 * seed) % 2003) as f32 / 1001.5 - 1.0).collect()
}

fn array(cpu: &Cpu, shape: &[usize], numbers: &[f32]) -> Array {
    cpu.constant(&TensorData::new(shape, numbers).unwrap()).unwrap()
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// The operands of a layer with `gates` gates.
struct Layer {
    extents: [usize; 3],
    gates: usize,
    x: Vec<f32>,
    weights: Vec<f32>,
    hidden: Vec<f32>,
    cell: Vec<f32>,
    bias: Vec<f32>,
    lengths: Option<Vec<i32>>,
    backwards: bool,
    clip: Option<f64>,
}

impl Layer {
    fn new([s, n, h]: [usize; 3], gates: usize, lengths: bool, backwards: bool, clip: Option<f64>) -> Layer {
        Layer {
            extents: [s, n, h],
            gates,
            x: numbers(s * n * gates * h, 1).iter().map(|v| 2.0 * v).collect(),
            weights: numbers(h * gates * h, 2).iter().map(|v| v / (h as f32).sqrt()).collect(),
            hidden: numbers(n * h, 3),
            cell: numbers(n * h, 4),
            bias: numbers(h, 5),
            lengths: lengths.then(|| (0..n).map(|i| (i % (s + 1)) as i32).collect()),
            backwards,
            clip,
        }
    }

    /// Computes the states by the definition: the states of all steps, the last states, and the last cell states. `next`
    /// computes element `j` of a sequence's next states from its input sums, its states, and a function that multiplies a vector
    /// by a column of the weights.
    fn expected(
        &self,
        next: impl Fn(&[f64], &[f64], &[f64], &dyn Fn(&[f64], usize) -> f64, usize) -> [f64; 2],
    ) -> [Vec<f64>; 3] {
        let [s, n, h] = self.extents;
        let wide = |x: &[f32]| x.iter().map(|&v| f64::from(v)).collect::<Vec<f64>>();
        let (mut hidden, mut cell) = (wide(&self.hidden), wide(&self.cell));
        let mut outputs = vec![0.0; s * n * h];
        let product = |state: &[f64], column: usize| -> f64 {
            (0..h).map(|k| state[k] * f64::from(self.weights[k * self.gates * h + column])).sum()
        };
        for step in 0..s {
            let step = if self.backwards { s - 1 - step } else { step };
            for row in 0..n {
                if self.lengths.as_ref().is_some_and(|lengths| step >= lengths[row] as usize) {
                    continue;
                }
                let at = (step * n + row) * self.gates * h;
                let x = wide(&self.x[at..at + self.gates * h]);
                let (old, old_cell) = (hidden[row * h..][..h].to_vec(), cell[row * h..][..h].to_vec());
                for j in 0..h {
                    let [new, new_cell] = next(&x, &old, &old_cell, &product, j);
                    hidden[row * h + j] = new;
                    cell[row * h + j] = new_cell;
                    outputs[(step * n + row) * h + j] = new;
                }
            }
        }
        [outputs, hidden, cell]
    }

    fn bounded(&self, x: f64) -> f64 {
        self.clip.map_or(x, |most| x.clamp(-most, most))
    }

    fn check(&self, cpu: &Cpu, got: &[Array], want: &[Vec<f64>], what: &str) {
        for (got, want) in got.iter().zip(want) {
            let got = cpu.to_host(got).unwrap();
            let got = got.as_slice::<f32>().unwrap();
            assert_eq!(got.len(), want.len(), "{what}");
            for (i, (&g, &w)) in got.iter().zip(want).enumerate() {
                assert!(
                    (f64::from(g) - w).abs() < 2e-5,
                    "{what} {:?}: element {i} is {g}, expected {w}",
                    self.extents
                );
            }
        }
    }

    /// Returns the arrays of `x`, weights, hidden and cell states and bias, and the lengths.
    fn arrays(&self, cpu: &Cpu) -> ([Array; 5], Option<Array>) {
        let [s, n, h] = self.extents;
        let wide = self.gates * h;
        let arrays = [
            array(cpu, &[s, n, wide], &self.x),
            array(cpu, &[h, wide], &self.weights),
            array(cpu, &[n, h], &self.hidden),
            array(cpu, &[n, h], &self.cell),
            array(cpu, &[h], &self.bias),
        ];
        let lengths =
            self.lengths.as_ref().map(|l| cpu.constant(&TensorData::new(&[n], l).unwrap()).unwrap());
        (arrays, lengths)
    }
}

/// Prepares a kernel for constant weights, which it packs, and runs it. The weights have the layout of ONNX's operators, which
/// is transposed.
fn prepared(
    cpu: &Cpu,
    op: NnOp,
    layer: &Layer,
    first: Option<bool>,
    [x, hidden]: [&Array; 2],
    others: &[Option<&Array>],
    (functions, parameters): (&[i64], &[f64]),
) -> Vec<Array> {
    let (h, wide) = (layer.extents[2], layer.gates * layer.extents[2]);
    let turned: Vec<f32> = (0..wide * h).map(|i| layer.weights[i % h * wide + i / h]).collect();
    let weights = cpu.transpose(&array(cpu, &[wide, h], &turned), &[1, 0]).unwrap();
    let rest = [
        Param::Bool(layer.backwards),
        Param::Ints(functions.to_vec().into()),
        Param::Floats(parameters.to_vec().into()),
        Param::OptFloat(layer.clip),
    ];
    let params: Vec<Param<'_>> = first.map(Param::Bool).into_iter().chain(rest).collect();
    let varying = |x: &Array| PrepareOperand::varying(x.dtype(), x.shape().iter().map(|_| None), false);
    let described = [Some(varying(x)), Some(PrepareOperand::of_constant(&weights)), Some(varying(hidden))]
        .into_iter()
        .chain(others.iter().map(|x| x.map(varying)));
    let kernel = cpu.prepare(&PrepareStep::new(op.spec(), &params, described)).unwrap().unwrap();
    assert!(kernel.bytes() >= 4 * weights.len());
    let given = [Some(x), Some(&weights), Some(hidden)].into_iter().chain(others.iter().copied());
    let mut given: KernelOperands<'_, Array> =
        given.map(|x| x.map_or(KernelOperand::Absent, KernelOperand::Shared)).collect();
    kernel.run(cpu, &mut given).unwrap().into_vec()
}

/// An empty list of functions, which selects the defaults.
const USUAL: (&[i64], &[f64]) = (&[], &[]);

/// Calls `f` for extents below, at and above the sizes of blocks and vectors, with and without lengths and clipping, in both
/// directions.
fn each(gates: usize, f: impl Fn(&Cpu, &Layer)) {
    let cpu = Cpu::new();
    for extents in [[1, 1, 1], [3, 1, 32], [5, 2, 7], [4, 3, 33], [2, 20, 64], [6, 1, 100]] {
        for (lengths, backwards, clip) in
            [(false, false, None), (true, false, Some(0.7)), (true, true, None), (false, true, Some(0.3))]
        {
            f(&cpu, &Layer::new(extents, gates, lengths, backwards, clip));
        }
    }
}

#[test]
fn plain_cells() {
    each(1, |cpu, layer| {
        let want =
            layer.expected(|x, old, _, product, j| [layer.bounded(x[j] + product(old, j)).tanh(), 0.0]);
        let ([x, weights, hidden, ..], lengths) = layer.arrays(cpu);
        let options = RnnOptions { backwards: layer.backwards, clip: layer.clip, ..Default::default() };
        let got = cpu.rnn(&x, &weights, &hidden, lengths.as_ref(), options).unwrap();
        assert_eq!(got.len(), 2);
        layer.check(cpu, &got, &want, "rnn");
        // With few columns, a panel would be mostly empty, so the kernel is not prepared.
        if layer.extents[2] > 16 {
            let got = prepared(cpu, NnOp::Rnn, layer, None, [&x, &hidden], &[lengths.as_ref()], USUAL);
            layer.check(cpu, &got, &want, "prepared rnn");
        }
    });
}

#[test]
fn gated_units() {
    each(3, |cpu, layer| {
        let h = layer.extents[2];
        for (linear, biased) in [(false, false), (true, false), (true, true)] {
            let want = layer.expected(|x, old, _, product, j| {
                let gate = |g: usize| sigmoid(layer.bounded(x[g * h + j] + product(old, g * h + j)));
                let reset = |k: usize| sigmoid(layer.bounded(x[h + k] + product(old, h + k)));
                let late = if linear {
                    let bias = if biased { f64::from(layer.bias[j]) } else { 0.0 };
                    gate(1) * (product(old, 2 * h + j) + bias)
                } else {
                    let scaled: Vec<f64> = (0..h).map(|k| reset(k) * old[k]).collect();
                    product(&scaled, 2 * h + j)
                };
                let new = layer.bounded(x[2 * h + j] + late).tanh();
                [(1.0 - gate(0)) * new + gate(0) * old[j], 0.0]
            });
            let ([x, weights, hidden, _, bias], lengths) = layer.arrays(cpu);
            let (backwards, clip) = (layer.backwards, layer.clip);
            let options = GruOptions { linear, backwards, clip, ..Default::default() };
            let bias = biased.then_some(&bias);
            let got = cpu.gru(&x, &weights, &hidden, bias, lengths.as_ref(), options).unwrap();
            layer.check(cpu, &got, &want, "gru");
            if h > 16 {
                let others = [bias, lengths.as_ref()];
                let got = prepared(cpu, NnOp::Gru, layer, Some(linear), [&x, &hidden], &others, USUAL);
                layer.check(cpu, &got, &want, "prepared gru");
            }
        }
    });
}

#[test]
fn long_short_term_memory() {
    each(4, |cpu, layer| {
        let h = layer.extents[2];
        for coupled in [false, true] {
            let want = layer.expected(|x, old, cell, product, j| {
                let sum = |g: usize| layer.bounded(x[g * h + j] + product(old, g * h + j));
                let input = sigmoid(sum(0));
                let forget = if coupled { 1.0 - input } else { sigmoid(sum(2)) };
                let new = forget * cell[j] + input * sum(3).tanh();
                [sigmoid(sum(1)) * new.tanh(), new]
            });
            let ([x, weights, hidden, cell, _], lengths) = layer.arrays(cpu);
            let (backwards, clip) = (layer.backwards, layer.clip);
            let options = LstmOptions { coupled, backwards, clip, ..Default::default() };
            let got =
                cpu.lstm(&x, &weights, &hidden, &cell, None, None, lengths.as_ref(), None, options).unwrap();
            assert_eq!(got.len(), 3);
            layer.check(cpu, &got, &want, "lstm");
            if h > 16 {
                let others = [Some(&cell), None, None, lengths.as_ref(), None];
                let got = prepared(cpu, NnOp::Lstm, layer, Some(coupled), [&x, &hidden], &others, USUAL);
                layer.check(cpu, &got, &want, "prepared lstm");
            }
        }
    });
}

#[test]
fn operands_that_do_not_fit() {
    let cpu = Cpu::new();
    let layer = Layer::new([3, 2, 5], 1, false, false, None);
    let ([x, weights, hidden, ..], _) = layer.arrays(&cpu);
    // 4 is the code of `max(x, 0)`.
    let options = RnnOptions { functions: &[4], parameters: &[0.0, 0.0], ..Default::default() };
    let want = layer.expected(|x, old, _, product, j| [(x[j] + product(old, j)).max(0.0), 0.0]);
    layer.check(&cpu, &cpu.rnn(&x, &weights, &hidden, None, options).unwrap(), &want, "relu");
    let double = |x: &Array| cpu.cast(x, bb::DataType::F64, true, bb::RoundMode::Up).unwrap();
    let got = cpu.rnn(&double(&x), &double(&weights), &double(&hidden), None, RnnOptions::default()).unwrap();
    assert_eq!(got[0].dtype(), bb::DataType::F64);
    let wrong = RnnOptions { functions: &[99], parameters: &[0.0, 0.0], ..Default::default() };
    assert!(cpu.rnn(&x, &weights, &hidden, None, wrong).is_err());
    // Operands whose extents do not fit, and one operand of another type.
    assert!(cpu.rnn(&x, &hidden, &hidden, None, RnnOptions::default()).is_err());
    assert!(cpu.rnn(&x, &weights, &double(&hidden), None, RnnOptions::default()).is_err());
    // No steps, and no sequences.
    for shape in [[0, 2, 5], [3, 0, 5]] {
        let x = array(&cpu, &shape, &[]);
        let hidden = array(&cpu, &[shape[1], 5], &numbers(shape[1] * 5, 3));
        let got = cpu.rnn(&x, &weights, &hidden, None, RnnOptions::default()).unwrap();
        assert_eq!((got[0].shape(), got[1].shape()), (&shape[..], hidden.shape()));
        assert_eq!(cpu.to_host(&got[1]).unwrap(), cpu.to_host(&hidden).unwrap());
    }
    // States without elements.
    let x = array(&cpu, &[1 << 12, 1 << 12, 0], &[]);
    let hidden = array(&cpu, &[1 << 12, 0], &[]);
    let got = cpu.rnn(&x, &array(&cpu, &[0, 0], &[]), &hidden, None, RnnOptions::default());
    assert!(got.is_ok_and(|got| got[0].shape() == x.shape()));
}

/// Computes the function with this code, as ONNX defines it.
fn function(number: i64, alpha: f64, beta: f64, x: f64) -> f64 {
    match number {
        0 => alpha * x + beta,
        1 if x < 0.0 => alpha * (x.exp() - 1.0),
        2 => (alpha * x + beta).clamp(0.0, 1.0),
        3 if x < 0.0 => alpha * x,
        4 => x.max(0.0),
        5 => alpha * (beta * x).tanh(),
        6 => sigmoid(x),
        7 => (1.0 + x.exp()).ln(),
        8 => x / (1.0 + x.abs()),
        9 => x.tanh(),
        10 if x < alpha => 0.0,
        _ => x,
    }
}

/// The definition of a cell with activation functions and peepholes, for one call of the operation.
struct Named<'a> {
    layer: &'a Layer,
    functions: [i64; 3],
    parameters: [f64; 6],
    /// The weights of the cell state; `None` without peepholes.
    peepholes: Option<Vec<f32>>,
}

impl Named<'_> {
    fn apply(&self, at: usize, x: f64) -> f64 {
        let [alpha, beta] = [self.parameters[2 * at], self.parameters[2 * at + 1]];
        function(self.functions[at], alpha, beta, x)
    }

    fn ended(&self, at: usize, sum: f64) -> f64 {
        self.apply(at, self.layer.bounded(sum))
    }

    fn plain(&self) -> [Vec<f64>; 3] {
        self.layer.expected(|x, old, _, product, j| [self.ended(0, x[j] + product(old, j)), 0.0])
    }

    fn gated(&self, linear: bool) -> [Vec<f64>; 3] {
        let h = self.layer.extents[2];
        self.layer.expected(|x, old, _, product, j| {
            let gate = |at: usize| self.ended(0, x[at] + product(old, at));
            let late = if linear {
                gate(h + j) * (product(old, 2 * h + j) + f64::from(self.layer.bias[j]))
            } else {
                let scaled: Vec<f64> = (0..h).map(|k| gate(h + k) * old[k]).collect();
                product(&scaled, 2 * h + j)
            };
            let new = self.ended(1, x[2 * h + j] + late);
            [(1.0 - gate(j)) * new + gate(j) * old[j], 0.0]
        })
    }

    fn long(&self, coupled: bool) -> [Vec<f64>; 3] {
        let h = self.layer.extents[2];
        let weight = |at: usize| self.peepholes.as_ref().map_or(0.0, |weights| f64::from(weights[at]));
        self.layer.expected(|x, old, cell, product, j| {
            let sum = |g: usize| x[g * h + j] + product(old, g * h + j);
            let input = self.ended(0, sum(0) + weight(j) * cell[j]);
            let forget =
                if coupled { 1.0 - input } else { self.ended(0, sum(2) + weight(2 * h + j) * cell[j]) };
            let new = forget * cell[j] + input * self.ended(1, sum(3));
            let output = self.ended(0, sum(1) + weight(h + j) * new);
            [output * self.apply(2, new), new]
        })
    }
}

/// Compares results of type `dtype`. The tolerance allows for the rounding of the type and of the sums.
fn compare(cpu: &Cpu, got: &[Array], want: &[Vec<f64>], dtype: DataType, what: &str) {
    let tolerance = match dtype {
        DataType::F64 => 1e-13,
        DataType::F32 => 1e-5,
        DataType::F16 => 6e-4,
        _ => 5e-3,
    };
    for (got, want) in got.iter().zip(want) {
        assert_eq!(got.dtype(), dtype, "{what}");
        let got = cpu.to_host(&cpu.cast(got, DataType::F64, true, bb::RoundMode::Up).unwrap()).unwrap();
        let got = got.as_slice::<f64>().unwrap();
        assert_eq!(got.len(), want.len(), "{what}");
        for (i, (g, w)) in got.iter().zip(want).enumerate() {
            assert!((g - w).abs() <= tolerance * (1.0 + w.abs()), "{what}: element {i} is {g}, expected {w}");
        }
    }
}

#[test]
fn every_function_and_number_type() {
    let cpu = Cpu::new();
    for dtype in [DataType::F32, DataType::F64, DataType::F16, DataType::BF16] {
        let narrow = |x: &Array| cpu.cast(x, dtype, true, bb::RoundMode::Up).unwrap();
        let rounded = |x: &[f32]| -> Vec<f32> {
            let x = narrow(&array(&cpu, &[x.len()], x));
            cpu.to_host(&cpu.cast(&x, DataType::F32, true, bb::RoundMode::Up).unwrap())
                .unwrap()
                .as_slice::<f32>()
                .unwrap()
                .to_vec()
        };
        for number in 0..11 {
            let functions = [number, (number + 5) % 11, (number + 9) % 11];
            let parameters = [0.75, 0.25, 0.5, 0.5, 0.625, 1.25];
            let backwards = number % 2 == 1;
            let clip = (number % 3 == 1).then_some(0.5);
            for (extents, gates) in [([4, 3, 35], 1), ([4, 3, 35], 3), ([4, 3, 35], 4), ([3, 1, 5], 4)] {
                let mut layer = Layer::new(extents, gates, number % 4 == 2, backwards, clip);
                // Scale the sums down, so that no function makes the states grow.
                layer.weights.iter_mut().for_each(|weight| *weight *= 0.5);
                layer.x.iter_mut().for_each(|x| *x *= 0.5);
                for list in
                    [&mut layer.x, &mut layer.weights, &mut layer.hidden, &mut layer.cell, &mut layer.bias]
                {
                    *list = rounded(list);
                }
                let h = extents[2];
                let peepholes = (number % 5 != 4).then(|| rounded(&numbers(3 * h, 6)));
                let seen = peepholes.as_ref().map(|weights| narrow(&array(&cpu, &[3 * h], weights)));
                let named = Named { layer: &layer, functions, parameters, peepholes };
                let (arrays, lengths) = layer.arrays(&cpu);
                let [x, weights, hidden, cell, bias] = arrays.map(|x| narrow(&x));
                let (functions, parameters, lengths) = (&functions[..], &parameters[..], lengths.as_ref());
                let what = format!("{dtype} {functions:?} {extents:?} {gates} gates");
                match gates {
                    1 => {
                        let (functions, parameters) = (&functions[..1], &parameters[..2]);
                        let options = RnnOptions { backwards, functions, parameters, clip };
                        let got = cpu.rnn(&x, &weights, &hidden, lengths, options).unwrap();
                        compare(&cpu, &got, &named.plain(), dtype, &what);
                    }
                    3 => {
                        for linear in [false, true] {
                            let (functions, parameters) = (&functions[..2], &parameters[..4]);
                            let options = GruOptions { linear, backwards, functions, parameters, clip };
                            let bias = linear.then_some(&bias);
                            let got = cpu.gru(&x, &weights, &hidden, bias, lengths, options).unwrap();
                            compare(&cpu, &got, &named.gated(linear), dtype, &what);
                        }
                    }
                    _ => {
                        for coupled in [false, true] {
                            let options = LstmOptions { coupled, backwards, functions, parameters, clip };
                            let (seen, absent) = (seen.as_ref(), None);
                            let got = cpu
                                .lstm(&x, &weights, &hidden, &cell, absent, absent, lengths, seen, options)
                                .unwrap();
                            assert_eq!(got.len(), 3);
                            compare(&cpu, &got, &named.long(coupled), dtype, &what);
                            if dtype == DataType::F32 && extents[2] > 16 {
                                let (others, all) =
                                    ([Some(&cell), None, None, lengths, seen], (functions, parameters));
                                let first = Some(coupled);
                                let got =
                                    prepared(&cpu, NnOp::Lstm, &layer, first, [&x, &hidden], &others, all);
                                compare(&cpu, &got, &named.long(coupled), dtype, &what);
                            }
                            // The operation's body must compute the same results.
                            let got = bb::ext::Extended::declining(&cpu)
                                .lstm(&x, &weights, &hidden, &cell, absent, absent, lengths, seen, options);
                            compare(&cpu, &got.unwrap(), &named.long(coupled), dtype, &what);
                        }
                    }
                }
            }
        }
    }
}
