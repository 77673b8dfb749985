//! The costs of the operations of the extension families.

use super::{Call, Cost, Moves, elements};
use crate::ext::{BitsOp, CreateOp, ImageOp, IndexOp, LlmOp, MlOp, NnOp, QuantOp, ScalarOp, TrainOp};
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
        Family::Ml => MlOp::from_index(index).map(|op| ml(op, call)),
        Family::Quant => QuantOp::from_index(index).map(|op| quant(op, call)),
        Family::Train => TrainOp::from_index(index).map(|op| train(op, call)),
        _ => None,
    };
    cost.unwrap_or(Cost::UNKNOWN)
}

/// Every operation of this family is a function of one number or of two.
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
        // Each line of the program is a function of one number or of two.
        ScalarOp::Fused => call.elementwise(fused_lines(call, 0)),
    }
}

/// The number of lines of a program, whose first tensor is made of the first `made` operands if there are any.
fn fused_lines(call: &Call<'_>, made: usize) -> u128 {
    let program = call.ints(0).unwrap_or_default();
    let tensors = (call.inputs() + usize::from(made > 0)).saturating_sub(made);
    crate::ext::fused::lines(program, tensors).map_or(0, |lines| lines.len() as u128)
}

fn nn(op: NnOp, call: &Call<'_>) -> Cost {
    match op {
        NnOp::Relu
        | NnOp::LeakyRelu
        | NnOp::Elu
        | NnOp::Gelu
        | NnOp::Swish
        | NnOp::HardSigmoid
        | NnOp::ThresholdedRelu
        | NnOp::CumSum => call.elementwise(1),
        // Each bound costs a comparison.
        NnOp::Clip => {
            call.elementwise(u128::from(call.input(1).is_some()) + u128::from(call.input(2).is_some()))
        }
        // One less than elements for each result.
        NnOp::ReduceProd => {
            let terms = call.input(0).map(elements).zip(call.output().map(elements));
            call.cost(terms.map(|(x, y)| x.saturating_sub(y)), Moves::All)
        }
        NnOp::Softmax => call.cost(softmax(call, Ending::Divide), Moves::All),
        NnOp::LogSoftmax => call.cost(softmax(call, Ending::Subtract), Moves::All),
        NnOp::LayerNormalization => call.cost(layer_normalization(call), Moves::All),
        NnOp::BatchNormalization => call.cost(batch_normalization(call), Moves::All),
        NnOp::Conv => call.cost(conv(call), Moves::All),
        NnOp::FusedConv => {
            let program = call.output().map(|y| elements(y).saturating_mul(fused_lines(call, 3)));
            call.cost(conv(call).zip(program).map(|(conv, program)| conv.saturating_add(program)), Moves::All)
        }
        NnOp::ConvTranspose => call.cost(conv_transpose(call), Moves::All),
        NnOp::Rnn => call.cost(recurrent(call, 2), Moves::All),
        NnOp::Gru => call.cost(recurrent(call, 11), Moves::All),
        NnOp::Lstm => {
            // Three gates see the cell state.
            let seen = if call.input(7).is_some() { 6 } else { 0 };
            call.cost(recurrent(call, 13 + seen), Moves::All)
        }
        NnOp::MaxPool => call.cost(pooled(call, |window| window.saturating_sub(1)), Moves::All),
        // The division replaces the addition that the first element does not need.
        NnOp::AveragePool => call.cost(pooled(call, |window| window), Moves::All),
        NnOp::Pad => call.movement(Moves::All),
        NnOp::GatherElements | NnOp::GatherNd => call.movement(Moves::Selected),
    }
}

/// The last step of a softmax.
enum Ending {
    /// Divides each exponential by the sum.
    Divide,
    /// Subtracts the logarithm of the sum from each difference.
    Subtract,
}

/// For each row of `l` elements: `l - 1` for the maximum, `l` differences, `l` exponentials, `l - 1` for
/// their sum, and `l` quotients, or a logarithm and `l` differences.
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

/// For each row of `l` elements: `l` for the mean, `l` differences, `l` squares, `l` for the variance, 2 for
/// epsilon and the root, `l` quotients, `l` for the scale and `l` for the bias.
fn layer_normalization(call: &Call<'_>) -> Option<u128> {
    let x = call.input(0)?;
    let rows = normalized_rows(call, x)?;
    let each = if call.input(2).is_some() { 7 } else { 6 };
    Some(elements(x).saturating_mul(each).saturating_add(rows.saturating_mul(2)))
}

