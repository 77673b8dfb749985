//! Recurrent cells, run over time in one direction. The bodies unroll the steps, so a plan of primitives contains the
//! operations of each step.

mod activation;
mod cell;

use crate::ext::{Extent, GruOptions, LstmOptions, RnnOptions, math, types};
use crate::prelude::*;
use crate::trace::{TraceStop, TracedTensor, Tracer};
use crate::{DataType, Error, Tensor};
pub use activation::Activation;
pub use activation::Parameters;
pub use cell::{Cell, Kind, State, parts};

/// The maximum number of steps that are unrolled.
pub const MOST_STEPS: usize = 1 << 16;

/// The results of the steps of one direction.
pub struct Run {
    /// The hidden states of all steps, `[s, n, h]`.
    pub outputs: TracedTensor,
    /// The state after the last step.
    pub last: State,
}

/// The inputs of a cell, step by step.
#[derive(Debug, Clone, Copy)]
pub struct Steps<'a> {
    /// The projected inputs of all steps, `[s, n, gates * h]`.
    pub x: &'a TracedTensor,
    /// The number of steps of each sequence, `[n]`; if it is `None`, all sequences have all steps.
    pub lengths: Option<&'a TracedTensor>,
    /// Whether the steps run from the last to the first.
    pub backwards: bool,
}

/// Runs a cell over the steps, one after another.
///
/// # Errors
///
/// [`Error::Operator`] if there are more than [`MOST_STEPS`] steps; the backend's own errors.
pub(crate) fn unroll(
    on: &Tracer,
    op: &'static str,
    cell: &Cell<'_>,
    steps: Steps<'_>,
    start: State,
) -> Result<Run, TraceStop> {
    let of_x = on.extents(steps.x);
    let [count, batch, gates] = of_x.as_slice() else {
        return crate::ext::fail(wrong(op, "x", format!("has rank {}, expected 3", steps.x.rank())));
    };
    // The steps are unrolled, so the plan is valid only for this number of steps.
    let count = usize::try_from(count.number()).unwrap_or(0);
    let shape: [Extent; 3] = [count.into(), batch.clone(), cell.hidden.into()];
    let rows = batch.times(&count.into());
    // If there are no elements, nothing is computed, even if the number of steps is large.
    if rows.is(0) || cell.hidden == 0 {
        let outputs = on.full_to(&shape, 0.0, steps.x.dtype())?;
        return Ok(Run { outputs, last: start });
    }
    if count > MOST_STEPS {
        let problem = format!("has {count} steps, more than {MOST_STEPS}");
        return crate::ext::fail(wrong(op, "x", problem));
    }
    let flat = on.reshape_to(steps.x, &[rows.clone(), gates.clone()])?;
    let by_step = vec![batch.clone(); count];
    let inputs = on.split_to(&flat, 0, &by_step)?;
    let mask = mask(on, &steps, count, &rows)?;
    let masks = mask.as_ref().map(|mask| on.split_to(mask, 0, &by_step)).transpose()?;
    let mut outputs = inputs.clone();
    let mut state = start;
    for step in 0..count {
        let step = if steps.backwards { count - 1 - step } else { step };
        let Some(slot) = outputs.get_mut(step) else { continue };
        let mut next = cell.step(on, slot, &state)?;
        if let Some(within) = masks.as_ref().and_then(|m| m.get(step)) {
            next.hidden = on.r#where(within, &next.hidden, &state.hidden)?;
            next.cell = match (&next.cell, &state.cell) {
                (Some(new), Some(old)) => Some(on.r#where(within, new, old)?),
                _ => None,
            };
        }
        slot.clone_from(&next.hidden);
        state = next;
    }
    let mut outputs = on.concat(&outputs.iter().collect::<Vec<_>>(), 0)?;
    if let Some(mask) = &mask {
        outputs = on.r#where(mask, &outputs, &on.scalar_like(&outputs, 0.0)?)?;
    }
    Ok(Run { outputs: on.reshape_to(&outputs, &shape)?, last: state })
}

/// Returns whether each step is within the length of its sequence, `[rows, 1]`; `None` if all are.
fn mask(
    on: &Tracer,
    steps: &Steps<'_>,
    count: usize,
    rows: &Extent,
) -> Result<Option<TracedTensor>, TraceStop> {
    let Some(lengths) = steps.lengths else { return Ok(None) };
    let numbers = crate::ext::math::to(on, &crate::ext::counted(on, &[count, 1], 1)?, lengths.dtype())?;
    let within = on.less(&numbers, lengths)?;
    Ok(Some(on.reshape_to(&within, &[rows.clone(), Extent::from(1i64)])?))
}

fn wrong(op: &'static str, part: &'static str, problem: String) -> Error {
    Error::Operator { op: op.to_owned(), part: part.into(), problem }
}

/// The operands of an operation, and their common extents.
struct RowOperands<'a> {
    on: &'a Tracer,
    op: &'static str,
    steps: Steps<'a>,
    weights: &'a TracedTensor,
    /// The scale and the zero point of quantized weights.
    quantized: Option<(&'a TracedTensor, Option<&'a TracedTensor>)>,
    start: State,
    /// The peephole weights of the gates, concatenated.
    peepholes: Option<&'a TracedTensor>,
    batch: Extent,
    hidden: usize,
}

