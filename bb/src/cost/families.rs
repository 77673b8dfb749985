//! What the operations of the extension families cost.

use super::{Call, Cost, Moves, elements};
use crate::ext::{BitsOp, CreateOp, ImageOp, IndexOp, LlmOp, NnOp, ScalarOp};
use bb_ir::op::{Family, Param};

pub(super) fn cost(family: Family, index: u16, call: &Call<'_>) -> Cost {
    let cost = match family {
        Family::Scalar => ScalarOp::from_index(index).map(|op| scalar(op, call)),
        Family::Nn => NnOp::from_index(index).map(|op| nn(op, call)),
        Family::Llm => LlmOp::from_index(index).map(|op| llm(op, call)),
        Family::Create => CreateOp::from_index(index).map(|op| create(op, call)),
        Family::Index => IndexOp::from_index(index).map(|op| index_op(op, call)),
        Family::Bits => BitsOp::from_index(index).map(|op| bits(op, call)),
        Family::Image => ImageOp::from_index(index).map(|op| image(op, call)),
        _ => None,
    };
    cost.unwrap_or(Cost::UNKNOWN)
}

/// Each is a function of one number or of two.
fn scalar(op: ScalarOp, call: &Call<'_>) -> Cost {
    match op {
        ScalarOp::Maximum
        | ScalarOp::Minimum
        | ScalarOp::And
        | ScalarOp::Or
        | ScalarOp::Xor
        | ScalarOp::Not
        | ScalarOp::GreaterOrEqual
        | ScalarOp::LessOrEqual
        | ScalarOp::IsNaN
        | ScalarOp::IsInf
        | ScalarOp::Reciprocal
        | ScalarOp::Sign
        | ScalarOp::Floor
        | ScalarOp::Ceil
        | ScalarOp::Round
        | ScalarOp::Trunc
        | ScalarOp::Modulo
        | ScalarOp::Expm1
        | ScalarOp::Log1p
        | ScalarOp::Sigmoid
        | ScalarOp::Softplus
        | ScalarOp::Erf
        | ScalarOp::Sin
        | ScalarOp::Cos
        | ScalarOp::Tan
        | ScalarOp::Asin
        | ScalarOp::Acos
        | ScalarOp::Atan
        | ScalarOp::Sinh
        | ScalarOp::Cosh
        | ScalarOp::Tanh
        | ScalarOp::Asinh
        | ScalarOp::Acosh
        | ScalarOp::Atanh => call.elementwise(1),
    }
}

fn nn(op: NnOp, call: &Call<'_>) -> Cost {
    match op {
        NnOp::Relu | NnOp::LeakyRelu | NnOp::Elu | NnOp::Gelu | NnOp::Swish | NnOp::HardSigmoid => {
            call.elementwise(1)
        }
        // A comparison for each bound.
        NnOp::Clip => {
            call.elementwise(u128::from(call.input(1).is_some()) + u128::from(call.input(2).is_some()))
        }
        NnOp::Softmax => call.cost(softmax(call, Ending::Divide), Moves::All),
        NnOp::LogSoftmax => call.cost(softmax(call, Ending::Subtract), Moves::All),
        NnOp::LayerNormalization => call.cost(layer_normalization(call), Moves::All),
        NnOp::BatchNormalization => call.cost(batch_normalization(call), Moves::All),
        NnOp::Conv => call.cost(conv(call), Moves::All),
        NnOp::ConvTranspose => call.cost(conv_transpose(call), Moves::All),
        NnOp::MaxPool => call.cost(pooled(call, |window| window.saturating_sub(1)), Moves::All),
        // The division makes up for the addition that the first element does not need.
        NnOp::AveragePool => call.cost(pooled(call, |window| window), Moves::All),
        NnOp::Pad => call.movement(Moves::All),
        NnOp::GatherElements | NnOp::GatherNd => call.movement(Moves::Selected),
    }
}

/// How a softmax ends.
enum Ending {
    /// Each exponential is divided by the sum.
    Divide,
    /// The logarithm of the sum is subtracted from each difference.
    Subtract,
}

/// For each row of `l`: the maximum `l - 1`, differences `l`, exponentials `l`, their sum `l - 1`, and `l` quotients, or a
/// logarithm and `l` differences.
fn softmax(call: &Call<'_>, ending: Ending) -> Option<u128> {
    let x = call.input(0)?;
    let axis = axis(call.int(0)?, x.len())?;
    let rows = rows(x, *x.get(axis)?);
    let saved = match ending {
        Ending::Divide => 2,
        Ending::Subtract => 1,
    };
    Some(elements(x).saturating_mul(5).saturating_sub(rows.saturating_mul(saved)))
}

/// For each row of `l`: the mean `l`, differences `l`, their squares `l`, the variance `l`, with epsilon its root 2, quotients `l`,
/// and `l` each for scale and bias.
fn layer_normalization(call: &Call<'_>) -> Option<u128> {
    let x = call.input(0)?;
    let rows = normalized_rows(call, x)?;
    let each = if call.input(2).is_some() { 7 } else { 6 };
    Some(elements(x).saturating_mul(each).saturating_add(rows.saturating_mul(2)))
}

/// For each element a difference, a quotient, a product and a sum; for each channel epsilon and a root.
fn batch_normalization(call: &Call<'_>) -> Option<u128> {
    let x = call.input(0)?;
    if elements(x) == 0 {
        return Some(0);
    }
    Some(elements(x).saturating_mul(4).saturating_add(elements(call.input(1)?).saturating_mul(2)))
}

/// 2 for each element of the result and of its filter, whether the filter lies on the padding or not; 1 for the bias.
fn conv(call: &Call<'_>) -> Option<u128> {
    let filter = call.input(1)?.get(1..)?;
    let bias = u128::from(call.input(2).is_some());
    Some(elements(call.output()?).saturating_mul(elements(filter).saturating_mul(2).saturating_add(bias)))
}

