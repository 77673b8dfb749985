//! An application that is written using only the documentation: each method that a program may call besides running models, with
//! its failures. It has a backend of its own, which records the calls dispatched to it.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use bb::export::ModelTrace;
use bb::ext::{
    AttentionOptions, CrossEntropyOptions, CrossEntropyWithProbabilitiesOptions, Reduction,
    SampleTokenOptions, SharpenOptions, SobelOptions,
};
use bb::ext::{Border, Create, Ops};
use bb::ir::op::{Family, Param};
use bb::number::{NumberError, NumberOp, NumberType};
use bb::services::{
    BufferFault, Buffers, DeviceInfo, DeviceKind, KernelFormat, KernelProblem, KernelSource, OutputSpec,
    Requirements, ServiceError, UserKernel,
};
use bb::{
    Backend, BackendAttrs, BackendHandle, CancelToken, CompileOptions, CompletionHandle, ContractResponse,
    DataType, Deployment, Error, GraphProto, Module, Number, OpenOptions, Registry, RunOptions, TensorData,
    Value,
};
use bb_reference::{Reference, Tensor};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

type Named = HashMap<String, Tensor>;

/// A chip that notes the operators of each graph that is dispatched to it.
#[derive(Default, bb::Backend)]
#[bb(name = "application-chip")]
struct Chip {
    seen: Mutex<Vec<Vec<String>>>,
}

impl Chip {
    fn call(
        &self,
        op: bb::Primitive,
        inputs: &[Option<&Tensor>],
        params: &[Param<'_>],
    ) -> Result<bb::Outputs<Tensor>, bb_reference::Error> {
        bb::call_primitive(&Reference, op, inputs, params)
    }
}

impl Backend for Chip {
    type Tensor = Tensor;
    type Error = bb_reference::Error;

    bb::forward_to_call!(Self::call);

    fn to_host(&self, x: &Tensor) -> Result<TensorData, bb_reference::Error> {
        Reference.to_host(x)
    }

    fn device_info(&self) -> DeviceInfo {
        DeviceInfo::new(DeviceKind::Accelerator).with_greatest_rank(6).with_alignment(64).with("tiles", "128")
    }

    fn dispatch(
        &self,
        graph: Arc<GraphProto>,
        inputs: Named,
        attrs: BackendAttrs<'_>,
        _completion: CompletionHandle<Named, bb_reference::Error>,
    ) -> ContractResponse<Named, bb_reference::Error> {
        let operators = graph.node.iter().map(|node| node.op_type().to_owned()).collect();
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).push(operators);
        ContractResponse::Now(self.execute(&graph, inputs, attrs))
    }
}

fn cpu() -> BackendHandle {
    bb::backend("cpu").unwrap()
}

fn floats(x: &Value) -> Vec<f32> {
    x.to_host(1 << 20).unwrap().as_slice::<f32>().unwrap().to_vec()
}

fn close(x: &Value, expected: &[f32]) {
    let found = floats(x);
    assert_eq!(found.len(), expected.len(), "{found:?}");
    let near = found.iter().zip(expected).all(|(a, b)| (a - b).abs() <= 1e-5 * (1.0 + b.abs()));
    assert!(near, "{found:?}, expected {expected:?}");
}

fn bytes_of(numbers: &[f32]) -> Vec<u8> {
    numbers.iter().flat_map(|x| x.to_le_bytes()).collect()
}

/// `exp(-a)` as a graph, whose input is `a`.
fn decay() -> GraphProto {
    bb::trace(&[("a", DataType::F32, &[2])], |on, inputs| match inputs {
        [a] => Ok(vec![on.exp(&on.neg(a)?)?]),
        _ => Ok(vec![]),
    })
    .unwrap()
}

