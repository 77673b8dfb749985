//! Recurrent cells: what one step of each kind computes, and sequences of steps.

use crate::Tensor;
use crate::ext::{Extent, Ops};

/// A function of single elements.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Activation {
    Affine { alpha: f64, beta: f64 },
    Elu { alpha: f64 },
    HardSigmoid { alpha: f64, beta: f64 },
    LeakyRelu { alpha: f64 },
    Relu,
    ScaledTanh { alpha: f64, beta: f64 },
    Sigmoid,
    Softplus,
    Softsign,
    Tanh,
    ThresholdedRelu { alpha: f64 },
}

impl Activation {
    /// Applies the function.
    pub(crate) fn apply<B: Ops + ?Sized>(self, on: &B, x: &B::Tensor) -> Result<B::Tensor, B::Error> {
        let constant = |value| on.scalar_like(x, value);
        match self {
            Activation::Affine { alpha, beta } => on.add(&on.mul(x, &constant(alpha)?)?, &constant(beta)?),
            Activation::Elu { alpha } => on.elu(x, alpha),
            Activation::HardSigmoid { alpha, beta } => on.hard_sigmoid(x, alpha, beta),
            Activation::LeakyRelu { alpha } => on.leaky_relu(x, alpha),
            Activation::Relu => on.relu(x),
            Activation::ScaledTanh { alpha, beta } => {
                on.mul(&on.tanh(&on.mul(x, &constant(beta)?)?)?, &constant(alpha)?)
            }
            Activation::Sigmoid => on.sigmoid(x),
            Activation::Softplus => on.softplus(x),
            Activation::Softsign => on.div(x, &on.add(&on.abs(x)?, &constant(1.0)?)?),
            Activation::Tanh => on.tanh(x),
            Activation::ThresholdedRelu { alpha } => {
                on.r#where(&on.greater_or_equal(x, &constant(alpha)?)?, x, &constant(0.0)?)
            }
        }
    }
}

/// The kind of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// One gate, which is the new state.
    Rnn,
    /// Update, reset and hidden gates.
    Gru {
        /// Whether the reset gate scales the product with the state rather than the state.
        linear_before_reset: bool,
    },
    /// Input, output, forget and cell gates, and a cell state beside the hidden one.
    Lstm {
        /// Whether the forget gate is what the input gate leaves.
        input_forget: bool,
    },
}

impl Kind {
    /// The number of gates.
    pub(crate) fn gates(self) -> usize {
        match self {
            Kind::Rnn => 1,
            Kind::Gru { .. } => 3,
            Kind::Lstm { .. } => 4,
        }
    }

    /// The names of the activations of one direction where none are given.
    pub(crate) fn activations(self) -> &'static [&'static str] {
        match self {
            Kind::Rnn => &["Tanh"],
            Kind::Gru { .. } => &["Sigmoid", "Tanh"],
            Kind::Lstm { .. } => &["Sigmoid", "Tanh", "Tanh"],
        }
    }
}

/// What a step hands to the next, each `[n, h]`.
#[derive(Debug, Clone)]
pub(crate) struct State<T> {
    /// The hidden state.
    pub(crate) hidden: T,
    /// The cell state, of an LSTM alone.
    pub(crate) cell: Option<T>,
}

/// The matrix of a projection.
#[derive(Debug)]
pub(crate) enum Weights<T> {
    /// Of the type that steps compute in, `[k, n]`.
    Plain(T),
    /// Integers, the number that one of them stands for, and their zero point. The other operand is quantised by its
    /// range.
    Quantized { matrix: T, scale: T, zero: Option<T> },
}

impl<T: Tensor> Weights<T> {
    /// Multiplies `x`, `[m, k]`, with the matrix.
    pub(crate) fn project<B>(&self, on: &B, x: &T) -> Result<T, B::Error>
    where
        B: Ops<Tensor = T> + ?Sized,
    {
        match self {
            Weights::Plain(matrix) => on.matmul(x, matrix),
            Weights::Quantized { matrix, scale, zero } => {
                on.dynamic_matmul(x, matrix, scale, zero.as_ref(), None)
            }
        }
    }
}

