//! Tests that operations of families can be exported as ONNX's own operators, with the same results as when
//! they are lowered.

use super::{operators, run};
use bb::conformance::onnx::{Tolerance, compare};
use bb::export::{ExportOptions, Keep, ModelTrace};
use bb::ext::{
    AttentionOptions, AveragePoolOptions, Bits, Border, ConvOptions, ConvTransposeOptions, Create,
    DeformConvOptions, GridSampleOptions, Image, Index, LayerNormalizationOptions, Llm, MaxPoolOptions, Nn,
    RoiAlignOptions, SamplePadding, Scalar, ScatterElementsOptions, ScatterReduction, TopKOptions,
};
use bb::ir::opset::since;

use bb::trace::{TraceStop, TracedTensor, Tracer};
use bb::{Backend, DataType, Error, Primitive, TensorData};
use std::collections::BTreeSet;

type Function = fn(&Tracer, &[TracedTensor]) -> Result<Vec<TracedTensor>, TraceStop>;

/// An operator of ONNX, and a function that calls the operation which is exported as this operator.
pub(crate) struct Sample {
    pub(crate) op: &'static str,
    pub(crate) inputs: Vec<TensorData>,
    function: Function,
}

impl Sample {
    pub(crate) fn trace(&self) -> ModelTrace {
        let names: Vec<String> = (0..self.inputs.len()).map(|i| format!("x{i}")).collect();
        let inputs: Vec<(&str, DataType, &[usize])> =
            names.iter().zip(&self.inputs).map(|(name, x)| (name.as_str(), x.dtype(), x.shape())).collect();
        ModelTrace::new(&inputs, self.function).unwrap()
    }

    /// Returns the opset of the export: the default one, or the first that has the operator.
    pub(crate) fn opset(&self) -> i64 {
        (21..=28).find(|opset| since("", self.op, *opset).is_some()).unwrap()
    }

    /// Returns whether two runs differ.
    pub(crate) fn random(&self) -> bool {
        self.op.starts_with("Random")
    }
}

/// Numbers between -1 and 1 with a long period.
fn f(shape: &[usize]) -> TensorData {
    let count: usize = shape.iter().product();
    let numbers: Vec<f32> = (0..count).map(|i| ((i * 7919 + 1234) % 2001) as f32 / 1000.0 - 1.0).collect();
    TensorData::new(shape, &numbers).unwrap()
}

/// The same numbers plus `by`.
fn moved(shape: &[usize], by: f32) -> TensorData {
    let numbers: Vec<f32> = f(shape).as_slice::<f32>().unwrap().iter().map(|x| x + by).collect();
    TensorData::new(shape, &numbers).unwrap()
}

fn i(shape: &[usize], numbers: &[i64]) -> TensorData {
    TensorData::new(shape, numbers).unwrap()
}

fn b(numbers: &[bool]) -> TensorData {
    let bytes: Vec<u8> = numbers.iter().map(|&b| u8::from(b)).collect();
    TensorData::adopt(DataType::Bool, &[numbers.len()], bytes.into()).unwrap()
}

fn u(numbers: &[u8]) -> TensorData {
    TensorData::new(&[numbers.len()], numbers).unwrap()
}

/// `"Relu"(operands) = |on, x| call;` is a sample whose call has one result.
macro_rules! samples {
    ($( $op:literal ( $($input:expr),* ) = |$on:ident, $x:ident| $call:expr; )*) => {
        vec![$( Sample {
            op: $op,
            inputs: vec![$($input),*],
            function: |$on, $x| Ok(vec![$call?]),
        } ),*]
    };
}