#[test]
fn numbers_have_every_operation_with_promotion_and_errors() {
    let [two, seven] = [Number::from(2), Number::from(7)];
    let half = Number::from(0.5);
    let text = Number::from("ab");
    assert_eq!(seven.add(&two).unwrap(), Number::from(9));
    assert_eq!(seven.sub(&half).unwrap(), Number::from(6.5));
    assert_eq!(seven.mul(&two).unwrap(), Number::from(14));
    assert_eq!(seven.div(&two).unwrap(), Number::from(3.5));
    assert_eq!(Number::from(-7).floor_div(&two).unwrap(), Number::from(-4));
    assert_eq!(Number::from(-7).remainder(&two).unwrap(), Number::from(-1));
    assert_eq!(Number::from(-7).modulo(&two).unwrap(), Number::from(1));
    assert_eq!(two.pow(&seven).unwrap(), Number::from(128));
    assert_eq!(two.pow(&Number::from(-1)).unwrap(), half);
    assert_eq!(seven.neg().unwrap(), Number::from(-7));
    assert_eq!(Number::from(-0.5).abs().unwrap(), half);
    assert_eq!(seven.min(&half).unwrap(), half);
    assert_eq!(seven.max(&half).unwrap(), seven);
    assert!(Number::from(1).equal(&Number::from(1.0)).unwrap() && seven.not_equal(&two).unwrap());
    assert!(half.less(&two).unwrap() && two.less_or_equal(&two).unwrap());
    assert!(seven.greater(&half).unwrap() && seven.greater_or_equal(&seven).unwrap());
    let above = Number::from((1i64 << 53) + 1);
    assert!(above.greater(&Number::from(9_007_199_254_740_992.0)).unwrap(), "compared without rounding");
    assert_eq!(Number::from(2.5).floor().unwrap(), Number::from(2.0));
    assert_eq!(Number::from(2.5).ceil().unwrap(), Number::from(3.0));
    assert_eq!(Number::from(2.5).round().unwrap(), Number::from(2.0));
    assert_eq!(seven.round().unwrap(), seven);
    assert_eq!(Number::from(9).sqrt().unwrap(), Number::from(3.0));
    for (function, expected) in [
        (Number::exp as fn(&Number) -> Result<Number, NumberError>, 2f64.exp()),
        (Number::log, 2f64.ln()),
        (Number::sin, 2f64.sin()),
        (Number::cos, 2f64.cos()),
        (Number::tan, 2f64.tan()),
    ] {
        for x in [two.clone(), Number::from(2.0)] {
            let Number::Float(found) = function(&x).unwrap() else { panic!("no float") };
            assert!((found - expected).abs() <= 4.0 * f64::EPSILON * expected.abs());
        }
        let refused = NumberError::Type { operands: vec![NumberType::Text], op: NumberOp::Exp };
        let error = function(&text).unwrap_err();
        assert_eq!(std::mem::discriminant(&error), std::mem::discriminant(&refused), "{error}");
        assert!(matches!(function(&Number::from(f64::NAN)), Err(NumberError::NotFinite { .. })));
    }
    assert_eq!(text.add(&Number::from("c")).unwrap(), Number::from("abc"));
    assert!(matches!(text.add(&two), Err(NumberError::Type { .. })));
    assert!(matches!(Number::from(i64::MAX).add(&two), Err(NumberError::Overflow { .. })));
    assert!(matches!(two.div(&Number::from(0)), Err(NumberError::DivisionByZero { .. })));
    assert!(matches!(Number::from(-1).sqrt(), Err(NumberError::Domain { op: NumberOp::Sqrt, .. })));
    assert!(matches!(Number::from(0).log(), Err(NumberError::Domain { op: NumberOp::Log, .. })));
    assert!(matches!(Number::from(1000).exp(), Err(NumberError::NotFinite { .. })));
    let data = Number::from(3).to_tensor(DataType::I8).unwrap();
    assert_eq!(Number::of_tensor(&data).unwrap(), Number::from(3));
    assert!(matches!(
        Number::from(300).to_tensor(DataType::I8),
        Err(Error::Number(problem)) if matches!(*problem, NumberError::NoElement { .. })
    ));
}

#[test]
fn operations_are_found_by_name_and_called_with_exactly_their_operands() {
    let on = cpu();
    let x = on.tensor(&[2], &[1f32, -2.0]).unwrap();
    let neg = bb::operation("neg").unwrap();
    assert_eq!(floats(&on.runtime().dispatch_atomic(neg, &[Some(&x)], &[]).unwrap()[0]), [-1.0, 2.0]);
    // The error of the backend wraps the cause.
    let wrong = |inputs: &[Option<&Value>], params: &[Param<'_>]| {
        let error = on.call(neg, inputs, params).unwrap_err();
        let wrapped = std::error::Error::source(&error).and_then(|source| on.runtime().wrapped(source));
        format!("{:?}", wrapped.unwrap_or(&error))
    };
    let two = wrong(&[Some(&x), Some(&x)], &[]);
    assert_eq!(two, "`neg` takes 1 operands, got 2");
    let parameter = wrong(&[Some(&x)], &[Param::Int(1)]);
    assert_eq!(parameter, "`neg` takes 0 parameters, got 1");
    for missing in [wrong(&[], &[]), wrong(&[None], &[])] {
        assert!(missing.starts_with("`neg` is missing operand 0: it takes the tensor `x`"), "{missing}");
    }
    assert_eq!(on.call(neg, &[Some(&x), None], &[]).unwrap().len(), 1, "absent operands may follow");

    // Of a family, with its parameter; a wrong kind of parameter is refused.
    let softmax = bb::operation("Softmax").unwrap();
    close(&on.call(softmax, &[Some(&x)], &[Param::Int(0)]).unwrap()[0], &[0.952_574_1, 0.047_425_87]);
    let wrong = on.call(softmax, &[Some(&x)], &[Param::Bool(true)]).unwrap_err();
    assert!(format!("{wrong:?}").contains("expected an integer as a parameter"), "{wrong:?}");
    let error = bb::operation("sofmax").unwrap_err();
    assert!(matches!(&error, Error::UnknownOperation { nearest: Some(name), .. } if name == "softmax"));
}

