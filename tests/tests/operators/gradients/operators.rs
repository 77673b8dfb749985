//! Tests that every operator's gradient matches finite differences, or lists the reason why there is none.

use super::{Fallible, Host, differences};
use bb::ir::convert::{Rounding, cast};
use bb::ir::graph::Graph;
use bb::ir::proto::ModelProto;
use bb::onnx::{Body, Call, OPERATORS, lookup, operators};
use bb::trace::{TraceStop, TracedTensor, Tracer};
use bb::{Backend, DataType, Error, TensorData};
use bb_ir::check::{CheckOptions, check, parse_model};
use std::collections::{BTreeMap, BTreeSet};

/// Small calls of each version of each operator: models after their lengths, named after the operator.
static SAMPLES: &[u8] = include_bytes!("../../../../bb/src/coverage/samples.bin");

/// Reason why the function of an operator is not differentiated here.
const NONE: &[(&str, &[&str])] = &[
    (
        "it works on no tensors of a backend, but on sequences, optionals, maps, subgraphs, or what depends on data",
        &[
            "CastMap",
            "Compress",
            "ConcatFromSequence",
            "DictVectorizer",
            "Loop",
            "NonMaxSuppression",
            "NonZero",
            "Optional",
            "OptionalGetElement",
            "OptionalHasElement",
            "Scan",
            "SequenceAt",
            "SequenceConstruct",
            "SequenceErase",
            "SequenceInsert",
            "SequenceLength",
            "SequenceMap",
            "SplitToSequence",
            "Unique",
            "ZipMap",
        ],
    ),
    ("the host computes its floats", &["LabelEncoder", "MaxRoiPool", "MaxUnpool", "RoiAlign"]),
    ("its result is drawn anew in each run", &["Bernoulli", "RandomNormalLike", "RandomUniformLike"]),
    (
        "it reads the elements of its operands on the host, so that they must be constant",
        &["MelWeightMatrix", "Range"],
    ),
    (
        "compiling a model gives it the graph that it differentiates; `rules.rs` tests second derivatives",
        &["Gradient"],
    ),
];

/// The operators that compute in `f32` for all element types, so that differences have the precision of `f32`.
const NARROW: &[&str] = &[
    "Cast",
    "FeatureVectorizer",
    "LayerNormalization",
    "LinearClassifier",
    "LinearRegressor",
    "Normalizer",
    "SVMClassifier",
    "SVMRegressor",
    "Scaler",
];

/// The models of an operator, by version, each with the element type that it is for.
type Versions = BTreeMap<i64, Vec<(String, ModelProto)>>;

fn samples() -> BTreeMap<(String, String), Versions> {
    let mut found: BTreeMap<_, BTreeMap<i64, Vec<_>>> = BTreeMap::new();
    let mut rest = SAMPLES;
    while let Some((length, after)) = rest.split_first_chunk::<4>() {
        let (bytes, after) = after.split_at(u32::from_le_bytes(*length) as usize);
        rest = after;
        let Ok(model) = parse_model(bytes.into(), &Default::default()) else { continue };
        let name = model.graph.as_ref().map_or("", |g| g.name()).to_owned();
        if let [domain, op, since, dtype] = name.split(' ').collect::<Vec<_>>().as_slice() {
            let domain = if *domain == "ai.onnx" { "" } else { domain };
            let versions = found.entry((domain.to_owned(), (*op).to_owned())).or_default();
            versions.entry(since.parse().unwrap()).or_default().push(((*dtype).to_owned(), model.clone()));
        }
    }
    found
}

/// A checked call and its operands.
struct Sampled {
    graph: Graph,
    operands: Vec<TensorData>,
}

impl Sampled {
    /// Makes a call of a model on elements of a type.
    fn of(model: &ModelProto, dtype: DataType) -> Fallible<Sampled> {
        let mut model = model.clone();
        let mut operands = Vec::new();
        let graph = model.graph.as_mut().ok_or("a graph")?;
        for input in &mut graph.input {
            if let Some(at) = graph.initializer.iter().position(|t| t.name() == input.name()) {
                let own = TensorData::from_proto(&graph.initializer.remove(at))?;
                operands.push(cast(&own, dtype, Rounding::default())?);
            }
            if let Some(bb::ir::proto::type_proto::Value::TensorType(ty)) =
                input.r#type.as_mut().and_then(|ty| ty.value.as_mut())
            {
                ty.elem_type = Some(dtype as i32);
            }
        }
        let options = CheckOptions { operators: OPERATORS, ..CheckOptions::default() };
        Ok(Sampled { graph: check(&model, &options)?.graph, operands })
    }