/// For each element a difference, a quotient, a product and a sum; for each channel 2 for epsilon and the
/// root.
fn batch_normalization(call: &Call<'_>) -> Option<u128> {
    let x = call.input(0)?;
    if elements(x) == 0 {
        return Some(0);
    }
    Some(elements(x).saturating_mul(4).saturating_add(elements(call.input(1)?).saturating_mul(2)))
}

/// For each element of the result, 2 for each element of its filter, including those on the padding, and 1
/// for the bias.
fn conv(call: &Call<'_>) -> Option<u128> {
    let filter = call.input(1)?.get(1..)?;
    let bias = u128::from(call.input(2).is_some());
    Some(elements(call.output()?).saturating_mul(elements(filter).saturating_mul(2).saturating_add(bias)))
}

/// For each state, 2 for each of the weights, less 1 for each of its gates, and `each` for what follows the products with
/// the weights.
fn recurrent(call: &Call<'_>, each: u128) -> Option<u128> {
    let states = elements(call.output()?);
    let &[hidden, gates] = call.input(1)? else { return None };
    if hidden == 0 {
        return Some(0);
    }
    let products = (gates as u128).saturating_mul(2).saturating_sub((gates / hidden) as u128);
    Some(states.saturating_mul(products.saturating_add(each)))
}

/// For each element of the operand, 2 for each element of its filters, including those that are cut off; 1
/// for the bias of each result.
fn conv_transpose(call: &Call<'_>) -> Option<u128> {
    let spread = elements(call.input(1)?.get(1..)?).saturating_mul(2);
    let bias = if call.input(2).is_some() { elements(call.output()?) } else { 0 };
    Some(elements(call.input(0)?).saturating_mul(spread).saturating_add(bias))
}

/// `each(n)` for each element of the result, where `n` is the size of the window, including padding.
fn pooled(call: &Call<'_>, each: impl Fn(u128) -> u128) -> Option<u128> {
    let window = call.ints(0)?.iter().try_fold(1u128, |all, &n| all.checked_mul(u128::try_from(n).ok()?))?;
    Some(elements(call.output()?).saturating_mul(each(window)))
}

fn llm(op: LlmOp, call: &Call<'_>) -> Cost {
    match op {
        LlmOp::RmsNormalization => call.cost(rms_normalization(call), Moves::All),
        LlmOp::Rotate => call.cost(rotate(call), Moves::All),
        LlmOp::Attention => call.cost(attention(call), Moves::All),
        LlmOp::SkipRmsNorm => call.cost(skip_rms_norm(call), Moves::All),
        // The gate, and the product.
        LlmOp::SiluMul => call.elementwise(2),
        LlmOp::Linear => call.cost(linear(call, 2), Moves::All),
        LlmOp::QuantizedLinear => {
            // The product, and for each weight a difference and a product.
            let weights = || {
                let (&inner, &columns) = (call.input(0)?.last()?, call.input(1)?.first()?);
                Some((inner as u128).saturating_mul(columns as u128).saturating_mul(2))
            };
            call.cost(weights().zip(linear(call, 4)).map(|(w, p)| w.saturating_add(p)), Moves::All)
        }
        LlmOp::CachedAttention => call.cost(cached_attention(call), Moves::All),
        LlmOp::PagedAttention => call.cost(paged_attention(call), Moves::All),
        LlmOp::KvAppend => call.movement(Moves::All),
        // The number of comparisons depends on the elements.
        LlmOp::SampleToken => call.cost(None, Moves::All),
    }
}

/// One for each sum, and the normalisation of rows along the last dimension.
fn skip_rms_norm(call: &Call<'_>) -> Option<u128> {
    let x = call.input(0)?;
    let sums = 1 + u128::from(call.input(3).is_some());
    let rows = rows(x, *x.last()?);
    Some(elements(x).saturating_mul(4 + sums).saturating_add(rows.saturating_mul(2)))
}

/// A product of matrices, and one for each bias, which is the operand `bias`.
fn linear(call: &Call<'_>, bias: usize) -> Option<u128> {
    let biases = if call.input(bias).is_some() { elements(call.output()?) } else { 0 };
    Some(product(call)?.saturating_add(biases))
}

/// For each row of `l` elements: `l` squares, `l` for the mean, 2 for epsilon and the root, `l` quotients,
/// and `l` for the scale.
fn rms_normalization(call: &Call<'_>) -> Option<u128> {
    let x = call.input(0)?;
    let rows = normalized_rows(call, x)?;
    Some(elements(x).saturating_mul(4).saturating_add(rows.saturating_mul(2)))
}