/// Returns a sample for each operator that can be kept.
pub(crate) fn samples() -> Vec<Sample> {
    let odd = || TensorData::new(&[4], &[f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1.5]).unwrap();
    let (p, q) = (|| b(&[false, true, false, true]), || b(&[false, false, true, true]));
    let halves = || TensorData::new(&[6], &[-2.5f32, -1.5, -0.5, 0.5, 1.5, 2.5]).unwrap();
    let rois = || TensorData::new(&[2, 4], &[0f32, 0.0, 3.0, 3.0, 1.0, 1.0, 4.0, 2.0]).unwrap();
    let numbered_rois =
        || TensorData::new(&[2, 5], &[0f32, 0.0, 0.0, 3.0, 3.0, 0.0, 1.0, 1.0, 4.0, 2.0]).unwrap();
    let mut samples = samples! {
        "Acos"(f(&[7])) = |on, x| on.acos(&x[0]);
        "Acosh"(moved(&[7], 2.0)) = |on, x| on.acosh(&x[0]);
        "And"(p(), q()) = |on, x| on.and(&x[0], &x[1]);
        "ArgMax"(f(&[3, 5])) = |on, x| on.arg_max(&x[0], 1, true);
        "ArgMin"(f(&[3, 5])) = |on, x| on.arg_min(&x[0], 0, false);
        "Asin"(f(&[7])) = |on, x| on.asin(&x[0]);
        "Asinh"(f(&[7])) = |on, x| on.asinh(&x[0]);
        "Atan"(f(&[7])) = |on, x| on.atan(&x[0]);
        "Atanh"(f(&[7])) = |on, x| on.atanh(&x[0]);
        "Attention"(f(&[1, 4, 3, 2]), f(&[1, 2, 5, 2]), f(&[1, 2, 5, 6]), f(&[3, 5])) =
            |on, x| {
                let options = AttentionOptions { scale: Some(0.25), softcap: 2.0, ..Default::default() };
                on.attention(&x[0], &x[1], &x[2], Some(&x[3]), options)
            };
        "AveragePool"(f(&[1, 2, 7, 6])) =
            |on, x| {
                let (strides, pads, dilations) = (&[2, 1], &[1, 0, 1, 1], &[1, 2]);
                let options =
                    AveragePoolOptions { strides, pads, dilations, count_pad: true, ..Default::default() };
                on.average_pool(&x[0], &[3, 2], options)
            };
        "BatchNormalization"(f(&[2, 3, 4]), f(&[3]), f(&[3]), f(&[3]), moved(&[3], 2.0)) =
            |on, x| on.batch_normalization(&x[0], &x[1], &x[2], &x[3], &x[4], 1e-3);
        "BitCast"(f(&[3])) = |on, x| on.bit_cast(&x[0], DataType::I32);
        "BitShift"(u(&[12, 255]), u(&[2, 9])) = |on, x| on.bit_shift(&x[0], &x[1], false);
        "BitwiseAnd"(u(&[12, 255]), u(&[10, 3])) = |on, x| on.bitwise_and(&x[0], &x[1]);
        "BitwiseNot"(u(&[12, 255])) = |on, x| on.bitwise_not(&x[0]);
        "BitwiseOr"(u(&[12, 255]), u(&[10, 3])) = |on, x| on.bitwise_or(&x[0], &x[1]);
        "BitwiseXor"(u(&[12, 255]), u(&[10, 3])) = |on, x| on.bitwise_xor(&x[0], &x[1]);
        "Ceil"(halves()) = |on, x| on.ceil(&x[0]);
        "Clip"(f(&[9])) = |on, x| on.clip(
            &x[0],
            Some(&on.constant(&TensorData::scalar(-0.25f32))?),
            Some(&on.constant(&TensorData::scalar(0.5f32))?),
        );
        "ConstantOfShape"(f(&[1])) = |on, x| on.add(&x[0], &on.full(&[70, 70], 2.5, DataType::F32)?);
        "Conv"(f(&[1, 4, 5, 6]), f(&[2, 2, 3, 2]), f(&[2])) =
            |on, x| {
                let (strides, pads, dilations) = (&[1, 2], &[1, 0, 1, 1], &[1, 2]);
                on.conv(&x[0], &x[1], Some(&x[2]), ConvOptions { strides, pads, dilations, group: 2 })
            };
        "ConvTranspose"(f(&[1, 4, 3, 3]), f(&[4, 1, 3, 2]), f(&[2])) =
            |on, x| {
                let options = ConvTransposeOptions {
                    strides: &[2, 2],
                    pads: &[1, 0, 0, 1],
                    output_padding: &[1, 0],
                    group: 2,
                    ..Default::default()
                };
                on.conv_transpose(&x[0], &x[1], Some(&x[2]), options)
            };
        "Cos"(f(&[7])) = |on, x| on.cos(&x[0]);
        "Cosh"(f(&[7])) = |on, x| on.cosh(&x[0]);
        "DFT"(f(&[2, 5, 1])) = |on, x| on.dft(&x[0], 6, false, true);
        "DeformConv"(f(&[1, 2, 4, 4]), f(&[3, 2, 2, 2]), f(&[1, 8, 3, 3]), f(&[3]), f(&[1, 4, 3, 3])) =
            |on, x| {
                let options = DeformConvOptions::default();
                on.deform_conv(&x[0], &x[1], &x[2], Some(&x[3]), Some(&x[4]), options)
            };
        "Elu"(f(&[7])) = |on, x| on.elu(&x[0], 0.7);
        "Erf"(f(&[7])) = |on, x| on.erf(&x[0]);
        "Expand"(f(&[3, 1])) = |on, x| on.expand(&x[0], &[2, 3, 4]);
        "Floor"(halves()) = |on, x| on.floor(&x[0]);
        "GatherElements"(f(&[3, 3]), i(&[2, 3], &[1, 2, 0, 2, 0, -1])) =
            |on, x| on.gather_elements(&x[0], &x[1], 0);
        "GatherND"(f(&[2, 2, 3]), i(&[2, 1, 1], &[1, 0])) = |on, x| on.gather_nd(&x[0], &x[1], 1);
        "Gelu"(f(&[7])) = |on, x| on.gelu(&x[0], true);
        "GreaterOrEqual"(f(&[5]), f(&[1])) = |on, x| on.greater_or_equal(&x[0], &x[1]);
        "GridSample"(f(&[1, 2, 4, 5]), f(&[1, 3, 2, 2])) =
            |on, x| {
                let options =
                    GridSampleOptions { padding: SamplePadding::Border, align_corners: true, ..Default::default() };
                on.grid_sample(&x[0], &x[1], options)
            };
        "HardSigmoid"(moved(&[7], 1.5)) = |on, x| on.hard_sigmoid(&x[0], 0.3, 0.4);
        "IsInf"(odd()) = |on, x| on.is_inf(&x[0], true, false);
        "IsNaN"(odd()) = |on, x| on.is_nan(&x[0]);
        "LayerNormalization"(f(&[2, 3, 4]), f(&[4]), f(&[4])) =
            |on, x| {
                let options = LayerNormalizationOptions { epsilon: 1e-3, ..Default::default() };
                on.layer_normalization(&x[0], &x[1], Some(&x[2]), options)
            };
        "LeakyRelu"(f(&[7])) = |on, x| on.leaky_relu(&x[0], 0.2);
        "LessOrEqual"(f(&[5]), f(&[1])) = |on, x| on.less_or_equal(&x[0], &x[1]);
        "LogSoftmax"(f(&[2, 5])) = |on, x| on.log_softmax(&x[0], 0);
        "Max"(f(&[5]), f(&[2, 1])) = |on, x| on.maximum(&x[0], &x[1]);
        "MaxPool"(f(&[1, 2, 7, 6])) =
            |on, x| {
                let (strides, pads, dilations) = (&[2, 1], &[1, 0, 1, 1], &[1, 2]);
                on.max_pool(&x[0], &[3, 2], MaxPoolOptions { strides, pads, dilations, ceil: false })
            };
        "MaxRoiPool"(f(&[1, 2, 5, 5]), numbered_rois()) = |on, x| on.max_roi_pool(&x[0], &x[1], &[2, 2], 1.0);
        "Min"(f(&[5]), f(&[2, 1])) = |on, x| on.minimum(&x[0], &x[1]);
        "Mod"(f(&[9]), moved(&[9], 3.0)) = |on, x| on.modulo(&x[0], &x[1], true);
        "Not"(p()) = |on, x| on.not(&x[0]);
        "Or"(p(), q()) = |on, x| on.or(&x[0], &x[1]);
        "Pad"(f(&[3, 4])) = |on, x| on.pad(&x[0], None, &[1, 2, 0, -1], Border::Reflect);
        "RMSNormalization"(f(&[2, 3, 4]), f(&[4])) = |on, x| on.rms_normalization(&x[0], &x[1], -1, 1e-3);
        "RandomNormal"(f(&[1])) = |on, x| on.add(&x[0], &on.random_normal(&[3], Default::default())?);
        "RandomUniform"(f(&[1])) =
            |on, x| on.add(&x[0], &on.random_uniform(&[3], Default::default())?);
        "Reciprocal"(moved(&[7], 2.0)) = |on, x| on.reciprocal(&x[0]);
        "Relu"(f(&[7])) = |on, x| on.relu(&x[0]);
        "RoiAlign"(f(&[1, 2, 5, 5]), rois(), i(&[2], &[0, 0])) =
            |on, x| {
                let options =
                    RoiAlignOptions { bins: &[2, 3], ratio: 2, scale: 0.5, ..Default::default() };
                on.roi_align(&x[0], &x[1], &x[2], options)
            };
        "Round"(halves()) = |on, x| on.round(&x[0]);
        "ScatterElements"(f(&[3, 3]), i(&[2, 3], &[1, 0, 2, 0, 2, 1]), f(&[2, 3])) =
            |on, x| {
                let options = ScatterElementsOptions { axis: 0, reduction: ScatterReduction::Add };
                on.scatter_elements(&x[0], &x[1], &x[2], options)
            };
        "ScatterND"(f(&[4, 2]), i(&[2, 1], &[3, 1]), f(&[2, 2])) =
            |on, x| on.scatter_nd(&x[0], &x[1], &x[2], ScatterReduction::None);
        "Sigmoid"(f(&[7])) = |on, x| on.sigmoid(&x[0]);
        "Sign"(odd()) = |on, x| on.sign(&on.r#where(&on.equal(&x[0], &x[0])?, &x[0], &on.neg(&x[0])?)?);
        "Sin"(f(&[7])) = |on, x| on.sin(&x[0]);
        "Sinh"(f(&[7])) = |on, x| on.sinh(&x[0]);
        "Softmax"(f(&[2, 5])) = |on, x| on.softmax(&x[0], -1);
        "Softplus"(f(&[7])) = |on, x| on.softplus(&x[0]);
        "Swish"(f(&[7])) = |on, x| on.swish(&x[0], 1.5);
        "Tan"(f(&[7])) = |on, x| on.tan(&x[0]);
        "Tanh"(f(&[7])) = |on, x| on.tanh(&x[0]);
        "ThresholdedRelu"(f(&[7])) = |on, x| on.thresholded_relu(&x[0], 0.3);
        "Xor"(p(), q()) = |on, x| on.xor(&x[0], &x[1]);
    };
    samples.push(Sample {
        op: "TopK",
        inputs: vec![f(&[3, 5])],
        function: |on, x| on.top_k(&x[0], 2, TopKOptions::default()),
    });
    samples
}

/// Checks that two models return the same within a tolerance.
fn agree(sample: &Sample, got: &[TensorData], expected: &[TensorData], tolerance: Tolerance) {
    assert_eq!(got.len(), expected.len(), "{}", sample.op);
    for (got, expected) in got.iter().zip(expected) {
        compare(expected, got, tolerance).unwrap_or_else(|e| panic!("{}: {e:?}", sample.op));
    }
}

#[test]
fn every_operator_that_can_be_kept_has_a_sample() {
    let sampled: BTreeSet<&str> = samples().iter().map(|sample| sample.op).collect();
    assert_eq!(sampled, Keep::names());
}

#[test]
fn a_kept_operator_equals_its_lowering() {
    let exact = Tolerance { relative: 0.0, absolute: 0.0 };
    // The native kernels of the CPU backend round differently.
    let near = Tolerance { relative: 1e-5, absolute: 1e-6 };
    let mut only_kept = BTreeSet::new();
    for sample in samples() {
        let trace = sample.trace();
        let options = ExportOptions::default().opset(sample.opset());
        let kept = trace.model(&options.clone().keep(Keep::operators([sample.op]))).unwrap();
        let names = operators(&kept);
        assert_eq!(names.iter().filter(|n| **n == sample.op).count(), 1, "{}: {names:?}", sample.op);
        let lowered = trace.model(&options).unwrap();
        let others: Vec<&str> =
            operators(&lowered).into_iter().filter(|n| Primitive::from_name(n).is_none()).collect();
        if !others.is_empty() {
            assert_eq!(others, [sample.op]);
            only_kept.insert(sample.op);
        }
        if sample.random() {
            continue;
        }
        let expected = run(&lowered, &sample.inputs, "reference");
        agree(&sample, &run(&kept, &sample.inputs, "reference"), &expected, exact);
        for model in [&kept, &lowered] {
            agree(&sample, &run(model, &sample.inputs, "cpu"), &expected, near);
        }
    }
    // Operations that primitives cannot express are always kept.
    let host = [
        "BitCast",
        "BitwiseAnd",
        "BitwiseNot",
        "BitwiseOr",
        "BitwiseXor",
        "MaxRoiPool",
        "Mod",
        "RandomNormal",
        "RandomUniform",
        "RoiAlign",
        "ScatterElements",
        "ScatterND",
        "TopK",
    ];
    assert_eq!(only_kept, BTreeSet::from(host));
}

#[test]
fn operations_that_an_operator_cannot_express_are_lowered() {
    let lowered = |shape: &[usize], dtype, opset, function: Function| {
        let trace = ModelTrace::new(&[("x", dtype, shape)], function).unwrap();
        let model = trace.model(&ExportOptions::default().opset(opset).keep(Keep::All)).unwrap();
        operators(&model).iter().map(|s| s.to_string()).collect::<Vec<String>>()
    };
    let has = |operators: &[String], op: &str| operators.iter().any(|o| o == op);
    let image: &[usize] = &[1, 1, 6, 6];
    // The opset is older than the operator.
    assert!(!has(&lowered(&[3], DataType::F32, 19, |on, x| Ok(vec![on.gelu(&x[0], false)?])), "Gelu"));
    // Operations inside the body are kept if the operation itself cannot be.
    let attention: Function =
        |on, x| Ok(vec![on.attention(&x[0], &x[0], &x[0], None, AttentionOptions::default())?]);
    let inner = lowered(&[1, 2, 3, 4], DataType::F32, 21, attention);
    assert!(has(&inner, "Softmax") && !has(&inner, "Attention"), "{inner:?}");
    // ONNX's function of attention takes the root of the scale.
    let scaled = |scale: f64| -> Vec<String> {
        let function = move |on: &Tracer, x: &[TracedTensor]| {
            let options = AttentionOptions { scale: Some(scale), ..Default::default() };
            Ok(vec![on.attention(&x[0], &x[0], &x[0], None, options)?])
        };
        let trace = ModelTrace::new(&[("x", DataType::F32, &[1, 2, 3, 4])], function).unwrap();
        let model = trace.model(&ExportOptions::default().opset(23).keep(Keep::All)).unwrap();
        operators(&model).iter().map(|s| s.to_string()).collect()
    };
    assert!(has(&scaled(0.5), "Attention"));
    assert!(!has(&scaled(-0.5), "Attention") && !has(&scaled(0.0), "Attention"));
    // Opset 19 introduced dilations of averages, and opset 22 the windows of `ceil`.
    let dilated: Function = |on, x| {
        Ok(vec![on.average_pool(
            &x[0],
            &[2, 2],
            AveragePoolOptions { dilations: &[2, 2], ..Default::default() },
        )?])
    };
    assert!(!has(&lowered(image, DataType::F32, 18, dilated), "AveragePool"));
    assert!(has(&lowered(image, DataType::F32, 19, dilated), "AveragePool"));
    let ceil: Function = |on, x| {
        Ok(vec![on.max_pool(
            &x[0],
            &[3, 3],
            MaxPoolOptions { strides: &[2, 2], ceil: true, ..Default::default() },
        )?])
    };
    assert!(!has(&lowered(image, DataType::F32, 21, ceil), "MaxPool"));
    assert!(has(&lowered(image, DataType::F32, 22, ceil), "MaxPool"));
    // An attribute has 32 bits, so an `f64` parameter does not fit.
    let slope: Function = |on, x| Ok(vec![on.leaky_relu(&x[0], 0.1)?]);
    assert!(!has(&lowered(&[3], DataType::F64, 21, slope), "LeakyRelu"));
    assert!(has(&lowered(&[3], DataType::F32, 21, slope), "LeakyRelu"));
    // ONNX computes the mean and variance of 64-bit floats in 32 bits.
    let normal: Function = |on, x| {
        Ok(vec![on.layer_normalization(
            &x[0],
            &x[0],
            None,
            LayerNormalizationOptions { epsilon: 0.5, ..Default::default() },
        )?])
    };
    assert!(!has(&lowered(&[3], DataType::F64, 21, normal), "LayerNormalization"));
    // The operator supports some element types only in later opsets.
    let relu: Function = |on, x| Ok(vec![on.relu(&x[0])?]);
    assert!(!has(&lowered(&[3], DataType::I32, 13, relu), "Relu"));
    assert!(has(&lowered(&[3], DataType::I32, 14, relu), "Relu"));
    // In ONNX, the remainder of floats has the sign of the dividend.
    let modulo: Function = |on, x| Ok(vec![on.modulo(&x[0], &x[0], false)?]);
    let operators = lowered(&[3], DataType::F32, 21, modulo);
    assert!(has(&operators, "Mod") && has(&operators, "Where"), "{operators:?}");
}

#[test]
fn an_operator_that_no_export_uses_is_refused() {
    let sample = samples().into_iter().find(|s| s.op == "Relu").unwrap();
    let refused = sample.trace().model(&ExportOptions::default().keep(Keep::operators(["Sofmax"])));
    assert!(
        matches!(refused, Err(Error::NotKept { name, nearest: Some("Softmax"), .. }) if name == "Sofmax")
    );
}
