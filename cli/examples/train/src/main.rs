//! Trains a small classifier on points of three spiral arms, on any backend.
//!
//! ```text
//! cargo run --release -p train -- [--backend NAME]
//! ```
//!
//! A training step is a function over any backend: the scores, the loss, its gradient, and Adam. The function is traced and compiled once,
//! and each step runs the same program.

mod spirals;

use bb::export::{ExportOptions, ModelTrace};
use bb::ext::{AdamEpsilon, AdamOptions, CrossEntropyOptions, Index, Mersenne, Ops, Train};
use bb::{BackendHandle, CompileOptions, DataType, ErasedExecutable, Error, Value};
use spirals::Points;
use std::sync::Arc;

// These crates are imported only so that the linker includes the backends.
use bb_cpu as _;
#[cfg(feature = "wgpu")]
use bb_wgpu as _;

/// The minimum accuracy of the trained classifier: the share of points that it classifies correctly.
const ACCURACY: f64 = 0.97;

/// The number of training steps. Each uses all points.
const STEPS: usize = 400;

/// The learning rate.
const RATE: f32 = 0.02;

/// The number of units of each hidden layer.
const HIDDEN: usize = 24;

/// The shapes of the weights and biases, layer by layer.
const SHAPES: [&[usize]; 6] =
    [&[2, HIDDEN], &[HIDDEN], &[HIDDEN, HIDDEN], &[HIDDEN], &[HIDDEN, Points::ARMS], &[Points::ARMS]];

/// Computes a score for each arm. `x` has a point in each row.
fn scores<B: Ops + ?Sized>(on: &B, x: &B::Tensor, parameters: &[B::Tensor]) -> Result<B::Tensor, B::Error> {
    let layers = parameters.chunks(2).count();
    let mut y = x.clone();
    for (at, layer) in parameters.chunks(2).enumerate() {
        if let [weights, bias] = layer {
            y = on.add(&on.matmul(&y, weights)?, bias)?;
        }
        if at + 1 < layers {
            y = on.tanh(&y)?;
        }
    }
    Ok(y)
}

/// Traces a training step. The inputs are the points, their labels, the number of the step, the parameters, and Adam's two moving averages
/// of each parameter. The outputs are the loss and the new parameters and averages.
fn step(points: usize) -> Result<ModelTrace, Error> {
    let count = SHAPES.len();
    let names: Vec<String> = (0..3 * count).map(|i| format!("state_{i}")).collect();
    let mut inputs: Vec<(&str, DataType, &[usize])> = Vec::new();
    let (x, labels) = ([points, 2], [points]);
    inputs.extend([
        ("x", DataType::F32, &x[..]),
        ("labels", DataType::I64, &labels[..]),
        ("step", DataType::F32, &[][..]),
    ]);
    inputs.extend(
        names.iter().zip(SHAPES.iter().cycle()).map(|(name, &shape)| (name.as_str(), DataType::F32, shape)),
    );
    ModelTrace::new(&inputs, |on, inputs| {
        let [x, labels, number, state @ ..] = inputs else { return Ok(Vec::new()) };
        let (parameters, averages) = state.split_at(count);
        let (means, squares) = averages.split_at(count);
        let operands: Vec<_> = [x, labels].into_iter().chain(parameters).collect();
        let by: Vec<usize> = (2..operands.len()).collect();
        let loss = bb::gradient(on, &operands, &by, |on, inputs| {
            let [x, labels, parameters @ ..] = inputs else { return Err(missing().into()) };
            on.cross_entropy(&scores(on, x, parameters)?, labels, None, CrossEntropyOptions::default())
        })?;
        let rate = on.host(&[], &[RATE])?;
        let options =
            AdamOptions { epsilon: 1e-8, epsilon_at: AdamEpsilon::PyTorch, ..AdamOptions::default() };
        let mut next = [Vec::new(), Vec::new(), Vec::new()];
        let kept = means.iter().zip(squares);
        for ((parameter, gradient), (mean, square)) in parameters.iter().zip(&loss.gradients).zip(kept) {
            let moved = on.adam(parameter, gradient, mean, square, &rate, number, options)?;
            next.iter_mut().zip(moved).for_each(|(list, x)| list.push(x));
        }
        Ok([vec![loss.value], next.concat()].concat())
    })
}

fn missing() -> Error {
    Error::InputCount { expected: 2 + SHAPES.len(), got: 0 }
}

/// A classifier in training.
struct Training {
    backend: BackendHandle,
    program: Arc<dyn ErasedExecutable>,
    x: Value,
    labels: Value,
    /// The parameters, then the averages of their gradients, then the averages of the squared gradients.
    state: Vec<Value>,
    steps: usize,
}