/// A model `y = x + carried(x)` whose carrier has `exp(-x)` as its body.
fn with_carrier(backend: Option<&str>) -> Module {
    use bb::ir::proto::{AttributeProto, NodeProto, OperatorSetIdProto, attribute_proto::AttributeType};
    let body = AttributeProto {
        name: Some("body".to_owned()),
        r#type: Some(AttributeType::Graph as i32),
        g: Some(decay()),
        ..AttributeProto::default()
    };
    let chosen = backend.map(|name| AttributeProto {
        name: Some("backend".to_owned()),
        r#type: Some(AttributeType::String as i32),
        s: Some(name.as_bytes().to_vec()),
        ..AttributeProto::default()
    });
    let carrier = NodeProto {
        domain: Some("my.domain".to_owned()),
        op_type: Some("BackendSubgraph".to_owned()),
        input: vec!["x".to_owned()],
        output: vec!["z".to_owned()],
        attribute: std::iter::once(body).chain(chosen).collect(),
        ..NodeProto::default()
    };
    // The rest is traced, and its first step gives its place to the carrier.
    let mut graph = bb::trace(&[("x", DataType::F32, &[2])], |on, inputs| match inputs {
        [x] => Ok(vec![on.add(&on.abs(x)?, x)?]),
        _ => Ok(vec![]),
    })
    .unwrap();
    let input = graph.node[0].input[0].clone();
    let output = graph.node[0].output[0].clone();
    graph.node[0] = NodeProto { input: vec![input], output: vec![output], ..carrier };
    let opset = |(domain, version): (&str, i64)| OperatorSetIdProto {
        domain: Some(domain.to_owned()),
        version: Some(version),
    };
    Module::from_graph(&graph, &[("", 23), ("my.domain", 1)].map(opset), &[]).unwrap()
}

const X: [f32; 2] = [0.5, -1.0];

fn decayed() -> [f32; 2] {
    X.map(|x| x + (-x).exp())
}

#[test]
fn a_part_of_a_model_is_dispatched_whole_to_the_backend_that_it_names() {
    let chip = bb::backend("application-chip").unwrap();
    let node = Deployment::builder()
        .model("m", with_carrier(Some("application-chip")))
        .backend(cpu())
        .backend(chip.clone())
        .ready()
        .unwrap();
    let x = cpu().tensor(&[2], &X).unwrap();
    close(&node.model("m").unwrap().run(&[Some(&x)]).unwrap()[0], &decayed());
    let seen = chip.typed::<Chip>().unwrap().seen.lock().unwrap().clone();
    assert_eq!(seen, [["Neg", "Exp"]]);

    // Without a deployment, the plan runs the nodes of the body.
    let program = cpu().compile(with_carrier(None), &CompileOptions::default()).unwrap();
    close(&program.run(&[Some(&x)]).unwrap()[0], &decayed());
    let lonely = Deployment::builder().model("m", with_carrier(Some("tpu"))).backend(cpu()).ready();
    let error = lonely.unwrap_err().to_string();
    assert!(error.contains("tpu"), "{error}");
}

#[test]
fn a_rewritten_trace_is_compiled() {
    let trace = ModelTrace::new(&[("x", DataType::F32, &[2])], |on, inputs| match inputs {
        [x] => Ok(vec![on.exp(&on.neg(x)?)?]),
        _ => Ok(vec![]),
    })
    .unwrap();
    let rewritten = trace
        .rewrite(|on, step| match (step.op.method, step.inputs) {
            ("neg", [Some(x)]) => Ok(Some(vec![on.mul(x, &on.scalar_like(x, -2.0)?)?])),
            _ => Ok(None),
        })
        .unwrap();
    assert!(rewritten.operations().all(|op| op.method != "neg"));
    for on in [cpu(), bb::backend("application-chip").unwrap()] {
        let program = on.compile_trace(&rewritten, &CompileOptions::default().with_fuse(false)).unwrap();
        let x = on.tensor(&[2], &X).unwrap();
        close(&program.run(&[Some(&x)]).unwrap()[0], &X.map(|x| (-2.0 * x).exp()));
        let wrong = on.tensor(&[3], &[0f32; 3]).unwrap();
        assert!(program.run(&[Some(&wrong)]).is_err());
    }
    // Results of another number, type or shape are refused.
    let none = trace.rewrite(|_, step| Ok((step.op.method == "neg").then(Vec::new)));
    assert!(matches!(none, Err(Error::Results { .. })));
    let longer = trace.rewrite(|on, step| match (step.op.method, step.inputs) {
        ("neg", [Some(x)]) => Ok(Some(vec![on.concat(&[x, x], 0)?])),
        _ => Ok(None),
    });
    assert!(matches!(longer, Err(Error::Ir(_))), "{:?}", longer.err());
}

