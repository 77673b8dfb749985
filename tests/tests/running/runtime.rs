//! Tests running backends: routing, mixing, panics, received values, the registry.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use bb::{
    Backend, BackendAttrs, BackendHandle, Backends, BoxError, CompletionHandle, ContractResponse, Error,
    GraphProto, Outputs, Primitive, Registration, Registry, Runtime, TensorData, Value, ir::op::Param,
};
use bb_reference::Reference;
use bb_tests::device::{Device, DeviceError};
use std::collections::HashMap;
use std::sync::Arc;

fn reference() -> BackendHandle {
    BackendHandle::new(Runtime::new(Reference))
}

fn device() -> BackendHandle {
    BackendHandle::new(Runtime::new(Device::start().unwrap()))
}

fn floats(value: &Value) -> Vec<f32> {
    value.to_host(1 << 20).unwrap().as_slice().unwrap().to_vec()
}

#[test]
fn operations_go_to_the_owner_of_the_operands() {
    let backends = Backends::new([reference(), device()]);
    for handle in backends.iter() {
        let x = handle.tensor(&[2], &[1f32, -2.0]).unwrap();
        let y = backends.relu(&x).unwrap();
        assert_eq!(y.owner(), handle.owner());
        assert_eq!(floats(&y), [1.0, 0.0]);
    }
    let parts = backends.split(
        &backends.constant(&TensorData::new(&[3], &[1f32, 2.0, 3.0]).unwrap()).unwrap(),
        0,
        &[1, 2],
    );
    let parts: Vec<Vec<f32>> = parts.unwrap().iter().map(floats).collect();
    assert_eq!(parts, [vec![1.0], vec![2.0, 3.0]]);
}

#[test]
fn mixing_owners_is_an_error_that_says_how_to_move() {
    let backends = Backends::new([reference(), device()]);
    let a = backends.named("reference").unwrap().tensor(&[1], &[1f32]).unwrap();
    let b = backends.named("device").unwrap().tensor(&[1], &[2f32]).unwrap();
    let error = backends.add(&a, &b).unwrap_err();
    assert!(matches!(error, Error::ForeignTensor { op: "add", .. }));
    let text = error.to_string();
    assert!(text.contains("runs on `reference") && text.contains("a tensor of `device"), "{text}");
    assert!(text.contains("by `adopt` of the handle of `reference"), "{text}");
    let moved = backends.named("reference").unwrap().adopt(&b).unwrap();
    assert_eq!(floats(&backends.add(&a, &moved).unwrap()), [3.0]);
}

#[test]
fn two_instances_of_one_backend_are_two_owners() {
    let (one, two) = (reference(), reference());
    let (a, b) = (one.tensor(&[1], &[1f32]).unwrap(), two.tensor(&[1], &[1f32]).unwrap());
    assert!(matches!(one.add(&a, &b), Err(Error::ForeignTensor { .. })));
    assert_ne!(one.owner().to_string(), two.owner().to_string());
}

#[test]
fn a_typed_backend_and_its_values_convert() {
    let backends = Backends::new([device(), reference()]);
    let on = backends.typed::<Reference>().unwrap();
    let x = on.constant(&TensorData::scalar(2f32)).unwrap();
    let value = on.erase(on.mul(&x, &x).unwrap());
    assert_eq!(floats(&value), [4.0]);
    assert_eq!(bb::Tensor::shape(&on.restore(&value).unwrap()), [0usize; 0]);
    let other = backends.named("device").unwrap().tensor(&[1], &[1f32]).unwrap();
    assert!(matches!(on.restore(&other), Err(Error::ForeignTensor { .. })));
    assert!(matches!(Backends::new([device()]).typed::<Reference>(), Err(Error::UnknownBackendType { .. })));
}

