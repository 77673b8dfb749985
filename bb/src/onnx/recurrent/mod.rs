//! `RNN`, `GRU` and `LSTM`: a cell run over time, forwards, backwards or both.
//!
//! The inputs of all steps are projected by one product; what is left for each step is the product with the state.
//! Steps are unrolled, so that a plan has one group of instructions for each.

mod activation;

use super::call::{Call, OpOutputs, OpResult};
use crate::error::NodePart;
use crate::ext::cell::{Cell, Kind, State, Weights, parts, sequence};
use crate::ext::{Extent, Ops, math};
use crate::onnx::infer;
use crate::onnx::rows::operators;
use crate::{DataType, Error, Tensor};
pub(super) use activation::Activation;
use activation::activations;

operators! {
    "" {
        GRU => Primitives(gru), infer: By(infer::products::recurrent), ignores: { "output_sequence": "a result is made if the node names it" };
        LSTM => Primitives(lstm), infer: By(infer::products::recurrent), ignores: { "output_sequence": "a result is made if the node names it" };
        RNN => Primitives(rnn), infer: By(infer::products::recurrent), ignores: { "output_sequence": "a result is made if the node names it" };
    }
}

/// The most steps that are unrolled.
pub(super) const MOST_STEPS: usize = 1 << 16;

/// `RNN`.
pub(super) fn rnn<B: Ops + ?Sized>(on: &B, call: &Call<'_, B::Tensor>) -> OpResult<B> {
    recurrent(on, call, Kind::Rnn, false)
}

/// `GRU`.
pub(super) fn gru<B: Ops + ?Sized>(on: &B, call: &Call<'_, B::Tensor>) -> OpResult<B> {
    recurrent(on, call, Kind::Gru { linear_before_reset: call.flag("linear_before_reset", false)? }, false)
}

/// `LSTM`.
pub(super) fn lstm<B: Ops + ?Sized>(on: &B, call: &Call<'_, B::Tensor>) -> OpResult<B> {
    recurrent(on, call, Kind::Lstm { input_forget: call.flag("input_forget", false)? }, false)
}

/// `LSTM` with quantised weights, `[directions, inputs, gates]`, whose scales and zero points follow the other operands.
pub(super) fn quantized_lstm<B: Ops + ?Sized>(on: &B, call: &Call<'_, B::Tensor>) -> OpResult<B> {
    recurrent(on, call, Kind::Lstm { input_forget: call.flag("input_forget", false)? }, true)
}

/// The extents of a call.
#[derive(Debug, Clone)]
struct Extents {
    steps: usize,
    batch: Extent,
    input: usize,
    hidden: usize,
    gates: usize,
    directions: usize,
}

/// A cell, and the bias of its projected input.
type Biased<'b, T> = (Cell<'b, T>, Option<T>);

/// What one direction yields.
struct Run<T> {
    /// The hidden states of all steps, `[steps * batch, hidden]`.
    outputs: T,
    last: State<T>,
}

