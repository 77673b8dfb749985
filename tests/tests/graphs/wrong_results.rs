//! Results of another element type or other extents than their operation has, which are blamed on the operation that made them.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use bb::{
    Backend, BackendHandle, CompileOptions, DataType, Error, ErrorKind, GraphProto, Module, Outputs,
    Primitive, Runtime, TensorData,
};
use bb_reference::{Reference, Tensor};
use bb_tests::tampered::{Hook, Tampered};
use std::collections::HashMap;

/// `-(x · y)`, with `x` of `[2]` or of a named extent.
fn module(open: bool) -> Module {
    let mut graph = bb::trace(&[("x", DataType::F32, &[2]), ("y", DataType::F32, &[2])], |on, inputs| {
        let [x, y] = inputs else { return Ok(vec![]) };
        Ok(vec![on.neg(&on.mul(x, y)?)?])
    })
    .unwrap();
    if open {
        use bb::ir::proto::{tensor_shape_proto::dimension, type_proto};
        for info in graph.input.iter_mut().chain(&mut graph.output) {
            let ty = info.r#type.as_mut().unwrap().value.as_mut().unwrap();
            let type_proto::Value::TensorType(tensor) = ty else { panic!("{ty:?}") };
            tensor.shape.as_mut().unwrap().dim[0].value = Some(dimension::Value::DimParam("n".to_owned()));
        }
    }
    Module::from_graph(&graph, &[], &[]).unwrap()
}

fn run(on: &BackendHandle, module: Module) -> Result<TensorData, Error> {
    let program = on.compile(module, &CompileOptions::default())?;
    let x = on.tensor(&[2], &[1f32, 2.0])?;
    on.to_host(&program.run(&[Some(&x), Some(&x)])?[0])
}

/// Returns a changed result for `mul`, and `None` for all other operations.
fn instead(
    op: Primitive,
    inputs: &[Option<&Tensor>],
    change: fn(&Tensor) -> Result<Tensor, bb_reference::Error>,
) -> Option<Result<Outputs<Tensor>, bb_reference::Error>> {
    let [Some(a), Some(b)] = inputs else { return None };
    let made = || Ok(Outputs::from_buf([change(&Reference.mul(a, b)?)?]));
    (op == Primitive::Mul).then(made)
}

#[test]
fn a_wrong_result_is_blamed_on_the_operation_that_made_it() {
    let short: Hook = |op, inputs, _| instead(op, inputs, |y| Reference.slice(y, &[0], &[1], &[0], &[]));
    let wide: Hook =
        |op, inputs, _| instead(op, inputs, |y| Reference.cast(y, DataType::F64, true, bb::RoundMode::Up));
    let rank: Hook = |op, inputs, _| instead(op, inputs, |y| Reference.reshape(y, &[1, 2]));
    for (hook, open, expected) in [
        (short, false, "result 0 of `mul` is f32[1], expected f32[2]"),
        (wide, false, "result 0 of `mul` is f64[2], expected f32[2]"),
        (rank, false, "result 0 of `mul` is f32[1, 2], expected f32[2]"),
        (wide, true, "result 0 of `mul` is f64[2], expected f32[?]"),
        (rank, true, "result 0 of `mul` is f32[1, 2], expected f32[?]"),
    ] {
        let on = BackendHandle::new(Runtime::named("tampered", Tampered(hook)));
        let error = run(&on, module(open)).unwrap_err();
        let text = crate::refused::causes(&error);
        assert!(text.contains(expected) && text.contains("(Mul)"), "{text}");
        assert_eq!(error.kind(), ErrorKind::Device);
    }
}

/// A backend for whole graphs that gives each output of a graph with a product another dimension.
struct Taller;

impl Backend for Taller {
    type Tensor = Tensor;
    type Error = bb_reference::Error;

    bb::forward_to_execute!(Self::run);

    fn to_host(&self, x: &Tensor) -> Result<TensorData, bb_reference::Error> {
        Reference.to_host(x)
    }
}

impl Taller {
    fn run(
        &self,
        graph: &GraphProto,
        inputs: HashMap<String, Tensor>,
        attrs: bb::BackendAttrs<'_>,
    ) -> Result<HashMap<String, Tensor>, bb_reference::Error> {
        let results = Reference.execute(graph, inputs, attrs)?;
        if graph.node.iter().all(|node| node.op_type() != "Mul") {
            return Ok(results);
        }
        results.into_iter().map(|(name, y)| Ok((name, Reference.reshape(&y, &[1, 2])?))).collect()
    }
}

#[test]
fn a_wrong_output_of_a_whole_graph_is_an_error() {
    let on = BackendHandle::new(Runtime::named("taller", Taller));
    let text = crate::refused::causes(&run(&on, module(false)).unwrap_err());
    assert!(text.contains("is f32[1, 2], expected f32[2]"), "{text}");
}

/// Gives products another dimension.
#[derive(bb::Backend)]
#[bb(delegate = inner)]
struct Raising<B> {
    inner: B,
}

#[bb::layer]
impl<B: bb::InnerBackend> bb::Layer for Raising<B> {
    fn mul(&self, a: &B::Tensor, b: &B::Tensor) -> Result<B::Tensor, B::Error> {
        self.inner.reshape(&self.inner.mul(a, b)?, &[1, 2])
    }
}

/// Passes all operations on.
#[derive(bb::Backend)]
#[bb(delegate = inner)]
struct Outer<B> {
    inner: B,
}

#[bb::layer]
impl<B: bb::InnerBackend> bb::Layer for Outer<B> {
    fn neg(&self, x: &B::Tensor) -> Result<B::Tensor, B::Error> {
        self.inner.neg(x)
    }
}

#[test]
fn a_wrong_result_of_a_layer_names_the_layer_and_the_backend() {
    let erased = bb::Erased::new(Raising { inner: bb::Erased::new(Reference) });
    for on in [
        BackendHandle::start("raising", Raising { inner: Reference }),
        BackendHandle::start("outer", Outer { inner: Raising { inner: Reference } }),
        BackendHandle::start("erased", Outer { inner: erased }),
    ] {
        let text = crate::refused::causes(&run(&on, module(false)).unwrap_err());
        let expected = "result 0 of `mul` is f32[1, 2], expected f32[2]: the layer `Raising` on the backend `Reference` returned it";
        assert!(text.contains(expected), "{text}");
    }
}