#[test]
fn buffers_are_operands_and_results_of_operations() {
    let buffers = Buffers::new(cpu());
    let x = buffers.alloc_aligned(DataType::F32, &[2], 4096).unwrap();
    let y = buffers.alloc(DataType::F32, &[2]).unwrap();
    buffers.write(x, &bytes_of(&[1.0, 2.0])).unwrap();
    let add = bb::operation("add").unwrap();
    buffers.call(add, &[Some(x), Some(x)], &[], &[y]).unwrap();
    assert_eq!(buffers.read(y).unwrap(), bytes_of(&[2.0, 4.0]));
    // In place: an operand is the result, and keeps its memory and alignment.
    let place = buffers.map(x, |bytes| bytes.as_ptr() as usize).unwrap();
    assert_eq!(place % 4096, 0);
    buffers.call(add, &[Some(x), Some(y)], &[], &[x]).unwrap();
    assert_eq!(buffers.read(x).unwrap(), bytes_of(&[3.0, 6.0]));
    assert_eq!(buffers.map(x, |bytes| bytes.as_ptr() as usize).unwrap(), place);
    // A tensor that the program holds does not change.
    let held = buffers.value(x).unwrap();
    buffers.call(add, &[Some(x), Some(x)], &[], &[x]).unwrap();
    assert_eq!((floats(&held), buffers.read(x).unwrap()), (vec![3.0, 6.0], bytes_of(&[6.0, 12.0])));

    let fault = |error: Error| match error {
        Error::BufferFault(fault) => fault,
        other => panic!("{other:?}"),
    };
    let narrow = buffers.alloc(DataType::F32, &[1]).unwrap();
    let whole = buffers.alloc(DataType::I32, &[2]).unwrap();
    for wrong in [narrow, whole] {
        let refused = fault(buffers.call(add, &[Some(x), Some(y)], &[], &[wrong]).unwrap_err());
        assert!(matches!(refused, BufferFault::Output { index: 0, .. }), "{refused}");
    }
    assert!(matches!(buffers.call(add, &[Some(x), Some(y)], &[], &[]), Err(Error::Results { .. })));
    assert_eq!(
        fault(buffers.alloc_aligned(DataType::F32, &[2], 3).unwrap_err()),
        BufferFault::Alignment { got: 3 }
    );
    // Buffer numbers are generational: the number of a freed buffer stays invalid when its slot is reused.
    buffers.free(y).unwrap();
    let again = buffers.alloc(DataType::F32, &[2]).unwrap();
    assert_ne!(y, again);
    assert_eq!(fault(buffers.read(y).unwrap_err()), BufferFault::Freed);
    assert_eq!(fault(buffers.call(add, &[Some(y), Some(x)], &[], &[x]).unwrap_err()), BufferFault::Freed);
    assert_eq!(fault(Buffers::new(cpu()).read(x).unwrap_err()), BufferFault::Foreign);
}

