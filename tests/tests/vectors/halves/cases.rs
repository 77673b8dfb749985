//! Operators whose steps leave the range of the type, or lose its digits, where the result does not. What is expected follows from
//! the definitions.

use super::BACKENDS;
use super::draws::{converted, numbers};
use super::operators::Call;
use bb::ir::proto::attribute_proto::AttributeType;
use bb::ir::proto::{AttributeProto, NodeProto};
use bb::{DataType, TensorData};
use bb_tests::backends;
use bb_tests::model::{node, with_int};

fn with_float(mut node: NodeProto, name: &str, value: f32) -> NodeProto {
    node.attribute.push(AttributeProto {
        name: Some(name.to_owned()),
        r#type: Some(AttributeType::Float as i32),
        f: Some(value),
        ..Default::default()
    });
    node
}

fn microsoft(node: NodeProto) -> NodeProto {
    NodeProto { domain: Some("com.microsoft".to_owned()), ..node }
}

/// Asserts that a node gives the expected numbers, rounded to the type, on each backend.
fn assert_makes(dtype: DataType, node: NodeProto, operands: &[(&[usize], &[f64])], expected: &[f64]) {
    let operands: Vec<TensorData> = operands
        .iter()
        .map(|(shape, elements)| converted(&TensorData::new(shape, elements).unwrap(), dtype))
        .collect();
    let named = node.input.iter().cloned().zip(operands.iter().cloned()).collect();
    let call = Call::new(node.clone(), named);
    let expected = numbers(&converted(&TensorData::new(&[expected.len()], expected).unwrap(), dtype));
    for name in BACKENDS {
        let on = backends::start(name).unwrap();
        let results = call.ready(&on, dtype).unwrap()(&operands).unwrap();
        let got = numbers(&results[0]);
        let same = |(a, b): (&f64, &f64)| a == b || (a.is_nan() && b.is_nan());
        assert!(
            got.len() == expected.len() && got.iter().zip(&expected).all(same),
            "{} of {dtype} on {name} makes {got:?}, expected {expected:?}",
            node.op_type()
        );
    }
}

const F16: DataType = DataType::F16;

/// The extents and the elements of an operand.
type Operand<'a> = (&'a [usize], &'a [f64]);

#[test]
fn norms_neither_overflow_nor_vanish() {
    let l2 = || with_int(node("LpNormalization", &["x"], &["y"]), "p", 2);
    let l1 = || with_int(node("LpNormalization", &["x"], &["y"]), "p", 1);
    let norm = || node("ReduceL2", &["x"], &["y"]);
    assert_makes(F16, l2(), &[(&[1, 2], &[30000.0, 40000.0])], &[0.6, 0.8]);
    assert_makes(F16, l1(), &[(&[1, 2], &[60000.0, 20000.0])], &[0.75, 0.25]);
    assert_makes(F16, norm(), &[(&[2], &[30000.0, 40000.0])], &[50000.0]);
    // Powers of two that `f16` has below its normal numbers.
    let tiny = 2f64.powi(-20);
    assert_makes(F16, l2(), &[(&[1, 2], &[3.0 * tiny, 4.0 * tiny])], &[0.6, 0.8]);
    assert_makes(F16, norm(), &[(&[2], &[3.0 * tiny, 4.0 * tiny])], &[5.0 * tiny]);
    for dtype in [DataType::F32, DataType::BF16] {
        for scale in [2f64.powi(100), 2f64.powi(-100)] {
            assert_makes(dtype, l2(), &[(&[1, 2], &[3.0 * scale, 4.0 * scale])], &[0.6, 0.8]);
            assert_makes(dtype, norm(), &[(&[2], &[3.0 * scale, 4.0 * scale])], &[5.0 * scale]);
        }
    }
    let least = 2f64.powi(-149);
    assert_makes(DataType::F32, norm(), &[(&[2], &[3.0 * least, 4.0 * least])], &[5.0 * least]);
    // The sum of magnitudes is beyond `f32`.
    let most = 2f64.powi(127);
    assert_makes(DataType::F32, l1(), &[(&[1, 4], &[most, most, -most, most])], &[0.25, 0.25, -0.25, 0.25]);
    for dtype in [F16, DataType::F32] {
        assert_makes(dtype, norm(), &[(&[2], &[0.0, -0.0])], &[0.0]);
        assert_makes(dtype, norm(), &[(&[2], &[f64::NEG_INFINITY, 1.0])], &[f64::INFINITY]);
        assert_makes(dtype, norm(), &[(&[2], &[f64::NAN, 1.0])], &[f64::NAN]);
        assert_makes(dtype, l2(), &[(&[1, 2], &[0.0, 0.0])], &[0.0, 0.0]);
        assert_makes(dtype, l2(), &[(&[1, 2], &[f64::INFINITY, 1.0])], &[f64::NAN, 0.0]);
    }
}

