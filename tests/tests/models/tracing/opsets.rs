//! Tests that exports to every opset keep the meaning of each primitive, or report why the opset cannot
//! express it.

use super::{operators, run};
use bb::export::{ExportOptions, Keep, ModelTrace};
use bb::ir::opset::NEWEST;

use bb::trace::{TraceStop, TracedTensor, Tracer};
use bb::{Backend, DataType, Error, TensorData, bf16};

fn f(shape: &[usize]) -> TensorData {
    let count: usize = shape.iter().product();
    let numbers: Vec<f32> = (0..count).map(|i| ((i * 37 + 11) % 41) as f32 / 10.0 - 2.0).collect();
    TensorData::new(shape, &numbers).unwrap()
}

/// Calls every primitive that becomes a step. Opsets write their parameters in different places.
fn primitives(on: &Tracer, x: &[TracedTensor]) -> Result<Vec<TracedTensor>, TraceStop> {
    let [a, b, i] = x else { return Ok(Vec::new()) };
    let positive = on.add(&on.mul(a, a)?, &on.constant(&TensorData::scalar(1f32))?)?;
    let bits = on.less(a, b)?;
    let mut all = vec![
        on.add(a, b)?,
        on.sub(a, b)?,
        on.mul(a, b)?,
        on.div(a, &positive)?,
        on.neg(a)?,
        on.abs(a)?,
        on.sqrt(&positive)?,
        on.pow(&positive, b)?,
        on.exp(a)?,
        on.log(&positive)?,
        on.matmul(a, &on.transpose(b, &[1, 0])?)?,
        on.reduce_sum(a, &[], false)?,
        on.reduce_sum(a, &[-1], true)?,
        on.reduce_mean(a, &[0], false)?,
        on.reduce_mean(a, &[], true)?,
        on.reduce_max(a, &[1], true)?,
        on.reduce_min(a, &[0, 1], false)?,
        on.reduce_max(&on.slice(a, &[0], &[0], &[1], &[])?, &[1], false)?,
        on.reduce_sum(&on.slice(a, &[0], &[0], &[], &[])?, &[0], false)?,
        on.reshape(a, &[3, 2])?,
        on.reshape(&on.slice(a, &[0], &[0], &[1], &[])?, &[0, 7])?,
        on.transpose(a, &[])?,
        on.concat(&[a, a], -1)?,
        on.slice(a, &[-1], &[i64::MIN], &[1], &[-2])?,
        on.slice(a, &[1], &[2], &[], &[])?,
        on.squeeze(&on.unsqueeze(a, &[0, -1])?, &[0])?,
        on.squeeze(&on.unsqueeze(a, &[1])?, &[])?,
        on.unsqueeze(a, &[])?,
        on.identity(a)?,
        on.cast(a, DataType::I32, true, bb::RoundMode::Up)?,
        on.equal(a, b)?,
        on.greater(a, b)?,
        on.r#where(&bits, &on.equal(a, a)?, &bits)?,
        on.reduce_max(&bits, &[1], false)?,
        on.reduce_min(&bits, &[], true)?,
        bits.clone(),
        on.r#where(&bits, a, b)?,
        on.gather(a, i, 1)?,
        // These results are not made by a step.
        a.clone(),
        on.constant(&f(&[2]))?,
    ];
    all.extend(on.split(a, 1, &[1, 0, 2])?);
    all.push(all[0].clone());
    Ok(all)
}

#[test]
fn exports_to_every_opset_keep_the_meaning() {
    let given = [f(&[2, 3]), f(&[1, 3]), TensorData::new(&[2], &[-1i64, 0]).unwrap()];
    let inputs: [(&str, DataType, &[usize]); 3] =
        [("a", DataType::F32, &[2, 3]), ("b", DataType::F32, &[1, 3]), ("i", DataType::I64, &[2])];
    let trace = ModelTrace::new(&inputs, primitives).unwrap();
    // The expected results are computed eagerly, without a graph.
    let eager = {
        let graph = bb::trace(&inputs, primitives).unwrap();
        super::run_module(bb::Module::from_graph(&graph, &[], &[]).unwrap(), &given, "reference")
    };
    for opset in 13..=NEWEST {
        for keep in [Keep::Nothing, Keep::All] {
            let model = trace.model(&ExportOptions::default().opset(opset).keep(keep)).unwrap();
            assert_eq!(model.opset_import[0].version(), opset);
            for backend in ["reference", "cpu", "whole-graph"] {
                let got = run(&model, &given, backend);
                assert_eq!(got.len(), eager.len());
                for (at, (got, expected)) in got.iter().zip(&eager).enumerate() {
                    if backend == "reference" {
                        assert_eq!(got, expected, "output {at}, opset {opset}, {backend}");
                    }
                    assert_eq!(got.shape(), expected.shape(), "output {at}, opset {opset}, {backend}");
                }
            }
        }
    }
}