    /// Runs the nodes, and adds up the floats of the results, each times a number of its own.
    fn run(&self, on: &Tracer, inputs: &[TracedTensor]) -> Result<TracedTensor, TraceStop> {
        let mut values: BTreeMap<usize, TracedTensor> = BTreeMap::new();
        for (at, constant) in &self.graph.constants {
            values.insert(at.index(), on.constant(constant)?);
        }
        for (at, x) in self.graph.inputs.iter().zip(inputs) {
            values.insert(at.index(), x.clone());
        }
        for node in &self.graph.nodes {
            let operands: Vec<Option<TracedTensor>> =
                node.inputs.iter().map(|at| at.and_then(|at| values.get(&at.index()).cloned())).collect();
            let Some((_, Body::Tensors(function))) = lookup(&node.domain, &node.op_type, node.opset) else {
                return Err(Error::Results {
                    op: format!("no tensors: {}", node.op_type),
                    expected: 0,
                    got: 0,
                }
                .into());
            };
            for (at, y) in node.outputs.iter().zip(function.call(on, &Call::new(node, &operands))?) {
                if let (Some(at), Some(y)) = (at, y) {
                    values.insert(at.index(), y);
                }
            }
        }
        let mut total = on.constant(&TensorData::scalar(0f64))?;
        for (number, output) in self.graph.outputs.iter().enumerate() {
            let Some(y) = values.get(&output.index()) else { continue };
            use bb::Tensor;
            if !y.dtype().is_float() {
                continue;
            }
            let weights = TensorData::from_fn(y.shape(), |at| {
                let place = at.iter().fold(7 + 31 * number, |sum, i| 5 * sum + i);
                ((place % 17) as f64 - 7.5) / 8.0
            })
            .map_err(Error::from)?;
            let y = on.cast(y, DataType::F64, true, bb::RoundMode::Up)?;
            let sum = on.reduce_sum(&on.mul(&y, &on.constant(&weights)?)?, &[], false)?;
            total = on.add(&total, &sum)?;
        }
        Ok(total)
    }

    /// Compares the gradient with differences, at points near the operands.
    fn check(&self, dtype: DataType, narrow: bool) -> Fallible<()> {
        if !dtype.is_float() || self.operands.is_empty() {
            // There is nothing to differentiate by.
            return Ok(());
        }
        let mut last: Fallible<()> = Err("no operands at which the result is finite".into());
        // Operands of samples are at kinks and at the ends of domains, where differences do not exist.
        for shrink in [0.07, -0.05, 0.31, 0.9, -9.0] {
            let operands = self.operands.iter().enumerate().map(|(k, x)| {
                let wide = cast(x, DataType::F64, Rounding::default())?;
                let moved: Vec<f64> = wide
                    .as_slice::<f64>()?
                    .iter()
                    .enumerate()
                    .map(|(i, x)| {
                        let noise = ((i * 37 + k * 11 + 5) % 23) as f64 / 23.0;
                        x * (1.0 - shrink * (0.5 + noise / 2.0)) + 0.004 * (noise + 0.1)
                    })
                    .collect();
                Ok(cast(&TensorData::new(x.shape(), &moved)?, dtype, Rounding::default())?)
            });
            let operands: Vec<TensorData> = operands.collect::<Fallible<_>>()?;
            last = differences(&operands, dtype, narrow || dtype != DataType::F64, Host(self));
            match &last {
                Err(error) if error.to_string().contains("not finite") => {}
                _ => return last,
            }
        }
        last
    }
}

impl super::Function for &Sampled {
    fn call(&self, on: &Tracer, inputs: &[TracedTensor]) -> Result<TracedTensor, TraceStop> {
        self.run(on, inputs)
    }
}

