//! One step of each kind of recurrent cell.

use super::activation::Activation;
use crate::Tensor;
use crate::prelude::*;
use crate::trace::{TraceStop, TracedTensor, Tracer};

/// The kind of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A cell with one gate, which is the new state.
    Rnn,
    /// A cell with update, reset and hidden gates.
    Gru {
        /// Whether the reset gate scales the product of weights and state, instead of the state.
        linear_before_reset: bool,
    },
    /// A cell with input, output, forget and cell gates, and a cell state in addition to the hidden state.
    Lstm {
        /// Whether the forget gate equals one minus the input gate.
        input_forget: bool,
    },
}

impl Kind {
    /// Returns the number of gates.
    pub fn gates(self) -> usize {
        match self {
            Kind::Rnn => 1,
            Kind::Gru { .. } => 3,
            Kind::Lstm { .. } => 4,
        }
    }

    /// Returns the names of the default activations of one direction.
    pub fn activations(self) -> &'static [&'static str] {
        match self {
            Kind::Rnn => &["Tanh"],
            Kind::Gru { .. } => &["Sigmoid", "Tanh"],
            Kind::Lstm { .. } => &["Sigmoid", "Tanh", "Tanh"],
        }
    }
}

/// The state that a step passes to the next step. Each tensor is `[n, h]`.
#[derive(Debug, Clone)]
pub struct State {
    /// The hidden state.
    pub hidden: TracedTensor,
    /// The cell state. Only an LSTM has one.
    pub cell: Option<TracedTensor>,
}

/// A function that multiplies a state, `[n, h]`, with the recurrence weights.
pub(crate) type Project<'a> = &'a dyn Fn(&TracedTensor) -> Result<TracedTensor, TraceStop>;

/// A recurrent cell for one direction.
pub struct Cell<'a> {
    pub(crate) kind: Kind,
    /// The number of elements of a state.
    pub(crate) hidden: usize,
    /// The product with the recurrence weights, `[h, gates * h]`, except the weights in `late_weights`.
    pub(crate) project: Project<'a>,
    /// The recurrence weights of the hidden gate, `[h, h]`, for a GRU that resets the state before applying them.
    pub(crate) late_weights: Option<TracedTensor>,
    /// The recurrence bias of the hidden gate, `[h]`, for a GRU that adds it before applying the reset gate.
    pub(crate) late_bias: Option<TracedTensor>,
    /// The weights of the cell state in the input, output and forget gates (peepholes), each `[h]`.
    pub(crate) peepholes: Option<[TracedTensor; 3]>,
    pub(crate) activations: &'a [Activation],
    /// The limit on the absolute values of the gates' sums.
    pub(crate) clip: Option<f64>,
}

impl Cell<'_> {
    /// Computes the next state from the step's projected input, `[n, gates * h]`.
    pub(crate) fn step(&self, on: &Tracer, input: &TracedTensor, state: &State) -> Result<State, TraceStop> {
        match self.kind {
            Kind::Rnn => {
                let sum = on.add(input, &(self.project)(&state.hidden)?)?;
                Ok(State { hidden: self.activate(on, 0, &sum)?, cell: None })
            }
            Kind::Gru { linear_before_reset } => self.gru(on, input, state, linear_before_reset),
            Kind::Lstm { input_forget } => self.lstm(on, input, state, input_forget),
        }
    }

    /// Applies the activation at `index`.
    fn plain(&self, on: &Tracer, index: usize, x: &TracedTensor) -> Result<TracedTensor, TraceStop> {
        self.activations.get(index).copied().unwrap_or(Activation::Tanh).apply(on, x)
    }

    /// Clips the sums of a gate, and applies the activation at `index`.
    fn activate(&self, on: &Tracer, index: usize, x: &TracedTensor) -> Result<TracedTensor, TraceStop> {
        match self.clip {
            Some(most) => {
                let (low, high) = (on.scalar_like(x, -most)?, on.scalar_like(x, most)?);
                self.plain(on, index, &on.clip(x, Some(&low), Some(&high))?)
            }
            None => self.plain(on, index, x),
        }
    }

    fn gru(
        &self,
        on: &Tracer,
        input: &TracedTensor,
        state: &State,
        linear: bool,
    ) -> Result<State, TraceStop> {
        let (h, old) = (self.hidden, &state.hidden);
        let [early, late] = parts(on, input, [2 * h, h])?;
        let recurrent = (self.project)(old)?;
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

    fn lstm(
        &self,
        on: &Tracer,
        input: &TracedTensor,
        state: &State,
        coupled: bool,
    ) -> Result<State, TraceStop> {
        let h = self.hidden;
        let old = state.cell.as_ref().unwrap_or(&state.hidden);
        let sums = on.add(input, &(self.project)(&state.hidden)?)?;
        let (i, f, candidate, output) = match &self.peepholes {
            None => {
                let [gates, candidate] = parts(on, &sums, [3 * h, h])?;
                let [i, o, f] = parts(on, &self.activate(on, 0, &gates)?, [h, h, h])?;
                (i, f, candidate, o)
            }
            Some([pi, _, pf]) => {
                let [i, o, f, candidate] = parts(on, &sums, [h, h, h, h])?;
                let seeing =
                    |gate: &TracedTensor, weights: &TracedTensor| -> Result<TracedTensor, TraceStop> {
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
            // The output gate uses the new cell state.
            Some([_, po, _]) => self.activate(on, 0, &on.add(&output, &on.mul(po, &cell)?)?)?,
        };
        // ONNX clips "the input of activations"; runtimes agree that this does not include the cell state.
        let hidden = on.mul(&output, &self.plain(on, 2, &cell)?)?;
        Ok(State { hidden, cell: Some(cell) })
    }
}

/// Splits the last dimension into `N` parts.
pub fn parts<const N: usize>(
    on: &Tracer,
    x: &TracedTensor,
    sizes: [usize; N],
) -> Result<[TracedTensor; N], TraceStop> {
    let parts = on.split(x, x.rank() as i64 - 1, &sizes)?;
    let got = parts.len();
    parts.try_into().or_else(|_| {
        crate::ext::fail(bb_ir::Error::Arity { op: "split", expected: "a part for each size", got })
    })
}