/// A cell of one direction.
#[derive(Debug)]
pub(crate) struct Cell<'a, T> {
    pub(crate) kind: Kind,
    /// The number of elements of a state.
    pub(crate) hidden: usize,
    /// The recurrence weights, `[h, gates * h]`, but for those that come apart.
    pub(crate) weights: Weights<T>,
    /// The recurrence weights of the hidden gate, `[h, h]`, of a GRU that resets the state before they apply.
    pub(crate) late_weights: Option<T>,
    /// The recurrence bias of the hidden gate, `[h]`, which a linear GRU adds before it resets.
    pub(crate) late_bias: Option<T>,
    /// The weights of the cell state in the input, output and forget gates, each `[h]`.
    pub(crate) peepholes: Option<[T; 3]>,
    pub(crate) activations: &'a [Activation],
    /// The bound of the gates' sums.
    pub(crate) clip: Option<f64>,
}

impl<T: Tensor> Cell<'_, T> {
    /// Computes the next state from the step's projected input, `[n, gates * h]`.
    pub(crate) fn step<B>(&self, on: &B, input: &T, state: &State<T>) -> Result<State<T>, B::Error>
    where
        B: Ops<Tensor = T> + ?Sized,
    {
        match self.kind {
            Kind::Rnn => {
                let sum = on.add(input, &self.weights.project(on, &state.hidden)?)?;
                Ok(State { hidden: self.activate(on, 0, &sum)?, cell: None })
            }
            Kind::Gru { linear_before_reset } => self.gru(on, input, state, linear_before_reset),
            Kind::Lstm { input_forget } => self.lstm(on, input, state, input_forget),
        }
    }

    /// Applies the activation at `index`.
    fn plain<B>(&self, on: &B, index: usize, x: &T) -> Result<T, B::Error>
    where
        B: Ops<Tensor = T> + ?Sized,
    {
        self.activations.get(index).copied().unwrap_or(Activation::Tanh).apply(on, x)
    }

    /// Applies the activation at `index` to the sums of a gate, within the bound.
    fn activate<B>(&self, on: &B, index: usize, x: &T) -> Result<T, B::Error>
    where
        B: Ops<Tensor = T> + ?Sized,
    {
        match self.clip {
            Some(most) => {
                let (low, high) = (on.scalar_like(x, -most)?, on.scalar_like(x, most)?);
                self.plain(on, index, &on.clip(x, Some(&low), Some(&high))?)
            }
            None => self.plain(on, index, x),
        }
    }

    fn gru<B>(&self, on: &B, input: &T, state: &State<T>, linear: bool) -> Result<State<T>, B::Error>
    where
        B: Ops<Tensor = T> + ?Sized,
    {
        let (h, old) = (self.hidden, &state.hidden);
        let [early, late] = parts(on, input, [2 * h, h])?;
        let recurrent = self.weights.project(on, old)?;
        let (gates, candidate) = if let (false, Some(late_weights)) = (linear, &self.late_weights) {
            let gates = self.activate(on, 0, &on.add(&early, &recurrent)?)?;
            let [update, reset] = parts(on, &gates, [h, h])?;
            (update, on.add(&late, &on.matmul(&on.mul(&reset, old)?, late_weights)?)?)
        } else {
            let [early_part, late_part] = parts(on, &recurrent, [2 * h, h])?;
            let gates = self.activate(on, 0, &on.add(&early, &early_part)?)?;
            let [update, reset] = parts(on, &gates, [h, h])?;
            let biased = match &self.late_bias {
                Some(bias) => on.add(&late_part, bias)?,
                None => late_part,
            };
            (update, on.add(&late, &on.mul(&reset, &biased)?)?)
        };
        let new = self.activate(on, 1, &candidate)?;
        let rest = on.sub(&on.scalar_like(&gates, 1.0)?, &gates)?;
        let hidden = on.add(&on.mul(&rest, &new)?, &on.mul(&gates, old)?)?;
        Ok(State { hidden, cell: None })
    }

    fn lstm<B>(&self, on: &B, input: &T, state: &State<T>, coupled: bool) -> Result<State<T>, B::Error>
    where
        B: Ops<Tensor = T> + ?Sized,
    {
        let h = self.hidden;
        let old = state.cell.as_ref().unwrap_or(&state.hidden);
        let sums = on.add(input, &self.weights.project(on, &state.hidden)?)?;
        let (i, f, candidate, output) = match &self.peepholes {
            None => {
                let [gates, candidate] = parts(on, &sums, [3 * h, h])?;
                let [i, o, f] = parts(on, &self.activate(on, 0, &gates)?, [h, h, h])?;
                (i, f, candidate, o)
            }
            Some([pi, _, pf]) => {
                let [i, o, f, candidate] = parts(on, &sums, [h, h, h, h])?;
                let seeing = |gate: &T, weights: &T| -> Result<T, B::Error> {
                    self.activate(on, 0, &on.add(gate, &on.mul(weights, old)?)?)
                };
                (seeing(&i, pi)?, seeing(&f, pf)?, candidate, o)
            }
        };
        let f = if coupled { on.sub(&on.scalar_like(&i, 1.0)?, &i)? } else { f };
        let new = on.mul(&i, &self.activate(on, 1, &candidate)?)?;
        let cell = on.add(&on.mul(&f, old)?, &new)?;
        let output = match &self.peepholes {
            None => output,
            // The output gate sees the new cell state.
            Some([_, po, _]) => self.activate(on, 0, &on.add(&output, &on.mul(po, &cell)?)?)?,
        };
        // ONNX bounds "the input of activations"; runtimes agree that the cell state is none of it.
        let hidden = on.mul(&output, &self.plain(on, 2, &cell)?)?;
        Ok(State { hidden, cell: Some(cell) })
    }
}