/// 2 for each element of the operand and of the filters that spread it, whether its place is cut off or not; 1 for the bias.
fn conv_transpose(call: &Call<'_>) -> Option<u128> {
    let spread = elements(call.input(1)?.get(1..)?).saturating_mul(2);
    let bias = if call.input(2).is_some() { elements(call.output()?) } else { 0 };
    Some(elements(call.input(0)?).saturating_mul(spread).saturating_add(bias))
}

/// `each` of the window's elements for each element of the result, whether the window lies on the padding or not.
fn pooled(call: &Call<'_>, each: impl Fn(u128) -> u128) -> Option<u128> {
    let window = call.ints(0)?.iter().try_fold(1u128, |all, &n| all.checked_mul(u128::try_from(n).ok()?))?;
    Some(elements(call.output()?).saturating_mul(each(window)))
}

fn llm(op: LlmOp, call: &Call<'_>) -> Cost {
    match op {
        LlmOp::RmsNormalization => call.cost(rms_normalization(call), Moves::All),
        LlmOp::Rotate => call.cost(rotate(call), Moves::All),
        LlmOp::Attention => call.cost(attention(call), Moves::All),
    }
}

/// For each row of `l`: squares `l`, their mean `l`, with epsilon its root 2, quotients `l`, and `l` for the scale.
fn rms_normalization(call: &Call<'_>) -> Option<u128> {
    let x = call.input(0)?;
    let rows = normalized_rows(call, x)?;
    Some(elements(x).saturating_mul(4).saturating_add(rows.saturating_mul(2)))
}

/// Four products and two sums for each pair that turns.
fn rotate(call: &Call<'_>) -> Option<u128> {
    let x = call.input(0)?;
    let turning = match call.params.first()? {
        Param::OptInt(None) => *x.last()? as u128,
        Param::OptInt(Some(dim)) => u128::try_from(*dim).ok()?,
        _ => return None,
    };
    Some(rows(x, *x.last()?).saturating_mul(turning / 2 * 6))
}

/// Two products of matrices; for each product of a query and a key the scale, 3 for the cap, 1 for the bias; and softmax.
fn attention(call: &Call<'_>) -> Option<u128> {
    let (&[b, h, s, d], &[_, _, t, e]) = (call.input(0)?, call.input(2)?) else { return None };
    let capped = match call.params.get(1)? {
        Param::Float(cap) => 3 * u128::from(*cap > 0.0),
        _ => return None,
    };
    let products = elements(&[b, h, s, t]);
    let queries = if t == 0 { 0 } else { elements(&[b, h, s]) };
    let each = 2 * d as u128 + 2 * e as u128 + 1 + capped + u128::from(call.input(3).is_some()) + 5;
    Some(products.saturating_mul(each).saturating_sub(queries.saturating_mul(2)))
}

fn create(op: CreateOp, call: &Call<'_>) -> Cost {
    match op {
        CreateOp::ScalarLike | CreateOp::Full | CreateOp::Zeros | CreateOp::Ones => {
            call.movement(Moves::Results)
        }
        // Each element is `start + i * step`.
        CreateOp::Range => call.elementwise(2),
        CreateOp::Expand => call.movement(Moves::All),
        // How many operations a number takes is the generator's business.
        CreateOp::RandomUniform | CreateOp::RandomNormal => call.cost(None, Moves::All),
    }
}

fn index_op(op: IndexOp, call: &Call<'_>) -> Cost {
    match op {
        // How many comparisons it takes depends on the elements.
        IndexOp::TopK => call.cost(None, Moves::All),
        IndexOp::ScatterElements => call.cost(scattered(call, 1), Moves::All),
        IndexOp::ScatterNd => call.cost(scattered(call, 0), Moves::All),
    }
}

/// One for each update, unless updates replace what they meet.
fn scattered(call: &Call<'_>, reduction: usize) -> Option<u128> {
    match call.params.get(reduction)? {
        Param::Text(word) if word == "none" => Some(0),
        Param::Text(_) => Some(elements(call.input(2)?)),
        _ => None,
    }
}

fn bits(op: BitsOp, call: &Call<'_>) -> Cost {
    match op {
        BitsOp::BitwiseAnd | BitsOp::BitwiseOr | BitsOp::BitwiseXor | BitsOp::BitwiseNot => {
            call.elementwise(1)
        }
        BitsOp::BitCast => call.movement(Moves::Nothing),
    }
}

/// What these compute depends on the contents of their operands, or on the algorithm.
fn image(op: ImageOp, call: &Call<'_>) -> Cost {
    match op {
        ImageOp::GridSample
        | ImageOp::DeformConv
        | ImageOp::RoiAlign
        | ImageOp::MaxRoiPool
        | ImageOp::MaxUnpool
        | ImageOp::Dft => call.cost(None, Moves::All),
    }
}

/// Counts the rows of `length` elements.
fn rows(x: &[usize], length: usize) -> u128 {
    if length == 0 { 0 } else { elements(x) / length as u128 }
}

/// Counts the rows of a normalisation over the dimensions from its axis on.
fn normalized_rows(call: &Call<'_>, x: &[usize]) -> Option<u128> {
    let axis = axis(call.int(0)?, x.len())?;
    if elements(x) == 0 { Some(0) } else { Some(elements(x.get(..axis)?)) }
}

fn axis(axis: i64, rank: usize) -> Option<usize> {
    let rank = i64::try_from(rank).ok()?;
    usize::try_from(if axis < 0 { axis + rank } else { axis }).ok().filter(|&a| a < rank as usize)
}