/// Samples are made from ONNX's schemas. The operators of ONNX Runtime have none; their functions use the same operations.
#[test]
fn every_operator_has_the_gradient_of_differences_or_a_reason() {
    let samples = samples();
    let schemas: BTreeSet<(&str, &str)> = bb::ir::opset::versions().map(|v| (v.domain, v.name)).collect();
    let names: BTreeSet<(&str, &str)> =
        operators().map(|o| (o.domain, o.name)).filter(|operator| schemas.contains(operator)).collect();
    let reasons: BTreeSet<&str> = NONE.iter().flat_map(|(_, names)| names.iter().copied()).collect();
    let (mut wrong, mut right, mut unexpected) = (Vec::new(), 0, Vec::new());
    for (domain, name) in names {
        let Some(versions) = samples.get(&(domain.to_owned(), name.to_owned())) else {
            if !reasons.contains(name) {
                wrong.push(format!("{domain} {name}: no sample"));
            }
            continue;
        };
        let mut checked = Ok(());
        // The newest sample may be of a sequence, or of nothing, where an older one is of a tensor.
        for (&since, models) in versions.iter().rev() {
            let types = bb::ir::opset::versions()
                .filter(|v| v.domain == domain && v.name == name && v.since == since)
                .find_map(|v| v.types)
                .unwrap_or_default();
            let Some(dtype) = [DataType::F64, DataType::F32].into_iter().find(|t| types.contains(t)) else {
                continue;
            };
            let of = |text: &str| models.iter().find(|(t, _)| t == text);
            let this = match of(dtype.name()).or_else(|| of("*")) {
                Some((_, model)) => {
                    Sampled::of(model, dtype).and_then(|s| s.check(dtype, NARROW.contains(&name)))
                }
                None => Err("no tensors: no sample of a float".into()),
            };
            let other = |e: &dyn std::error::Error| {
                let text = e.to_string();
                text.contains("not finite") || text.contains("no tensors")
            };
            match this {
                Err(error) if other(&*error) => {
                    if checked.is_ok() {
                        checked = Err(error);
                    }
                }
                this => {
                    checked = this;
                    break;
                }
            }
        }
        match checked {
            Ok(()) if reasons.contains(name) => unexpected.push(name),
            Ok(()) => right += 1,
            Err(_) if reasons.contains(name) => {}
            Err(error) => wrong.push(format!("{domain} {name}: {error}")),
        }
    }
    assert!(wrong.is_empty(), "{}\n{right} are right", wrong.join("\n"));
    assert_eq!(unexpected, [""; 0], "they have gradients");
    assert!(right > 150, "{right}");
}

/// The vectors of operators that early opsets had: models after their lengths, whose inputs have values.
static EARLY: &[u8] = include_bytes!("../../../vectors/early.pb");

/// No schema of a newer ONNX has them, so that they have no samples; the vectors are calls, too.
#[test]
fn every_early_operator_has_the_gradient_of_differences() {
    let (mut rest, mut right, mut wrong) = (EARLY, BTreeSet::new(), Vec::new());
    while !rest.is_empty() {
        let mut model = <ModelProto as prost::Message>::decode_length_delimited(&mut rest).unwrap();
        let refused = model.metadata_props.iter().any(|entry| entry.key() == "fails");
        let graph = model.graph.as_mut().unwrap();
        let name = graph.name().to_owned();
        // The results are `f64` here.
        graph.output.iter_mut().for_each(|output| output.r#type = None);
        let given: Vec<&str> = graph.input.iter().map(|input| input.name()).collect();
        let floats = graph
            .initializer
            .iter()
            .filter(|x| given.contains(&x.name()))
            .all(|x| x.data_type == Some(DataType::F32 as i32));
        let op = graph.node[0].op_type().to_owned();
        if refused || given.is_empty() || !floats {
            continue;
        }
        match Sampled::of(&model, DataType::F64).and_then(|sampled| sampled.check(DataType::F64, false)) {
            Ok(()) => drop(right.insert(op)),
            Err(error) => wrong.push(format!("{name}: {error}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let expected = [
        "Affine",
        "Crop",
        "DynamicSlice",
        "ImageScaler",
        "MeanVarianceNormalization",
        "MemcpyFromHost",
        "MemcpyToHost",
        "ParametricSoftplus",
        "Scale",
        "ScaledTanh",
    ];
    let missing: Vec<_> = expected.iter().filter(|op| !right.contains(**op)).collect();
    assert!(missing.is_empty(), "no gradient was compared: {missing:?}");
}
