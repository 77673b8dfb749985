//! Calls of the operations of families: those that NumPy computed (`tests/families`), and some that are written here.

use super::draws::converted;
use bb::ext::{ImageOp, IndexOp, LlmOp, MlOp, NnOp, ScalarOp, TrainOp};
use bb::ir::op::{Arity, OpSpec, Param, ParamKind};
use bb::{DataType, TensorData};
use serde_json::Value as Json;

/// A call of an operation.
pub(super) struct Call {
    pub(super) spec: &'static OpSpec,
    /// The operands; floats are drawn.
    pub(super) inputs: Vec<Option<Operand>>,
    pub(super) params: Vec<Param<'static>>,
}

pub(super) enum Operand {
    Floats(TensorData),
    Other(TensorData),
}

/// The operations that the tables of families have, and that are measured or left out here.
pub(super) fn specs() -> Vec<&'static OpSpec> {
    let mut all: Vec<&'static OpSpec> = Vec::new();
    all.extend(ScalarOp::ALL.iter().map(|op| op.spec()));
    all.extend(NnOp::ALL.iter().map(|op| op.spec()));
    all.extend(LlmOp::ALL.iter().map(|op| op.spec()));
    all.extend(IndexOp::ALL.iter().map(|op| op.spec()));
    all.extend(ImageOp::ALL.iter().map(|op| op.spec()));
    all.extend(MlOp::ALL.iter().map(|op| op.spec()));
    all.extend(TrainOp::ALL.iter().map(|op| op.spec()));
    all
}

fn spec(method: &str) -> &'static OpSpec {
    specs().into_iter().find(|spec| spec.method == method).unwrap()
}

fn element(x: &Json) -> f64 {
    x.as_f64().unwrap_or_else(|| x.as_str().unwrap().parse().unwrap())
}