impl Training {
    fn new(backend: &str, points: &Points) -> Result<Training, Error> {
        let backend = bb::backend(backend)?;
        let program = step(points.labels.len())?.module(&ExportOptions::default())?;
        let program = backend.compile(program, &CompileOptions::default())?;
        let mut random = Mersenne::of(Some(1));
        let mut state = Vec::new();
        for shape in SHAPES {
            // Random weights are scaled so that activations keep their magnitude from layer to layer. Biases are 0.
            let scale = if let &[from, _] = shape { (1.0 / from as f64).sqrt() } else { 0.0 };
            state.push(backend.tensor_from_fn(shape, |_| (scale * random.normal()) as f32)?);
        }
        for shape in SHAPES.iter().cycle().take(2 * SHAPES.len()) {
            state.push(backend.zeros(shape, DataType::F32)?);
        }
        let x = backend.tensor(&[points.labels.len(), 2], &points.coordinates)?;
        let labels = backend.tensor(&[points.labels.len()], &points.labels)?;
        Ok(Training { backend, program, x, labels, state, steps: 0 })
    }

    /// Runs a training step with all points. Returns the loss before the step.
    fn learn(&mut self) -> Result<f32, Error> {
        self.steps += 1;
        let number = self.backend.tensor(&[], &[self.steps as f32])?;
        let inputs: Vec<Option<&Value>> =
            [&self.x, &self.labels, &number].into_iter().chain(&self.state).map(Some).collect();
        let mut results = self.program.run(&inputs)?.into_iter();
        let loss = results.next().ok_or_else(missing)?;
        self.state = results.collect();
        loss.to_host(4)?.as_slice::<f32>()?.first().copied().ok_or_else(missing)
    }

    /// Computes the accuracy: the share of points whose greatest score is the score of their arm.
    fn accuracy(&self, points: &Points) -> Result<f64, Error> {
        let parameters: Vec<Value> = self.state.iter().take(SHAPES.len()).cloned().collect();
        let x = self.backend.tensor(&[points.labels.len(), 2], &points.coordinates)?;
        let inputs: Vec<(String, DataType, Vec<usize>)> = std::iter::once(&x)
            .chain(&parameters)
            .enumerate()
            .map(|(at, x)| (format!("input_{at}"), x.dtype(), x.shape().to_vec()))
            .collect();
        let inputs: Vec<(&str, DataType, &[usize])> =
            inputs.iter().map(|(name, dtype, shape)| (name.as_str(), *dtype, shape.as_slice())).collect();
        let trace = ModelTrace::new(&inputs, |on, inputs| {
            let [x, parameters @ ..] = inputs else { return Ok(Vec::new()) };
            Ok(vec![on.arg_max(&scores(on, x, parameters)?, 1, false)?])
        })?;
        let program =
            self.backend.compile(trace.module(&ExportOptions::default())?, &CompileOptions::default())?;
        let operands: Vec<Option<&Value>> = std::iter::once(&x).chain(&parameters).map(Some).collect();
        let best = program.run(&operands)?.into_iter().next().ok_or_else(missing)?.to_host(usize::MAX)?;
        let right = best.as_slice::<i64>()?.iter().zip(&points.labels).filter(|(best, label)| best == label);
        Ok(right.count() as f64 / points.labels.len() as f64)
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let backend = match (arguments.next().as_deref(), arguments.next()) {
        (Some("--backend"), Some(name)) => name,
        _ => "cpu".to_owned(),
    };
    let mut training = Training::new(&backend, &Points::new(0, 100))?;
    for number in 1..=STEPS {
        let loss = training.learn()?;
        if number == 1 || number % 50 == 0 {
            println!("step {number:3}: loss {loss:.4}");
        }
    }
    let accuracy = training.accuracy(&Points::new(7, 100))?;
    println!("accuracy on points that it has not seen: {:.1} %", 100.0 * accuracy);
    if accuracy < ACCURACY {
        return Err(format!("expected an accuracy of {:.1} %", 100.0 * ACCURACY).into());
    }
    Ok(())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
mod tests {
    use super::*;
    use bb_reference as _;
    use bb_whole_graph as _;

    #[test]
    fn backends_learn_alike() {
        let points = Points::new(0, 20);
        let losses = |backend| {
            let mut training = Training::new(backend, &points).unwrap();
            (0..12).map(|_| training.learn().unwrap()).collect::<Vec<f32>>()
        };
        let expected = losses("reference");
        assert!(expected[11] < expected[0], "{expected:?}");
        for backend in ["cpu", "whole-graph"] {
            for (loss, expected) in losses(backend).iter().zip(&expected) {
                assert!((loss - expected).abs() < 1e-4 * expected, "{backend}: {loss} {expected}");
            }
        }
    }

    #[test]
    fn reaches_the_accuracy() {
        let mut training = Training::new("cpu", &Points::new(0, 100)).unwrap();
        for _ in 0..STEPS {
            training.learn().unwrap();
        }
        let accuracy = training.accuracy(&Points::new(7, 100)).unwrap();
        assert!(accuracy >= ACCURACY, "{accuracy}");
    }
}
