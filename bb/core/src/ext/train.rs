//! `Train`: losses, and optimizers that update tensors with their gradients.
//!
//! Several conventions exist for some operations; `bb/docs/training.md` says which one each operation follows.

use crate::error::NodePart;
pub use crate::family::train::*;
use crate::prelude::*;
use crate::trace::{TraceStop, TracedTensor, Tracer};
pub use bb_ir::op::{AdamEpsilon, Reduction};

use crate::ext::normalize::log_softmax_over;
use crate::ext::{math, types};
use crate::{DataType, Error, Tensor};

bb_ir::for_each_train!(crate::ext::bodies::bodies, Train, TrainOp, train);

fn wrong(op: &str, part: impl Into<NodePart>, problem: String) -> Error {
    Error::Operator { op: op.to_owned(), part: part.into(), problem }
}

/// The body of [`Train::cross_entropy`].
pub fn cross_entropy(
    on: &Tracer,
    x: &TracedTensor,
    labels: &TracedTensor,
    weights: Option<&TracedTensor>,
    CrossEntropyOptions { reduction, ignored }: CrossEntropyOptions,
) -> Result<TracedTensor, TraceStop> {
    const OP: &str = "cross_entropy";
    types::take(OP, x, types::FLOATS)?;
    of_classes(OP, x)?;
    math::widened(on, x, DataType::F32, |x| {
        labelled(on, OP, &log_softmax_over(on, x, &[1])?, [Some(labels), weights], reduction, ignored)
    })
}

/// The body of [`Train::cross_entropy_with_probabilities`].
pub fn cross_entropy_with_probabilities(
    on: &Tracer,
    x: &TracedTensor,
    labels: &TracedTensor,
    weights: Option<&TracedTensor>,
    CrossEntropyWithProbabilitiesOptions { reduction, ignored }: CrossEntropyWithProbabilitiesOptions,
) -> Result<Vec<TracedTensor>, TraceStop> {
    const OP: &str = "cross_entropy_with_probabilities";
    types::take(OP, x, types::FLOATS)?;
    of_classes(OP, x)?;
    let log = log_softmax_over(on, &math::accumulated(on, x)?, &[1])?;
    let loss = labelled(on, OP, &log, [Some(labels), weights], reduction, ignored)?;
    Ok(vec![math::narrowed(on, loss, x.dtype())?, math::narrowed(on, on.exp(&log)?, x.dtype())?])
}

/// The body of [`Train::negative_log_likelihood`].
pub fn negative_log_likelihood(
    on: &Tracer,
    x: &TracedTensor,
    labels: &TracedTensor,
    weights: Option<&TracedTensor>,
    NegativeLogLikelihoodOptions { reduction, ignored }: NegativeLogLikelihoodOptions,
) -> Result<TracedTensor, TraceStop> {
    const OP: &str = "negative_log_likelihood";
    types::take(OP, x, types::FLOATS)?;
    math::widened(on, x, DataType::F32, |log| {
        labelled(on, OP, log, [Some(labels), weights], reduction, ignored)
    })
}

/// Returns an error if scores have no dimension of classes.
fn of_classes(op: &str, x: &TracedTensor) -> Result<(), Error> {
    match x.rank() {
        0 | 1 => Err(wrong(op, NodePart::Operand(0), format!("has rank {}, expected 2 or more", x.rank()))),
        _ => Ok(()),
    }
}

