//! What one step of a recurrent cell computes of the sums of its gates, for one sequence, in `f32`.

use super::dispatch::{VectorLoop, dispatch};
use super::math::single::{sigmoid, tanh};

/// The operands of a step of one sequence, whose state has `h` elements.
#[derive(Debug)]
pub(crate) struct Step<'a> {
    /// The projected input, `h` elements for each gate.
    pub(crate) x: &'a [f32],
    /// The product of the state and the weights, likewise.
    pub(crate) product: &'a [f32],
    /// The hidden state, which becomes the next one.
    pub(crate) hidden: &'a mut [f32],
    /// The bound of the sums that functions are applied to; infinity for none.
    pub(crate) clip: f32,
}

/// The kind of a cell.
#[derive(Debug)]
pub(crate) enum Cell<'a> {
    /// One gate, which is the new state.
    Rnn,
    /// Update and reset gates and the candidate; the reset gate scales the product, to which a bias is added.
    Gru { bias: Option<&'a [f32]> },
    /// The update gate, and the state that the reset gate scaled, of which the candidate's product is still to be computed.
    Reset { scaled: &'a mut [f32] },
    /// The candidate of a cell after [`Cell::Reset`]. The product of the update gate is that of the step; `late` is that of
    /// the scaled state.
    Candidate { late: &'a [f32] },
    /// Input, output, forget and candidate gates.
    Lstm {
        /// The cell state, which becomes the next one.
        cell: &'a mut [f32],
        /// Whether the forget gate is what the input gate leaves.
        coupled: bool,
    },
}

/// Computes a step.
pub(crate) fn step(cell: Cell<'_>, step: Step<'_>) {
    dispatch(Loop { cell, step });
}

struct Loop<'a> {
    cell: Cell<'a>,
    step: Step<'a>,
}

/// The number of elements that are computed at once. They are copied to arrays, so that the compiler knows that no operand
/// overlaps another, and vectorises the loops over them.
const BLOCK: usize = 32;

/// Cuts a slice into its first parts of `n` elements each.
#[inline(always)]
fn parts<const N: usize>(x: &[f32], n: usize) -> [&[f32]; N] {
    let mut chunks = x.chunks_exact(n.max(1));
    std::array::from_fn(|_| chunks.next().unwrap_or_default())
}

/// Copies the elements from `at` on, and zeros beyond the last one.
#[inline(always)]
fn take(x: &[f32], at: usize) -> [f32; BLOCK] {
    let rest = x.get(at..).unwrap_or_default();
    if let Some(block) = rest.first_chunk() {
        return *block;
    }
    let mut block = [0.0; BLOCK];
    block.iter_mut().zip(rest).for_each(|(to, &from)| *to = from);
    block
}

/// Copies a block to the elements from `at` on, as far as there are any.
#[inline(always)]
fn put(to: &mut [f32], at: usize, block: &[f32; BLOCK]) {
    let rest = to.get_mut(at..).unwrap_or_default();
    match rest.first_chunk_mut() {
        Some(whole) => *whole = *block,
        None => rest.iter_mut().zip(block).for_each(|(to, &from)| *to = from),
    }
}

/// Adds two blocks.
#[inline(always)]
fn sum(x: &[f32], p: &[f32], at: usize) -> [f32; BLOCK] {
    let (mut sum, p) = (take(x, at), take(p, at));
    sum.iter_mut().zip(&p).for_each(|(sum, p)| *sum += p);
    sum
}

impl VectorLoop for Loop<'_> {
    type Output = ();

    #[inline(always)]
    #[expect(clippy::indexing_slicing, reason = "all blocks have `BLOCK` elements")]
    fn run<const FMA: bool>(self) {
        let Loop { cell, step: Step { x, product, hidden, clip } } = self;
        let n = hidden.len();
        let bounded = |sum: f32| {
            let sum = if sum < -clip { -clip } else { sum };
            if sum > clip { clip } else { sum }
        };
        let gate = |sum: f32| sigmoid::<FMA, false>(bounded(sum));
        let new = |sum: f32| tanh::<FMA>(bounded(sum));
        let mixed = |update: f32, new: f32, old: f32| (1.0 - update) * new + update * old;
        let blocks = (0..n).step_by(BLOCK);
        match cell {
            Cell::Rnn => {
                for at in blocks {
                    let mut h = sum(x, product, at);
                    h.iter_mut().for_each(|h| *h = new(*h));
                    put(hidden, at, &h);
                }
            }
            Cell::Gru { bias } => {
                let ([xz, xr, xn], [pz, pr, pn]) = (parts(x, n), parts(product, n));
                for at in blocks {
                    let (update, reset) = (sum(xz, pz, at), sum(xr, pr, at));
                    let late = sum(pn, bias.unwrap_or_default(), at);
                    let (xn, mut h) = (take(xn, at), take(hidden, at));
                    for i in 0..BLOCK {
                        h[i] = mixed(gate(update[i]), new(xn[i] + gate(reset[i]) * late[i]), h[i]);
                    }
                    put(hidden, at, &h);
                }
            }
            Cell::Reset { scaled } => {
                let ([_, x], [_, p]) = (parts(x, n), parts(product, n));
                for at in blocks {
                    let (mut reset, h) = (sum(x, p, at), take(hidden, at));
                    reset.iter_mut().zip(&h).for_each(|(reset, h)| *reset = gate(*reset) * h);
                    put(scaled, at, &reset);
                }
            }
            Cell::Candidate { late } => {
                let ([xz, _, xn], [pz]) = (parts(x, n), parts(product, n));
                for at in blocks {
                    let (update, sums, mut h) = (sum(xz, pz, at), sum(xn, late, at), take(hidden, at));
                    for i in 0..BLOCK {
                        h[i] = mixed(gate(update[i]), new(sums[i]), h[i]);
                    }
                    put(hidden, at, &h);
                }
            }
            Cell::Lstm { cell, coupled } => {
                let ([xi, xo, xf, xc], [pi, po, pf, pc]) = (parts(x, n), parts(product, n));
                for at in blocks {
                    let (input, output) = (sum(xi, pi, at), sum(xo, po, at));
                    let (forget, candidate) = (sum(xf, pf, at), sum(xc, pc, at));
                    let (mut c, mut h) = (take(cell, at), [0.0; BLOCK]);
                    for i in 0..BLOCK {
                        let input = gate(input[i]);
                        let forget = if coupled { 1.0 - input } else { gate(forget[i]) };
                        c[i] = forget * c[i] + input * new(candidate[i]);
                        h[i] = gate(output[i]) * tanh::<FMA>(c[i]);
                    }
                    put(cell, at, &c);
                    put(hidden, at, &h);
                }
            }
        }
    }
}
