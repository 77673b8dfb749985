//! One step of a recurrent cell for one sequence, computed from the sums of its gates.

mod functions;

use super::dispatch::{VectorLoop, dispatch};
use bb::DataType;
use bb::ext::Activation;
pub(crate) use functions::Real;
use functions::{BLOCK, apply};

/// The operands of a step of one sequence, whose state has `h` elements.
#[derive(Debug)]
pub(crate) struct Step<'a, T> {
    /// The projected input, `h` elements for each gate.
    pub(crate) x: &'a [T],
    /// The product of the state and the weights, `h` elements for each gate.
    pub(crate) product: &'a [T],
    /// The hidden state, which the step replaces by the next state.
    pub(crate) hidden: &'a mut [T],
    /// The bound of the sums before functions are applied to them.
    pub(crate) clip: Option<T>,
    /// The functions of the gates, of the candidate and of the new cell state, if the cell has them.
    pub(crate) functions: Functions,
}

/// The functions of a cell.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Functions {
    /// The function of the gates.
    pub(crate) gate: Activation,
    /// The function of the candidate, or of the only sum of a plain cell.
    pub(crate) candidate: Activation,
    /// The function of the new cell state.
    pub(crate) state: Activation,
}

impl Functions {
    /// The functions of cells that do not specify any.
    pub(crate) const USUAL: Functions =
        Functions { gate: Activation::Sigmoid, candidate: Activation::Tanh, state: Activation::Tanh };
}

/// The type of a cell, with the operands that only this type has.
#[derive(Debug)]
pub(crate) enum Cell<'a, T> {
    /// One gate, whose value is the new state.
    Rnn,
    /// Update and reset gates, and the candidate. The reset gate scales the sum of the candidate's product and `bias`.
    Gru { bias: Option<&'a [T]> },
    /// The reset gate, for a cell whose candidate uses the scaled state. `scaled` receives the state scaled by the
    /// reset gate. The candidate's product with `scaled` is computed afterwards.
    Reset { scaled: &'a mut [T] },
    /// The second part of a step that [`Cell::Reset`] began: the update gate and the candidate. [`Step::product`] begins with
    /// the product of the update gate. `late` is the product of the scaled state and the weights of the candidate.
    Candidate { late: &'a [T] },
    /// Input, output, forget and candidate gates.
    Lstm {
        /// The cell state, which the step replaces by the next cell state.
        cell: &'a mut [T],
        /// Whether the forget gate is one minus the input gate.
        coupled: bool,
        /// The weights of the cell state in the input, output and forget gates, `h` elements for each.
        peepholes: Option<&'a [T]>,
    },
}

/// Computes a step of a cell.
pub(crate) fn step<T: Real>(cell: Cell<'_, T>, step: Step<'_, T>) {
    dispatch(Loop { cell, step });
}

struct Loop<'a, T> {
    cell: Cell<'a, T>,
    step: Step<'a, T>,
}

/// Returns the first `N` parts of a slice, with `n` elements each.
#[inline(always)]
fn parts<T, const N: usize>(x: &[T], n: usize) -> [&[T]; N] {
    let mut chunks = x.chunks_exact(n.max(1));
    std::array::from_fn(|_| chunks.next().unwrap_or_default())
}

/// Copies a block of elements from `at` on, with zeros after the last element.
#[inline(always)]
fn take<T: Real>(x: &[T], at: usize) -> [T; BLOCK] {
    let rest = x.get(at..).unwrap_or_default();
    if let Some(block) = rest.first_chunk() {
        return *block;
    }
    let mut block = [T::default(); BLOCK];
    block.iter_mut().zip(rest).for_each(|(to, &from)| *to = from);
    block
}

/// Copies a block to the elements from `at` on. The part after the last element is dropped.
#[inline(always)]
fn put<T: Real>(to: &mut [T], at: usize, block: &[T; BLOCK]) {
    let rest = to.get_mut(at..).unwrap_or_default();
    match rest.first_chunk_mut() {
        Some(whole) => *whole = *block,
        None => rest.iter_mut().zip(block).for_each(|(to, &from)| *to = from),
    }
}

/// Returns the sum of a block of `x` and a block of `p`.
#[inline(always)]
fn sum<T: Real>(x: &[T], p: &[T], at: usize) -> [T; BLOCK] {
    let (mut sum, p) = (take(x, at), take(p, at));
    sum.iter_mut().zip(&p).for_each(|(sum, &p)| *sum += p);
    sum
}

/// Adds the weighted cell state (the peephole) to the sums of a gate.
#[inline(always)]
fn see<T: Real>(sums: &mut [T; BLOCK], weights: &[T], at: usize, state: &[T; BLOCK]) {
    let weights = take(weights, at);
    sums.iter_mut().zip(&weights).zip(state).for_each(|((sum, &weight), &state)| *sum += weight * state);
}

/// Limits sums to the range from `-most` to `most`.
#[inline(always)]
fn bound<T: Real>(block: &mut [T; BLOCK], most: Option<T>) {
    let Some(most) = most else { return };
    for sum in block {
        let least = if *sum < -most { -most } else { *sum };
        *sum = if least > most { most } else { least };
    }
}

/// Interpolates between the candidate and the old state with the update gate.
#[inline(always)]
fn mixed<T: Real>(update: T, new: T, old: T) -> T {
    (T::ONE - update) * new + update * old
}

/// A loop that applies a function to a block.
struct Apply<'a, T> {
    function: Activation,
    block: &'a mut [T; BLOCK],
}