/// Computes the loss of log-probabilities `[n, c, …]` for labels `[n, …]`, with the requested reduction.
fn labelled(
    on: &Tracer,
    op: &'static str,
    log: &TracedTensor,
    [labels, weights]: [Option<&TracedTensor>; 2],
    reduction: Reduction,
    ignored: Option<i64>,
) -> Result<TracedTensor, TraceStop> {
    of_classes(op, log)?;
    let (Some(labels), &[n, classes, ref rest @ ..]) = (labels, log.shape()) else {
        return Err(Error::Operand { op, index: 1, expected: "labels" }.into());
    };
    types::take(op, labels, types::INTEGERS)?;
    let expected: Vec<usize> = std::iter::once(n).chain(rest.iter().copied()).collect();
    if labels.shape() != expected {
        let problem = format!("has the extents {:?}, expected {expected:?}", labels.shape());
        return Err(wrong(op, NodePart::Operand(1), problem).into());
    }
    let ignored = match ignored {
        // `i32` labels are compared without conversion, because some devices have no wider integers.
        Some(index) if labels.dtype() == DataType::I32 => match i32::try_from(index) {
            Ok(index) => Some(on.equal(labels, &on.host(&[], &[index])?)?),
            Err(_) => None,
        },
        Some(index) => Some(on.equal(&math::to(on, labels, DataType::I64)?, &on.host(&[], &[index])?)?),
        None => None,
    };
    let unless_ignored = |x: &TracedTensor| match &ignored {
        Some(ignored) => on.r#where(ignored, &on.scalar_like(x, 0.0)?, x),
        None => on.identity(x),
    };
    // An ignored label may be out of range. Any other out-of-range label makes the gather of the weights fail.
    let labels = unless_ignored(labels)?;
    let labels = match labels.dtype() {
        DataType::I32 | DataType::I64 => labels,
        _ => math::to(on, &labels, DataType::I64)?,
    };
    let weights = match weights {
        Some(weights) => math::to(on, of_shape(op, weights, &[classes], 2)?, log.dtype())?,
        None => on.ones(&[classes], log.dtype())?,
    };
    let weights = unless_ignored(&on.gather(&weights, &labels, 0)?)?;
    let chosen = on.gather_elements(log, &on.unsqueeze(&labels, &[1])?, 1)?;
    let losses = unless_ignored(&on.mul(&on.neg(&on.squeeze(&chosen, &[1])?)?, &weights)?)?;
    match reduction {
        Reduction::None => Ok(losses),
        Reduction::Sum => on.reduce_sum(&losses, &[], false),
        Reduction::Mean => {
            on.div(&on.reduce_sum(&losses, &[], false)?, &on.reduce_sum(&weights, &[], false)?)
        }
    }
}

/// Returns an error if an operand has another shape.
fn of_shape<'a>(
    op: &str,
    x: &'a TracedTensor,
    shape: &[usize],
    operand: usize,
) -> Result<&'a TracedTensor, Error> {
    if x.shape() == shape {
        return Ok(x);
    }
    let problem = format!("has the extents {:?}, expected {shape:?}", x.shape());
    Err(wrong(op, NodePart::Operand(operand), problem))
}

/// The body of [`Train::cross_entropy_of_probabilities`].
pub fn cross_entropy_of_probabilities(
    on: &Tracer,
    x: &TracedTensor,
    targets: &TracedTensor,
    weights: Option<&TracedTensor>,
    CrossEntropyOfProbabilitiesOptions { reduction, smoothing }: CrossEntropyOfProbabilitiesOptions,
) -> Result<TracedTensor, TraceStop> {
    const OP: &str = "cross_entropy_of_probabilities";
    types::take(OP, x, types::FLOATS)?;
    types::take(OP, targets, types::FLOATS)?;
    of_classes(OP, x)?;
    of_shape(OP, targets, x.shape(), 1)?;
    let classes = x.shape().get(1).copied().unwrap_or(0);
    math::widened(on, x, DataType::F32, |x| {
        let mut targets = math::to(on, targets, x.dtype())?;
        if smoothing != 0.0 {
            targets =
                math::plus(on, &math::times(on, &targets, 1.0 - smoothing)?, smoothing / classes as f64)?;
        }
        if let Some(weights) = weights {
            let weights = math::to(on, of_shape(OP, weights, &[classes], 2)?, x.dtype())?;
            let mut column = vec![1; x.rank() - 1];
            if let Some(extent) = column.first_mut() {
                *extent = classes;
            }
            targets = on.mul(&targets, &on.reshape(&weights, &column)?)?;
        }
        let log = log_softmax_over(on, x, &[1])?;
        // A class of probability 0 contributes nothing, even if its logarithm is infinite.
        let zero = on.scalar_like(x, 0.0)?;
        let parts = on.r#where(&on.equal(&targets, &zero)?, &zero, &on.mul(&targets, &log)?)?;
        let losses = on.neg(&on.reduce_sum(&parts, &[1], false)?)?;
        match reduction {
            Reduction::None => Ok(losses),
            Reduction::Sum => on.reduce_sum(&losses, &[], false),
            Reduction::Mean => on.reduce_mean(&losses, &[], false),
        }
    })
}

