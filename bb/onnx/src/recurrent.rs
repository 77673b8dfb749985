//! `RNN`, `GRU` and `LSTM`: cells that run over a sequence forwards, backwards or both.
//!
//! One matrix product projects the inputs of all steps. Each step then multiplies only the state.

use crate::attributes::Attributes;
use crate::rows::operators;
use bb_core::error::NodePart;
use bb_core::ext::recurrent::{Activation, Kind, Parameters, Run, State, Steps, parts};
use bb_core::ext::{Extent, GruOptions, LstmOptions, RnnOptions, math};
use bb_core::operator::{Call, OpOutputs, OpResult};
use bb_core::prelude::*;
use bb_core::trace::{TraceStop, TracedTensor, Tracer};
use bb_core::{DataType, Error, Tensor};
use bb_ir::graph::Dim;
use bb_ir::infer::rule::{self, NodeFacts, Types};

operators! {
    "" {
        GRU => Primitives(gru), infer: By(recurrent_types), halves: Once, ignores: { "output_sequence": "a result is made if the node names it" };
        LSTM => Primitives(lstm), infer: By(recurrent_types), halves: Once, ignores: { "output_sequence": "a result is made if the node names it" };
        RNN => Primitives(rnn), infer: By(recurrent_types), halves: Once, ignores: { "output_sequence": "a result is made if the node names it" };
    }
}

/// The reading direction of sequences, and the order of the operands' dimensions.
struct Order<'a> {
    direction: &'a str,
    batch_first: bool,
}

impl<'a> Order<'a> {
    fn of<A: Attributes<'a>>(node: &A) -> Result<Order<'a>, A::Error> {
        let direction = match node.text_or("direction", "forward")? {
            // ONNX misspells the default of `GRU` 1.
            "foward" => "forward",
            direction => direction,
        };
        Ok(Order { direction, batch_first: node.flag("layout", false)? })
    }

    /// Returns whether each direction runs backwards; `None` if the attribute has an unknown value.
    fn backwards(&self) -> Option<&'static [bool]> {
        match self.direction {
            "forward" => Some(&[false]),
            "reverse" => Some(&[true]),
            "bidirectional" => Some(&[false, true]),
            _ => None,
        }
    }
}

/// Infers the types of `RNN`, `GRU` and `LSTM`: all outputs of the sequence, the last output, and for `LSTM` the last
/// cell state.
pub fn recurrent_types(at: NodeFacts<'_>) -> Option<Types> {
    let shapes = || {
        let [first, second, _] = at.dims(0)? else { return None };
        let hidden = match at.int("hidden_size", 0)? {
            // The width follows from the recurrence weights. Quantized weights are stored transposed.
            0 => {
                let at_end = if at.node.domain.is_empty() { 2 } else { 1 };
                at.dims(2).and_then(|r| r.get(at_end)).cloned().unwrap_or(Dim::Unknown)
            }
            size => Dim::Known(usize::try_from(size).ok()?),
        };
        let order = Order::of(&at).ok()?;
        let directions = Dim::Known(order.backwards()?.len());
        let [first, second] = [first.clone(), second.clone()];
        Some(if order.batch_first {
            (vec![first.clone(), second, directions.clone(), hidden.clone()], vec![first, directions, hidden])
        } else {
            (
                vec![first, directions.clone(), second.clone(), hidden.clone()],
                vec![directions, second, hidden],
            )
        })
    };
    let (all, last) = shapes().unzip();
    let dtype = at.dtype(0);
    Some(vec![rule::tensor(dtype, all), rule::tensor(dtype, last.clone()), rule::tensor(dtype, last)])
}

/// `RNN`.
pub(super) fn rnn(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    recurrent(on, call, Kind::Rnn, false)
}

/// `GRU`.
pub(super) fn gru(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    recurrent(on, call, Kind::Gru { linear_before_reset: call.flag("linear_before_reset", false)? }, false)
}

/// `LSTM`.
pub(super) fn lstm(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    recurrent(on, call, Kind::Lstm { input_forget: call.flag("input_forget", false)? }, false)
}

/// `LSTM` with quantized weights, `[directions, inputs, gates]`. Their scales and zero points follow the other operands.
pub fn quantized_lstm(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    recurrent(on, call, Kind::Lstm { input_forget: call.flag("input_forget", false)? }, true)
}

