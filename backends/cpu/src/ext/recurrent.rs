//! Recurrent cells over whole sequences of `f32`.

use super::quant::Weights;
use super::{dense_f32, floats};
use crate::array::Array;
use crate::backend::Cpu;
use crate::error::Result;
use crate::gemm::{Dims, Strided, gemm};
use crate::kernels::gates;
use crate::ops::made;
use crate::pace::Pace;
use bb::{DataType, Shape, Tensor};

/// The operands of a cell over a sequence.
pub(super) struct Sequence<'a> {
    pub(super) x: &'a Array,
    pub(super) w: &'a Array,
    pub(super) hidden: &'a Array,
    /// The cell state, of a long short-term memory.
    pub(super) cell: Option<&'a Array>,
    /// The scale and the zero point of integer weights.
    pub(super) scale: Option<&'a Array>,
    pub(super) zero: Option<&'a Array>,
    /// The bias of the hidden gate, of a gated recurrent unit.
    pub(super) bias: Option<&'a Array>,
    pub(super) backwards: bool,
}

/// The weights, ready for products. Floats are read in place.
enum Matrix {
    Floats(Strided<f32>),
    Bytes(Box<Weights>),
}

/// Extents: steps, samples, and elements of a state.
type Extents = [usize; 3];

impl Sequence<'_> {
    /// Returns the extents, if the operands are those of kernels.
    fn extents(&self, gates: usize) -> Option<Extents> {
        let &[steps, n, width] = self.x.shape() else { return None };
        let &[h, w_width] = self.w.shape() else { return None };
        let state = |x: &Array| x.dtype() == DataType::F32 && *x.shape() == [n, h];
        let bias = self.bias.is_none_or(|b| b.dtype() == DataType::F32 && *b.shape() == [h]);
        let states = state(self.hidden) && self.cell.is_none_or(state);
        let some = steps > 0 && n > 0 && h > 0;
        let fits = width == w_width && h.checked_mul(gates) == Some(width);
        (fits && some && bias && states && self.x.dtype() == DataType::F32).then_some([steps, n, h])
    }

    fn matrix(&self, cpu: &Cpu) -> Result<Option<Matrix>> {
        if let Some(scale) = self.scale {
            let weights = cpu.pool().run(|| Weights::new(cpu, self.w, scale, self.zero))??;
            return Ok(weights.map(|weights| Matrix::Bytes(Box::new(weights))));
        }
        let [row, col] = self.w.strides()[..] else { return Ok(None) };
        if self.w.dtype() != DataType::F32 {
            return Ok(None);
        }
        Ok(Some(Matrix::Floats(Strided { ptr: floats(self.w), row, col })))
    }

    /// Runs the cell: the hidden states of all steps, the last one, and the last cell state. `None` for other operands than
    /// kernels take.
    pub(super) fn run(&self, cpu: &Cpu, gates: usize) -> Result<Option<Vec<Array>>> {
        let (Some(extents), pool) = (self.extents(gates), cpu.pool()) else { return Ok(None) };
        let Some(matrix) = self.matrix(cpu)? else { return Ok(None) };
        let (Some(x), Some(start)) = (dense_f32(pool, self.x)?, dense_f32(pool, self.hidden)?) else {
            return Ok(None);
        };
        let cell = self.cell.map(|cell| dense_f32(pool, cell)).transpose()?.flatten();
        let bias = self.bias.map(|bias| dense_f32(pool, bias)).transpose()?.flatten();
        let [steps, n, h] = extents;
        let size = n * h;
        let mut outputs = None;
        let last_cell = made(pool, DataType::F32, Shape::from_slice(&[n, h]), |state| {
            let state = state.cast::<f32>();
            let from = cell.as_ref().unwrap_or(&start);
            // SAFETY: both have the elements of a state.
            unsafe { state.copy_from_nonoverlapping(floats(from), size) };
            let mut done = Ok(false);
            let all = made(pool, DataType::F32, Shape::from_slice(&[steps, n, h]), |out| {
                let bias = bias.as_ref().map_or(std::ptr::null(), floats);
                let run = Run { cpu, extents, gates, x: floats(&x), start: floats(&start), bias, state };
                // SAFETY: the operands have these extents, and `out` room for all states.
                done = unsafe { run.steps(&matrix, out.cast(), self.backwards) };
            });
            outputs = Some(done.and_then(|done| Ok(if done { Some(all?) } else { None })));
        })?;
        let Some(outputs) = outputs.transpose()?.flatten() else { return Ok(None) };
        let last = if self.backwards { 0 } else { steps - 1 };
        let hidden = made(pool, DataType::F32, Shape::from_slice(&[n, h]), |out| {
            // SAFETY: the outputs have the state of this step.
            unsafe { out.cast::<f32>().copy_from_nonoverlapping(floats(&outputs).add(last * size), size) };
        })?;
        let cell = self.cell.map(|_| last_cell);
        Ok(Some([outputs, hidden].into_iter().chain(cell).collect()))
    }
}

