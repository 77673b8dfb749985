//! The expected values are counted by hand from the definitions of the operations; the comments show how.
#![expect(clippy::unwrap_used, reason = "tests")]

use super::{Cost, TensorType, of, of_host};
use crate::ext::{BitsOp, CreateOp, ImageOp, IndexOp, LlmOp, NnOp, ScalarOp, rows};
use bb_ir::DataType::{Bool, F16, F32, I8, I32, I64, U4};
use bb_ir::op::{Family, OpSpec, Param, Primitive};
use bb_ir::{DataType, op::RoundMode};
use std::borrow::Cow;

fn ints(values: &'static [i64]) -> Param<'static> {
    Param::Ints(Cow::Borrowed(values))
}

fn f32s<'a>(shapes: &[&'a [usize]]) -> Vec<Option<TensorType<'a>>> {
    shapes.iter().map(|shape| Some((F32, *shape))).collect()
}

/// Returns the flops, bytes read and bytes written of an operation on f32.
fn cost(op: &OpSpec, params: &[Param<'_>], inputs: &[&[usize]], output: &[usize]) -> (u64, u64, u64) {
    let cost = of(op, params, &f32s(inputs), &[(F32, output)]);
    (cost.flops.unwrap(), cost.bytes_read.unwrap(), cost.bytes_written.unwrap())
}

#[test]
fn elementwise_is_one_for_each_element_of_the_result() {
    // [3, 1] + [4]: 12 sums; 3 + 4 floats are read, 12 written.
    assert_eq!(cost(Primitive::Add.spec(), &[], &[&[3, 1], &[4]], &[3, 4]), (12, 28, 48));
    assert_eq!(cost(Primitive::Exp.spec(), &[], &[&[2, 5]], &[2, 5]), (10, 40, 40));
    assert_eq!(cost(ScalarOp::Erf.spec(), &[], &[&[2, 5]], &[2, 5]), (10, 40, 40));
    assert_eq!(cost(NnOp::Relu.spec(), &[], &[&[]], &[]), (1, 4, 4));
    assert_eq!(cost(Primitive::Mul.spec(), &[], &[&[3, 0], &[1]], &[3, 0]), (0, 4, 0));
    // The result of a comparison has one byte for each element.
    let less = of(Primitive::Less.spec(), &[], &f32s(&[&[8], &[8]]), &[(Bool, &[8])]);
    assert_eq!(less, Cost { flops: Some(8), bytes_read: Some(64), bytes_written: Some(8) });
    let not = of(BitsOp::BitwiseNot.spec(), &[], &[Some((I8, &[9]))], &[(I8, &[9])]);
    assert_eq!(not, Cost { flops: Some(9), bytes_read: Some(9), bytes_written: Some(9) });
}

#[test]
fn a_product_of_matrices_is_2mnk() {
    let matmul = Primitive::MatMul.spec();
    assert_eq!(cost(matmul, &[], &[&[2, 3], &[3, 5]], &[2, 5]), (60, 4 * 21, 40));
    // Six products of [2, 3] and [3, 5], because the batches [6] and [1] broadcast.
    assert_eq!(cost(matmul, &[], &[&[6, 2, 3], &[1, 3, 5]], &[6, 2, 5]), (360, 4 * 51, 240));
    // A row times a column; a row times a matrix.
    assert_eq!(cost(matmul, &[], &[&[7], &[7]], &[]), (14, 56, 4));
    assert_eq!(cost(matmul, &[], &[&[7], &[7, 2]], &[2]), (28, 84, 8));
    assert_eq!(cost(matmul, &[], &[&[2, 0], &[0, 5]], &[2, 5]), (0, 0, 40));
}

#[test]
fn a_reduction_of_n_is_n_minus_1_and_a_mean_n() {
    let params = [ints(&[1]), Param::Bool(false)];
    assert_eq!(cost(Primitive::ReduceSum.spec(), &params, &[&[4, 5]], &[4]), (16, 80, 16));
    assert_eq!(cost(Primitive::ReduceMax.spec(), &params, &[&[4, 5]], &[4]), (16, 80, 16));
    assert_eq!(cost(Primitive::ReduceMean.spec(), &params, &[&[4, 5]], &[4]), (20, 80, 16));
    assert_eq!(cost(Primitive::ReduceSum.spec(), &params, &[&[4, 0]], &[4]), (0, 0, 16));
}

#[test]
fn movement_computes_nothing_and_moves_what_it_selects() {
    let none = [];
    assert_eq!(cost(Primitive::Reshape.spec(), &none, &[&[2, 3]], &[6]), (0, 0, 0));
    assert_eq!(cost(Primitive::Transpose.spec(), &none, &[&[2, 3]], &[3, 2]), (0, 24, 24));
    assert_eq!(cost(Primitive::Concat.spec(), &none, &[&[2], &[3]], &[5]), (0, 20, 20));
    // Two rows of a table with a million rows, and the two indices.
    let indices: TensorType<'_> = (I64, &[2]);
    let gather = of(
        Primitive::Gather.spec(),
        &[Param::Int(0)],
        &[Some((F32, &[1_000_000, 8])), Some(indices)],
        &[(F32, &[2, 8])],
    );
    assert_eq!(gather, Cost { flops: Some(0), bytes_read: Some(64 + 16), bytes_written: Some(64) });
    assert_eq!(cost(Primitive::Slice.spec(), &none, &[&[100]], &[10]), (0, 40, 40));
    let params = [Param::Type(F16), Param::Bool(true), Param::Round(RoundMode::Up)];
    let cast = of(Primitive::Cast.spec(), &params, &[Some((F32, &[10]))], &[(F16, &[10])]);
    assert_eq!(cast, Cost { flops: Some(0), bytes_read: Some(40), bytes_written: Some(20) });
    assert_eq!(cost(CreateOp::ScalarLike.spec(), &[Param::Float(1.0)], &[&[9]], &[]), (0, 0, 4));
    assert_eq!(cost(CreateOp::Expand.spec(), &none, &[&[9, 1]], &[9, 3]), (0, 36, 108));
}

#[test]
fn nibbles_are_packed_and_strings_have_no_size() {
    let identity = Primitive::Transpose.spec();
    let cost = of(identity, &[], &[Some((U4, &[5]))], &[(U4, &[5])]);
    assert_eq!((cost.bytes_read, cost.bytes_written), (Some(3), Some(3)));
    let cost = of(identity, &[], &[Some((DataType::String, &[5]))], &[(DataType::String, &[5])]);
    assert_eq!(cost, Cost { flops: Some(0), bytes_read: None, bytes_written: None });
}

#[test]
fn a_convolution_is_two_for_each_element_of_result_and_filter() {
    // 32 filters with 3 channels of 3 by 3, applied at 8 by 8 positions, with a bias.
    let spec = NnOp::Conv.spec();
    let (x, w, y) = ([1, 3, 8, 8], [32, 3, 3, 3], [1, 32, 8, 8]);
    assert_eq!(cost(spec, &[], &[&x, &w, &[32]], &y), (2048 * (2 * 27 + 1), 4 * (192 + 864 + 32), 4 * 2048));
    // Depthwise: each filter reads one channel.
    let (flops, ..) = cost(spec, &[], &[&[1, 32, 8, 8], &[32, 1, 3, 3]], &y);
    assert_eq!(flops, 2048 * 18);
    // Each of 2 * 3 * 3 elements is spread to 4 channels, 2 by 2.
    let (flops, ..) = cost(NnOp::ConvTranspose.spec(), &[], &[&[1, 2, 3, 3], &[2, 4, 2, 2]], &[1, 4, 6, 6]);
    assert_eq!(flops, 18 * 2 * 16);
}

#[test]
fn pooling_looks_at_each_element_of_a_window() {
    let params = [ints(&[2, 3])];
    let (x, y) = ([1, 4, 8, 9], [1, 4, 4, 3]);
    // The maximum of 6 takes 5 comparisons, their mean 5 sums and a quotient.
    assert_eq!(cost(NnOp::MaxPool.spec(), &params, &[&x], &y).0, 48 * 5);
    assert_eq!(cost(NnOp::AveragePool.spec(), &params, &[&x], &y).0, 48 * 6);
}

#[test]
fn normalisations_follow_their_formulas() {
    let x = [2, 5];
    // A row of 5: 4 comparisons, 5 differences, 5 exponentials, 4 sums, 5 quotients.
    assert_eq!(cost(NnOp::Softmax.spec(), &[Param::Int(-1)], &[&x], &x).0, 2 * 23);
    // The same, but 4 sums, a logarithm and 5 differences at the end.
    assert_eq!(cost(NnOp::LogSoftmax.spec(), &[Param::Int(1)], &[&x], &x).0, 2 * 24);
    // Columns of 2: 1 + 2 + 2 + 1 + 2.
    assert_eq!(cost(NnOp::Softmax.spec(), &[Param::Int(0)], &[&x], &x).0, 5 * 8);
    // A row of 5: mean 5, differences 5, squares 5, variance 5, epsilon and root 2, quotients 5, scale 5, bias 5.
    let params = [Param::Int(-1), Param::Float(1e-5)];
    let norm = NnOp::LayerNormalization.spec();
    assert_eq!(cost(norm, &params, &[&x, &[5], &[5]], &x).0, 2 * 37);
    assert_eq!(cost(norm, &params, &[&x, &[5]], &x).0, 2 * 32);
    // Squares 5, mean 5, epsilon and root 2, quotients 5, scale 5.
    assert_eq!(cost(LlmOp::RmsNormalization.spec(), &params, &[&x, &[5]], &x).0, 2 * 22);
    // 4 for each of 24 elements, 2 for each of 3 channels.
    let channels: &[usize] = &[3];
    let inputs = [&[2, 3, 4][..], channels, channels, channels, channels];
    assert_eq!(cost(NnOp::BatchNormalization.spec(), &params, &inputs, &[2, 3, 4]).0, 96 + 6);
    assert_eq!(cost(NnOp::Softmax.spec(), &[Param::Int(-1)], &[&[2, 0]], &[2, 0]).0, 0);
}

#[test]
fn attention_is_two_products_and_a_softmax() {
    let (q, k, v) = ([1, 2, 3, 4], [1, 2, 5, 4], [1, 2, 5, 6]);
    let params = |cap| [Param::OptFloat(None), Param::Float(cap), Param::OptType(None)];
    // 6 queries and 5 keys: 30 products of length 4, scaled; 6 rows of softmax with 5 + 5 + 5 + 4 + 4 each;
    // 30 * 6 for the averages.
    let plain = 2 * 30 * 4 + 30 + 6 * 23 + 2 * 30 * 6;
    let spec = LlmOp::Attention.spec();
    assert_eq!(cost(spec, &params(0.0), &[&q, &k, &v], &[1, 2, 3, 6]).0, plain);
    // The bias adds 1 for each product; the cap adds a quotient, a tanh and a product.
    assert_eq!(cost(spec, &params(1.0), &[&q, &k, &v, &[3, 5]], &[1, 2, 3, 6]).0, plain + 30 + 90);
    // 3 pairs of 8 elements are rotated, with 4 products and 2 sums each.
    let params = [Param::OptInt(Some(6)), Param::Bool(false)];
    assert_eq!(cost(LlmOp::Rotate.spec(), &params, &[&[2, 8], &[2, 3], &[2, 3]], &[2, 8]).0, 2 * 3 * 6);
}

#[test]
fn absent_bounds_cost_nothing() {
    let clip = NnOp::Clip.spec();
    let x: TensorType<'_> = (F32, &[7]);
    let bound: TensorType<'_> = (F32, &[]);
    let flops = |inputs: &[Option<TensorType<'_>>]| of(clip, &[], inputs, &[x]).flops.unwrap();
    assert_eq!(flops(&[Some(x), Some(bound), Some(bound)]), 14);
    assert_eq!(flops(&[Some(x), None, Some(bound)]), 7);
    assert_eq!(flops(&[Some(x), None, None]), 0);
}

#[test]
fn only_reducing_updates_cost() {
    let params = |word: &'static str| [Param::Int(0), Param::Text(word.into())];
    let inputs = [Some((F32, &[10][..])), Some((I64, &[3][..])), Some((F32, &[3][..]))];
    let spec = IndexOp::ScatterElements.spec();
    assert_eq!(of(spec, &params("none"), &inputs, &[(F32, &[10])]).flops, Some(0));
    assert_eq!(of(spec, &params("add"), &inputs, &[(F32, &[10])]).flops, Some(3));
}

#[test]
fn costs_that_depend_on_contents_are_unknown_except_for_bytes() {
    let x: TensorType<'_> = (F32, &[10]);
    let params = [Param::Int(3), Param::Int(0), Param::Bool(true), Param::Bool(true)];
    let top = of(IndexOp::TopK.spec(), &params, &[Some(x)], &[(F32, &[3]), (I64, &[3])]);
    assert_eq!(top, Cost { flops: None, bytes_read: Some(40), bytes_written: Some(12 + 24) });
    assert_eq!(of(ImageOp::Dft.spec(), &[], &[Some(x)], &[x]).flops, None);
    let host = of_host(&[Some(x), None], &[(I32, &[2])]);
    assert_eq!(host, Cost { flops: None, bytes_read: Some(40), bytes_written: Some(8) });
}

#[test]
fn numbers_beyond_64_bits_are_unknown() {
    let (m, k) = (1 << 29, 1 << 29);
    let cost = of(Primitive::MatMul.spec(), &[], &f32s(&[&[m, k], &[k, m]]), &[(F32, &[m, m])]);
    assert_eq!((cost.flops, cost.bytes_written), (None, Some(1 << 60)));
    assert_eq!(cost.bytes(), Some(3 << 60));
    assert_eq!(cost.and(Cost::ZERO), cost);
    assert_eq!(cost.and(Cost::UNKNOWN), Cost::UNKNOWN);
}

/// Checks that an operation that is called with too few operands has no cost and does not panic.
#[test]
fn every_row_has_an_answer() {
    let families = [
        Family::Primitive,
        Family::Nn,
        Family::Llm,
        Family::Image,
        Family::Scalar,
        Family::Create,
        Family::Index,
        Family::Bits,
        Family::Ml,
        Family::Quant,
        Family::Train,
    ];
    for spec in families.into_iter().flat_map(|family| {
        let rows: Vec<&'static OpSpec> = rows(family);
        assert!(!rows.is_empty());
        rows
    }) {
        let cost = of(spec, &[], &[], &[]);
        assert_eq!(cost.bytes_written, Some(0), "{}", spec.method);
    }
}

#[test]
fn layers_of_language_models_follow_their_formulas() {
    let (some, x) = ([Param::Float(1e-5)], [2, 3, 8]);
    // For each of 48 elements: two sums, a square, a term of the mean, a quotient and a product. For each of 6 rows: 2.
    assert_eq!(cost(LlmOp::SkipRmsNorm.spec(), &some, &[&x, &x, &[8], &[8]], &x).0, 48 * 6 + 12);
    assert_eq!(cost(LlmOp::SkipRmsNorm.spec(), &some, &[&x, &x, &[8]], &x).0, 48 * 5 + 12);
    assert_eq!(cost(LlmOp::SiluMul.spec(), &[], &[&x, &x], &x), (96, 4 * 96, 4 * 48));
    // 30 dot products of length 8, and 30 biases.
    assert_eq!(cost(LlmOp::Linear.spec(), &[], &[&x, &[5, 8], &[5]], &[2, 3, 5]).0, 30 * 16 + 30);
    // One query in each of 2 heads attends to 5 + 1 keys of length 4. For each key: 8 for the product with the key, 8 for the
    // product with the value, 1 for the scale and 5 for the softmax. The softmax of each query saves 2.
    let params = [
        Param::Bool(true),
        Param::OptInt(None),
        Param::OptFloat(None),
        Param::Float(0.0),
        Param::OptType(None),
    ];
    let (one, past) = ([1, 2, 1, 4], [1, 2, 5, 4]);
    assert_eq!(
        cost(LlmOp::CachedAttention.spec(), &params, &[&one, &one, &one, &past, &past], &one).0,
        12 * 22 - 4
    );
    // Three blocks of 2 positions each.
    let (blocks, table) = ([9, 2, 2, 4], [1, 3]);
    assert_eq!(
        cost(LlmOp::PagedAttention.spec(), &params, &[&one, &blocks, &blocks, &table, &[1]], &one).0,
        12 * 22 - 4
    );
    // One query in each of 2 heads attends to 5 blocks of one position and to its own position.
    let (new, blocks) = ([1, 2, 4], [9, 1, 2, 4]);
    let operands: [&[usize]; 8] = [&new, &new, &new, &blocks, &blocks, &[2], &[1], &[1, 5]];
    let params = [Param::OptInt(None), Param::OptFloat(None), Param::Float(0.0)];
    assert_eq!(cost(LlmOp::RaggedAttention.spec(), &params, &operands, &new).0, 12 * 22 - 4);
}

#[test]
fn filters_count_their_weights() {
    let x = [3, 8, 8];
    // A standard deviation of 1 gives a radius of 3: 7 weights along each of two dimensions.
    let blur = [Param::Float(1.0), Param::Text("edge".into())];
    assert_eq!(cost(ImageOp::GaussianBlur.spec(), &blur, &[&x], &x).0, 192 * 28);
    let sharpen = [Param::Float(0.5), Param::Float(1.0), Param::Text("edge".into())];
    assert_eq!(cost(ImageOp::Sharpen.spec(), &sharpen, &[&x], &x).0, 192 * 31);
    let sobel = |direction: &'static str| [Param::Text(direction.into()), Param::Text("edge".into())];
    assert_eq!(cost(ImageOp::Sobel.spec(), &sobel("x"), &[&x], &x).0, 192 * 18);
    assert_eq!(cost(ImageOp::Sobel.spec(), &sobel("magnitude"), &[&x], &x).0, 192 * 40);
    let luminance = [Param::Int(0), Param::Text("bt601".into())];
    assert_eq!(cost(ImageOp::Grayscale.spec(), &luminance, &[&x], &[1, 8, 8]).0, 64 * 5);
}
