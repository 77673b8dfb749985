//! Replays cases, each on every float type that it is for.

use bb::ext::{ImageOp, LlmOp, QuantOp};
use bb::ir::convert::{Rounding, cast};
use bb::ir::op::{OpSpec, Param, ParamKind};
use bb::trace::{TraceStop, TracedTensor, Tracer};
use bb::{BackendHandle, CompileOptions, DataType, Module, NarrowError, Outputs, TensorData};
use serde_json::Value as Json;

type Traced = Result<Outputs<TracedTensor>, TraceStop>;
type TracedCall = dyn Fn(&Tracer, &[Option<&TracedTensor>], &[Param<'_>]) -> Traced;

/// An operation, and how it is called while tracing.
struct Operation {
    spec: &'static OpSpec,
    trace: Box<TracedCall>,
}

/// Reads an element, which JSON has no number for if it is not finite.
fn element(x: &Json) -> f64 {
    x.as_f64().unwrap_or_else(|| x.as_str().unwrap().parse().unwrap())
}

/// Reads a tensor; floats have the type of the run.
fn tensor(x: &Json, floats: DataType) -> Option<TensorData> {
    let dtype = match x.get("type")?.as_str().unwrap() {
        "float" => floats,
        name => DataType::from_name(name).unwrap(),
    };
    let shape: Vec<usize> =
        x["shape"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap() as usize).collect();
    let elements: Vec<f64> = x["data"].as_array().unwrap().iter().map(element).collect();
    Some(cast(&TensorData::new(&shape, &elements).unwrap(), dtype, Rounding::default()).unwrap())
}

fn tensors(list: &Json, floats: DataType) -> Vec<Option<TensorData>> {
    list.as_array().unwrap().iter().map(|x| tensor(x, floats)).collect()
}

fn param(kind: ParamKind, x: &Json) -> Param<'static> {
    match kind {
        ParamKind::Int => Param::Int(x.as_i64().unwrap()),
        ParamKind::OptInt => Param::OptInt(x.as_i64()),
        ParamKind::Float => Param::Float(x.as_f64().unwrap()),
        ParamKind::OptFloat => Param::OptFloat(x.as_f64()),
        ParamKind::Bool => Param::Bool(x.as_bool().unwrap()),
        ParamKind::Text => Param::Text(x.as_str().unwrap().to_owned().into()),
        ParamKind::Type => Param::Type(DataType::from_name(x.as_str().unwrap()).unwrap()),
        ParamKind::OptType => Param::OptType(x.as_str().map(|name| DataType::from_name(name).unwrap())),
        other => panic!("{other:?}"),
    }
}

/// An error and its causes.
fn chain(error: &dyn std::error::Error) -> String {
    let causes = error.source().map(|cause| format!(": {}", chain(cause))).unwrap_or_default();
    format!("{error}{causes}")
}

/// The distance of 1 from the next number, or 0 for integers.
fn rounding(dtype: DataType) -> f64 {
    match dtype {
        DataType::F64 => f64::EPSILON,
        DataType::F32 => f64::from(f32::EPSILON),
        DataType::F16 => 2f64.powi(-10),
        DataType::BF16 => 2f64.powi(-7),
        _ => 0.0,
    }
}

/// Compares a result with the expected one: the error is at most `tolerance` roundings of the largest result.
fn difference(got: &TensorData, expected: &TensorData, tolerance: f64) -> Option<String> {
    if (got.dtype(), got.shape()) != (expected.dtype(), expected.shape()) {
        let kind = |x: &TensorData| format!("{} {:?}", x.dtype(), x.shape());
        return Some(format!("is {}, expected {}", kind(got), kind(expected)));
    }
    let wide = |x: &TensorData| cast(x, DataType::F64, Rounding::default()).unwrap();
    let (left, right) = (wide(got), wide(expected));
    let (left, right) = (left.as_slice::<f64>().unwrap(), right.as_slice::<f64>().unwrap());
    let most = right.iter().filter(|x| x.is_finite()).fold(0f64, |most, x| most.max(x.abs()));
    let bound = tolerance * rounding(got.dtype()) * most;
    let same = |(a, b): (&f64, &f64)| a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= bound;
    let at = left.iter().zip(right).position(|pair| !same(pair))?;
    Some(format!("has {} at {at}, expected {} within {bound:e}", left[at], right[at]))
}

/// Calls the operation of a case on a backend.
fn eager(
    on: &BackendHandle,
    spec: &'static OpSpec,
    inputs: &[Option<TensorData>],
    params: &[Param<'_>],
) -> Result<Vec<TensorData>, bb::Error> {
    let inputs: Vec<_> = inputs
        .iter()
        .map(|x| x.as_ref().map(|x| on.runtime().constant(x)).transpose())
        .collect::<Result<_, _>>()?;
    let refs: Vec<_> = inputs.iter().map(Option::as_ref).collect();
    on.call(spec, &refs, params)?.iter().map(|y| on.to_host(y)).collect()
}

/// Traces the operation of a case, and runs the graph of primitives on a backend.
fn compiled(
    on: &BackendHandle,
    operation: &Operation,
    inputs: &[Option<TensorData>],
    params: &[Param<'_>],
) -> Result<Vec<TensorData>, bb::Error> {
    let names: Vec<String> = (0..inputs.len()).map(|i| format!("x{i}")).collect();
    let given: Vec<(&str, DataType, &[usize])> = names
        .iter()
        .zip(inputs)
        .filter_map(|(name, x)| x.as_ref().map(|x| (name.as_str(), x.dtype(), x.shape())))
        .collect();
    let graph = bb::trace(&given, |tracer, xs| {
        let mut xs = xs.iter();
        let operands: Vec<_> = inputs.iter().map(|x| x.as_ref().and_then(|_| xs.next())).collect();
        Ok((operation.trace)(tracer, &operands, params)?.into_iter().collect())
    })?;
    let run = on.compile(Module::from_graph(&graph, &[], &[])?, &CompileOptions::default())?;
    let inputs: Vec<_> =
        inputs.iter().flatten().map(|x| on.runtime().constant(x)).collect::<Result<_, _>>()?;
    let refs: Vec<_> = inputs.iter().map(Some).collect();
    run.run(&refs)?.iter().map(|y| on.to_host(y)).collect()
}

/// Replays the cases of a family; returns what went wrong.
fn replay(text: &str, operation: impl Fn(&str) -> Operation) -> Vec<String> {
    let cases: Vec<Json> = serde_json::from_str(text).unwrap();
    assert!(cases.len() > 30);
    let handles: Vec<_> = super::each().collect();
    let mut wrong = Vec::new();
    for case in &cases {
        let operation = operation(case["op"].as_str().unwrap());
        let specs = operation.spec.params.iter().zip(case["params"].as_array().unwrap());
        let params: Vec<Param<'_>> = specs.map(|(spec, x)| param(spec.kind, x)).collect();
        assert_eq!(params.len(), operation.spec.params.len(), "{}", operation.spec.method);
        for dtype in case["types"].as_array().unwrap() {
            let dtype = DataType::from_name(dtype.as_str().unwrap()).unwrap();
            let (inputs, outputs) = (tensors(&case["inputs"], dtype), tensors(&case["outputs"], dtype));
            for on in &handles {
                let results = [
                    ("called", eager(on, operation.spec, &inputs, &params)),
                    ("compiled", compiled(on, &operation, &inputs, &params)),
                ];
                for (how, result) in results {
                    let problem = match result {
                        // The backend with the fewest types computes other floats where that is exact, and refuses the rest.
                        Err(error)
                            if on.name() == super::LEAST
                                && dtype != DataType::F32
                                && NarrowError::cause_of(&error).is_some() =>
                        {
                            None
                        }
                        Err(error) => Some(chain(&error)),
                        Ok(got) if got.len() != outputs.len() => Some(format!("{} results", got.len())),
                        Ok(got) => {
                            let tolerance = case["tolerance"].as_f64().unwrap();
                            let pairs = got.iter().zip(outputs.iter().flatten());
                            pairs.enumerate().find_map(|(i, (a, b))| {
                                Some(format!("result {i} {}", difference(a, b, tolerance)?))
                            })
                        }
                    };
                    wrong.extend(problem.map(|problem| {
                        let name = &case["name"];
                        format!(
                            "{} {how} on {}, {dtype}, {name}: {problem}",
                            operation.spec.method,
                            on.name()
                        )
                    }));
                }
            }
        }
    }
    wrong
}

fn assert_none(wrong: &[String]) {
    assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn llm_computes_what_numpy_does() {
    let text = include_str!("../../../families/llm.json");
    assert_none(&replay(text, |method| {
        let op = *LlmOp::ALL.iter().find(|op| op.spec().method == method).unwrap();
        Operation { spec: op.spec(), trace: Box::new(move |on, xs, ps| bb::ext::llm::call(on, op, xs, ps)) }
    }));
}

#[test]
fn image_computes_what_numpy_does() {
    let text = include_str!("../../../families/image.json");
    assert_none(&replay(text, |method| {
        let op = *ImageOp::ALL.iter().find(|op| op.spec().method == method).unwrap();
        Operation { spec: op.spec(), trace: Box::new(move |on, xs, ps| bb::ext::image::call(on, op, xs, ps)) }
    }));
}

#[test]
fn quant_computes_what_numpy_does() {
    let text = include_str!("../../../families/quant.json");
    assert_none(&replay(text, |method| {
        let op = *QuantOp::ALL.iter().find(|op| op.spec().method == method).unwrap();
        Operation { spec: op.spec(), trace: Box::new(move |on, xs, ps| bb::ext::quant::call(on, op, xs, ps)) }
    }));
}
