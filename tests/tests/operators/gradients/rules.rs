//! Tests of the rules' choices at points without a derivative, and of cases that differences do not cover.

use super::{Fallible, Function, Host, differences, host, wide};
use bb::export::{ExportOptions, Keep, ModelTrace};
use bb::ext::{
    Create, Image, Index, Nn, Ops, RoiAlignOptions, Scalar, ScatterElementsOptions, ScatterReduction,
};
use bb::trace::{TraceStop, TracedTensor, Tracer};
use bb::{Backend, CompileOptions, DataType, Error, Tensor, TensorData};

/// The gradient of a function of one vector, by elements.
fn slopes(
    x: &[f64],
    f: impl Fn(
        &bb::trace::Tracer,
        &bb::trace::TracedTensor,
    ) -> Result<bb::trace::TracedTensor, bb::trace::TraceStop>,
) -> Vec<f64> {
    let on = host();
    let x = on.host(&[x.len()], x).unwrap();
    let result =
        bb::gradient(&on, &[&x], &[0], |on, inputs| on.reduce_sum(&f(on, &inputs[0])?, &[], false)).unwrap();
    wide(&on.to_host(&result.gradients[0]).unwrap()).unwrap()
}

#[test]
fn where_there_is_no_derivative_the_documented_one_is_taken() {
    assert_eq!(slopes(&[-1.0, 0.0, 2.0], |on, x| on.relu(x)), [0.0, 0.0, 1.0]);
    assert_eq!(slopes(&[-1.0, 0.0, 2.0], |on, x| on.abs(x)), [-1.0, 0.0, 1.0]);
    assert_eq!(slopes(&[3.0, 1.0, 3.0], |on, x| on.reduce_max(x, &[0], false)), [0.5, 0.0, 0.5]);
    assert_eq!(slopes(&[1.0, 2.0], |on, x| on.maximum(x, &on.host(&[], &[1.0])?)), [0.5, 1.0]);
    assert_eq!(slopes(&[0.5, 1.2], |on, x| on.add(&on.round(x)?, &on.floor(x)?)), [0.0, 0.0]);
    assert_eq!(slopes(&[0.0, 2.0], |on, x| on.pow(x, &on.host(&[], &[0.0])?)), [0.0, 0.0]);
    // Of unlike signs of zero and of what overflows there is no NaN.
    assert_eq!(slopes(&[800.0, -800.0], |on, x| on.elu(x, 1.0)), [1.0, 0.0]);
    assert_eq!(slopes(&[800.0, -800.0], |on, x| on.sigmoid(x)), [0.0, 0.0]);
    assert_eq!(slopes(&[800.0, -800.0], |on, x| on.softplus(x)), [1.0, 0.0]);
    assert_eq!(slopes(&[800.0, -800.0], |on, x| on.tanh(x)), [0.0, 0.0]);
}

#[test]
fn integers_and_comparisons_have_gradients_of_zero_and_host_computations_are_named() {
    let on = host();
    let x = on.host(&[1, 1, 2, 2], &[1.0f64, 2.0, 3.0, 4.0]).unwrap();
    let zero = bb::gradient(&on, &[&x], &[0], |on, inputs| {
        let counts = on.cast(&inputs[0], DataType::I64, true, bb::RoundMode::Up)?;
        on.reduce_sum(&on.cast(&counts, DataType::F64, true, bb::RoundMode::Up)?, &[], false)
    });
    assert_eq!(wide(&on.to_host(&zero.unwrap().gradients[0]).unwrap()).unwrap(), [0.0; 4]);
    let error = bb::gradient(&on, &[&x], &[0], |on, inputs| {
        let regions = on.host(&[1, 4], &[0.0f64, 0.0, 1.0, 1.0])?;
        let y = on.roi_align(&inputs[0], &regions, &on.host(&[1], &[0i64])?, RoiAlignOptions::default())?;
        on.reduce_sum(&y, &[], false)
    });
    let Err(error) = error else { panic!("a gradient") };
    assert_eq!(error.to_string(), "`roi_align` has no derivative: the host computes it");
    let error = bb::gradient(&on, &[&x], &[0], |on, inputs| on.exp(&inputs[0])).unwrap_err();
    assert_eq!(
        error.to_string(),
        "a function with a gradient returns one float, got f64 of the shape [1, 1, 2, 2]"
    );
    let error = bb::gradient(&on, &[&x], &[1], |on, inputs| on.exp(&inputs[0])).unwrap_err();
    assert_eq!(error.to_string(), "input 1 of 1 has no gradient: it does not exist");
    let n = on.host(&[], &[1i64]).unwrap();
    let error = bb::gradient(&on, &[&n], &[0], |on, inputs| on.neg(&inputs[0])).unwrap_err();
    assert_eq!(error.to_string(), "input 0 of 1 has no gradient: it is i64, expected a float");
}

/// A scatter with a repeated index, and with factors that are 0.
struct Scattered(ScatterReduction);