/// Calls `f` with the operands of an optimizer. The first operand is the tensor to update, and the first `alike`
/// operands must have its type. 16-bit floats are computed in `f32`, and each result is rounded once.
fn moving<const N: usize>(
    on: &Tracer,
    op: &'static str,
    operands: [&TracedTensor; N],
    alike: usize,
    f: impl FnOnce([&TracedTensor; N]) -> Result<Vec<TracedTensor>, TraceStop>,
) -> Result<Vec<TracedTensor>, TraceStop> {
    let Some(&x) = operands.first() else { return f(operands) };
    types::take(op, x, types::FLOATS)?;
    for operand in operands.iter().take(alike) {
        types::alike(operand, x)?;
    }
    if !math::is_half(x.dtype()) {
        return f(operands);
    }
    let wide: Vec<TracedTensor> =
        operands.iter().map(|operand| math::accumulated(on, operand)).collect::<Result<_, _>>()?;
    let mut each = wide.iter();
    let results = f(operands.map(|operand| each.next().unwrap_or(operand)))?;
    results.into_iter().map(|result| math::narrowed(on, result, x.dtype())).collect()
}

/// A tensor to update, with the quantities that all optimizers use.
struct Moved<'a> {
    on: &'a Tracer,
    x: &'a TracedTensor,
    /// The gradient of the loss, plus the gradient of the penalty on large elements (weight decay).
    g: TracedTensor,
    /// The learning rate, of rank 0, in the type of `x`.
    rate: TracedTensor,
}

impl<'a> Moved<'a> {
    fn new(
        on: &'a Tracer,
        op: &'static str,
        [x, gradient, rate]: [&'a TracedTensor; 3],
        kept: &[&TracedTensor],
        penalty: f64,
    ) -> Result<Moved<'a>, TraceStop> {
        for (at, operand) in std::iter::once(gradient).chain(kept.iter().copied()).enumerate() {
            of_shape(op, operand, x.shape(), at + 1)?;
        }
        let rate = on.reshape(&math::to(on, rate, x.dtype())?, &[])?;
        let g = on.add(&math::times(on, x, penalty)?, gradient)?;
        Ok(Moved { on, x, g, rate })
    }

    fn constant(&self, value: f64) -> Result<TracedTensor, TraceStop> {
        self.on.scalar_like(self.x, value)
    }

    /// Converts a number of updates to rank 0 and the type of `x`.
    fn number(&self, count: &TracedTensor) -> Result<TracedTensor, TraceStop> {
        self.on.reshape(&math::to(self.on, count, self.x.dtype())?, &[])
    }

    /// Computes `decay * old + share * new`.
    fn average(
        &self,
        old: &TracedTensor,
        decay: f64,
        new: &TracedTensor,
        share: f64,
    ) -> Result<TracedTensor, TraceStop> {
        self.on.add(&math::times(self.on, old, decay)?, &math::times(self.on, new, share)?)
    }

    /// Computes `sqrt(x) + epsilon`.
    fn root(&self, x: &TracedTensor, epsilon: f64) -> Result<TracedTensor, TraceStop> {
        math::plus(self.on, &self.on.sqrt(x)?, epsilon)
    }

    /// Returns `value` if `count` is positive, and `first` if it is 0.
    fn if_counted(
        &self,
        count: &TracedTensor,
        value: &TracedTensor,
        first: &TracedTensor,
    ) -> Result<TracedTensor, TraceStop> {
        self.on.r#where(&self.on.greater(count, &self.constant(0.0)?)?, value, first)
    }

    /// Computes `x - step`.
    fn less(&self, step: &TracedTensor) -> Result<TracedTensor, TraceStop> {
        self.on.sub(self.x, step)
    }
}