/// Four products and two sums for each pair that is rotated.
fn rotate(call: &Call<'_>) -> Option<u128> {
    let x = call.input(0)?;
    let turning = match call.params.first()? {
        Param::OptInt(None) => *x.last()? as u128,
        Param::OptInt(Some(dim)) => u128::try_from(*dim).ok()?,
        _ => return None,
    };
    Some(rows(x, *x.last()?).saturating_mul(turning / 2 * 6))
}

/// What a call of attention computes.
struct Scores {
    /// The batch, the heads, the queries and the keys.
    extents: [usize; 4],
    /// The extents of a key and of a value.
    sizes: [usize; 2],
    /// Whether products are bounded.
    capped: bool,
    /// Whether something is added to the products.
    biased: bool,
}

/// Two products of matrices; for each score 1 for the scale, 3 for the cap and 1 for the bias; and a softmax.
fn scores(Scores { extents, sizes: [d, e], capped, biased }: Scores) -> u128 {
    let [b, h, s, t] = extents;
    let queries = if t == 0 { 0 } else { elements(&[b, h, s]) };
    let each = 2 * d as u128 + 2 * e as u128 + 1 + 3 * u128::from(capped) + u128::from(biased) + 5;
    elements(&extents).saturating_mul(each).saturating_sub(queries.saturating_mul(2))
}

/// Whether the parameter at a position bounds products.
fn capped(call: &Call<'_>, at: usize) -> Option<bool> {
    match call.params.get(at)? {
        Param::Float(cap) => Some(*cap > 0.0),
        _ => None,
    }
}

fn attention(call: &Call<'_>) -> Option<u128> {
    let (&[b, h, s, d], &[_, _, t, e]) = (call.input(0)?, call.input(2)?) else { return None };
    let (capped, biased) = (capped(call, 1)?, call.input(3).is_some());
    Some(scores(Scores { extents: [b, h, s, t], sizes: [d, e], capped, biased }))
}

/// Attention to the cache and what is new. Masks are not counted: a backend need not make any.
fn cached_attention(call: &Call<'_>) -> Option<u128> {
    let (&[b, h, s, d], &[_, _, new, e]) = (call.input(0)?, call.input(2)?) else { return None };
    let past = call.input(3).map_or(Some(0), |past| past.get(2).copied())?;
    let (capped, biased) = (capped(call, 3)?, call.input(5).is_some());
    Some(scores(Scores { extents: [b, h, s, past.saturating_add(new)], sizes: [d, e], capped, biased }))
}

/// Attention to as many positions as the table has room for.
fn paged_attention(call: &Call<'_>) -> Option<u128> {
    let (&[b, h, s, d], &[_, z, _, e], &[_, m]) = (call.input(0)?, call.input(2)?, call.input(3)?) else {
        return None;
    };
    let extents = [b, h, s, m.saturating_mul(z)];
    Some(scores(Scores { extents, sizes: [d, e], capped: capped(call, 3)?, biased: false }))
}

fn create(op: CreateOp, call: &Call<'_>) -> Cost {
    match op {
        CreateOp::ScalarLike
        | CreateOp::Full
        | CreateOp::Zeros
        | CreateOp::Ones
        | CreateOp::Empty
        | CreateOp::ZerosLike
        | CreateOp::OnesLike
        | CreateOp::FullLike => call.movement(Moves::Results),
        // Each element is `start + i * step`.
        CreateOp::Range | CreateOp::Linspace => call.elementwise(2),
        // The row, displaced, is compared with the column.
        CreateOp::Eye => call.elementwise(1),
        CreateOp::Expand | CreateOp::Stack | CreateOp::Unstack | CreateOp::PadBatch => {
            call.movement(Moves::All)
        }
        // The number of operations per element depends on the generator.
        CreateOp::RandomUniform | CreateOp::RandomNormal => call.cost(None, Moves::All),
    }
}

fn index_op(op: IndexOp, call: &Call<'_>) -> Cost {
    match op {
        // The number of comparisons depends on the elements.
        IndexOp::TopK => call.cost(None, Moves::All),
        IndexOp::ScatterElements => call.cost(scattered(call, 1), Moves::All),
        IndexOp::ScatterNd => call.cost(scattered(call, 0), Moves::All),
        IndexOp::ArgMax | IndexOp::ArgMin => call.cost(arg_extremum(call), Moves::All),
    }
}

/// One comparison for each element but the first along the axis.
fn arg_extremum(call: &Call<'_>) -> Option<u128> {
    Some(elements(call.input(0)?).saturating_sub(elements(call.output()?)))
}

/// One for each update, unless updates only replace elements.
fn scattered(call: &Call<'_>, reduction: usize) -> Option<u128> {
    match call.params.get(reduction)? {
        Param::Text(word) if word == "none" => Some(0),
        Param::Text(_) => Some(elements(call.input(2)?)),
        _ => None,
    }
}