#[test]
fn memory_is_aligned_copied_mapped_awaited_and_counted() {
    let on = bb::backend_with("cpu", &OpenOptions::default().with_memory(1 << 24)).unwrap();
    let buffers = Arc::new(Buffers::new(on.clone()));
    let [x, y] = [(); 2].map(|()| buffers.alloc(DataType::U8, &[6]).unwrap());
    buffers.write(x, &[1, 2, 3, 4, 5, 6]).unwrap();
    buffers.copy(x, 1, y, 3, 3).unwrap();
    assert_eq!(buffers.read(y).unwrap(), [0, 0, 0, 2, 3, 4]);
    buffers.copy(x, 0, x, 1, 5).unwrap();
    assert_eq!(buffers.read(x).unwrap(), [1, 1, 2, 3, 4, 5], "bytes that overlap are copied as they were");
    buffers.write_at(x, 4, &[9, 9]).unwrap();
    let mut two = [0; 2];
    buffers.read_at(x, 3, &mut two).unwrap();
    assert_eq!(two, [3, 9]);
    let beyond = buffers.copy(x, 4, y, 0, 3).unwrap_err();
    let range = BufferFault::Range { offset: 4, count: 3, size: 6 };
    assert!(matches!(&beyond, Error::BufferFault(fault) if *fault == range), "{beyond:?}");
    buffers.write_async(x, vec![7; 6]).wait().unwrap();
    buffers.copy_async(x, 0, y, 0, 2).wait().unwrap();
    assert_eq!(buffers.read_async(y).wait().unwrap(), [7, 7, 0, 2, 3, 4]);
    assert!(matches!(
        buffers.write_async(x, vec![7; 5]).wait(),
        Err(Error::BufferFault(BufferFault::Length { expected: 6, got: 5 }))
    ));
    buffers.map_mut(x, |bytes| bytes[0] = 1).unwrap();
    assert_eq!(buffers.map(x, <[u8]>::to_vec).unwrap(), [1, 7, 7, 7, 7, 7]);
    let inner = buffers.map_mut(x, |_| buffers.read(x)).unwrap();
    assert!(matches!(inner, Err(Error::BufferFault(BufferFault::Mapped))));

    let memory = on.memory().unwrap();
    let aligned = memory.allocate(DataType::F32, &[8], 1024).unwrap();
    assert_eq!(memory.map(&aligned, |bytes| (bytes.as_ptr() as usize % 1024, bytes.len())).unwrap(), (0, 32));
    assert!(memory.allocate(DataType::F32, &[8], 100).is_err());
    let all = memory.statistics().unwrap();
    assert!(all.live >= 32 && all.peak >= all.live && all.limit == Some(1 << 24), "{all:?}");
    let pools = memory.pools().unwrap();
    assert_eq!(pools.iter().map(|pool| pool.pooled).sum::<u64>(), all.pooled, "{pools:?}");
    let moved = memory.defragment().unwrap_err();
    assert!(matches!(moved, Error::Service { source: ServiceError::NotNeeded { .. }, .. }), "{moved}");
    assert_eq!(on.runtime().status().memory.unwrap().limit, Some(1 << 24));
    // The copies of handles, awaited.
    let sent = on.tensor_async(TensorData::new(&[2], &[1f32, 2.0]).unwrap()).wait().unwrap();
    assert_eq!(on.to_host_async(&sent).wait().unwrap().as_slice::<f32>().unwrap(), [1.0, 2.0]);
    let large = on.zeros(&[1 << 23], DataType::F32).unwrap_err();
    assert_eq!(large.memory_pressure().map(|pressure| pressure.limit), Some(1 << 24));
    // The chip has no service of memory, and says so.
    assert!(matches!(bb::backend("application-chip").unwrap().memory(), Err(Error::NoService { .. })));
}

#[test]
fn kernels_are_described_and_run_without_waiting() {
    let on = cpu();
    let kernels = on.kernels().unwrap();
    let scale = UserKernel::host("application-scale", 1, 1, |call| {
        let by = f32::from_le_bytes(*call.immediates.first_chunk().ok_or("no factor")?);
        for (from, to) in call.inputs[0].chunks_exact(4).zip(call.outputs[0].chunks_exact_mut(4)) {
            let x = f32::from_le_bytes(*from.first_chunk().ok_or("no number")?);
            to.copy_from_slice(&(x * by).to_le_bytes());
        }
        Ok(())
    });
    kernels.load(scale.with_immediates(4)).unwrap();
    let info = kernels.info("application-scale").unwrap();
    assert_eq!((info.format, info.inputs, info.outputs, info.immediates), (KernelFormat::Host, 1, 1, 4));
    assert_eq!((info.bindings(), info.workgroup), (2, None));
    let x = on.tensor(&[2], &X).unwrap();
    let out = || [OutputSpec::new(x.dtype(), x.shape())];
    let running = kernels.run_async("application-scale", &[&x], &out(), &2f32.to_le_bytes(), [1; 3]);
    close(&running.wait().unwrap()[0], &[1.0, -2.0]);
    let problem = |error: Error| match error {
        Error::Service { source: ServiceError::Kernel { problem, .. }, .. } => problem,
        other => panic!("{other:?}"),
    };
    let short = kernels.run_async("application-scale", &[&x], &out(), &[], [1; 3]).wait().unwrap_err();
    assert!(matches!(problem(short), KernelProblem::Count { .. }));
    let text = UserKernel::new("application-text", KernelSource::Wgsl("x".to_owned()), 1, 1);
    assert!(matches!(problem(kernels.load(text).unwrap_err()), KernelProblem::Format { .. }));
    kernels.unload("application-scale").unwrap();
    assert!(matches!(problem(kernels.info("application-scale").unwrap_err()), KernelProblem::Unknown { .. }));
    assert!(matches!(bb::backend("application-chip").unwrap().kernels(), Err(Error::NoService { .. })));
}