/// Cuts the last dimension into a fixed number of parts.
pub(crate) fn parts<B: Ops + ?Sized, const N: usize>(
    on: &B,
    x: &B::Tensor,
    sizes: [usize; N],
) -> Result<[B::Tensor; N], B::Error> {
    let parts = on.split(x, x.rank() as i64 - 1, &sizes)?;
    let got = parts.len();
    parts.try_into().or_else(|_| {
        crate::ext::fail::<B, _>(bb_ir::Error::Arity { op: "split", expected: "a part for each size", got })
    })
}

/// The hidden states of all steps, and the last state.
type Steps<T> = (Vec<T>, State<T>);

/// Runs a cell over the steps of `inputs`, the projected inputs of each step. The state of a step that `masks` rules out
/// is that of the step before. Returns the hidden states of all steps, and the last state.
pub(crate) fn sequence<B: Ops + ?Sized>(
    on: &B,
    cell: &Cell<'_, B::Tensor>,
    inputs: Vec<B::Tensor>,
    masks: Option<&[B::Tensor]>,
    start: State<B::Tensor>,
    backwards: bool,
) -> Result<Steps<B::Tensor>, B::Error> {
    let steps = inputs.len();
    let mut outputs = inputs;
    let mut state = start;
    for i in 0..steps {
        let step = if backwards { steps - 1 - i } else { i };
        let Some(slot) = outputs.get_mut(step) else { continue };
        let mut next = cell.step(on, slot, &state)?;
        if let Some(within) = masks.and_then(|m| m.get(step)) {
            next.hidden = on.r#where(within, &next.hidden, &state.hidden)?;
            next.cell = match (&next.cell, &state.cell) {
                (Some(new), Some(old)) => Some(on.r#where(within, new, old)?),
                _ => None,
            };
        }
        slot.clone_from(&next.hidden);
        state = next;
    }
    Ok((outputs, state))
}

/// Runs a cell over `x: [s, n, w]`. Returns the hidden states `[s, n, h]` and the last state.
fn over<B: Ops + ?Sized>(
    on: &B,
    op: &'static str,
    cell: &Cell<'_, B::Tensor>,
    x: &B::Tensor,
    start: State<B::Tensor>,
    backwards: bool,
) -> Result<Vec<B::Tensor>, B::Error> {
    crate::ext::types::take::<B>(op, x, crate::ext::types::FLOATS)?;
    let extents = on.extents(x);
    let [steps, batch, width] = extents.as_slice() else {
        let shapes = bb_ir::Error::Shapes { op, left: x.shape().into(), right: start.hidden.shape().into() };
        return crate::ext::fail::<B, _>(shapes);
    };
    let steps = usize::try_from(steps.number()).unwrap_or(0);
    let hidden = Extent::from(cell.hidden);
    for state in std::iter::once(&start.hidden).chain(&start.cell) {
        let own = on.extents(state);
        let fits = matches!(own.as_slice(), [n, h] if n.equals(batch) && h.equals(&hidden));
        if !fits || !width.equals(&Extent::from(cell.kind.gates() * cell.hidden)) {
            let shapes = bb_ir::Error::Shapes { op, left: x.shape().into(), right: state.shape().into() };
            return crate::ext::fail::<B, _>(shapes);
        }
    }
    let (outputs, last) = if steps == 0 {
        (on.full_to(&[0usize.into(), batch.clone(), hidden], 0.0, x.dtype())?, start)
    } else {
        let flat = on.reshape_to(x, &[batch.times(&steps.into()), width.clone()])?;
        let inputs = on.split_to(&flat, 0, &vec![batch.clone(); steps])?;
        let (outputs, last) = sequence(on, cell, inputs, None, start, backwards)?;
        let outputs = on.concat(&outputs.iter().collect::<Vec<_>>(), 0)?;
        (on.reshape_to(&outputs, &[steps.into(), batch.clone(), hidden])?, last)
    };
    Ok([Some(outputs), Some(last.hidden), last.cell].into_iter().flatten().collect())
}

/// A cell without peepholes and without bounds.
fn plain<'a, T: Tensor>(
    kind: Kind,
    weights: Weights<T>,
    hidden: usize,
    activations: &'a [Activation],
) -> Cell<'a, T> {
    Cell {
        kind,
        hidden,
        weights,
        late_weights: None,
        late_bias: None,
        peepholes: None,
        activations,
        clip: None,
    }
}