fn bits(op: BitsOp, call: &Call<'_>) -> Cost {
    match op {
        BitsOp::BitwiseAnd
        | BitsOp::BitwiseOr
        | BitsOp::BitwiseXor
        | BitsOp::BitwiseNot
        | BitsOp::BitShift => call.elementwise(1),
        BitsOp::BitCast => call.movement(Moves::Nothing),
    }
}

fn image(op: ImageOp, call: &Call<'_>) -> Cost {
    match op {
        // Their cost depends on the contents of their operands, or on the algorithm.
        ImageOp::GridSample
        | ImageOp::DeformConv
        | ImageOp::RoiAlign
        | ImageOp::MaxRoiPool
        | ImageOp::MaxUnpool
        | ImageOp::Dft => call.cost(None, Moves::All),
        ImageOp::GaussianBlur => call.cost(blur(call, 0), Moves::All),
        // A difference, a product and a sum.
        ImageOp::Sharpen => {
            let detail = call.output().map(|y| elements(y).saturating_mul(3));
            call.cost(blur(call, 1).zip(detail).map(|(blur, detail)| blur.saturating_add(detail)), Moves::All)
        }
        // Nine products and sums for each derivative; two squares, a sum and a root.
        ImageOp::Sobel => match call.params.first() {
            Some(Param::Text(direction)) if direction == "magnitude" => call.elementwise(40),
            _ => call.elementwise(18),
        },
        // Three products and two sums.
        ImageOp::Grayscale => call.elementwise(5),
        ImageOp::Threshold | ImageOp::Invert => call.elementwise(1),
        // A product and two bounds.
        ImageOp::Brightness => call.elementwise(3),
        // A luminance of five for each three elements, or none; a term of the mean; a difference, a product, a sum and two
        // bounds.
        ImageOp::Contrast => {
            let all = || {
                let x = call.input(0)?;
                let coloured = x.len() > 2 && x.get(x.len() - 3) == Some(&3);
                let pixels = if coloured { elements(x) / 3 } else { elements(x) };
                let grey = pixels.saturating_mul(if coloured { 6 } else { 1 });
                Some(elements(x).saturating_mul(5).saturating_add(grey))
            };
            call.cost(all(), Moves::All)
        }
    }
}

/// For each element a product and a sum for each weight along both dimensions. The standard deviation is the parameter `sigma`.
fn blur(call: &Call<'_>, sigma: usize) -> Option<u128> {
    let Param::Float(sigma) = call.params.get(sigma)? else { return None };
    let weights = 2 * (3.0 * sigma).ceil() as u128 + 1;
    Some(elements(call.output()?).saturating_mul(weights.saturating_mul(4)))
}

fn ml(op: MlOp, call: &Call<'_>) -> Cost {
    match op {
        // How many nodes a walk meets depends on the elements.
        MlOp::TreeEnsemble => call.cost(None, Moves::All),
        MlOp::SquaredDistances => call.cost(squared_distances(call), Moves::All),
    }
}

/// For each pair of rows of `l` elements: `l` differences, `l` squares, and `l - 1` for their sum.
fn squared_distances(call: &Call<'_>) -> Option<u128> {
    let columns = *call.input(0)?.last()? as u128;
    Some(elements(call.output()?).saturating_mul(columns.saturating_mul(3).saturating_sub(1)))
}