fn operand(x: &Json) -> Option<Operand> {
    let name = x.get("type")?.as_str().unwrap();
    let shape: Vec<usize> =
        x["shape"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap() as usize).collect();
    let elements: Vec<f64> = x["data"].as_array().unwrap().iter().map(element).collect();
    let data = TensorData::new(&shape, &elements).unwrap();
    Some(match name {
        "float" => Operand::Floats(data),
        name => Operand::Other(converted(&data, DataType::from_name(name).unwrap())),
    })
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

/// Floats of a shape. Their own elements tell only whether negative ones are drawn.
fn floats(shape: &[usize]) -> Option<Operand> {
    Some(Operand::Floats(TensorData::new(shape, &vec![-1.0; shape.iter().product()]).unwrap()))
}

fn positive(shape: &[usize]) -> Option<Operand> {
    Some(Operand::Floats(TensorData::new(shape, &vec![1.0; shape.iter().product()]).unwrap()))
}

fn integers(shape: &[usize], values: &[i64]) -> Option<Operand> {
    Some(Operand::Other(TensorData::new(shape, values).unwrap()))
}

fn ints(values: &'static [i64]) -> Param<'static> {
    Param::Ints(values.into())
}

/// The calls that are written out.
fn written() -> Vec<Call> {
    let mut all = Vec::new();
    let mut add = |method: &str, inputs: Vec<Option<Operand>>, params: Vec<Param<'static>>| {
        all.push(Call { spec: spec(method), inputs, params });
    };
    // All operations of one or two floats. Their parameters are flags and factors.
    for spec in ScalarOp::ALL.iter().map(|op| op.spec()) {
        if spec.inputs.iter().any(|(_, arity)| *arity != Arity::Tensor) {
            continue;
        }
        let params = spec.params.iter().map(|_| Param::Bool(true)).collect();
        add(spec.method, spec.inputs.iter().map(|_| floats(&[64])).collect(), params);
    }
    for (method, factors) in [
        ("relu", vec![]),
        ("leaky_relu", vec![Param::Float(0.01)]),
        ("elu", vec![Param::Float(1.3)]),
        ("gelu", vec![Param::Bool(false)]),
        ("gelu", vec![Param::Bool(true)]),
        ("swish", vec![Param::Float(1.0)]),
        ("swish", vec![Param::Float(1.3)]),
        ("hard_sigmoid", vec![Param::Float(0.2), Param::Float(0.5)]),
        ("thresholded_relu", vec![Param::Float(0.3)]),
        ("reduce_prod", vec![ints(&[-1]), Param::Bool(false)]),
        ("cum_sum", vec![Param::Int(-1), Param::Bool(false), Param::Bool(false)]),
        ("cum_sum", vec![Param::Int(0), Param::Bool(true), Param::Bool(true)]),
        ("softmax", vec![Param::Int(-1)]),
        ("softmax", vec![Param::Int(0)]),
        ("log_softmax", vec![Param::Int(-1)]),
        ("log_softmax", vec![Param::Int(0)]),
    ] {
        add(method, vec![floats(&[8, 24])], factors);
    }
    add("clip", vec![floats(&[64]), floats(&[]), floats(&[])], vec![]);
    add(
        "layer_normalization",
        vec![floats(&[4, 24]), floats(&[24]), floats(&[24])],
        vec![Param::Int(-1), Param::Float(1e-5)],
    );
    add("rms_normalization", vec![floats(&[4, 24]), floats(&[24])], vec![Param::Int(-1), Param::Float(1e-5)]);
    for interleaved in [false, true] {
        let inputs = vec![floats(&[1, 2, 5, 8]), floats(&[5, 4]), floats(&[5, 4])];
        add("rotate", inputs, vec![Param::OptInt(None), Param::Bool(interleaved)]);
    }
    for bias in [None, Some(())] {
        let bias = bias.and_then(|()| floats(&[5, 6]));
        let inputs = vec![floats(&[1, 2, 5, 8]), floats(&[1, 2, 6, 8]), floats(&[1, 2, 6, 4]), bias];
        add(
            "attention",
            inputs,
            vec![Param::OptFloat(None), Param::Float(0.0), Param::OptType(None), Param::Bool(false)],
        );
    }
    let channels = || [floats(&[3]), floats(&[3]), floats(&[3]), positive(&[3])];
    let inputs = std::iter::once(floats(&[2, 3, 8])).chain(channels()).collect();
    add("batch_normalization", inputs, vec![Param::Float(1e-5)]);
    for (kernel, group) in [(1, 1), (3, 1), (3, 2)] {
        for bias in [None, Some(())] {
            add(
                "conv",
                vec![
                    floats(&[1, 4, 6, 6]),
                    floats(&[4, 4 / group, kernel, kernel]),
                    bias.and_then(|()| floats(&[4])),
                ],
                vec![ints(&[]), ints(&[1, 1, 1, 1]), ints(&[]), Param::Int(group as i64)],
            );
            add(
                "conv_transpose",
                vec![
                    floats(&[1, 4, 6, 6]),
                    floats(&[4, 4 / group, kernel, kernel]),
                    bias.and_then(|()| floats(&[4 / group * group])),
                ],
                vec![ints(&[2, 2]), ints(&[]), ints(&[]), ints(&[]), Param::Int(group as i64)],
            );
        }
    }
    let windows = || vec![ints(&[3, 3]), ints(&[2, 2]), ints(&[1, 1, 1, 1]), ints(&[]), Param::Bool(false)];
    add("max_pool", vec![floats(&[1, 2, 8, 8])], windows());
    let averaging = windows().into_iter().chain([Param::Bool(false)]).collect();
    add("average_pool", vec![floats(&[1, 2, 8, 8])], averaging);
    let recurrent =
        || vec![Param::Bool(false), ints(&[]), Param::Floats(vec![].into()), Param::OptFloat(None)];
    add("rnn", vec![floats(&[5, 2, 4]), floats(&[4, 4]), floats(&[2, 4]), None], recurrent());
    for linear in [false, true] {
        let params = std::iter::once(Param::Bool(linear)).chain(recurrent()).collect();
        let bias = if linear { floats(&[4]) } else { None };
        add("gru", vec![floats(&[5, 2, 12]), floats(&[4, 12]), floats(&[2, 4]), bias, None], params);
    }
    for seen in [None, floats(&[12])] {
        let params = std::iter::once(Param::Bool(false)).chain(recurrent()).collect();
        let states = [floats(&[2, 4]), floats(&[2, 4]), None, None, None, seen];
        let inputs = [floats(&[5, 2, 16]), floats(&[4, 16])].into_iter().chain(states).collect();
        add("lstm", inputs, params);
    }
    let pads = vec![ints(&[0, 1, 0, 2]), Param::Text("constant".into())];
    add("pad", vec![floats(&[4, 6]), floats(&[])], pads);
    add("gather_elements", vec![floats(&[4, 2]), integers(&[2, 2], &[0, 3, 1, 2])], vec![Param::Int(0)]);
    add("gather_nd", vec![floats(&[4, 2]), integers(&[2, 1], &[3, 1])], vec![Param::Int(0)]);
    for (method, last) in [("arg_max", false), ("arg_min", true)] {
        add(method, vec![floats(&[4, 24])], vec![Param::Int(-1), Param::Bool(last)]);
    }
    add(
        "top_k",
        vec![floats(&[4, 24])],
        vec![Param::Int(5), Param::Int(-1), Param::Bool(true), Param::Bool(true)],
    );
    let reductions = ["none", "mul", "min", "max"];
    for reduction in reductions {
        let one = integers(&[2, 3], &[0, 3, 1, 2, 2, 0]);
        let params = vec![Param::Int(0), Param::Text(reduction.into())];
        add("scatter_elements", vec![floats(&[4, 3]), one, floats(&[2, 3])], params);
        let one = integers(&[2, 1], &[3, 0]);
        add("scatter_nd", vec![floats(&[4, 3]), one, floats(&[2, 3])], vec![Param::Text(reduction.into())]);
    }
    add("squared_distances", vec![floats(&[5, 6]), floats(&[4, 6])], vec![]);
    for mode in ["nearest", "linear", "cubic"] {
        let options = vec![Param::Text(mode.into()), Param::Text("zeros".into()), Param::Bool(false)];
        add("grid_sample", vec![floats(&[1, 2, 5, 5]), floats(&[1, 4, 4, 2])], options);
    }
    add(
        "deform_conv",
        vec![floats(&[1, 2, 5, 5]), floats(&[2, 2, 2, 2]), floats(&[1, 8, 4, 4]), floats(&[2]), None],
        vec![ints(&[]), ints(&[]), ints(&[]), Param::Int(1), Param::Int(1)],
    );
    add(
        "max_unpool",
        vec![floats(&[1, 1, 2, 2]), integers(&[1, 1, 2, 2], &[0, 3, 9, 14])],
        vec![Param::Extents(vec![1, 1, 4, 4].into())],
    );
    for inverse in [false, true] {
        add("dft", vec![floats(&[2, 16, 2])], vec![Param::Int(16), Param::Bool(inverse), Param::Bool(false)]);
    }
    let labels = || integers(&[6], &[0, 4, 2, 1, 1, 3]);
    for reduction in ["none", "sum", "mean"] {
        let options = || vec![Param::Text(reduction.into()), Param::OptInt(None)];
        for weights in [None, Some(())] {
            let weights = || weights.and_then(|()| positive(&[5]));
            add("cross_entropy", vec![floats(&[6, 5]), labels(), weights()], options());
            add("cross_entropy_with_probabilities", vec![floats(&[6, 5]), labels(), weights()], options());
            add("negative_log_likelihood", vec![floats(&[6, 5]), labels(), weights()], options());
            let smoothed = vec![Param::Text(reduction.into()), Param::Float(0.1)];
            add(
                "cross_entropy_of_probabilities",
                vec![floats(&[6, 5]), positive(&[6, 5]), weights()],
                smoothed,
            );
        }
    }
    let (rate, count) = (|| positive(&[]), || integers(&[], &[3]));
    for place in ["onnx", "pytorch"] {
        let factors = [Param::Float(0.9), Param::Float(0.999), Param::Float(1e-6), Param::Text(place.into())];
        let inputs = vec![floats(&[24]), floats(&[24]), floats(&[24]), positive(&[24]), rate(), count()];
        add("adam", inputs, factors.into_iter().chain([Param::Float(0.01), Param::Float(0.01)]).collect());
    }
    let inputs = vec![floats(&[24]), floats(&[24]), positive(&[24]), rate(), count()];
    add("adagrad", inputs, vec![Param::Float(0.1), Param::Float(1e-6), Param::Float(0.01)]);
    let inputs = vec![floats(&[24]), floats(&[24]), floats(&[24]), rate(), count()];
    let factors = vec![Param::Float(0.9), Param::Float(0.9), Param::Bool(true), Param::Float(0.01)];
    add("momentum", inputs, factors);
    add("sgd", vec![floats(&[24]), floats(&[24]), rate()], vec![Param::Float(0.01)]);
    all
}

/// Lists the calls of all operations.
pub(super) fn calls() -> Vec<Call> {
    let mut all = written();
    for text in [include_str!("../../../families/llm.json"), include_str!("../../../families/image.json")] {
        let cases: Vec<Json> = serde_json::from_str(text).unwrap();
        for case in &cases {
            let spec = spec(case["op"].as_str().unwrap());
            let params = spec.params.iter().zip(case["params"].as_array().unwrap());
            let params = params.map(|(spec, x)| param(spec.kind, x)).collect();
            let inputs = case["inputs"].as_array().unwrap().iter().map(operand).collect();
            all.push(Call { spec, inputs, params });
        }
    }
    all
}
