//! Counts the arithmetic operations of calls, by the definitions of the operations.

use super::{Call, elements};
use bb_ir::op::Param;

/// The last step of a softmax, after the exponentials have been summed.
pub(super) enum Ending {
    /// Divides each exponential by the sum.
    Divide,
    /// Subtracts the logarithm of the sum from each difference.
    Subtract,
}

/// Counts for each row of `l` elements: `l - 1` for the maximum, `l` differences, `l` exponentials, `l - 1` for their sum, and
/// `l` quotients; a logarithmic softmax has a logarithm and `l` differences instead of the quotients.
pub(super) fn softmax(call: &Call<'_>, ending: Ending) -> Option<u128> {
    let x = call.input(0)?;
    let axis = axis(call.int(0)?, x.len())?;
    let rows = rows(x, *x.get(axis)?);
    let saved = match ending {
        Ending::Divide => 2,
        Ending::Subtract => 1,
    };
    Some(elements(x).saturating_mul(5).saturating_sub(rows.saturating_mul(saved)))
}

/// Counts for each row of `l` elements: `l` for the mean, `l` differences, `l` squares, `l` for the variance, 2 for epsilon and
/// the root, `l` quotients, `l` for the scale and `l` for the bias.
pub(super) fn layer_normalization(call: &Call<'_>) -> Option<u128> {
    let x = call.input(0)?;
    let rows = normalized_rows(call, x)?;
    let each = if call.input(2).is_some() { 7 } else { 6 };
    Some(elements(x).saturating_mul(each).saturating_add(rows.saturating_mul(2)))
}

/// Counts a difference, a quotient, a product and a sum for each element, and for each channel 2 for epsilon and the root.
pub(super) fn batch_normalization(call: &Call<'_>) -> Option<u128> {
    let x = call.input(0)?;
    if elements(x) == 0 {
        return Some(0);
    }
    Some(elements(x).saturating_mul(4).saturating_add(elements(call.input(1)?).saturating_mul(2)))
}

/// Counts, for each element of the result, 2 for each element of its filter, including those on the padding, and 1 for the
/// bias.
pub(super) fn conv(call: &Call<'_>) -> Option<u128> {
    let filter = call.input(1)?.get(1..)?;
    let bias = u128::from(call.input(2).is_some());
    Some(elements(call.output()?).saturating_mul(elements(filter).saturating_mul(2).saturating_add(bias)))
}

/// Counts, for each element of the states, the dot product of the previous state with the weights of each gate, and `each`
/// further operations.
pub(super) fn recurrent(call: &Call<'_>, each: u128) -> Option<u128> {
    let states = elements(call.output()?);
    let &[hidden, gates] = call.input(1)? else { return None };
    if hidden == 0 {
        return Some(0);
    }
    let products = (gates as u128).saturating_mul(2).saturating_sub((gates / hidden) as u128);
    Some(states.saturating_mul(products.saturating_add(each)))
}

/// Counts, for each element of the operand, 2 for each element of its filters, including products that are cut off, and 1 for
/// the bias of each result.
pub(super) fn conv_transpose(call: &Call<'_>) -> Option<u128> {
    let spread = elements(call.input(1)?.get(1..)?).saturating_mul(2);
    let bias = if call.input(2).is_some() { elements(call.output()?) } else { 0 };
    Some(elements(call.input(0)?).saturating_mul(spread).saturating_add(bias))
}

/// Counts `each(n)` for each element of the result, where `n` is the size of the window, including padding.
pub(super) fn pooled(call: &Call<'_>, each: impl Fn(u128) -> u128) -> Option<u128> {
    let window = call.ints(0)?.iter().try_fold(1u128, |all, &n| all.checked_mul(u128::try_from(n).ok()?))?;
    Some(elements(call.output()?).saturating_mul(each(window)))
}

/// Counts the additions of the skip connection and of the bias, and a normalisation of rows along the last dimension.
pub(super) fn skip_rms_norm(call: &Call<'_>) -> Option<u128> {
    let x = call.input(0)?;
    let sums = 1 + u128::from(call.input(3).is_some());
    let rows = rows(x, *x.last()?);
    Some(elements(x).saturating_mul(4 + sums).saturating_add(rows.saturating_mul(2)))
}

/// Counts a matrix product, and one for each element of its bias, which is the operand `bias`.
pub(super) fn linear(call: &Call<'_>, bias: usize) -> Option<u128> {
    let biases = if call.input(bias).is_some() { elements(call.output()?) } else { 0 };
    Some(product(call)?.saturating_add(biases))
}