/// Runs a cell over time in each direction, halves in `f32`.
fn recurrent<B: Ops + ?Sized>(
    on: &B,
    call: &Call<'_, B::Tensor>,
    kind: Kind,
    quantized: bool,
) -> OpResult<B> {
    let dtype = call.input(0)?.dtype();
    let backwards: &[bool] = match call.text_or("direction", "forward")? {
        "forward" => &[false],
        "reverse" => &[true],
        "bidirectional" => &[false, true],
        other => {
            let problem = format!("is `{other}`, expected `forward`, `reverse` or `bidirectional`");
            return Err(call.wrong("direction", problem).into());
        }
    };
    let batch_first = call.flag("layout", false)?;
    let wide = if dtype == DataType::F64 { dtype } else { DataType::F32 };
    let operands = Operands { on, call, wide, quantized };
    let x = operands.wide(call.input(0)?)?;
    let x = if batch_first { on.transpose(&x, &[1, 0, 2])? } else { x };
    let e = operands.extents(kind, &x, backwards.len())?;
    let activations = activations(call, kind.activations(), e.directions)?;
    let mut runs = Vec::with_capacity(e.directions);
    for (at, &backwards) in backwards.iter().enumerate() {
        let per_cell = kind.activations().len();
        let own = activations.get(at * per_cell..(at + 1) * per_cell).unwrap_or_default();
        let (cell, bias) = operands.cell(kind, &e, at, own)?;
        let start = operands.start(kind, &e, at, batch_first)?;
        runs.push(operands.run(&x, &e, at, &cell, bias.as_ref(), start, backwards)?);
    }
    let narrow = |x: &B::Tensor, perm: &[i64]| -> Result<B::Tensor, B::Error> {
        math::to(on, &if batch_first { on.transpose(x, perm)? } else { x.clone() }, dtype)
    };
    let stacked = |states: Vec<&B::Tensor>| -> Result<B::Tensor, B::Error> {
        let states: Vec<_> = states.into_iter().map(|s| on.unsqueeze(s, &[0])).collect::<Result<_, _>>()?;
        narrow(&on.concat(&states.iter().collect::<Vec<_>>(), 0)?, &[1, 0, 2])
    };
    let mut results: OpOutputs<B::Tensor> = OpOutputs::new();
    results.push(if call.wants(0) {
        let by_step: [Extent; 4] = [e.steps.into(), 1i64.into(), e.batch, e.hidden.into()];
        let all = runs.iter().map(|r| on.reshape_to(&r.outputs, &by_step)).collect::<Result<Vec<_>, _>>()?;
        Some(narrow(&on.concat(&all.iter().collect::<Vec<_>>(), 1)?, &[2, 0, 1, 3])?)
    } else {
        None
    });
    results.push(Some(stacked(runs.iter().map(|r| &r.last.hidden).collect())?));
    if let Kind::Lstm { .. } = kind {
        results.push(Some(stacked(runs.iter().filter_map(|r| r.last.cell.as_ref()).collect())?));
    }
    Ok(results)
}

/// Returns the operand at `index`, if it is given, of which the extents are known.
fn shaped<'a, B: Ops + ?Sized>(
    on: &B,
    call: &Call<'a, B::Tensor>,
    index: usize,
    expected: &[Extent],
) -> Result<Option<&'a B::Tensor>, Error> {
    let Some(x) = call.optional(index) else { return Ok(None) };
    let got = on.extents(x);
    if got.len() == expected.len() && got.iter().zip(expected).all(|(a, b)| a.equals(b)) {
        return Ok(Some(x));
    }
    let [got, expected] =
        [&got[..], expected].map(|list| list.iter().map(Extent::present).collect::<Vec<_>>());
    let problem = format!("has the extents {got:?}, expected {expected:?}");
    Err(call.wrong(NodePart::Operand(index), problem))
}

/// The operands of a call, one direction at a time.
struct Operands<'a, B: Ops + ?Sized> {
    on: &'a B,
    call: &'a Call<'a, B::Tensor>,
    /// The element type that steps compute in.
    wide: DataType,
    /// Whether the weights are integers.
    quantized: bool,
}