impl<T: Real> VectorLoop for Apply<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        apply::<FMA, T>(self.function, self.block);
    }
}

/// Applies any function. It is not inlined, because each call site would then contain all functions.
#[inline(never)]
fn apply_any<T: Real>(function: Activation, block: &mut [T; BLOCK]) {
    dispatch(Apply { function, block });
}

impl<T: Real> VectorLoop for Loop<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        // The compiler keeps blocks in registers if the functions are constants and the sums are not limited.
        if T::DTYPE == DataType::F32 && self.step.functions == Functions::USUAL && self.step.clip.is_none() {
            self.blocks::<FMA, false>(Functions::USUAL);
        } else {
            let functions = self.step.functions;
            self.blocks::<FMA, true>(functions);
        }
    }
}

impl<T: Real> Loop<'_, T> {
    #[inline(always)]
    #[expect(clippy::indexing_slicing, reason = "all blocks have `BLOCK` elements")]
    fn blocks<const FMA: bool, const ANY: bool>(self, functions: Functions) {
        let Loop { cell, step: Step { x, product, hidden, clip, .. } } = self;
        let n = hidden.len();
        // Limits the sums of a gate or of the candidate, and applies the function.
        macro_rules! ended {
            ($function:ident, $block:expr) => {{
                let mut block = $block;
                if ANY {
                    bound(&mut block, clip);
                    apply_any(functions.$function, &mut block);
                } else {
                    apply::<FMA, T>(functions.$function, &mut block);
                }
                block
            }};
        }
        let blocks = (0..n).step_by(BLOCK);
        match cell {
            Cell::Rnn => {
                for at in blocks {
                    put(hidden, at, &ended!(candidate, sum(x, product, at)));
                }
            }
            Cell::Gru { bias } => {
                let ([xz, xr, xn], [pz, pr, pn]) = (parts(x, n), parts(product, n));
                for at in blocks {
                    let (update, reset) = (ended!(gate, sum(xz, pz, at)), ended!(gate, sum(xr, pr, at)));
                    let late = sum(pn, bias.unwrap_or_default(), at);
                    let (mut sums, mut h) = (take(xn, at), take(hidden, at));
                    for i in 0..BLOCK {
                        sums[i] += reset[i] * late[i];
                    }
                    let new = ended!(candidate, sums);
                    for i in 0..BLOCK {
                        h[i] = mixed(update[i], new[i], h[i]);
                    }
                    put(hidden, at, &h);
                }
            }
            Cell::Reset { scaled } => {
                let ([_, x], [_, p]) = (parts(x, n), parts(product, n));
                for at in blocks {
                    let (mut reset, h) = (ended!(gate, sum(x, p, at)), take(hidden, at));
                    reset.iter_mut().zip(&h).for_each(|(reset, &h)| *reset = *reset * h);
                    put(scaled, at, &reset);
                }
            }
            Cell::Candidate { late } => {
                let ([xz, _, xn], [pz]) = (parts(x, n), parts(product, n));
                for at in blocks {
                    let (update, new) = (ended!(gate, sum(xz, pz, at)), ended!(candidate, sum(xn, late, at)));
                    let mut h = take(hidden, at);
                    for i in 0..BLOCK {
                        h[i] = mixed(update[i], new[i], h[i]);
                    }
                    put(hidden, at, &h);
                }
            }
            Cell::Lstm { cell, coupled, peepholes } => {
                let ([xi, xo, xf, xc], [pi, po, pf, pc]) = (parts(x, n), parts(product, n));
                let seen = peepholes.map(|weights| parts::<T, 3>(weights, n));
                for at in blocks {
                    let (mut input, mut output) = (sum(xi, pi, at), sum(xo, po, at));
                    let (mut forget, mut c) = (sum(xf, pf, at), take(cell, at));
                    if let Some([of_input, _, of_forget]) = seen {
                        see(&mut input, of_input, at, &c);
                        see(&mut forget, of_forget, at, &c);
                    }
                    input = ended!(gate, input);
                    if coupled {
                        forget.iter_mut().zip(&input).for_each(|(forget, &input)| *forget = T::ONE - input);
                    } else {
                        forget = ended!(gate, forget);
                    }
                    let candidate = ended!(candidate, sum(xc, pc, at));
                    for i in 0..BLOCK {
                        c[i] = forget[i] * c[i] + input[i] * candidate[i];
                    }
                    if let Some([_, of_output, _]) = seen {
                        // The output gate uses the new cell state.
                        see(&mut output, of_output, at, &c);
                    }
                    output = ended!(gate, output);
                    // `clip` does not apply to the cell state.
                    let mut h = c;
                    if ANY {
                        apply_any(functions.state, &mut h);
                    } else {
                        apply::<FMA, T>(functions.state, &mut h);
                    }
                    h.iter_mut().zip(&output).for_each(|(h, &output)| *h = *h * output);
                    put(cell, at, &c);
                    put(hidden, at, &h);
                }
            }
        }
    }
}