/// Counts for each row of `l` elements: `l` squares, `l` for the mean, 2 for epsilon and the root, `l` quotients, and `l` for
/// the scale.
pub(super) fn rms_normalization(call: &Call<'_>) -> Option<u128> {
    let x = call.input(0)?;
    let rows = normalized_rows(call, x)?;
    Some(elements(x).saturating_mul(4).saturating_add(rows.saturating_mul(2)))
}

/// Counts four products and two sums for each pair that is rotated.
pub(super) fn rotate(call: &Call<'_>) -> Option<u128> {
    let x = call.input(0)?;
    let turning = match call.params.first()? {
        Param::OptInt(None) => *x.last()? as u128,
        Param::OptInt(Some(dim)) => u128::try_from(*dim).ok()?,
        _ => return None,
    };
    Some(rows(x, *x.last()?).saturating_mul(turning / 2 * 6))
}

/// The extents and options of an attention call that determine its cost.
struct Scores {
    /// The number of batches, heads, queries and keys.
    extents: [usize; 4],
    /// The lengths of a key and of a value.
    sizes: [usize; 2],
    /// Whether the scores are capped.
    capped: bool,
    /// Whether a bias is added to the scores.
    biased: bool,
}

/// Counts two matrix products; for each score 1 for the scale, 3 for the cap and 1 for the bias; and a softmax.
fn scores(Scores { extents, sizes: [d, e], capped, biased }: Scores) -> u128 {
    let [b, h, s, t] = extents;
    let queries = if t == 0 { 0 } else { elements(&[b, h, s]) };
    let each = 2 * d as u128 + 2 * e as u128 + 1 + 3 * u128::from(capped) + u128::from(biased) + 5;
    elements(&extents).saturating_mul(each).saturating_sub(queries.saturating_mul(2))
}

/// Returns whether the parameter at index `at`, the cap of the scores, is in effect.
fn capped(call: &Call<'_>, at: usize) -> Option<bool> {
    match call.params.get(at)? {
        Param::Float(cap) => Some(*cap > 0.0),
        _ => None,
    }
}

pub(super) fn attention(call: &Call<'_>) -> Option<u128> {
    let (&[b, h, s, d], &[_, _, t, e]) = (call.input(0)?, call.input(2)?) else { return None };
    let (capped, biased) = (capped(call, 1)?, call.input(3).is_some());
    Some(scores(Scores { extents: [b, h, s, t], sizes: [d, e], capped, biased }))
}

/// Counts attention to the cached and the new positions. Masks are not counted, because a backend need not compute any.
pub(super) fn cached_attention(call: &Call<'_>) -> Option<u128> {
    let (&[b, h, s, d], &[_, _, new, e]) = (call.input(0)?, call.input(2)?) else { return None };
    let past = call.input(3).map_or(Some(0), |past| past.get(2).copied())?;
    let (capped, biased) = (capped(call, 3)?, call.input(5).is_some());
    Some(scores(Scores { extents: [b, h, s, past.saturating_add(new)], sizes: [d, e], capped, biased }))
}

/// Counts attention to all positions that the block table has room for.
pub(super) fn paged_attention(call: &Call<'_>) -> Option<u128> {
    let (&[b, h, s, d], &[_, z, _, e], &[_, m]) = (call.input(0)?, call.input(2)?, call.input(3)?) else {
        return None;
    };
    let extents = [b, h, s, m.saturating_mul(z)];
    Some(scores(Scores { extents, sizes: [d, e], capped: capped(call, 3)?, biased: false }))
}

/// Counts attention to all positions that the block table has room for, and to all new positions.
pub(super) fn ragged_attention(call: &Call<'_>) -> Option<u128> {
    let (&[n, h, d], &[_, z, _, e], &[_, m]) = (call.input(0)?, call.input(4)?, call.input(7)?) else {
        return None;
    };
    let extents = [1, h, n, m.saturating_mul(z).saturating_add(n)];
    Some(scores(Scores { extents, sizes: [d, e], capped: capped(call, 2)?, biased: false }))
}

/// Counts one operation for each update, unless updates only replace elements.
pub(super) fn scattered(call: &Call<'_>, reduction: usize) -> Option<u128> {
    match call.params.get(reduction)? {
        Param::Text(word) if word == "none" => Some(0),
        Param::Text(_) => Some(elements(call.input(2)?)),
        _ => None,
    }
}

/// Counts, for each element, a product and a sum for each weight along both dimensions. `sigma` is the index of the parameter
/// with the standard deviation.
pub(super) fn blur(call: &Call<'_>, sigma: usize) -> Option<u128> {
    let Param::Float(sigma) = call.params.get(sigma)? else { return None };
    let weights = 2 * (3.0 * sigma).ceil() as u128 + 1;
    Some(elements(call.output()?).saturating_mul(weights.saturating_mul(4)))
}