#[test]
fn a_received_value_works_in_the_next_operation() {
    let data = TensorData::new(&[2], &[1f32, 2.0]).unwrap();
    for handle in [reference(), device()] {
        let frame = bb::ir::wire::encode(&data).unwrap();
        let value = handle.materialize_from_wire(bb::ir::wire::type_hash(data.dtype()), frame).unwrap();
        assert_eq!(floats(&handle.add(&value, &value).unwrap()), [2.0, 4.0]);
    }
}

#[test]
fn values_travel_on_a_stream_between_backends() {
    let mut pipe = Vec::new();
    for elements in [[1f32, 2.0], [3.0, 4.0]] {
        let on = device();
        on.tensor(&[2], &elements).unwrap().write_frame(&mut pipe, bb::ir::wire::Checksum::All).unwrap();
    }
    let (on, mut end) = (reference(), pipe.as_slice());
    let (a, b) = (on.read_frame(&mut end, 1 << 10).unwrap(), on.read_frame(&mut end, 1 << 10).unwrap());
    assert_eq!(floats(&on.add(&a.unwrap(), &b.unwrap()).unwrap()), [4.0, 6.0]);
    assert!(on.read_frame(&mut end, 1 << 10).unwrap().is_none());
    let error = on.read_frame(&mut &pipe[..40], 1 << 10).unwrap_err();
    assert!(matches!(error, Error::Ir(bb::ir::Error::FrameEnd { .. })));
}

