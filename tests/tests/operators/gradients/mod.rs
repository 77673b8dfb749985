//! Tests gradients against finite differences, and losses and optimizers against formulas.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

mod operators;
mod rules;
mod training;

use bb::export::ModelTrace;
use bb::ext::Extended;
use bb::trace::{TraceStop, TracedTensor, Tracer};
use bb::{Backend, BackendHandle, CompileOptions, DataType, Runtime, TensorData};
use bb_reference::Reference;

type Fallible<T> = Result<T, Box<dyn std::error::Error>>;

/// The reference backend with all families.
fn host() -> Extended<'static, Reference> {
    Extended::new(&Reference, &[])
}

/// A function over the tracer.
trait Function {
    fn call(&self, on: &Tracer, inputs: &[TracedTensor]) -> Result<TracedTensor, TraceStop>;
}

/// A function that is run on the reference backend, and differentiated.
struct Host<F>(F);

impl<F: Function> Host<F> {
    fn value(&self, inputs: &[TensorData]) -> Fallible<f64> {
        let names: Vec<String> = (0..inputs.len()).map(|i| format!("x{i}")).collect();
        let types: Vec<_> =
            names.iter().zip(inputs).map(|(name, x)| (&**name, x.dtype(), x.shape())).collect();
        let trace = ModelTrace::new(&types, |on, inputs| Ok(vec![self.0.call(on, inputs)?]))?;
        let on = BackendHandle::new(Runtime::new(Reference));
        let program = on.compile_trace(&trace, &CompileOptions::default())?;
        let inputs: Vec<_> = inputs.iter().map(|x| on.constant(x)).collect::<Result<_, _>>()?;
        let refs: Vec<_> = inputs.iter().map(Some).collect();
        let y = on.to_host(&program.run(&refs)?[0])?;
        Ok(y.as_slice::<f64>()?[0])
    }

    fn gradients(&self, inputs: &[TensorData]) -> Fallible<Vec<TensorData>> {
        let on = host();
        let inputs: Vec<_> = inputs.iter().map(|x| on.constant(x)).collect::<Result<_, _>>()?;
        let by: Vec<usize> = (0..inputs.len()).collect();
        let refs: Vec<_> = inputs.iter().collect();
        let function = |on: &Tracer, inputs: &[TracedTensor]| -> Result<TracedTensor, TraceStop> {
            self.0.call(on, inputs)
        };
        let result = bb::gradient(&on, &refs, &by, function)?;
        Ok(result.gradients.iter().map(|g| on.to_host(g)).collect::<Result<_, _>>()?)
    }
}

fn wide(x: &TensorData) -> Fallible<Vec<f64>> {
    let x = bb::ir::convert::cast(x, DataType::F64, bb::ir::convert::Rounding::default())?;
    Ok(x.as_slice::<f64>()?.to_vec())
}

/// Compares the gradient of a function with its central differences along several directions. A function that is `narrow`
/// rounds to `f32`, which requires a larger step.
fn differences<F: Function>(
    inputs: &[TensorData],
    dtype: DataType,
    narrow: bool,
    function: Host<F>,
) -> Fallible<()> {
    let (step, tolerance) = if narrow { (2e-3, 2e-3) } else { (1e-6, 2e-6) };
    let gradients = function.gradients(inputs)?;
    for direction in 0..3usize {
        let (mut up, mut down, mut slope, mut size) = (Vec::new(), Vec::new(), 0.0, 0.0);
        for (k, (x, gradient)) in inputs.iter().zip(&gradients).enumerate() {
            let along = |i: usize| ((i * 7 + k * 3 + direction * 5 + 1) % 11) as f64 / 5.0 - 1.1;
            let elements = wide(x)?;
            for (i, g) in wide(gradient)?.iter().enumerate() {
                slope += g * along(i);
                size += (g * along(i)).abs();
            }
            for (list, sign) in [(&mut up, 1.0), (&mut down, -1.0)] {
                let moved: Vec<f64> =
                    elements.iter().enumerate().map(|(i, x)| x + sign * step * along(i)).collect();
                let moved = TensorData::new(x.shape(), &moved)?;
                list.push(bb::ir::convert::cast(&moved, dtype, bb::ir::convert::Rounding::default())?);
            }
        }
        let (high, low) = (function.value(&up)?, function.value(&down)?);
        let expected = (high - low) / (2.0 * step);
        if !expected.is_finite() {
            return Err("the value is not finite".into());
        }
        let scale = tolerance * (1.0 + size + expected.abs());
        if (slope - expected).abs().partial_cmp(&scale).is_none_or(|order| order.is_gt()) {
            return Err(format!("the gradient gives {slope}, differences give {expected}").into());
        }
    }
    Ok(())
}

/// The planner reads the value and traces the rest, so it must get this error and no other.
#[test]
fn a_function_that_reads_its_input_stops_the_trace_around_the_gradient() {
    let trace = ModelTrace::new(&[("x", DataType::F64, &[])], |on, inputs| {
        let found = bb::gradient(on, &[&inputs[0]], &[0], |on, inputs| {
            on.to_host(&inputs[0])?;
            Ok(inputs[0].clone())
        });
        assert!(matches!(found, Err(TraceStop::Needs(_))), "{found:?}");
        Ok(inputs.to_vec())
    });
    trace.unwrap();
}