impl Function for Scattered {
    fn call(&self, on: &Tracer, inputs: &[TracedTensor]) -> Result<TracedTensor, TraceStop> {
        let [data, updates] = inputs else { unreachable!("two inputs") };
        let places = on.host(&[2, 3], &[1i64, -1, 1, 0, 3, 0])?;
        let options = ScatterElementsOptions { axis: 1, reduction: self.0 };
        let y = on.scatter_elements(data, &places, updates, options)?;
        let rows = on.host(&[3, 1], &[2i64, 0, 2])?;
        let turned = on.transpose(updates, &[1, 0])?;
        let two = on.scatter_nd(&on.transpose(data, &[1, 0])?, &rows, &turned, self.0)?;
        let total = on.add(&on.mul(&y, &y)?, &on.transpose(&on.exp(&two)?, &[1, 0])?)?;
        on.reduce_sum(&total, &[], false)
    }
}

#[test]
fn scatters_have_the_gradients_of_differences() -> Fallible<()> {
    let data = TensorData::new(&[2, 4], &[0.3, -0.2, 0.9, 0.4, -0.6, 0.8, 1.1, -0.5])?;
    let updates = TensorData::new(&[2, 3], &[0.7, 0.45, -0.35, 0.65, 1.2, 0.25])?;
    for &reduction in ScatterReduction::ALL {
        differences(&[data.clone(), updates.clone()], DataType::F64, false, Host(Scattered(reduction)))
            .map_err(|e| format!("{}: {e}", reduction.name()))?;
    }
    let zeros = TensorData::new(&[2, 3], &[0.0, 0.45, -0.35, 0.0, 1.2, 0.0])?;
    differences(&[data, zeros], DataType::F64, false, Host(Scattered(ScatterReduction::Mul)))
}

/// Each row is gathered as often as its slope says, also of tables too large for a matrix of marks.
#[test]
fn gradients_of_many_gathered_rows_count_them() {
    let on = host();
    for (extent, rows) in [(7usize, 20usize), (3000, 1500)] {
        let table = on.zeros(&[2, extent], DataType::F64).unwrap();
        let places: Vec<i64> = (0..rows as i64).map(|i| i * i % extent as i64).collect();
        let result = bb::gradient(&on, &[&table], &[0], |on, inputs| {
            let y = on.gather(&inputs[0], &on.host(&[rows], &places)?, 1)?;
            on.reduce_sum(&y, &[], false)
        });
        let slopes = wide(&on.to_host(&result.unwrap().gradients[0]).unwrap()).unwrap();
        let mut expected = vec![0.0; extent];
        places.iter().for_each(|&i| expected[i as usize] += 1.0);
        assert_eq!(slopes, [expected.clone(), expected].concat());
    }
}

/// `sin(x) exp(x)` has the second derivative `2 cos(x) exp(x)`; the gradient of the gradient is exported as a model of primitives.
#[test]
fn gradients_have_gradients_and_become_models() -> Fallible<()> {
    let trace = ModelTrace::new(&[("x", DataType::F64, &[3])], |on, inputs| {
        let refs: Vec<_> = inputs.iter().collect();
        let second = bb::gradient(on, &refs, &[0], |on, inputs| {
            let refs: Vec<_> = inputs.iter().collect();
            let first = bb::gradient(on, &refs, &[0], |on, inputs| {
                let [x] = inputs else { unreachable!("one input") };
                on.reduce_sum(&on.mul(&on.sin(x)?, &on.exp(x)?)?, &[], false)
            })?;
            on.reduce_sum(&first.gradients[0], &[], false)
        })?;
        Ok(vec![second.value, second.gradients[0].clone()])
    })?;
    let points = [0.3f64, -1.1, 2.0];
    for keep in [Keep::Nothing, Keep::All] {
        let program = bb_reference::Reference
            .compile(trace.module(&ExportOptions::default().keep(keep))?, &CompileOptions::default())?;
        let x = bb_reference::Reference.constant(&TensorData::new(&[3], &points)?)?;
        let results = program.run(&bb_reference::Reference, &[Some(&x)])?;
        let got = wide(&bb_reference::Reference.to_host(&results[1])?)?;
        for (x, got) in points.iter().zip(got) {
            assert!((got - 2.0 * x.cos() * x.exp()).abs() < 1e-9, "{x} {got}");
        }
        let sum: f64 = points.iter().map(|x| (x.sin() + x.cos()) * x.exp()).sum();
        assert!((wide(&bb_reference::Reference.to_host(&results[0])?)?[0] - sum).abs() < 1e-9);
    }
    Ok(())
}

#[test]
fn a_seed_weights_the_elements_of_the_result() {
    let on = host();
    let x = on.host(&[2], &[1.0f64, 2.0]).unwrap();
    let seed = on.host(&[2], &[10.0f64, -1.0]).unwrap();
    let square = |on: &bb::trace::Tracer, x: &[bb::trace::TracedTensor]| on.mul(&x[0], &x[0]);
    let result = bb::gradient_with_seed(&on, &[&x], &[0], &seed, square).unwrap();
    assert_eq!(wide(&on.to_host(&result.gradients[0]).unwrap()).unwrap(), [20.0, -4.0]);
    assert_eq!(result.value.shape(), [2]);
    let wrong = on.host(&[1], &[1.0f64]).unwrap();
    let error = bb::gradient_with_seed(&on, &[&x], &[0], &wrong, square).unwrap_err();
    assert!(
        Error::from(bb::ir::Error::Shapes { op: "gradient", left: [2].into(), right: [1].into() })
            .to_string()
            == error.to_string()
    );
}