#[test]
fn a_kernel_error_keeps_its_source() {
    let handle = reference();
    let (a, b) = (handle.tensor(&[2], &[1f32, 2.0]).unwrap(), handle.tensor(&[3], &[1f32; 3]).unwrap());
    match handle.add(&a, &b).unwrap_err() {
        Error::Kernel { backend: "reference", op: "add", source } => {
            assert!(source.downcast_ref::<bb_reference::Error>().is_some());
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(handle.runtime().status().failures, 1);
}

/// A backend that drops the completer in `dispatch`, and panics in `exp`.
struct Faulty;

impl Faulty {
    fn call(
        &self,
        op: Primitive,
        inputs: &[Option<&bb_reference::Tensor>],
        params: &[Param<'_>],
    ) -> Result<Outputs<bb_reference::Tensor>, bb_reference::Error> {
        assert!(op != Primitive::Exp, "exp is broken");
        bb::call_primitive(&Reference, op, inputs, params)
    }
}

impl Backend for Faulty {
    type Tensor = bb_reference::Tensor;
    type Error = bb_reference::Error;

    bb::forward_to_call!(Self::call);

    fn to_host(&self, x: &Self::Tensor) -> Result<TensorData, Self::Error> {
        Reference.to_host(x)
    }

    fn dispatch(
        &self,
        _graph: Arc<GraphProto>,
        _inputs: HashMap<String, Self::Tensor>,
        _attrs: BackendAttrs<'_>,
        completion: CompletionHandle<HashMap<String, Self::Tensor>, Self::Error>,
    ) -> ContractResponse<HashMap<String, Self::Tensor>, Self::Error> {
        let (response, completer) = completion.later();
        drop(completer);
        response
    }
}

#[test]
fn a_panic_is_an_error_and_the_next_call_works() {
    let handle = BackendHandle::new(Runtime::named("faulty", Faulty));
    let x = handle.tensor(&[1], &[1f32]).unwrap();
    match handle.exp(&x).unwrap_err() {
        Error::Panicked { backend, op, message } => {
            assert_eq!((backend, op, &*message), ("faulty", "exp", "exp is broken"));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(floats(&handle.add(&x, &x).unwrap()), [2.0]);
    assert_eq!(handle.runtime().status().panics, 1);
}

#[test]
fn a_dropped_completer_is_an_error_to_the_caller() {
    let handle = BackendHandle::new(Runtime::named("faulty", Faulty));
    let response = handle.runtime().clone().dispatch(Arc::default(), HashMap::new(), BackendAttrs::default());
    let error = response.wait().unwrap_err();
    let mut source: Option<&(dyn std::error::Error + 'static)> = Some(&error);
    let mut words = Vec::new();
    while let Some(e) = source {
        words.push(e.to_string());
        source = e.source();
    }
    assert!(words.iter().any(|w| w.contains("dropped its completion handle")), "{words:?}");
    assert_eq!(handle.runtime().status().pending, 0);
}

#[test]
fn after_shutdown_calls_are_refused() {
    let handle = reference();
    let x = handle.tensor(&[1], &[1f32]).unwrap();
    handle.shut_down().unwrap();
    assert!(matches!(handle.neg(&x), Err(Error::ShutDown { .. })));
}

#[test]
fn using_a_value_of_a_dropped_backend_is_an_error() {
    let x = reference().tensor(&[1], &[1f32]).unwrap();
    assert!(matches!(x.to_host(64), Err(Error::Gone { .. })));
}

#[test]
fn a_copy_above_the_limit_is_refused() {
    let handle = reference();
    let x = handle.tensor(&[4], &[1f32; 4]).unwrap();
    assert!(matches!(x.to_host(15), Err(Error::Ir(bb::ir::Error::TooLarge { .. }))));
    assert_eq!(x.to_host(16).unwrap().len(), 4);
}

#[test]
fn two_backends_of_one_name_are_refused_with_both_paths() {
    let first = Registration { path: "one::Reference", ..Registration::of::<Reference>() };
    let second = Registration { path: "two::Reference", ..Registration::of::<Reference>() };
    let registry = Registry::builder().registration(second).registration(first).declared::<Device>().build();
    for error in [registry.backend("reference").unwrap_err(), registry.backend("device").unwrap_err()] {
        assert_eq!(
            error.to_string(),
            "two backends are called `reference`: `one::Reference` and `two::Reference`; \
             write `#[bb(name = \"another-name\")]` above one of these types, or link only one of the crates: \
             remove the line `use one as _;` or `use two as _;`"
        );
    }
    assert!(registry.backends().is_err());
}

#[test]
fn an_unknown_name_lists_what_is_linked() {
    let error = Registry::global().backend("gpu").unwrap_err().to_string();
    assert!(
        error.contains("`device`, `lossy`, `reference`") && error.contains("use the_crate as _;"),
        "{error}"
    );
}

#[test]
fn a_backend_whose_constructor_fails_is_linked_but_not_available() {
    let none = |_: &bb::OpenOptions| -> Result<Arc<bb::Runtime>, Error> {
        let source: BoxError = DeviceError::Lost.into();
        Err(Error::Unavailable { backend: "gpu", origin: bb::BackendOrigin::Linked, source })
    };
    let gpu = Registration { name: "gpu", path: "gpu::Gpu", open: none, ..Registration::of::<Device>() };
    let registry = Registry::builder().registration(gpu).declared::<Reference>().build();
    let listed = registry.backends().unwrap();
    let available: Vec<_> = listed.iter().map(|l| (l.name, l.backend.is_ok())).collect();
    assert_eq!(available, [("gpu", false), ("reference", true)]);
    let error = registry.backend("gpu").unwrap_err();
    assert_eq!(error.to_string(), "backend `gpu` is linked, but not available");
    assert_eq!(std::error::Error::source(&error).unwrap().to_string(), "the device is lost");
}

#[test]
fn a_registry_opens_a_backend_once() {
    let registry = Registry::builder().declared::<Reference>().build();
    assert_eq!(
        registry.backend("reference").unwrap().owner(),
        registry.backend("reference").unwrap().owner()
    );
}

#[test]
fn fingerprints_distinguish_backends() {
    let (a, b, c) = (reference(), reference(), device());
    assert_eq!(a.runtime().abi_fingerprint(), b.runtime().abi_fingerprint());
    assert_ne!(a.runtime().abi_fingerprint(), c.runtime().abi_fingerprint());
    assert_eq!(a.runtime().atomic_opset().ops.len(), bb::Primitive::ALL.len());
}

/// The innermost cause of an error.
fn cause(error: Error) -> String {
    let mut error: &dyn std::error::Error = &error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

#[test]
fn surplus_operands_and_parameters_are_errors() {
    for handle in [reference(), device()] {
        let x = handle.tensor(&[2], &[1f32, -2.0]).unwrap();
        let neg = Primitive::Neg.spec();
        let error = handle.call(neg, &[Some(&x), Some(&x)], &[]).unwrap_err();
        assert_eq!(cause(error), "`neg` takes 1 operands, got 2");
        // Nothing was given in an absent place.
        assert!(handle.call(neg, &[Some(&x), None], &[]).is_ok());
        let error = handle.call(neg, &[Some(&x)], &[Param::Int(1)]).unwrap_err();
        assert_eq!(cause(error), "`neg` takes 0 parameters, got 1");
        // Of families, native or not, and found by name.
        let relu = bb::operation("relu").unwrap();
        let error = handle.call(relu, &[Some(&x), Some(&x), Some(&x)], &[]).unwrap_err();
        assert_eq!(cause(error), "`relu` takes 1 operands, got 3");
        let concat = bb::operation("Concat").unwrap();
        assert!(handle.call(concat, &[Some(&x), Some(&x), Some(&x)], &[Param::Int(0)]).is_ok());
        let error = handle.call(concat, &[Some(&x)], &[Param::Int(0), Param::Int(0)]).unwrap_err();
        assert_eq!(cause(error), "`concat` takes 1 parameters, got 2");
    }
}

/// `y = -x`, compiled on a backend.
fn negation(on: &BackendHandle) -> Arc<dyn bb::ErasedExecutable> {
    use bb::ir::proto::{NodeProto, ValueInfoProto};
    let value = |name: &str| ValueInfoProto { name: Some(name.to_owned()), ..Default::default() };
    let node = NodeProto {
        op_type: Some("Neg".to_owned()),
        input: vec!["x".to_owned()],
        output: vec!["y".to_owned()],
        ..Default::default()
    };
    let graph = GraphProto {
        input: vec![value("x")],
        output: vec![value("y")],
        node: vec![node],
        ..Default::default()
    };
    let module = bb::Module::from_graph(&graph, &[], &[]).unwrap();
    on.compile(module, &bb::CompileOptions::default()).unwrap()
}

#[test]
fn a_run_in_the_future_gives_what_a_run_gives() {
    let on = reference();
    let model = negation(&on);
    let x = on.tensor(&[2], &[1f32, -2.0]).unwrap();
    let answers = [0; 4].map(|_| model.clone().run_async(vec![Some(x.clone())]));
    for answer in answers {
        assert_eq!(floats(&answer.wait().unwrap()[0]), [-1.0, 2.0]);
    }
    let missing = model.clone().run_async(vec![None]).wait().unwrap_err();
    assert!(cause(missing).contains("`x`"));
    // Options of the caller hold on the other thread.
    let token = bb::CancelToken::new();
    token.cancel();
    let options = bb::RunOptions::default().with_cancel(&token);
    let answer = options.within(|| model.run_async(vec![Some(x)]));
    assert!(matches!(answer.wait(), Err(Error::Cancelled)));
}

#[test]
fn truth_values_make_tensors_on_a_backend() {
    let on = reference();
    let mask = on.tensor(&[2, 1], &[true, false]).unwrap();
    assert_eq!(mask.to_host(2).unwrap().to_bools().unwrap(), [true, false]);
    let made = on.tensor_from_fn(&[3], |at| at[0] == 1).unwrap();
    assert_eq!(made.to_host(3).unwrap().to_bools().unwrap(), [false, true, false]);
    assert!(on.tensor(&[3], &[true]).is_err());
}