#[test]
fn sums_of_many_terms_keep_their_digits() {
    let many = vec![0.0; 70000];
    let shape: &[usize] = &[1, many.len()];
    assert_makes(F16, node("Softmax", &["x"], &["y"]), &[(shape, &many)], &vec![1.0 / 70000.0; many.len()]);
    let logarithm = vec![-(70000f64).ln(); many.len()];
    assert_makes(F16, node("LogSoftmax", &["x"], &["y"]), &[(shape, &many)], &logarithm);
    let ones = vec![1.0; many.len()];
    assert_makes(F16, node("ReduceLogSum", &["x"], &["y"]), &[(shape, &ones)], &[70000f64.ln()]);
    assert_makes(F16, node("ReduceLogSumExp", &["x"], &["y"]), &[(shape, &many)], &[70000f64.ln()]);
    let names: Vec<String> = (0..60).map(|i| format!("x{i}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    // A number of `bf16`.
    let one: (&[usize], &[f64]) = (&[1], &[5.96875]);
    assert_makes(DataType::BF16, node("Mean", &names, &["y"]), &vec![one; 60], &[5.96875]);
    assert_makes(DataType::BF16, node("Sum", &names, &["y"]), &vec![one; 60], &[60.0 * 5.96875]);
    let three: [(&[usize], &[f64]); 3] = [(&[1], &[60000.0]), (&[1], &[60000.0]), (&[1], &[-60000.0])];
    assert_makes(F16, node("Sum", &["a", "b", "c"], &["y"]), &three, &[60000.0]);
    assert_makes(F16, node("Mean", &["a", "b", "c"], &["y"]), &three, &[20000.0]);
}

#[test]
fn what_is_added_to_a_product_is_added_before_rounding() {
    let (a, b): (Operand<'_>, Operand<'_>) = ((&[1, 1], &[200.0]), (&[1, 1], &[400.0]));
    let halved = |op: &str| with_float(node(op, &["a", "b"], &["y"]), "alpha", 0.5);
    assert_makes(F16, halved("Gemm"), &[a, b], &[40000.0]);
    assert_makes(F16, microsoft(halved("FusedGemm")), &[a, b], &[40000.0]);
    assert_makes(F16, microsoft(halved("FusedMatMul")), &[a, b], &[40000.0]);
    let c: (&[usize], &[f64]) = (&[1], &[-30016.0]);
    assert_makes(F16, node("Gemm", &["a", "b", "c"], &["y"]), &[a, b, c], &[49984.0]);
    let (x, w): (Operand<'_>, Operand<'_>) = ((&[1, 1, 1], &[200.0]), (&[1, 1, 1], &[400.0]));
    assert_makes(F16, node("Conv", &["x", "w", "b"], &["y"]), &[x, w, c], &[49984.0]);
    assert_makes(F16, microsoft(node("FusedConv", &["x", "w", "b"], &["y"])), &[x, w, c], &[49984.0]);
}

#[test]
fn moments_are_those_of_the_numbers_and_not_of_rounded_sums() {
    let x: (&[usize], &[f64]) = (&[1, 1, 1, 2], &[-40000.0, 40000.0]);
    assert_makes(F16, node("MeanVarianceNormalization", &["x"], &["y"]), &[x], &[-1.0, 1.0]);
    let (x, ones): (Operand<'_>, Operand<'_>) = ((&[1, 1, 2], &[40000.0, 40000.0]), (&[2], &[1.0, 1.0]));
    let skip = node("SkipSimplifiedLayerNormalization", &["x", "s", "g"], &["y"]);
    assert_makes(F16, microsoft(skip), &[x, x, ones], &[1.0, 1.0]);
    let x: (&[usize], &[f64]) = (&[1, 1, 2], &[-40000.0, 40000.0]);
    let skip = node("SkipLayerNormalization", &["x", "s", "g"], &["y"]);
    assert_makes(F16, microsoft(skip), &[x, x, ones], &[-1.0, 1.0]);
}