/// The extents of a call.
#[derive(Debug, Clone)]
struct RecurrentExtents {
    steps: Extent,
    batch: Extent,
    input: usize,
    hidden: usize,
    gates: usize,
    directions: usize,
}

/// The parameters of a direction, without its state and inputs.
struct Cells {
    /// The recurrence weights, `[h, gates * h]`.
    weights: ProjectionMatrix,
    /// The bias of the projected input.
    bias: Option<TracedTensor>,
    /// The recurrence bias of the hidden gate, `[h]`, which a linear GRU adds before it resets.
    late_bias: Option<TracedTensor>,
    /// The weights of the cell state in the input, output and forget gates, `[3 * h]`.
    peepholes: Option<TracedTensor>,
}

/// The matrix of a projection.
#[derive(Debug)]
enum ProjectionMatrix {
    /// Floats of the type that steps compute in, `[k, n]`.
    Plain(TracedTensor),
    /// Integers, with their scale and zero point. The other operand is quantized dynamically, by its range.
    Quantized { matrix: TracedTensor, scale: TracedTensor, zero: TracedTensor },
}

impl ProjectionMatrix {
    /// Multiplies `x`, `[m, k]`, with the matrix.
    fn project(&self, on: &Tracer, x: &TracedTensor) -> Result<TracedTensor, TraceStop> {
        match self {
            ProjectionMatrix::Plain(matrix) => on.matmul(x, matrix),
            ProjectionMatrix::Quantized { matrix, scale, zero } => {
                on.dynamic_matmul(x, matrix, scale, Some(zero), None)
            }
        }
    }
}

/// Runs a cell over time in each direction. `f16` and `bf16` are computed in `f32`.
fn recurrent(on: &Tracer, call: &Call<'_, TracedTensor>, kind: Kind, quantized: bool) -> OpResult {
    let dtype = call.input(0)?.dtype();
    let order = Order::of(call)?;
    let backwards = order.backwards().ok_or_else(|| {
        let problem = format!("is `{}`, expected `forward`, `reverse` or `bidirectional`", order.direction);
        call.wrong("direction", problem)
    })?;
    let batch_first = order.batch_first;
    let wide = if dtype == DataType::F64 { dtype } else { DataType::F32 };
    let operands = DirectionOperands { on, call, wide, quantized };
    let x = operands.wide(call.input(0)?)?;
    let x = if batch_first { on.transpose(&x, &[1, 0, 2])? } else { x };
    let e = operands.extents(kind, &x, backwards.len())?;
    let activations = activations(call, kind.activations(), e.directions)?;
    let mut runs = Vec::with_capacity(e.directions);
    for (at, &backwards) in backwards.iter().enumerate() {
        let per_cell = kind.activations().len();
        let own = activations.get(at * per_cell..(at + 1) * per_cell).unwrap_or_default();
        let start = operands.start(kind, &e, at, batch_first)?;
        runs.push(operands.run(kind, &x, &e, at, own, start, backwards)?);
    }
    let narrow = |x: &TracedTensor, perm: &[i64]| -> Result<TracedTensor, TraceStop> {
        math::to(on, &if batch_first { on.transpose(x, perm)? } else { x.clone() }, dtype)
    };
    let mut results: OpOutputs<TracedTensor> = OpOutputs::new();
    results.push(if call.wants(0) {
        Some(narrow(&joined(on, runs.iter().map(|r| &r.outputs), 1)?, &[2, 0, 1, 3])?)
    } else {
        None
    });
    results.push(Some(narrow(&joined(on, runs.iter().map(|r| &r.last.hidden), 0)?, &[1, 0, 2])?));
    if let Kind::Lstm { .. } = kind {
        results.push(Some(narrow(
            &joined(on, runs.iter().filter_map(|r| r.last.cell.as_ref()), 0)?,
            &[1, 0, 2],
        )?));
    }
    Ok(results)
}