/// The body of [`Nn::lstm`](super::Nn::lstm).
#[expect(clippy::too_many_arguments, reason = "the operands of the operation")]
pub fn lstm<B: Ops + ?Sized>(
    on: &B,
    x: &B::Tensor,
    w: &B::Tensor,
    hidden: &B::Tensor,
    cell: &B::Tensor,
    w_scale: Option<&B::Tensor>,
    w_zero: Option<&B::Tensor>,
    backwards: bool,
) -> Result<Vec<B::Tensor>, B::Error> {
    let weights = match w_scale {
        None => Weights::Plain(w.clone()),
        Some(scale) => Weights::Quantized { matrix: w.clone(), scale: scale.clone(), zero: w_zero.cloned() },
    };
    let width = hidden.shape().last().copied().unwrap_or(0);
    let activations = [Activation::Sigmoid, Activation::Tanh, Activation::Tanh];
    let own = plain(Kind::Lstm { input_forget: false }, weights, width, &activations);
    let start = State { hidden: hidden.clone(), cell: Some(cell.clone()) };
    over(on, "lstm", &own, x, start, backwards)
}

/// The body of [`Nn::gru`](super::Nn::gru).
pub fn gru<B: Ops + ?Sized>(
    on: &B,
    x: &B::Tensor,
    w: &B::Tensor,
    hidden: &B::Tensor,
    bias: Option<&B::Tensor>,
    backwards: bool,
) -> Result<Vec<B::Tensor>, B::Error> {
    let width = hidden.shape().last().copied().unwrap_or(0);
    let activations = [Activation::Sigmoid, Activation::Tanh];
    let kind = Kind::Gru { linear_before_reset: true };
    let own =
        Cell { late_bias: bias.cloned(), ..plain(kind, Weights::Plain(w.clone()), width, &activations) };
    over(on, "gru", &own, x, State { hidden: hidden.clone(), cell: None }, backwards)
}