impl<'a> RowOperands<'a> {
    /// Checks the operands against each other.
    #[expect(clippy::too_many_arguments, reason = "the operands of the rows")]
    fn new(
        on: &'a Tracer,
        op: &'static str,
        gates: usize,
        steps: Steps<'a>,
        weights: &'a TracedTensor,
        quantized: Option<(&'a TracedTensor, Option<&'a TracedTensor>)>,
        start: State,
        peepholes: Option<&'a TracedTensor>,
    ) -> Result<RowOperands<'a>, TraceStop> {
        let dtype = steps.x.dtype();
        let floats = quantized.is_none().then_some(weights);
        for x in [steps.x, &start.hidden].into_iter().chain(&start.cell).chain(floats).chain(peepholes) {
            types::take(op, x, types::FLOATS)?;
            if x.dtype() != dtype {
                let error = bb_ir::Error::DataType { expected: dtype, got: x.dtype() };
                return crate::ext::fail(error);
            }
        }
        let hidden = weights.shape().first().copied().unwrap_or(0);
        let batch = on.extent(steps.x, 1);
        let fits = |x: &TracedTensor, expected: &[Extent]| {
            let got = on.extents(x);
            got.len() == expected.len() && got.iter().zip(expected).all(|(a, b)| a.equals(b))
        };
        let wide = Extent::from(gates * hidden);
        let of_x = [on.extent(steps.x, 0), batch.clone(), wide.clone()];
        let state = [batch.clone(), Extent::from(hidden)];
        let problem = if !fits(steps.x, &of_x) {
            Some(("x", "expected steps, batch, and gates times the hidden extent"))
        } else if !fits(weights, &[Extent::from(hidden), wide]) {
            Some(("weights", "expected the hidden extent, and gates times it"))
        } else if !fits(&start.hidden, &state) || !start.cell.iter().all(|cell| fits(cell, &state)) {
            Some(("the state", "expected batch and the hidden extent"))
        } else if !steps.lengths.is_none_or(|lengths| fits(lengths, std::slice::from_ref(&batch))) {
            Some(("lengths", "expected one for each sequence of the batch"))
        } else if !peepholes.is_none_or(|peepholes| fits(peepholes, &[Extent::from(3 * hidden)])) {
            Some(("peepholes", "expected three times the hidden extent"))
        } else {
            None
        };
        match problem {
            None => Ok(RowOperands { on, op, steps, weights, quantized, start, peepholes, batch, hidden }),
            Some((part, expected)) => {
                let list = |x: &TracedTensor| on.extents(x).iter().map(Extent::present).collect::<Vec<_>>();
                let problem = format!(
                    "has other extents than {expected}: x has {:?}, weights {:?}, the state {:?}",
                    list(steps.x),
                    list(weights),
                    list(&start.hidden)
                );
                crate::ext::fail(wrong(op, part, problem))
            }
        }
    }

    /// Returns the results of the steps; if the trace needs only types, returns placeholders.
    fn run(
        self,
        kind: Kind,
        bias: Option<&TracedTensor>,
        (functions, parameters): (&[i64], &[f64]),
        clip: Option<f64>,
    ) -> Result<Vec<TracedTensor>, TraceStop> {
        let (on, weights, hidden) = (self.on, self.weights, self.hidden);
        let dtype = self.steps.x.dtype();
        let outputs = [on.extent(self.steps.x, 0), self.batch.clone(), Extent::from(hidden)];
        let state = [self.batch.clone(), Extent::from(hidden)];
        let mut results: Vec<(DataType, &[Extent])> = vec![(dtype, &outputs), (dtype, &state)];
        results.extend(self.start.cell.iter().map(|_| (dtype, &state[..])));
        let activations = Activation::decode(self.op, kind.activations(), functions, parameters)?;
        if let Some(stand_ins) = on.stand_ins(&results) {
            return Ok(stand_ins);
        }
        if math::is_half(dtype) {
            // The states stay in `f32` between the steps, and each result is rounded once.
            let wide = |x: &TracedTensor| math::accumulated(on, x);
            let x = wide(self.steps.x)?;
            let weights = if self.quantized.is_none() { wide(weights)? } else { weights.clone() };
            let start = State {
                hidden: wide(&self.start.hidden)?,
                cell: self.start.cell.as_ref().map(wide).transpose()?,
            };
            let steps = Steps { x: &x, ..self.steps };
            let (bias, peepholes) = (bias.map(wide).transpose()?, self.peepholes.map(wide).transpose()?);
            let wide = RowOperands { steps, weights: &weights, start, peepholes: peepholes.as_ref(), ..self };
            let results = wide.run(kind, bias.as_ref(), (functions, parameters), clip)?;
            return results.into_iter().map(|result| math::narrowed(on, result, dtype)).collect();
        }
        let (mut early, mut late_weights) = (weights.clone(), None);
        if let Kind::Gru { linear_before_reset: false } = kind {
            let [first, last] = parts(on, weights, [2 * hidden, hidden])?;
            (early, late_weights) = (first, Some(last));
        }
        let peepholes = self.peepholes.map(|all| parts(on, all, [hidden; 3])).transpose()?;
        let cell = Cell {
            kind,
            hidden,
            project: &|state| match self.quantized {
                None => on.matmul(state, &early),
                Some((scale, zero)) => on.dynamic_matmul(state, &early, scale, zero, None),
            },
            late_weights,
            late_bias: bias.cloned(),
            peepholes,
            activations: &activations,
            clip,
        };
        let run = unroll(on, self.op, &cell, self.steps, self.start)?;
        Ok([run.outputs, run.last.hidden].into_iter().chain(run.last.cell).collect())
    }
}