#[test]
fn status_capabilities_and_the_choice_of_a_backend() {
    let threads = std::num::NonZeroUsize::new(2).unwrap();
    let on =
        bb::backend_with("cpu", &OpenOptions::default().with_threads(threads).with_memory(1 << 25)).unwrap();
    assert!(on.runtime().status().last_error.is_none());
    let x = on.tensor(&[2], &X).unwrap();
    assert!(on.matmul(&x, &on.tensor(&[3], &[0f32; 3]).unwrap()).is_err());
    let status = on.runtime().status();
    assert_eq!((status.failures, status.panics, status.state), (1, 0, bb::State::Ready));
    assert!(status.last_error.as_deref().is_some_and(|error| error.contains("matmul")), "{status:?}");
    assert_eq!(status.memory.unwrap().limit, Some(1 << 25));

    let can = on.runtime().capabilities();
    assert_eq!(can.device.kind, DeviceKind::Cpu);
    assert!(can.has_native_attention() && can.types.has(DataType::F16));
    assert!(can.device.get("instructions").is_some() && can.device.get("tiles").is_none());
    let chip = bb::backend("application-chip").unwrap().runtime().capabilities();
    assert_eq!((chip.device.kind, chip.device.greatest_rank), (DeviceKind::Accelerator, Some(6)));
    assert_eq!((chip.device.alignment, chip.device.get("tiles")), (Some(64), Some("128")));
    assert!(!chip.has_native_attention());

    assert!(bb::supports_device("cpu") && bb::supports_device("application-chip"));
    assert!(!bb::supports_device("cpu:7") && !bb::supports_device("tpu:0"));
    // Those of this program that no other test holds.
    let registry = Registry::builder().declared::<Chip>().declared::<bb_cpu::Cpu>().build();
    let linked = registry.backends().unwrap();
    let needs =
        Requirements { families: vec![Family::Primitive], memory: Some(1 << 20), ..Requirements::default() };
    let found = linked.find_with_doubts(&needs).unwrap();
    assert_eq!((found.backend.name(), found.doubts.len()), ("cpu", 0));
    let never = Requirements { memory: Some(u64::MAX), asynchronous: true, ..Requirements::default() };
    assert!(matches!(linked.find(&never), Err(Error::NoCandidate { .. })));
}

#[test]
fn a_program_runs_as_a_future_and_options_are_chained() {
    let on = cpu();
    let options = CompileOptions::default().with_strict(true).with_recognize(true).with_run_bytes(1 << 20);
    assert!(options.strict && options.passes.recognize);
    let program = on.compile(Module::from_graph(&decay(), &[], &[]).unwrap(), &options).unwrap();
    let x = on.tensor(&[2], &X).unwrap();
    let [first, second] = [(); 2].map(|()| program.clone().run_async(vec![Some(x.clone())]));
    for running in [first, second] {
        close(&running.wait().unwrap()[0], &X.map(|x| (-x).exp()));
    }
    let missing = program.clone().run_async(vec![None]).wait().unwrap_err();
    assert!(format!("{missing:?}").contains("input `a` is missing"), "{missing:?}");
    let token = CancelToken::new();
    token.cancel();
    let stopped = RunOptions::default()
        .with_cancel(&token)
        .within(|| program.clone().run_async(vec![Some(x.clone())]).wait());
    assert!(format!("{stopped:?}").contains("the run was cancelled"), "{stopped:?}");
    let device = bb::backend_with("cpu", &OpenOptions::default().with_device("7"));
    assert!(matches!(device, Err(Error::OpenOption { .. })), "{:?}", device.err());
}

