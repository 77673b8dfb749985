//! The formulas that the entries of the operation tables name, one function each.

use super::counts::{self, Ending, fused_lines};
use super::{Call, Cost, Moves, elements};
use bb_ir::op::Param;

/// Counts one operation for each element of the result: a function of one scalar or of two.
pub(super) fn one(call: &Call<'_>) -> Cost {
    call.elementwise(1)
}

/// Counts no arithmetic. All operands and results are moved.
pub(super) fn moved(call: &Call<'_>) -> Cost {
    call.movement(Moves::All)
}

/// Counts no arithmetic. Of the first operand, a part as large as the results is read.
pub(super) fn selected(call: &Call<'_>) -> Cost {
    call.movement(Moves::Selected)
}

/// Counts nothing, because the results are the operand with another shape.
pub(super) fn view(call: &Call<'_>) -> Cost {
    call.movement(Moves::Nothing)
}

/// Counts no arithmetic. Only the result is written.
pub(super) fn created(call: &Call<'_>) -> Cost {
    call.movement(Moves::Results)
}

/// Returns an unknown arithmetic cost, because it depends on the elements, or on an algorithm that the definition leaves open.
pub(super) fn uncounted(call: &Call<'_>) -> Cost {
    call.cost(None, Moves::All)
}

pub(super) fn product(call: &Call<'_>) -> Cost {
    call.cost(counts::product(call), Moves::All)
}

pub(super) fn reduction(call: &Call<'_>) -> Cost {
    call.cost(counts::reduction(call), Moves::All)
}

/// Counts one for each element, because the division replaces the addition that the first element does not need.
pub(super) fn mean(call: &Call<'_>) -> Cost {
    call.cost(call.input(0).map(elements), Moves::All)
}

/// Counts one for each line of the program, because a line is a function of one scalar or of two.
pub(super) fn fused(call: &Call<'_>) -> Cost {
    call.elementwise(fused_lines(call, 0))
}

/// Counts one comparison for each bound.
pub(super) fn clip(call: &Call<'_>) -> Cost {
    call.elementwise(call.given(1) + call.given(2))
}

pub(super) fn softmax(call: &Call<'_>) -> Cost {
    call.cost(counts::softmax(call, Ending::Divide), Moves::All)
}

pub(super) fn log_softmax(call: &Call<'_>) -> Cost {
    call.cost(counts::softmax(call, Ending::Subtract), Moves::All)
}

pub(super) fn layer_normalization(call: &Call<'_>) -> Cost {
    call.cost(counts::layer_normalization(call), Moves::All)
}

pub(super) fn batch_normalization(call: &Call<'_>) -> Cost {
    call.cost(counts::batch_normalization(call), Moves::All)
}

pub(super) fn conv(call: &Call<'_>) -> Cost {
    call.cost(counts::conv(call), Moves::All)
}

pub(super) fn fused_conv(call: &Call<'_>) -> Cost {
    let program = call.output().map(|y| elements(y).saturating_mul(fused_lines(call, 3)));
    call.both(counts::conv(call), program)
}

pub(super) fn conv_transpose(call: &Call<'_>) -> Cost {
    call.cost(counts::conv_transpose(call), Moves::All)
}

pub(super) fn rnn(call: &Call<'_>) -> Cost {
    call.cost(counts::recurrent(call, 2), Moves::All)
}

pub(super) fn gru(call: &Call<'_>) -> Cost {
    call.cost(counts::recurrent(call, 11), Moves::All)
}

/// Counts 13 further operations, and 6 for the three gates that read the cell state if the operand 7, their weights, is passed.
pub(super) fn lstm(call: &Call<'_>) -> Cost {
    call.cost(counts::recurrent(call, 13 + 6 * call.given(7)), Moves::All)
}

pub(super) fn max_pool(call: &Call<'_>) -> Cost {
    call.cost(counts::pooled(call, |window| window.saturating_sub(1)), Moves::All)
}

/// Counts one for each element of a window, because the division replaces the addition that the first element does not need.
pub(super) fn average_pool(call: &Call<'_>) -> Cost {
    call.cost(counts::pooled(call, |window| window), Moves::All)
}

pub(super) fn rms_normalization(call: &Call<'_>) -> Cost {
    call.cost(counts::rms_normalization(call), Moves::All)
}

pub(super) fn rotate(call: &Call<'_>) -> Cost {
    call.cost(counts::rotate(call), Moves::All)
}

pub(super) fn attention(call: &Call<'_>) -> Cost {
    call.cost(counts::attention(call), Moves::All)
}

pub(super) fn skip_rms_norm(call: &Call<'_>) -> Cost {
    call.cost(counts::skip_rms_norm(call), Moves::All)
}

/// Counts the gate's activation, and the product.
pub(super) fn silu_mul(call: &Call<'_>) -> Cost {
    call.elementwise(2)
}

pub(super) fn linear(call: &Call<'_>) -> Cost {
    call.cost(counts::linear(call, 2), Moves::All)
}

pub(super) fn quantized_linear(call: &Call<'_>) -> Cost {
    call.cost(counts::widened(call, counts::linear(call, 4)), Moves::All)
}

pub(super) fn cached_attention(call: &Call<'_>) -> Cost {
    call.cost(counts::cached_attention(call), Moves::All)
}

pub(super) fn paged_attention(call: &Call<'_>) -> Cost {
    call.cost(counts::paged_attention(call), Moves::All)
}