/// A cell that runs.
struct Run<'a> {
    cpu: &'a Cpu,
    extents: Extents,
    gates: usize,
    x: *const f32,
    start: *const f32,
    bias: *const f32,
    /// The cell state.
    state: *mut f32,
}

impl Run<'_> {
    /// Writes the hidden states of all steps. The result is false if one cannot be quantised.
    ///
    /// # Safety
    ///
    /// The pointers have elements for the extents, `bias` may be null, and `out` has room for all states.
    unsafe fn steps(&self, matrix: &Matrix, out: *mut f32, backwards: bool) -> Result<bool> {
        let [steps, n, h] = self.extents;
        let (size, width) = (n * h, self.gates * h);
        let block = self.cpu.pool().take(n.saturating_mul(width).saturating_mul(4))?;
        let products = block.ptr().cast::<f32>();
        let mut room = match matrix {
            Matrix::Bytes(weights) => Some(weights.room(n)),
            Matrix::Floats(..) => None,
        };
        let mut old = self.start;
        let mut pace = Pace::new();
        for i in 0..steps {
            pace.step(size * width);
            let step = if backwards { steps - 1 - i } else { i };
            // SAFETY: this function's contract; the products have room for a row of gates of each sample. The states of
            // this step are written once, and read in the next step.
            unsafe {
                match (matrix, &mut room) {
                    (Matrix::Bytes(weights), Some(room)) => {
                        let x = std::slice::from_raw_parts(old, size);
                        let to = std::slice::from_raw_parts_mut(products, n * width);
                        if !weights.multiply(self.cpu, x, to, room)? {
                            return Ok(false);
                        }
                    }
                    (Matrix::Floats(w), _) => {
                        let dims = Dims { m: n, k: h, n: width };
                        gemm(dims, products, width, Strided::dense(old, h), *w);
                    }
                    _ => return Ok(false),
                }
                let hidden = out.add(step * size);
                for sample in 0..n {
                    let input = self.x.add((step * n + sample) * width);
                    self.sample(sample, input, products.add(sample * width), old, hidden);
                }
                old = hidden;
            }
        }
        Ok(true)
    }

    /// Computes the next state of a sample.
    ///
    /// # Safety
    ///
    /// `input` and `recurrent` have the sums of the sample's gates, `old` and `hidden` the states of all samples.
    unsafe fn sample(
        &self,
        sample: usize,
        input: *const f32,
        recurrent: *const f32,
        old: *const f32,
        hidden: *mut f32,
    ) {
        let [_, _, h] = self.extents;
        let width = self.gates * h;
        // SAFETY: this function has the same contract.
        unsafe {
            let input = std::slice::from_raw_parts(input, width);
            let recurrent = std::slice::from_raw_parts(recurrent, width);
            let hidden = std::slice::from_raw_parts_mut(hidden.add(sample * h), h);
            if self.gates == 4 {
                let cell = std::slice::from_raw_parts_mut(self.state.add(sample * h), h);
                return gates::lstm(gates::Lstm { input, recurrent, cell, hidden });
            }
            let old = std::slice::from_raw_parts(old.add(sample * h), h);
            let bias = if self.bias.is_null() { &[] } else { std::slice::from_raw_parts(self.bias, h) };
            gates::gru(gates::Gru { input, recurrent, bias, old, hidden });
        }
    }
}