#[test]
fn tensors_are_stacked_taken_apart_and_padded_to_a_batch() {
    let on = cpu();
    let (a, b) = (on.tensor(&[2], &[1f32, 2.0]).unwrap(), on.tensor(&[2], &[3f32, 4.0]).unwrap());
    let rows = Value::stack(&[&a, &b], 0).unwrap();
    let columns = Value::stack(&[&a, &b], -1).unwrap();
    assert_eq!((rows.shape(), floats(&rows)), (&[2, 2][..], vec![1.0, 2.0, 3.0, 4.0]));
    assert_eq!(floats(&columns), [1.0, 3.0, 2.0, 4.0]);
    let apart = columns.unstack(1).unwrap();
    assert_eq!(apart.iter().map(floats).collect::<Vec<_>>(), [floats(&a), floats(&b)]);
    let c = on.tensor(&[1], &[5f32]).unwrap();
    let batch = Value::pad_batch(&[&a, &c], 0, -1.0).unwrap();
    let [values, lengths] = &batch[..] else { panic!("{} results", batch.len()) };
    assert_eq!(floats(values), [1.0, 2.0, 5.0, -1.0]);
    assert_eq!(lengths.to_host(64).unwrap().as_slice::<i64>().unwrap(), [2, 1]);
    assert!(Value::stack(&[&a, &c], 0).is_err() && Value::stack(&[&a, &b], 2).is_err());
    assert!(Value::stack(&[], 0).is_err() && Value::pad_batch(&[], 0, 0.0).is_err());
    assert!(Value::pad_batch(&[&a, &rows], 0, 0.0).is_err(), "ranks differ");
}

#[test]
fn truth_values_are_elements() {
    let on = cpu();
    let mask = on.tensor(&[2], &[true, false]).unwrap();
    assert_eq!(mask.dtype(), DataType::Bool);
    let host = mask.to_host(2).unwrap();
    assert_eq!(host.to_bools().unwrap(), [true, false]);
    let chosen =
        mask.r#where(&on.tensor(&[2], &[1f32, 2.0]).unwrap(), &on.tensor(&[], &[0f32]).unwrap()).unwrap();
    assert_eq!(floats(&chosen), [1.0, 0.0]);
    let random = on.tensor_from_fn(&[2, 2], |at| at[0] == at[1]).unwrap();
    assert_eq!(random.to_host(4).unwrap().to_bools().unwrap(), [true, false, false, true]);
}

/// Attention by its definition, of one head.
fn attention(q: &[[f32; 2]], k: &[[f32; 2]], v: &[[f32; 2]]) -> Vec<f32> {
    let mut all = Vec::new();
    for q in q {
        let scores: Vec<f32> = k.iter().map(|k| ((q[0] * k[0] + q[1] * k[1]) / 2f32.sqrt()).exp()).collect();
        let sum: f32 = scores.iter().sum();
        for at in 0..2 {
            all.push(scores.iter().zip(v).map(|(s, v)| s / sum * v[at]).sum());
        }
    }
    all
}

#[test]
fn attention_takes_ranks_2_3_and_4() {
    let on = cpu();
    let x = [[1f32, 0.5], [-0.25, 2.0], [0.0, 1.0]];
    let expected = attention(&x, &x, &x);
    for shape in [&[3, 2][..], &[1, 3, 2], &[1, 1, 3, 2]] {
        let x = on.tensor(shape, x.as_flattened()).unwrap();
        let y = x.attention(&x, &x, None, AttentionOptions::default()).unwrap();
        assert_eq!(y.shape(), shape);
        close(&y, &expected);
    }
    let flat = on.tensor(&[6], x.as_flattened()).unwrap();
    let error = flat.attention(&flat, &flat, None, AttentionOptions::default()).unwrap_err();
    let text = chain(&error);
    assert!(text.contains("rank") || text.contains('4'), "{text}");
}