/// The body of [`Train::adam`].
#[expect(clippy::too_many_arguments, reason = "the operands of the row")]
pub fn adam(
    on: &Tracer,
    x: &TracedTensor,
    gradient: &TracedTensor,
    mean: &TracedTensor,
    squares: &TracedTensor,
    rate: &TracedTensor,
    count: &TracedTensor,
    AdamOptions { decay, decay_squares, epsilon, epsilon_at, penalty, shrink }: AdamOptions,
) -> Result<Vec<TracedTensor>, TraceStop> {
    moving(
        on,
        "adam",
        [x, gradient, mean, squares, rate, count],
        4,
        |[x, gradient, mean, squares, rate, count]| {
            let m = Moved::new(on, "adam", [x, gradient, rate], &[mean, squares], penalty)?;
            let count = m.number(count)?;
            let mean = m.average(mean, decay, &m.g, 1.0 - decay)?;
            let squares = m.average(squares, decay_squares, &on.mul(&m.g, &m.g)?, 1.0 - decay_squares)?;
            // Bias correction of the averages, which matters while there were few updates.
            let one = m.constant(1.0)?;
            let lack = |share: f64| -> Result<TracedTensor, TraceStop> {
                m.if_counted(&count, &on.sub(&one, &on.pow(&m.constant(share)?, &count)?)?, &one)
            };
            let (rate, root) = match epsilon_at {
                AdamEpsilon::Onnx => {
                    let adjusted =
                        on.div(&on.mul(&m.rate, &on.sqrt(&lack(decay_squares)?)?)?, &lack(decay)?)?;
                    (adjusted, m.root(&squares, epsilon)?)
                }
                AdamEpsilon::PyTorch => {
                    let corrected = on.div(&on.sqrt(&squares)?, &on.sqrt(&lack(decay_squares)?)?)?;
                    (on.div(&m.rate, &lack(decay)?)?, math::plus(on, &corrected, epsilon)?)
                }
            };
            let step = on.div(&on.mul(&rate, &mean)?, &root)?;
            Ok(vec![math::times(on, &m.less(&step)?, 1.0 - shrink)?, mean, squares])
        },
    )
}

/// The body of [`Train::adagrad`].
pub fn adagrad(
    on: &Tracer,
    x: &TracedTensor,
    gradient: &TracedTensor,
    squares: &TracedTensor,
    rate: &TracedTensor,
    count: &TracedTensor,
    AdagradOptions { decay, epsilon, penalty }: AdagradOptions,
) -> Result<Vec<TracedTensor>, TraceStop> {
    moving(on, "adagrad", [x, gradient, squares, rate, count], 3, |[x, gradient, squares, rate, count]| {
        let m = Moved::new(on, "adagrad", [x, gradient, rate], &[squares], penalty)?;
        let rate = on.div(&m.rate, &math::plus(on, &math::times(on, &m.number(count)?, decay)?, 1.0)?)?;
        let squares = on.add(squares, &on.mul(&m.g, &m.g)?)?;
        let step = on.div(&on.mul(&rate, &m.g)?, &m.root(&squares, epsilon)?)?;
        Ok(vec![m.less(&step)?, squares])
    })
}

/// The body of [`Train::momentum`].
pub fn momentum(
    on: &Tracer,
    x: &TracedTensor,
    gradient: &TracedTensor,
    speed: &TracedTensor,
    rate: &TracedTensor,
    count: &TracedTensor,
    MomentumOptions { decay, share, nesterov, penalty }: MomentumOptions,
) -> Result<Vec<TracedTensor>, TraceStop> {
    moving(on, "momentum", [x, gradient, speed, rate, count], 3, |[x, gradient, speed, rate, count]| {
        let m = Moved::new(on, "momentum", [x, gradient, rate], &[speed], penalty)?;
        let share = m.if_counted(&m.number(count)?, &m.constant(share)?, &m.constant(1.0)?)?;
        let speed = on.add(&math::times(on, speed, decay)?, &on.mul(&share, &m.g)?)?;
        let direction =
            if nesterov { on.add(&m.g, &math::times(on, &speed, decay)?)? } else { speed.clone() };
        Ok(vec![m.less(&on.mul(&m.rate, &direction)?)?, speed])
    })
}

/// The body of [`Train::sgd`].
pub fn sgd(
    on: &Tracer,
    x: &TracedTensor,
    gradient: &TracedTensor,
    rate: &TracedTensor,
    penalty: f64,
) -> Result<TracedTensor, TraceStop> {
    let moved = moving(on, "sgd", [x, gradient, rate], 2, |[x, gradient, rate]| {
        let m = Moved::new(on, "sgd", [x, gradient, rate], &[], penalty)?;
        Ok(vec![m.less(&on.mul(&m.rate, &m.g)?)?])
    })?;
    Ok(crate::call::only("sgd", moved.into_iter().collect())?)
}