#[cfg(test)]
#[expect(clippy::indexing_slicing, clippy::unwrap_used, clippy::cast_possible_truncation, reason = "tests")]
mod tests {
    use super::*;
    use crate::kernels::level::{at, levels};
    use bb::ext::Nn;
    use bb::{Backend, Element, TensorData};

    fn tensor<T: Element>(cpu: &Cpu, shape: &[usize], elements: &[T]) -> Array {
        cpu.constant(&TensorData::new(shape, elements).unwrap()).unwrap()
    }

    fn host(cpu: &Cpu, x: &Array) -> Vec<f64> {
        cpu.to_host(x).unwrap().as_slice::<f32>().unwrap().iter().map(|&v| v.into()).collect()
    }

    fn varied(n: usize, seed: usize) -> Vec<f32> {
        (0..n).map(|i| ((i * 7919 + seed * 13) % 2003) as f32 / 1001.0 - 1.0).collect()
    }

    fn sigmoid(x: f64) -> f64 {
        1.0 / (1.0 + (-x).exp())
    }

    /// The states after each step, and the cell state after the last, one number at a time. `round` is what becomes of a
    /// hidden state before it is multiplied.
    struct Definition<'a> {
        x: &'a [f32],
        w: &'a [f64],
        bias: &'a [f32],
        extents: Extents,
        gates: usize,
        backwards: bool,
        round: &'a dyn Fn(&[f64]) -> Vec<f64>,
    }

    impl Definition<'_> {
        fn run(&self, hidden: &[f32], cell: &[f32]) -> [Vec<f64>; 3] {
            let [steps, n, h] = self.extents;
            let width = h * self.gates;
            let wide = |x: &[f32]| x.iter().map(|&v| f64::from(v)).collect::<Vec<_>>();
            let (mut hidden, mut cell) = (wide(hidden), wide(cell));
            let mut all = vec![0.0; steps * n * h];
            for i in 0..steps {
                let step = if self.backwards { steps - 1 - i } else { i };
                let rounded = (self.round)(&hidden);
                let mut next = hidden.clone();
                for b in 0..n {
                    for j in 0..h {
                        let x = |gate: usize| f64::from(self.x[(step * n + b) * width + gate * h + j]);
                        let product = |gate: usize| -> f64 {
                            (0..h).map(|p| rounded[b * h + p] * self.w[p * width + gate * h + j]).sum()
                        };
                        let gate = |g: usize| x(g) + product(g);
                        next[b * h + j] = if self.gates == 4 {
                            let new = sigmoid(gate(2)) * cell[b * h + j] + sigmoid(gate(0)) * gate(3).tanh();
                            cell[b * h + j] = new;
                            sigmoid(gate(1)) * new.tanh()
                        } else {
                            let bias = self.bias.get(j).map_or(0.0, |&v| v.into());
                            let new = (x(2) + sigmoid(gate(1)) * (product(2) + bias)).tanh();
                            let update = sigmoid(gate(0));
                            (1.0 - update) * new + update * hidden[b * h + j]
                        };
                    }
                }
                hidden = next;
                all[step * n * h..][..n * h].copy_from_slice(&hidden);
            }
            [all, hidden, cell]
        }
    }

    fn near(got: &[f64], expected: &[f64], tolerance: f64, what: &str) {
        assert_eq!(got.len(), expected.len(), "{what}");
        let far = got.iter().zip(expected).position(|(g, e)| (g - e).abs() > tolerance);
        assert!(far.is_none(), "{what}: element {far:?} of {got:?}, expected {expected:?}");
    }

    const EXTENTS: [Extents; 5] = [[1, 1, 1], [3, 1, 5], [4, 2, 16], [2, 3, 33], [5, 1, 64]];

    #[test]
    fn sequences_of_floats_equal_the_definition() {
        let cpu = Cpu::new();
        for extents in EXTENTS {
            let [steps, n, h] = extents;
            for (gates, backwards) in [(3, false), (3, true), (4, false), (4, true)] {
                let width = h * gates;
                let (x, w) = (varied(steps * n * width, 1), varied(h * width, 2));
                let (hidden, cell, bias) = (varied(n * h, 3), varied(n * h, 4), varied(h, 5));
                let wide: Vec<f64> = w.iter().map(|&v| v.into()).collect();
                let round = |x: &[f64]| x.to_vec();
                let definition =
                    Definition { x: &x, w: &wide, bias: &bias, extents, gates, backwards, round: &round };
                let [all, last, last_cell] = definition.run(&hidden, &cell);
                let (tx, tw) = (tensor(&cpu, &[steps, n, width], &x), tensor(&cpu, &[h, width], &w));
                let state = |x: &[f32]| tensor(&cpu, &[n, h], x);
                for level in levels() {
                    let results = at(level, || {
                        if gates == 4 {
                            cpu.lstm(&tx, &tw, &state(&hidden), &state(&cell), None, None, backwards)
                        } else {
                            cpu.gru(&tx, &tw, &state(&hidden), Some(&tensor(&cpu, &[h], &bias)), backwards)
                        }
                    });
                    let results = results.unwrap();
                    assert_eq!(results.len(), gates - 1);
                    let what = format!("{extents:?} {gates} {backwards} {level:?}");
                    for (got, expected) in results.iter().zip([&all, &last, &last_cell]) {
                        near(&host(&cpu, got), expected, 1e-5, &what);
                    }
                }
            }
        }
    }

    #[test]
    fn integer_weights_multiply_quantised_states() {
        let cpu = Cpu::new();
        for extents in EXTENTS {
            let [steps, n, h] = extents;
            let width = 4 * h;
            let w: Vec<i8> = (0..h * width).map(|i| ((i * 7919) % 251) as i8).collect();
            let (scale, zero) = (0.003f32, 7i8);
            let wide: Vec<f64> =
                w.iter().map(|&v| (f64::from(v) - f64::from(zero)) * f64::from(scale)).collect();
            let (x, hidden, cell) = (varied(steps * n * width, 1), varied(n * h, 3), varied(n * h, 4));
            let round = |x: &[f64]| {
                let least = x.iter().copied().fold(0.0, f64::min);
                let step = (x.iter().copied().fold(0.0, f64::max) - least) / 255.0;
                let point = (-least / step).round_ties_even();
                let one = |v: &f64| ((v / step).round_ties_even() + point).clamp(0.0, 255.0) - point;
                x.iter().map(|v| one(v) * step).collect()
            };
            let definition =
                Definition { x: &x, w: &wide, bias: &[], extents, gates: 4, backwards: false, round: &round };
            let [all, last, last_cell] = definition.run(&hidden, &cell);
            let (tx, tw) = (tensor(&cpu, &[steps, n, width], &x), tensor(&cpu, &[h, width], &w));
            let state = |x: &[f32]| tensor(&cpu, &[n, h], x);
            let (ts, tz) = (tensor(&cpu, &[], &[scale]), tensor(&cpu, &[1], &[zero]));
            for level in levels() {
                let results = at(level, || {
                    cpu.lstm(&tx, &tw, &state(&hidden), &state(&cell), Some(&ts), Some(&tz), false)
                });
                // A state may be rounded to the next integer where the definition is near a half.
                for (got, expected) in results.unwrap().iter().zip([&all, &last, &last_cell]) {
                    near(&host(&cpu, got), expected, 0.01, &format!("{extents:?} {level:?}"));
                }
            }
        }
    }
}