pub(super) fn ragged_attention(call: &Call<'_>) -> Cost {
    call.cost(counts::ragged_attention(call), Moves::All)
}

/// Counts a product and a sum, because each element is `start + i * step`.
pub(super) fn steps(call: &Call<'_>) -> Cost {
    call.elementwise(2)
}

pub(super) fn scatter_elements(call: &Call<'_>) -> Cost {
    call.cost(counts::scattered(call, 1), Moves::All)
}

pub(super) fn scatter_nd(call: &Call<'_>) -> Cost {
    call.cost(counts::scattered(call, 0), Moves::All)
}

pub(super) fn gaussian_blur(call: &Call<'_>) -> Cost {
    call.cost(counts::blur(call, 0), Moves::All)
}

/// Counts a blur, and for each element a difference, a product and a sum.
pub(super) fn sharpen(call: &Call<'_>) -> Cost {
    call.both(counts::blur(call, 1), call.output().map(|y| elements(y).saturating_mul(3)))
}

/// Counts nine products and nine sums for each derivative, and for the magnitude two squares, a sum and a root.
pub(super) fn sobel(call: &Call<'_>) -> Cost {
    match call.params.first() {
        Some(Param::Text(direction)) if direction == "magnitude" => call.elementwise(40),
        _ => call.elementwise(18),
    }
}

/// Counts three products and two sums for each pixel.
pub(super) fn grayscale(call: &Call<'_>) -> Cost {
    call.elementwise(5)
}

/// Counts a product and two bounds for each element.
pub(super) fn brightness(call: &Call<'_>) -> Cost {
    call.elementwise(3)
}

pub(super) fn contrast(call: &Call<'_>) -> Cost {
    call.cost(counts::contrast(call), Moves::All)
}

pub(super) fn squared_distances(call: &Call<'_>) -> Cost {
    call.cost(counts::squared_distances(call), Moves::All)
}

/// Counts a quotient, a rounding, two bounds, and the zero point.
pub(super) fn quantize(call: &Call<'_>) -> Cost {
    call.elementwise(4 + call.given(2))
}

/// Counts a product, and the zero point.
pub(super) fn dequantize(call: &Call<'_>) -> Cost {
    call.elementwise(1 + call.given(2))
}

pub(super) fn dynamic_quantize(call: &Call<'_>) -> Cost {
    call.cost(call.input(0).map(|x| counts::quantized(elements(x))), Moves::All)
}

/// Counts the product and its zero points.
pub(super) fn matmul_integer(call: &Call<'_>) -> Cost {
    let zeros = counts::zeros(call, 0, 2).zip(counts::zeros(call, 1, 2)).map(|(a, b)| a.saturating_add(b));
    call.both(counts::product(call), zeros)
}

pub(super) fn dynamic_matmul(call: &Call<'_>) -> Cost {
    call.cost(counts::dynamic_matmul(call), Moves::All)
}

pub(super) fn quantized_product(call: &Call<'_>) -> Cost {
    call.cost(counts::widened(call, counts::product(call)), Moves::All)
}

pub(super) fn conv_integer(call: &Call<'_>) -> Cost {
    call.cost(counts::conv_integer(call, call.given(3), call.given(4)), Moves::All)
}

/// Counts the convolution with both zero points, and the requantisation.
pub(super) fn qlinear_conv(call: &Call<'_>) -> Cost {
    let requantized = call.output().map(|y| elements(y).saturating_mul(6));
    call.both(counts::conv_integer(call, 1, 1), requantized)
}

/// Counts a product, a quotient, a rounding, a sum and two bounds.
pub(super) fn requantize(call: &Call<'_>) -> Cost {
    call.elementwise(6)
}

/// Counts two differences and two products, one operation on the dequantised values, and the requantisation.
pub(super) fn qlinear(call: &Call<'_>) -> Cost {
    call.elementwise(11)
}

/// Counts the product, the zero points, the scale, and the bias.
pub(super) fn scaled_matmul(call: &Call<'_>) -> Cost {
    let zeros = counts::zeros(call, 0, 4).zip(counts::zeros(call, 1, 4)).map(|(a, b)| a.saturating_add(b));
    let after = call.output().map(|y| elements(y).saturating_mul(1 + call.given(6)));
    call.both(counts::product(call), zeros.zip(after).map(|(a, b)| a.saturating_add(b)))
}

/// Counts for each element a comparison for the maximum, a difference, an exponential, a sum, and another difference.
pub(super) fn cross_entropy(call: &Call<'_>) -> Cost {
    call.for_each_of_first(5)
}

/// Counts an exponential for each element in addition to [`cross_entropy`], for the probabilities.
pub(super) fn cross_entropy_with_probabilities(call: &Call<'_>) -> Cost {
    call.for_each_of_first(6)
}

/// Counts a product, the weight, and a sum for each element in addition to [`cross_entropy`].
pub(super) fn cross_entropy_of_probabilities(call: &Call<'_>) -> Cost {
    call.for_each_of_first(8)
}

pub(super) fn adam(call: &Call<'_>) -> Cost {
    call.for_each_of_first(15)
}

pub(super) fn adagrad(call: &Call<'_>) -> Cost {
    call.for_each_of_first(9)
}

pub(super) fn momentum(call: &Call<'_>) -> Cost {
    call.for_each_of_first(8)
}

pub(super) fn sgd(call: &Call<'_>) -> Cost {
    call.for_each_of_first(4)
}