#[test]
fn axes_are_attributes_where_the_opset_has_them_so() {
    let trace = ModelTrace::new(&[("x", DataType::F32, &[2, 3])], |on, x| {
        Ok(vec![on.reduce_mean(&on.reshape(&x[0], &[3, 2])?, &[1], false)?])
    })
    .unwrap();
    let node = |opset, at: usize| {
        let model = trace.model(&ExportOptions::default().opset(opset)).unwrap();
        let node = model.graph.unwrap().node.swap_remove(at);
        let attributes = node.attribute.iter().map(|a| a.name().to_owned()).collect::<Vec<_>>();
        (node.input.len(), attributes)
    };
    assert_eq!(node(13, 0), (2, vec![]));
    assert_eq!(node(14, 0), (2, vec!["allowzero".to_owned()]));
    assert_eq!(node(17, 1), (1, vec!["axes".to_owned(), "keepdims".to_owned()]));
    assert_eq!(node(18, 1), (2, vec!["keepdims".to_owned()]));
}

/// Returns the opset that the refusal of a function of one operand names.
fn refused(
    dtype: DataType,
    opset: i64,
    function: fn(&Tracer, &TracedTensor) -> Result<TracedTensor, TraceStop>,
) -> Option<(String, &'static str, Option<i64>)> {
    let trace = ModelTrace::new(&[("x", dtype, &[3])], |on, x| Ok(vec![function(on, &x[0])?])).unwrap();
    match trace.model(&ExportOptions::default().opset(opset)) {
        Ok(_) => None,
        Err(Error::ElementTypeOfOpset { node, op, since, .. }) => Some((node, op, since)),
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn an_element_type_that_an_opset_lacks_is_refused_with_the_opset_that_has_it() {
    let refusal = |node: &str, op, since| Some((node.to_owned(), op, since));
    assert_eq!(refused(DataType::I8, 13, |on, x| on.add(x, x)), refusal("Add_0", "Add", Some(14)));
    assert_eq!(refused(DataType::I8, 14, |on, x| on.add(x, x)), None);
    let small: fn(&Tracer, &TracedTensor) -> _ =
        |on, x| on.cast(x, DataType::F8E4M3FN, true, bb::RoundMode::Up);
    assert_eq!(refused(DataType::F32, 18, small), refusal("Cast_0", "Cast", Some(19)));
    assert_eq!(refused(DataType::F32, 19, small), None);
    assert_eq!(
        refused(DataType::U4, 20, |on, x| on.identity(x)),
        refusal("Identity_0", "Identity", Some(21))
    );
    let power: fn(&Tracer, &TracedTensor) -> _ =
        |on, x| on.pow(x, &on.constant(&TensorData::scalar(bf16::from_f32(2.0)))?);
    assert_eq!(refused(DataType::F32, 13, power), refusal("Pow_0", "Pow", Some(15)));
    assert_eq!(refused(DataType::F32, 15, power), None);
}

fn identity() -> ModelTrace {
    ModelTrace::new(&[("x", DataType::F32, &[2, 3])], |on, x| Ok(vec![on.exp(&x[0])?])).unwrap()
}

#[test]
fn versions_are_those_that_other_programs_read() {
    let version = |options: ExportOptions| identity().model(&options).map(|m| m.ir_version());
    // ONNX Runtime 1.31 reads format versions up to 13 and opsets up to 26.
    let usual = identity().model(&ExportOptions::default()).unwrap();
    assert_eq!((usual.ir_version(), usual.opset_import[0].version()), (10, 21));
    assert_eq!((usual.producer_name(), usual.producer_version()), ("bb", env!("CARGO_PKG_VERSION")));
    assert_eq!(version(ExportOptions::default().opset(NEWEST)).unwrap(), 14);
    assert_eq!(version(ExportOptions::default().opset(NEWEST).ir_version(10)).unwrap(), 10);
    let refused = |options| version(options).unwrap_err();
    assert!(matches!(
        refused(ExportOptions::default().opset(12)),
        Error::Ir(bb::ir::Error::Opset { version: 12, oldest: 13, newest: NEWEST, .. })
    ));
    assert!(matches!(
        refused(ExportOptions::default().opset(i64::MIN)),
        Error::Ir(bb::ir::Error::Opset { .. })
    ));
    assert!(matches!(
        refused(ExportOptions::default().ir_version(3)),
        Error::IrVersion { version: 3, least: 4, newest: 14 }
    ));
    let small = ModelTrace::new(&[("x", DataType::U4, &[2])], |on, x| Ok(vec![on.identity(&x[0])?])).unwrap();
    let refused = small.model(&ExportOptions::default().ir_version(9));
    assert!(matches!(refused, Err(Error::IrVersion { version: 9, least: 10, .. })));
}

#[test]
fn requested_names_are_kept_and_unique() {
    let named = ExportOptions::default().outputs(["y"]).graph_name("g").producer("p", "1");
    let model = identity().model(&named).unwrap();
    let graph = model.graph.as_ref().unwrap();
    assert_eq!((graph.name(), graph.input[0].name(), graph.output[0].name()), ("g", "x", "y"));
    assert_eq!((model.producer_name(), model.producer_version()), ("p", "1"));
    let refused = identity().model(&ExportOptions::default().outputs(["y", "z"]));
    assert!(matches!(refused, Err(Error::Results { expected: 2, got: 1, .. })));
    for name in ["x", ""] {
        assert!(
            matches!(identity().model(&ExportOptions::default().outputs([name])), Err(Error::Ir(_))),
            "{name}"
        );
    }
    // The writer generates the same names itself.
    let trace =
        ModelTrace::new(&[("value_2", DataType::F32, &[3]), ("constant_0", DataType::F32, &[3])], |on, x| {
            Ok(vec![on.exp(&on.add(&on.add(&x[0], &x[1])?, &on.constant(&f(&[3]))?)?)?])
        })
        .unwrap();
    let model = trace.model(&ExportOptions::default().outputs(["value_4"])).unwrap();
    assert_eq!(operators(&model), ["Add", "Add", "Exp"]);
    let ones = TensorData::new(&[3], &[0f32; 3]).unwrap();
    let expected: Vec<f32> = f(&[3]).as_slice::<f32>().unwrap().iter().map(|x| x.exp()).collect();
    let got = run(&model, &[ones.clone(), ones], "reference");
    for (got, expected) in got[0].as_slice::<f32>().unwrap().iter().zip(expected) {
        assert!((got - expected).abs() <= 1e-6 * expected, "{got}, expected {expected}");
    }
}

#[test]
fn a_symbol_stands_for_any_extent_if_no_operation_depends_on_it() {
    let batch = ExportOptions::default().symbol("x", 0, "batch");
    let model = identity().model(&batch).unwrap();
    let module = bb::Module::from_graph(model.graph.as_ref().unwrap(), &model.opset_import, &[]).unwrap();
    let output = module.graph().outputs[0];
    let expected = bb::ir::graph::ValueType::Tensor {
        dtype: DataType::F32,
        shape: Some(vec![bb::ir::graph::Dim::Symbol("batch".to_owned()), bb::ir::graph::Dim::Known(3)]),
    };
    assert_eq!(module.graph().values[output.index()].ty, expected);
    assert_eq!(run(&model, &[f(&[5, 3])], "cpu")[0].shape(), [5, 3]);

    // The body of a convolution depends on extents, but the operator does not.
    let trace = ModelTrace::new(
        &[("x", DataType::F32, &[1, 1, 4, 4]), ("w", DataType::F32, &[1, 1, 2, 2])],
        |on, x| {
            use bb::ext::{ConvOptions, Nn};
            Ok(vec![on.conv(&x[0], &x[1], None, ConvOptions::default())?])
        },
    )
    .unwrap();
    let open = ExportOptions::default().symbol("x", 0, "batch").symbol("x", 3, "width");
    assert!(matches!(
        trace.model(&open),
        Err(Error::FixedExtent { input, dimension: 0, symbol }) if input == "x" && symbol == "batch"
    ));
    let kept = trace.model(&open.keep(Keep::All)).unwrap();
    assert_eq!(run(&kept, &[f(&[2, 1, 4, 7]), f(&[1, 1, 2, 2])], "cpu")[0].shape(), [2, 1, 3, 6]);

    let asking = ModelTrace::new(&[("x", DataType::F32, &[2, 3])], |on, x| {
        let count = bb::Tensor::shape(&x[0]).iter().product();
        Ok(vec![on.reshape(&x[0], &[count])?])
    })
    .unwrap();
    assert!(matches!(asking.model(&batch), Err(Error::FixedExtent { .. })));
    let refused =
        |input: &str, dimension| identity().model(&ExportOptions::default().symbol(input, dimension, "n"));
    assert!(matches!(refused("z", 0), Err(Error::UnknownInput { .. })));
    assert!(matches!(refused("x", 2), Err(Error::NoDimension { dimension: 2, rank: 2, .. })));
}