fn quant(op: QuantOp, call: &Call<'_>) -> Cost {
    let given = |position: usize| u128::from(call.input(position).is_some());
    match op {
        // A quotient, a rounding, two bounds, and the zero point.
        QuantOp::QuantizeLinear => call.elementwise(4 + given(2)),
        QuantOp::DequantizeLinear => call.elementwise(1 + given(2)),
        QuantOp::DynamicQuantizeLinear => {
            call.cost(call.input(0).map(|x| quantized(elements(x))), Moves::All)
        }
        QuantOp::MatMulInteger => {
            let zeros = |x: usize| if given(x + 2) == 0 { Some(0) } else { call.input(x).map(elements) };
            let all = || Some(product(call)?.saturating_add(zeros(0)?).saturating_add(zeros(1)?));
            call.cost(all(), Moves::All)
        }
        QuantOp::DynamicMatMul => call.cost(dynamic_matmul(call), Moves::All),
        QuantOp::MatMulNBits => {
            // The product, and for each weight a difference and a product.
            let weights = || {
                let (&inner, columns) = (call.input(0)?.last()?, call.input(1)?.first()?);
                Some((inner as u128).saturating_mul(*columns as u128).saturating_mul(2))
            };
            call.cost(weights().zip(product(call)).map(|(w, p)| w.saturating_add(p)), Moves::All)
        }
        QuantOp::ConvInteger => call.cost(conv_integer(call, given(3), given(4)), Moves::All),
        QuantOp::QLinearConv => {
            let requantized = call.output().map(|y| elements(y).saturating_mul(6));
            let all = conv_integer(call, 1, 1).zip(requantized).map(|(a, b)| a.saturating_add(b));
            call.cost(all, Moves::All)
        }
        // A product, a quotient, a rounding, a sum and two bounds.
        QuantOp::Requantize => call.elementwise(6),
        // Two differences and products, one operation on the numbers, and the requantisation.
        QuantOp::QLinearAdd | QuantOp::QLinearMul => call.elementwise(11),
        QuantOp::Lookup => call.movement(Moves::All),
        QuantOp::Quantize => call.elementwise(4 + given(2)),
        QuantOp::Dequantize => call.elementwise(1 + given(2)),
        QuantOp::ScaledMatMul => {
            // The product, zero points, the scale, and the bias.
            let zeros = |x: usize| if given(x + 4) == 0 { Some(0) } else { call.input(x).map(elements) };
            let all = || {
                let after = elements(call.output()?).saturating_mul(1 + given(6));
                Some(product(call)?.saturating_add(zeros(0)?).saturating_add(zeros(1)?).saturating_add(after))
            };
            call.cost(all(), Moves::All)
        }
    }
}

/// The functions of single numbers, for each element of the first operand.
fn train(op: TrainOp, call: &Call<'_>) -> Cost {
    let each = |times: u128| call.cost(call.input(0).map(|x| elements(x).saturating_mul(times)), Moves::All);
    match op {
        // The greatest, a difference, an exponential, a sum, and a difference.
        TrainOp::CrossEntropy => each(5),
        // The probabilities are another exponential.
        TrainOp::CrossEntropyWithProbabilities => each(6),
        // The labels select; what they select is much less.
        TrainOp::NegativeLogLikelihood => call.movement(Moves::All),
        // In addition a product, the weight, and a sum.
        TrainOp::CrossEntropyOfProbabilities => each(8),
        TrainOp::Adam => each(15),
        TrainOp::Adagrad => each(9),
        TrainOp::Momentum => each(8),
        TrainOp::Sgd => each(4),
    }
}

/// For `n` elements, `n - 1` for each of minimum and maximum, 10 for the scale and the zero point, and 5 for each result.
fn quantized(n: u128) -> u128 {
    if n == 0 { 0 } else { n.saturating_mul(7).saturating_add(8) }
}

/// `2k` for each element of the product.
fn product(call: &Call<'_>) -> Option<u128> {
    let inner = *call.input(0)?.last()?;
    Some(elements(call.output()?).saturating_mul(2).saturating_mul(inner as u128))
}

/// What [`quantized`] counts, the zero points, the product, its scale and the bias.
fn dynamic_matmul(call: &Call<'_>) -> Option<u128> {
    let (x, b, y) = (elements(call.input(0)?), elements(call.input(1)?), elements(call.output()?));
    let zeros = if call.input(3).is_some() { x.saturating_add(b) } else { x };
    let after = y.saturating_mul(1 + u128::from(call.input(4).is_some()));
    Some(quantized(x).saturating_add(zeros).saturating_add(product(call)?).saturating_add(after))
}

/// The convolution, and for each zero point one for each element.
fn conv_integer(call: &Call<'_>, x_zero: u128, w_zero: u128) -> Option<u128> {
    let (x, w) = (elements(call.input(0)?), elements(call.input(1)?));
    Some(conv(call)?.saturating_add(x.saturating_mul(x_zero)).saturating_add(w.saturating_mul(w_zero)))
}

/// Counts the rows of `length` elements.
fn rows(x: &[usize], length: usize) -> u128 {
    if length == 0 { 0 } else { elements(x) / length as u128 }
}

/// Counts the rows of a normalisation over the dimensions from its axis to the last.
fn normalized_rows(call: &Call<'_>, x: &[usize]) -> Option<u128> {
    let axis = axis(call.int(0)?, x.len())?;
    if elements(x) == 0 { Some(0) } else { Some(elements(x.get(..axis)?)) }
}

fn axis(axis: i64, rank: usize) -> Option<usize> {
    let rank = i64::try_from(rank).ok()?;
    usize::try_from(if axis < 0 { axis + rank } else { axis }).ok().filter(|&a| a < rank as usize)
}