/// Joins the results of the directions along a new dimension at `axis`.
fn joined<'t>(
    on: &Tracer,
    parts: impl Iterator<Item = &'t TracedTensor>,
    axis: i64,
) -> Result<TracedTensor, TraceStop>
where
    TracedTensor: 't,
{
    let parts = parts.map(|part| on.unsqueeze(part, &[axis])).collect::<Result<Vec<_>, _>>()?;
    match parts.as_slice() {
        [one] => Ok(one.clone()),
        _ => on.concat(&parts.iter().collect::<Vec<_>>(), axis),
    }
}

/// Returns the operand at `index` if it is present, after checking its extents.
fn shaped<'a>(
    on: &Tracer,
    call: &Call<'a, TracedTensor>,
    index: usize,
    expected: &[Extent],
) -> Result<Option<&'a TracedTensor>, Error> {
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

/// Access to the operands of a call, one direction at a time.
struct DirectionOperands<'a> {
    on: &'a Tracer,
    call: &'a Call<'a, TracedTensor>,
    /// The element type that steps compute in.
    wide: DataType,
    /// Whether the weights are integers.
    quantized: bool,
}

impl DirectionOperands<'_> {
    /// Reads the extents, and checks the extents of the weights against them.
    fn extents(&self, kind: Kind, x: &TracedTensor, directions: usize) -> Result<RecurrentExtents, Error> {
        let call = self.call;
        let extents = self.on.extents(x);
        let [steps, batch, input] = extents.as_slice() else {
            return Err(call.wrong(NodePart::Operand(0), format!("has rank {}, expected 3", x.rank())));
        };
        let input = usize::try_from(input.number()).unwrap_or(0);
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
        Ok(RecurrentExtents { steps: steps.clone(), batch: batch.clone(), input, hidden, gates, directions })
    }

    fn wide(&self, x: &TracedTensor) -> Result<TracedTensor, TraceStop> {
        math::to(self.on, x, self.wide)
    }

    /// Returns the part of an operand for the direction `at`, without the dimension of directions.
    fn raw(&self, x: &TracedTensor, at: usize, axis: i64) -> Result<TracedTensor, TraceStop> {
        let at = at as i64;
        self.on.squeeze(&self.on.slice(x, &[at], &[at + 1], &[axis], &[])?, &[axis])
    }

    /// Returns the part of an operand for the direction `at`, converted to the type that steps compute in.
    fn part(&self, x: &TracedTensor, at: usize, axis: i64) -> Result<TracedTensor, TraceStop> {
        self.wide(&self.raw(x, at, axis)?)
    }

    /// Returns the weights in the operand `index` for the direction `at`.
    fn weights(&self, index: usize, at: usize) -> Result<ProjectionMatrix, TraceStop> {
        let (on, call) = (self.on, self.call);
        if !self.quantized {
            return Ok(ProjectionMatrix::Plain(
                on.transpose(&self.part(call.input(index)?, at, 0)?, &[1, 0])?,
            ));
        }
        // Pairs of scale and zero point follow the eight operands of an LSTM.
        let (scale, zero) = (call.input(6 + 2 * index)?, call.input(7 + 2 * index)?);
        let (matrix, zero) = (self.raw(call.input(index)?, at, 0)?, self.raw(zero, at, 0)?);
        Ok(ProjectionMatrix::Quantized { matrix, scale: self.part(scale, at, 0)?, zero })
    }

    /// Reads the parameters of a direction.
    fn cells(&self, kind: Kind, e: &RecurrentExtents, at: usize) -> Result<Cells, TraceStop> {
        let (on, call, rows) = (self.on, self.call, e.gates * e.hidden);
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
                .map(|peepholes| self.part(peepholes, at, 0))
                .transpose()?,
            _ => None,
        };
        Ok(Cells { weights: self.weights(2, at)?, bias, late_bias, peepholes })
    }

    /// Returns the state before the first step: the operand, or zeros.
    fn start(
        &self,
        kind: Kind,
        e: &RecurrentExtents,
        at: usize,
        batch_first: bool,
    ) -> Result<State, TraceStop> {
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
        kind: Kind,
        x: &TracedTensor,
        e: &RecurrentExtents,
        at: usize,
        activations: &[Activation],
        start: State,
        backwards: bool,
    ) -> Result<Run, TraceStop> {
        let (on, call) = (self.on, self.call);
        let cells = self.cells(kind, e, at)?;
        let flat = on.reshape_to(x, &[e.batch.times(&e.steps), e.input.into()])?;
        let mut projected = self.weights(1, at)?.project(on, &flat)?;
        if let Some(bias) = &cells.bias {
            projected = on.add(&projected, bias)?;
        }
        let x =
            on.reshape_to(&projected, &[e.steps.clone(), e.batch.clone(), (e.gates * e.hidden).into()])?;
        let lengths = shaped(on, call, 4, std::slice::from_ref(&e.batch))?;
        let clip = call.has("clip").then(|| call.float("clip")).transpose()?.filter(|&most| most > 0.0);
        let steps = Steps { x: &x, lengths, backwards };
        self.row(kind, steps, &cells, start, activations, clip)
    }

    /// Calls the operation of the cell.
    fn row(
        &self,
        kind: Kind,
        Steps { x, lengths, backwards }: Steps<'_>,
        cells: &Cells,
        State { hidden, cell }: State,
        activations: &[Activation],
        clip: Option<f64>,
    ) -> Result<Run, TraceStop> {
        let on = self.on;
        let (weights, scale, zero) = match &cells.weights {
            ProjectionMatrix::Plain(weights) => (weights, None, None),
            ProjectionMatrix::Quantized { matrix, scale, zero } => (matrix, Some(scale), Some(zero)),
        };
        let (bias, peepholes) = (cells.late_bias.as_ref(), cells.peepholes.as_ref());
        // The default functions of a cell need no list.
        let own = kind.activations().iter().map(|name| Activation::named(name, None, None));
        let own = own.eq(activations.iter().map(|&activation| Some(activation)));
        let listed = if own { &[] } else { activations };
        let (functions, parameters): (Vec<i64>, Vec<[f64; 2]>) =
            listed.iter().map(|activation| activation.encode()).unzip();
        let (functions, parameters) = (&functions[..], parameters.as_flattened());
        let results = match (kind, &cell) {
            (Kind::Rnn, _) => {
                let options = RnnOptions { backwards, functions, parameters, clip };
                on.rnn(x, weights, &hidden, lengths, options)?
            }
            (Kind::Lstm { input_forget: coupled }, Some(cell)) => {
                let options = LstmOptions { coupled, backwards, functions, parameters, clip };
                on.lstm(x, weights, &hidden, cell, scale, zero, lengths, peepholes, options)?
            }
            (Kind::Gru { .. } | Kind::Lstm { .. }, _) => {
                let linear = kind == Kind::Gru { linear_before_reset: true };
                let options = GruOptions { linear, backwards, functions, parameters, clip };
                on.gru(x, weights, &hidden, bias, lengths, options)?
            }
        };
        let mut results = results.into_iter();
        let (Some(outputs), Some(hidden)) = (results.next(), results.next()) else {
            return bb_core::ext::fail(Error::Results {
                op: self.call.op_type().to_owned(),
                expected: 2,
                got: 0,
            });
        };
        Ok(Run { outputs, last: State { hidden, cell: results.next() } })
    }
}

/// Reads the activation functions of all directions; `defaults` for each direction if the attribute is absent.
fn activations<T>(
    call: &Call<'_, T>,
    defaults: &[&str],
    directions: usize,
) -> Result<Vec<Activation>, Error> {
    let mut alphas = Parameters(call.floats("activation_alpha")?.unwrap_or_default().iter());
    let mut betas = Parameters(call.floats("activation_beta")?.unwrap_or_default().iter());
    let mut named = |name: &str| {
        Activation::new(name, &mut alphas, &mut betas)
            .ok_or_else(|| call.wrong("activations", format!("has `{name}`, which names no activation")))
    };
    let Some(names) = call.texts("activations")? else {
        return defaults.iter().cycle().take(defaults.len() * directions).map(|name| named(name)).collect();
    };
    let expected = defaults.len() * directions;
    if names.len() < expected {
        let problem = format!("has {} names, expected {expected}", names.len());
        return Err(call.wrong("activations", problem));
    }
    // The default of `RNN` in ONNX has names for two directions, even for a single direction, so the rest is dropped.
    let all = names.iter().map(|name| named(&String::from_utf8_lossy(name)));
    let mut all = all.collect::<Result<Vec<_>, _>>()?;
    all.truncate(expected);
    Ok(all)
}