/// The body of [`Nn::rnn`](crate::ext::Nn::rnn).
pub fn rnn(
    on: &Tracer,
    x: &TracedTensor,
    weights: &TracedTensor,
    hidden: &TracedTensor,
    lengths: Option<&TracedTensor>,
    RnnOptions { backwards, functions, parameters, clip }: RnnOptions<'_>,
) -> Result<Vec<TracedTensor>, TraceStop> {
    let start = State { hidden: hidden.clone(), cell: None };
    let operands =
        RowOperands::new(on, "rnn", 1, Steps { x, lengths, backwards }, weights, None, start, None)?;
    operands.run(Kind::Rnn, None, (functions, parameters), clip)
}

/// The body of [`Nn::gru`](crate::ext::Nn::gru).
pub fn gru(
    on: &Tracer,
    x: &TracedTensor,
    weights: &TracedTensor,
    hidden: &TracedTensor,
    bias: Option<&TracedTensor>,
    lengths: Option<&TracedTensor>,
    GruOptions { linear, backwards, functions, parameters, clip }: GruOptions<'_>,
) -> Result<Vec<TracedTensor>, TraceStop> {
    let start = State { hidden: hidden.clone(), cell: None };
    let operands =
        RowOperands::new(on, "gru", 3, Steps { x, lengths, backwards }, weights, None, start, None)?;
    if let Some(bias) = bias {
        if !linear {
            return crate::ext::fail(wrong("gru", "bias", "is given, but `linear` is not".to_owned()));
        }
        if bias.shape() != [operands.hidden] || bias.dtype() != x.dtype() {
            let problem = format!(
                "is {} {:?}, expected {} [{}]",
                bias.dtype(),
                bias.shape(),
                x.dtype(),
                operands.hidden
            );
            return crate::ext::fail(wrong("gru", "bias", problem));
        }
    }
    operands.run(Kind::Gru { linear_before_reset: linear }, bias, (functions, parameters), clip)
}

/// The body of [`Nn::lstm`](crate::ext::Nn::lstm).
#[expect(clippy::too_many_arguments, reason = "the operands of the row")]
pub fn lstm(
    on: &Tracer,
    x: &TracedTensor,
    weights: &TracedTensor,
    hidden: &TracedTensor,
    cell: &TracedTensor,
    scale: Option<&TracedTensor>,
    zero: Option<&TracedTensor>,
    lengths: Option<&TracedTensor>,
    peepholes: Option<&TracedTensor>,
    LstmOptions { coupled, backwards, functions, parameters, clip }: LstmOptions<'_>,
) -> Result<Vec<TracedTensor>, TraceStop> {
    let start = State { hidden: hidden.clone(), cell: Some(cell.clone()) };
    if scale.is_none() && zero.is_some() {
        return crate::ext::fail(wrong("lstm", "zero", "is given, but `scale` is not".to_owned()));
    }
    let quantized = scale.map(|scale| (scale, zero));
    let steps = Steps { x, lengths, backwards };
    let operands = RowOperands::new(on, "lstm", 4, steps, weights, quantized, start, peepholes)?;
    operands.run(Kind::Lstm { input_forget: coupled }, None, (functions, parameters), clip)
}