/// The message of an error with its causes.
fn chain(error: &Error) -> String {
    let all = std::iter::successors(Some(error as &dyn std::error::Error), |error| error.source());
    all.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

#[test]
fn cross_entropy_gives_the_loss_and_the_probabilities() {
    let on = cpu();
    let x = on.tensor(&[2, 2], &[0f32, 3f32.ln(), 0.0, 0.0]).unwrap();
    let labels = on.tensor(&[2], &[1i64, 0]).unwrap();
    let both = x
        .cross_entropy_with_probabilities(&labels, None, CrossEntropyWithProbabilitiesOptions::default())
        .unwrap();
    let [loss, probabilities] = &both[..] else { panic!("{} results", both.len()) };
    close(probabilities, &[0.25, 0.75, 0.5, 0.5]);
    close(loss, &[-(0.75f32.ln() + 0.5f32.ln()) / 2.0]);
    let each = CrossEntropyOptions { reduction: Reduction::None, ..CrossEntropyOptions::default() };
    close(&x.cross_entropy(&labels, None, each).unwrap(), &[-(0.75f32.ln()), -(0.5f32.ln())]);
    let beyond = on.tensor(&[2], &[1i64, 2]).unwrap();
    let refused =
        x.cross_entropy_with_probabilities(&beyond, None, CrossEntropyWithProbabilitiesOptions::default());
    assert!(refused.is_err());
}

#[test]
fn filters_of_pictures_take_numbers() {
    let on = cpu();
    let x = on.tensor(&[2, 2], &[0f32, 0.25, 0.5, 0.75]).unwrap();
    for doubled in [x.brightness(2), x.brightness(2.0), x.brightness(2f32), x.brightness(Number::from(2))] {
        close(&doubled.unwrap(), &[0.0, 0.5, 1.0, 1.0]);
    }
    let text = x.brightness(Number::from("two")).unwrap_err();
    assert!(matches!(text, Error::Number(problem) if matches!(*problem, NumberError::NoFloat { .. })));
    close(&x.threshold(Number::from(0.4)).unwrap(), &[0.0, 0.0, 1.0, 1.0]);
    close(&x.contrast(0).unwrap(), &[0.375; 4]);
    close(&x.gaussian_blur(0, Border::Edge).unwrap(), &floats(&x));
    close(&x.sharpen(SharpenOptions { amount: 0.0, ..SharpenOptions::default() }).unwrap(), &floats(&x));
    let flat = on.tensor(&[3, 3], &[2f32; 9]).unwrap();
    close(&flat.sobel(SobelOptions::default()).unwrap(), &[0.0; 9]);
    close(&x.invert().unwrap(), &[1.0, 0.75, 0.5, 0.25]);
    assert!(x.gaussian_blur(-1, Border::Reflect).is_err());
}

#[test]
fn sampling_punishes_tokens_that_were_there() {
    let on = cpu();
    let logits = on.tensor(&[1, 3], &[2f32, 1.5, 1.0]).unwrap();
    let previous = on.tensor(&[1, 3], &[0i64, 0, 1]).unwrap();
    let greedy = SampleTokenOptions { temperature: 0.0, ..SampleTokenOptions::default() };
    let token = |options: SampleTokenOptions| {
        logits
            .sample_token(Some(&previous), options)?
            .to_host(8)?
            .as_slice::<i64>()
            .map(|x| x[0])
            .map_err(Error::from)
    };
    assert_eq!(token(greedy).unwrap(), 0);
    // 2 - 2·0.4 = 1.2, 1.5 - 0.4 = 1.1, 1
    assert_eq!(token(SampleTokenOptions { frequency_penalty: 0.4, ..greedy }).unwrap(), 0);
    // 2 - 2·0.5 = 1, 1.5 - 0.5 = 1, 1: the first of equal ones
    assert_eq!(token(SampleTokenOptions { frequency_penalty: 0.5, ..greedy }).unwrap(), 0);
    // 2 - 2·0.45 = 1.1, 1.5 - 0.45 = 1.05, and 2 - 0.9 - 0.3 = 0.8, 0.75, 1
    assert_eq!(
        token(SampleTokenOptions { frequency_penalty: 0.45, presence_penalty: 0.3, ..greedy }).unwrap(),
        2
    );
    assert_eq!(token(SampleTokenOptions { presence_penalty: 1.1, ..greedy }).unwrap(), 2);
    // 2 / 4, 1.5 / 4, 1
    assert_eq!(token(SampleTokenOptions { repetition_penalty: 4.0, ..greedy }).unwrap(), 2);
    assert!(token(SampleTokenOptions { frequency_penalty: f64::NAN, ..greedy }).is_err());
    assert!(token(SampleTokenOptions { presence_penalty: f64::INFINITY, ..greedy }).is_err());
}

/// The mean of the squares: generic over the backend.
fn mean_square<B: Ops + ?Sized>(on: &B, x: &B::Tensor) -> Result<B::Tensor, B::Error> {
    on.reduce_mean(&on.mul(x, x)?, &[], false)
}

#[test]
fn handles_are_backends_of_generic_functions_and_of_gradients() {
    for on in [cpu(), bb::backend("application-chip").unwrap()] {
        let x = on.tensor(&[2], &[1f32, 3.0]).unwrap();
        close(&mean_square(&on, &x).unwrap(), &[5.0]);
        let slope = bb::gradient(&on, &[&x], &[0], |on, inputs| match inputs {
            [x] => mean_square(on, x),
            _ => unreachable!("one input"),
        })
        .unwrap();
        close(&slope.value, &[5.0]);
        close(&slope.gradients[0], &[1.0, 3.0]);
        let scalar = bb::gradient(&on, &[&x], &[0], |on, inputs| on.neg(&inputs[0]));
        assert!(matches!(scalar, Err(Error::NotScalar { .. })), "{:?}", scalar.err());
        let nowhere = bb::gradient(&on, &[&x], &[1], |on, inputs| mean_square(on, &inputs[0]));
        assert!(matches!(nowhere, Err(Error::GradientBy { .. })), "{:?}", nowhere.err());
    }
}