/// Counts for each pair of rows of `l` elements: `l` differences, `l` squares, and `l - 1` for their sum.
pub(super) fn squared_distances(call: &Call<'_>) -> Option<u128> {
    let columns = *call.input(0)?.last()? as u128;
    Some(elements(call.output()?).saturating_mul(columns.saturating_mul(3).saturating_sub(1)))
}

/// Counts, for `n` elements, `n - 1` for the minimum, `n - 1` for the maximum, 10 for the scale and the zero point, and 5 for
/// each result.
pub(super) fn quantized(n: u128) -> u128 {
    if n == 0 { 0 } else { n.saturating_mul(7).saturating_add(8) }
}

/// Counts `n - 1` for each result of `n` elements; 0 for an empty reduction.
pub(super) fn reduction(call: &Call<'_>) -> Option<u128> {
    Some(elements(call.input(0)?).saturating_sub(elements(call.output()?)))
}

/// Counts the lines of a fused program. If `made` is not 0, the first `made` operands are first combined into one tensor, which
/// is the program's first input.
pub(super) fn fused_lines(call: &Call<'_>, made: usize) -> u128 {
    let program = call.ints(0).unwrap_or_default();
    let tensors = (call.inputs() + usize::from(made > 0)).saturating_sub(made);
    crate::ext::fused::lines(program, tensors).map_or(0, |lines| lines.len() as u128)
}

/// Counts one for each element of the operand `factor`, if its zero point, the operand `factor + behind`, is passed.
pub(super) fn zeros(call: &Call<'_>, factor: usize, behind: usize) -> Option<u128> {
    if call.given(factor + behind) == 0 { Some(0) } else { call.input(factor).map(elements) }
}

/// Counts a product with a weight that is dequantised first: the product, and for each weight a difference and a product of
/// scalars. The columns are the first dimension of the weight, operand 1.
pub(super) fn widened(call: &Call<'_>, product: Option<u128>) -> Option<u128> {
    let (&inner, &columns) = (call.input(0)?.last()?, call.input(1)?.first()?);
    let weights = (inner as u128).saturating_mul(columns as u128).saturating_mul(2);
    Some(weights.saturating_add(product?))
}

/// Counts 5 for the luminance of each pixel of a colour image, which has three channels; 1 for each pixel for the mean; and 5
/// for each element: a difference, a product, a sum and two bounds.
pub(super) fn contrast(call: &Call<'_>) -> Option<u128> {
    let x = call.input(0)?;
    let coloured = x.len() > 2 && x.get(x.len() - 3) == Some(&3);
    let pixels = if coloured { elements(x) / 3 } else { elements(x) };
    let grey = pixels.saturating_mul(if coloured { 6 } else { 1 });
    Some(elements(x).saturating_mul(5).saturating_add(grey))
}

/// Counts `2k` for each element of a matrix product, where `k` is the length of its dot products.
pub(super) fn product(call: &Call<'_>) -> Option<u128> {
    let inner = *call.input(0)?.last()?;
    Some(elements(call.output()?).saturating_mul(2).saturating_mul(inner as u128))
}

/// Adds up the counts of [`quantized`], the zero points, the product, its scale and the bias.
pub(super) fn dynamic_matmul(call: &Call<'_>) -> Option<u128> {
    let (x, b, y) = (elements(call.input(0)?), elements(call.input(1)?), elements(call.output()?));
    let zeros = if call.input(3).is_some() { x.saturating_add(b) } else { x };
    let after = y.saturating_mul(1 + u128::from(call.input(4).is_some()));
    Some(quantized(x).saturating_add(zeros).saturating_add(product(call)?).saturating_add(after))
}

/// Counts the convolution, and one difference for each element that has a zero point.
pub(super) fn conv_integer(call: &Call<'_>, x_zero: u128, w_zero: u128) -> Option<u128> {
    let (x, w) = (elements(call.input(0)?), elements(call.input(1)?));
    Some(conv(call)?.saturating_add(x.saturating_mul(x_zero)).saturating_add(w.saturating_mul(w_zero)))
}

/// Returns the number of rows of `length` elements.
fn rows(x: &[usize], length: usize) -> u128 {
    if length == 0 { 0 } else { elements(x) / length as u128 }
}

/// Returns the number of rows of a normalisation over the dimensions from its axis to the last.
fn normalized_rows(call: &Call<'_>, x: &[usize]) -> Option<u128> {
    let axis = axis(call.int(0)?, x.len())?;
    if elements(x) == 0 { Some(0) } else { Some(elements(x.get(..axis)?)) }
}

fn axis(axis: i64, rank: usize) -> Option<usize> {
    let rank = i64::try_from(rank).ok()?;
    usize::try_from(if axis < 0 { axis + rank } else { axis }).ok().filter(|&a| a < rank as usize)
}