impl<B: Ops + ?Sized> Operands<'_, B> {
    /// Reads the extents, and holds those of the weights against them.
    fn extents(&self, kind: Kind, x: &B::Tensor, directions: usize) -> Result<Extents, Error> {
        let call = self.call;
        let extents = self.on.extents(x);
        let [steps, batch, input] = extents.as_slice() else {
            return Err(call.wrong(NodePart::Operand(0), format!("has rank {}, expected 3", x.rank())));
        };
        // The steps are unrolled, so that their number is the plan's.
        let [steps, input] = [steps, input].map(|extent| usize::try_from(extent.number()).unwrap_or(0));
        let batch = batch.clone();
        let gates = kind.gates();
        let last = call.input(2)?.shape().last().copied().unwrap_or(0);
        let hidden = if self.quantized { last / gates } else { last };
        for (index, size) in [(1, input), (2, hidden)] {
            let (rows, columns) =
                if self.quantized { (size, gates * hidden) } else { (gates * hidden, size) };
            shaped(self.on, call, index, &[directions, rows, columns].map(Extent::from))?;
        }
        let named = call.int_or("hidden_size", hidden as i64)?;
        if named != hidden as i64 {
            return Err(call.wrong("hidden_size", format!("is {named}; the weights are for {hidden}")));
        }
        if steps > MOST_STEPS {
            return Err(
                call.wrong(NodePart::Operand(0), format!("has {steps} steps, more than {MOST_STEPS}"))
            );
        }
        Ok(Extents { steps, batch, input, hidden, gates, directions })
    }

    fn wide(&self, x: &B::Tensor) -> Result<B::Tensor, B::Error> {
        math::to(self.on, x, self.wide)
    }

    /// The part of an operand for the direction `at`, without the dimension that counts directions.
    fn raw(&self, x: &B::Tensor, at: usize, axis: i64) -> Result<B::Tensor, B::Error> {
        let at = at as i64;
        self.on.squeeze(&self.on.slice(x, &[at], &[at + 1], &[axis], &[])?, &[axis])
    }

    /// The same, of the type that steps compute in.
    fn part(&self, x: &B::Tensor, at: usize, axis: i64) -> Result<B::Tensor, B::Error> {
        self.wide(&self.raw(x, at, axis)?)
    }

    /// The weights that operand `index` has for the direction `at`.
    fn weights(&self, index: usize, at: usize) -> Result<Weights<B::Tensor>, B::Error> {
        let call = self.call;
        if !self.quantized {
            return Ok(Weights::Plain(self.on.transpose(&self.part(call.input(index)?, at, 0)?, &[1, 0])?));
        }
        // Scales and zero points come by pairs after the eight operands of an LSTM.
        let (scale, zero) = (call.input(6 + 2 * index)?, call.input(7 + 2 * index)?);
        let (matrix, zero) = (self.raw(call.input(index)?, at, 0)?, self.raw(zero, at, 0)?);
        Ok(Weights::Quantized { matrix, scale: self.part(scale, at, 0)?, zero: Some(zero) })
    }

    /// Puts the cell of a direction together, and the bias of its projected input.
    fn cell<'b>(
        &self,
        kind: Kind,
        e: &Extents,
        at: usize,
        activations: &'b [activation::Activation],
    ) -> Result<Biased<'b, B::Tensor>, B::Error> {
        let (on, call, rows) = (self.on, self.call, e.gates * e.hidden);
        let (mut weights, mut late_weights) = (self.weights(2, at)?, None);
        if let (Kind::Gru { linear_before_reset: false }, Weights::Plain(all)) = (kind, &weights) {
            let [early, late] = parts(on, all, [2 * e.hidden, e.hidden])?;
            (weights, late_weights) = (Weights::Plain(early), Some(late));
        }
        let (mut bias, mut late_bias) = (None, None);
        if let Some(both) = shaped(on, call, 3, &[e.directions, 2 * rows].map(Extent::from))? {
            let [input, recurrent] = parts(on, &self.part(both, at, 0)?, [rows, rows])?;
            bias = Some(if let Kind::Gru { linear_before_reset: true } = kind {
                let [early, late] = parts(on, &recurrent, [2 * e.hidden, e.hidden])?;
                late_bias = Some(late);
                let [early_input, late_input] = parts(on, &input, [2 * e.hidden, e.hidden])?;
                on.concat(&[&on.add(&early_input, &early)?, &late_input], 0)?
            } else {
                on.add(&input, &recurrent)?
            });
        }
        let peepholes = match kind {
            Kind::Lstm { .. } => shaped(on, call, 7, &[e.directions, 3 * e.hidden].map(Extent::from))?
                .map(|p| parts(on, &self.part(p, at, 0)?, [e.hidden; 3]))
                .transpose()?,
            _ => None,
        };
        let clip = call.has("clip").then(|| call.float("clip")).transpose()?;
        let clip = clip.filter(|&most| most > 0.0);
        let hidden = e.hidden;
        Ok((Cell { kind, hidden, weights, late_weights, late_bias, peepholes, activations, clip }, bias))
    }

    /// The state before the first step: what is given, or zeros.
    fn start(
        &self,
        kind: Kind,
        e: &Extents,
        at: usize,
        batch_first: bool,
    ) -> Result<State<B::Tensor>, B::Error> {
        let (shape, axis) = if batch_first {
            ([e.batch.clone(), e.directions.into(), e.hidden.into()], 1)
        } else {
            ([e.directions.into(), e.batch.clone(), e.hidden.into()], 0)
        };
        let initial = |index| match shaped(self.on, self.call, index, &shape)? {
            Some(x) => self.part(x, at, axis),
            None => self.on.full_to(&[e.batch.clone(), e.hidden.into()], 0.0, self.wide),
        };
        let cell = matches!(kind, Kind::Lstm { .. }).then(|| initial(6)).transpose()?;
        Ok(State { hidden: initial(5)?, cell })
    }

    /// Runs the cell of the direction `at` over all steps.
    #[expect(clippy::too_many_arguments, reason = "a direction has this many parts")]
    fn run(
        &self,
        x: &B::Tensor,
        e: &Extents,
        at: usize,
        cell: &Cell<'_, B::Tensor>,
        bias: Option<&B::Tensor>,
        start: State<B::Tensor>,
        backwards: bool,
    ) -> Result<Run<B::Tensor>, B::Error> {
        let (on, rows) = (self.on, e.batch.times(&e.steps.into()));
        // Of no elements there is nothing to compute, whatever the number of steps.
        if rows.is(0) || e.hidden == 0 {
            let shape: [Extent; 3] = [e.steps.into(), e.batch.clone(), e.hidden.into()];
            let outputs = on.full_to(&shape, 0.0, self.wide)?;
            return Ok(Run { outputs, last: start });
        }
        let flat = on.reshape_to(x, &[rows.clone(), e.input.into()])?;
        let mut projected = self.weights(1, at)?.project(on, &flat)?;
        if let Some(bias) = bias {
            projected = on.add(&projected, bias)?;
        }
        let mask = self.mask(e, &rows)?;
        if mask.is_none()
            && let Some(run) = self.run_native(&projected, e, cell, &start, backwards)?
        {
            return Ok(run);
        }
        let by_step = vec![e.batch.clone(); e.steps];
        let inputs = on.split_to(&projected, 0, &by_step)?;
        let masks = mask.as_ref().map(|mask| on.split_to(mask, 0, &by_step)).transpose()?;
        let (outputs, state) = sequence(on, cell, inputs, masks.as_deref(), start, backwards)?;
        let mut outputs = on.concat(&outputs.iter().collect::<Vec<_>>(), 0)?;
        if let Some(mask) = &mask {
            outputs = on.r#where(mask, &outputs, &on.scalar_like(&outputs, 0.0)?)?;
        }
        Ok(Run { outputs, last: state })
    }

    /// Runs a cell that is an operation of its own: with the usual activations and nothing else.
    fn run_native(
        &self,
        projected: &B::Tensor,
        e: &Extents,
        cell: &Cell<'_, B::Tensor>,
        start: &State<B::Tensor>,
        backwards: bool,
    ) -> Result<Option<Run<B::Tensor>>, B::Error> {
        let on = self.on;
        let by_step = [e.steps.into(), e.batch.clone(), (e.gates * e.hidden).into()];
        let x = || on.reshape_to(projected, &by_step);
        let usual: &[Activation] = match cell.kind {
            Kind::Lstm { .. } => &[Activation::Sigmoid, Activation::Tanh, Activation::Tanh],
            _ => &[Activation::Sigmoid, Activation::Tanh],
        };
        if cell.peepholes.is_some() || cell.clip.is_some() || cell.activations != usual {
            return Ok(None);
        }
        let results = match (cell.kind, &cell.weights, &start.cell) {
            (Kind::Lstm { input_forget: false }, Weights::Plain(w), Some(old)) => {
                on.lstm(&x()?, w, &start.hidden, old, None, None, backwards)?
            }
            (Kind::Lstm { input_forget: false }, Weights::Quantized { matrix, scale, zero }, Some(old)) => {
                on.lstm(&x()?, matrix, &start.hidden, old, Some(scale), zero.as_ref(), backwards)?
            }
            (Kind::Gru { linear_before_reset: true }, Weights::Plain(w), _) => {
                on.gru(&x()?, w, &start.hidden, cell.late_bias.as_ref(), backwards)?
            }
            _ => return Ok(None),
        };
        let mut results = results.into_iter();
        let (Some(outputs), Some(hidden)) = (results.next(), results.next()) else { return Ok(None) };
        Ok(Some(Run { outputs, last: State { hidden, cell: results.next() } }))
    }

    /// Which steps are within the length of their sequence, `[rows, 1]`; `None` if all are.
    fn mask(&self, e: &Extents, rows: &Extent) -> Result<Option<B::Tensor>, B::Error> {
        let Some(lengths) = shaped(self.on, self.call, 4, std::slice::from_ref(&e.batch))? else {
            return Ok(None);
        };
        let steps: Vec<i64> = (0..e.steps as i64).collect();
        let steps = math::to(self.on, &self.on.host(&[e.steps, 1], &steps)?, lengths.dtype())?;
        let within = self.on.less(&steps, lengths)?;
        Ok(Some(self.on.reshape_to(&within, &[rows.clone(), Extent::from(1i64)])?))
    }
}
