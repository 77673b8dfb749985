//! The gates of recurrent cells, for the states of one sample.

use super::dispatch::{VectorLoop, dispatch};
use super::math::single::{sigmoid, tanh};

/// The sums of the gates and the states of a long short-term memory.
pub(crate) struct Lstm<'a> {
    /// The projected input: input, output, forget and cell gates.
    pub(crate) input: &'a [f32],
    /// The products with the hidden state, likewise.
    pub(crate) recurrent: &'a [f32],
    pub(crate) cell: &'a mut [f32],
    pub(crate) hidden: &'a mut [f32],
}

/// Cuts a list into four parts of `n`.
#[inline(always)]
fn quarters(x: &[f32], n: usize) -> [&[f32]; 4] {
    [0, 1, 2, 3].map(|i| x.get(i * n..(i + 1) * n).unwrap_or_default())
}

impl VectorLoop for Lstm<'_> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let n = self.cell.len();
        let ([a, b, c, d], [e, f, g, h]) = (quarters(self.input, n), quarters(self.recurrent, n));
        let gates = a.iter().zip(e).zip(b.iter().zip(f)).zip(c.iter().zip(g)).zip(d.iter().zip(h));
        for ((cell, hidden), (((i, o), f), new)) in self.cell.iter_mut().zip(self.hidden).zip(gates) {
            let kept = sigmoid::<FMA>(f.0 + f.1) * *cell;
            let state = kept + sigmoid::<FMA>(i.0 + i.1) * tanh::<FMA>(new.0 + new.1);
            *cell = state;
            *hidden = sigmoid::<FMA>(o.0 + o.1) * tanh::<FMA>(state);
        }
    }
}

/// The sums of the gates and the states of a gated recurrent unit.
pub(crate) struct Gru<'a> {
    /// The projected input: update, reset and hidden gates.
    pub(crate) input: &'a [f32],
    /// The products with the hidden state, likewise.
    pub(crate) recurrent: &'a [f32],
    /// What is added to the product of the hidden gate; empty for nothing.
    pub(crate) bias: &'a [f32],
    pub(crate) old: &'a [f32],
    pub(crate) hidden: &'a mut [f32],
}

impl Gru<'_> {
    #[inline(always)]
    fn each<const FMA: bool>(self, bias: impl Iterator<Item = f32>) {
        let n = self.old.len();
        let ([a, b, c, _], [e, f, g, _]) = (quarters(self.input, n), quarters(self.recurrent, n));
        let gates = a.iter().zip(e).zip(b.iter().zip(f)).zip(c.iter().zip(g)).zip(bias);
        for ((hidden, &old), (((z, r), (late, product)), bias)) in
            self.hidden.iter_mut().zip(self.old).zip(gates)
        {
            let update = sigmoid::<FMA>(z.0 + z.1);
            let reset = sigmoid::<FMA>(r.0 + r.1);
            let new = tanh::<FMA>(late + reset * (product + bias));
            *hidden = (1.0 - update) * new + update * old;
        }
    }
}

impl VectorLoop for Gru<'_> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        match self.bias {
            // Adding minus zero changes nothing.
            [] => self.each::<FMA>(std::iter::repeat(-0.0)),
            bias => self.each::<FMA>(bias.iter().copied()),
        }
    }
}

/// Computes the next states of a sample.
pub(crate) fn lstm(states: Lstm<'_>) {
    dispatch(states);
}

/// Computes the next state of a sample.
pub(crate) fn gru(states: Gru<'_>) {
    dispatch(states);
}
