//! Tests that a kernel gets the operands and the parameters of the steps that it replaces.

use bb::ext::{Ops, PatternOperand};
use bb::ir::op::Param;
use bb::{Backend, CompileOptions, InnerBackend, Module, Outputs, Primitive, Registry, Tensor, TensorData};
use bb_reference::Reference;
use bb_tests::model::{model, node, with_text};
use std::cell::RefCell;

type Array = <Reference as Backend>::Tensor;
type Failure = bb_reference::Error;

/// `gelu(x + bias)`.
fn bias_gelu<B: Ops + ?Sized>(
    on: &B,
    x: &B::Tensor,
    bias: &B::Tensor,
    tanh: bool,
) -> Result<B::Tensor, B::Error> {
    on.gelu(&on.add(x, bias)?, tanh)
}

/// `-gelu(x)`.
fn minus_gelu<B: Ops + ?Sized>(on: &B, x: &B::Tensor, tanh: bool) -> Result<B::Tensor, B::Error> {
    on.neg(&on.gelu(x, tanh)?)
}

/// `-gelu(x)` by `tanh`, for both values of the parameter.
fn minus_gelu_by_tanh<B: Ops + ?Sized>(on: &B, x: &B::Tensor, _tanh: bool) -> Result<B::Tensor, B::Error> {
    on.neg(&on.gelu(x, true)?)
}

/// `abs(gelu(x))` by `tanh`, which is no `-gelu(x)`.
fn size_of_gelu<B: Ops + ?Sized>(on: &B, x: &B::Tensor, _tanh: bool) -> Result<B::Tensor, B::Error> {
    on.abs(&on.gelu(x, true)?)
}

/// `x * y`.
fn product<B: Ops + ?Sized>(on: &B, x: &B::Tensor, y: &B::Tensor) -> Result<B::Tensor, B::Error> {
    on.mul(x, y)
}

/// The kernel multiplies by a vector on the left.
fn vector_first(operands: &[Option<PatternOperand>], _params: &[Param<'_>]) -> bool {
    matches!(operands, [Some(x), Some(_)] if x.extents.len() == 1)
}

bb::vendor! {
    /// Operations with a flag, and with operands of several shapes.
    pub(crate) trait Bound(BoundOp, BoundCalls) in "com.example.bound" {
        /// Computes `gelu(x + bias)`.
        BiasGelu 1 = bias_gelu(x: Tensor, bias: Tensor; tanh: Bool = false) -> Tensor
            => body: bias_gelu, pattern: bias_gelu;

        /// Computes `-gelu(x)`.
        MinusGelu 1 = minus_gelu(x: Tensor; tanh: Bool = false) -> Tensor
            => body: minus_gelu, pattern: minus_gelu_by_tanh;

        /// Computes `x * y`.
        Product 1 = product(x: Tensor, y: Tensor) -> Tensor
            => body: product, pattern: product where vector_first;
    }
}

bb::vendor! {
    /// An operation with a wrong pattern.
    pub(crate) trait Unlike(UnlikeOp, UnlikeCalls) in "com.example.unlike" {
        /// Computes `-gelu(x)`.
        MinusGelu 1 = minus_gelu(x: Tensor; tanh: Bool = false) -> Tensor
            => body: minus_gelu, pattern: size_of_gelu;
    }
}

thread_local! {
    /// The calls of kernels on this thread.
    static CALLS: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

fn record(call: String) {
    CALLS.with_borrow_mut(|calls| calls.push(call));
}

macro_rules! on_reference {
    ($backend:ty) => {
        impl $backend {
            fn call(
                &self,
                op: Primitive,
                inputs: &[Option<&Array>],
                params: &[Param<'_>],
            ) -> Result<Outputs<Array>, Failure> {
                bb::call_primitive(&Reference, op, inputs, params)
            }
        }

        impl Backend for $backend {
            type Tensor = Array;
            type Error = Failure;

            bb::forward_to_call!(Self::call);

            fn to_host(&self, x: &Array) -> Result<TensorData, Failure> {
                Reference.to_host(x)
            }
        }
    };
}

/// A backend with kernels that record their calls.
#[derive(bb::Backend, Default, Debug)]
#[bb(name = "bound", vendors(Bound))]
struct BoundBackend;

on_reference!(BoundBackend);

#[bb::native(operations = BoundOp)]
impl Bound for BoundBackend {
    fn bias_gelu(&self, x: &Array, bias: &Array, tanh: bool) -> Result<Array, Failure> {
        record(format!("bias_gelu {:?} {:?} {tanh}", x.shape(), bias.shape()));
        Bound::bias_gelu(&bb::ext::Extended::new(&Reference, &[]), x, bias, tanh)
    }

    fn minus_gelu(&self, x: &Array, tanh: bool) -> Result<Array, Failure> {
        record(format!("minus_gelu {:?} {tanh}", x.shape()));
        Bound::minus_gelu(&bb::ext::Extended::new(&Reference, &[]), x, tanh)
    }

    fn product(&self, x: &Array, y: &Array) -> Result<Array, Failure> {
        record(format!("product {:?} {:?}", x.shape(), y.shape()));
        Reference.mul(x, y)
    }
}

/// A backend with a kernel whose pattern is wrong.
#[derive(bb::Backend, Default, Debug)]
#[bb(name = "unlike", vendors(Unlike))]
struct UnlikeBackend;

on_reference!(UnlikeBackend);

#[bb::native(operations = UnlikeOp)]
impl Unlike for UnlikeBackend {
    fn minus_gelu(&self, x: &Array, tanh: bool) -> Result<Array, Failure> {
        Unlike::minus_gelu(&bb::ext::Extended::new(&Reference, &[]), x, tanh)
    }
}

/// A layer with a kernel.
#[derive(bb::Backend)]
#[bb(delegate = inner, vendors(Bound))]
struct BoundLayer<B> {
    inner: B,
}

#[bb::layer]
impl<B: InnerBackend> bb::Layer for BoundLayer<B> {}

#[bb::native(operations = BoundOp)]
impl<B: InnerBackend> Bound for BoundLayer<B> {
    fn product(&self, x: &B::Tensor, y: &B::Tensor) -> Result<B::Tensor, B::Error> {
        record(format!("product {:?} {:?} of the layer", x.shape(), y.shape()));
        self.inner.mul(x, y)
    }
}

/// Runs a model with an input `x` of the shape [2, 3] and an input `b` of the shape [3], and returns the calls of kernels.
fn calls(nodes: Vec<bb::ir::proto::NodeProto>) -> Vec<String> {
    calls_on(&Registry::builder().declared::<BoundBackend>().build().backend("bound").unwrap(), nodes)
}

fn calls_on(on: &bb::BackendHandle, nodes: Vec<bb::ir::proto::NodeProto>) -> Vec<String> {
    let bytes = model(&[("x", &[2, 3]), ("b", &[3])], nodes, &[("y", &[2, 3])]);
    let compiled = on.compile(Module::from_bytes(bytes).unwrap(), &CompileOptions::default()).unwrap();
    let inputs = [on.tensor(&[2, 3], &super::X).unwrap(), on.tensor(&[3], &[1f32, 2., 3.]).unwrap()];
    CALLS.take();
    compiled.run(&[Some(&inputs[0]), Some(&inputs[1])]).unwrap();
    CALLS.take()
}

#[test]
fn the_first_operand_has_the_shape_of_the_result() {
    for inputs in [["x", "b"], ["b", "x"]] {
        let nodes = vec![node("Add", &inputs, &["sum"]), node("Gelu", &["sum"], &["y"])];
        assert_eq!(calls(nodes), ["bias_gelu [2, 3] [3] false"], "{inputs:?}");
    }
}

#[test]
fn a_condition_chooses_the_order() {
    for inputs in [["x", "b"], ["b", "x"]] {
        assert_eq!(calls(vec![node("Mul", &inputs, &["y"])]), ["product [3] [2, 3]"], "{inputs:?}");
    }
}

#[test]
fn a_plan_calls_the_kernel_of_a_layer() {
    let on = bb::BackendHandle::start("layered", BoundLayer { inner: Reference });
    let got = calls_on(&on, vec![node("Mul", &["x", "b"], &["y"])]);
    assert_eq!(got, ["product [3] [2, 3] of the layer"]);
}

#[test]
fn each_value_of_a_flag_is_matched() {
    for (name, tanh) in [("none", false), ("tanh", true)] {
        let gelu = with_text(node("Gelu", &["sum"], &["y"]), "approximate", name);
        let got = calls(vec![node("Add", &["x", "b"], &["sum"]), gelu]);
        assert_eq!(got, [format!("bias_gelu [2, 3] [3] {tanh}")]);
    }
}

#[test]
fn a_pattern_without_the_flag_binds_the_value_of_the_same_body() {
    for (name, expected) in [("none", None), ("tanh", Some("minus_gelu [2, 3] true"))] {
        let added = node("Sub", &["x", "b"], &["difference"]);
        let gelu = with_text(node("Gelu", &["difference"], &["curve"]), "approximate", name);
        let got = calls(vec![added, gelu, node("Neg", &["curve"], &["y"])]);
        assert_eq!(got.iter().map(String::as_str).collect::<Vec<_>>(), Vec::from_iter(expected));
    }
}

#[test]
fn a_pattern_that_equals_the_body_for_no_value_is_refused() {
    let on = Registry::builder().declared::<UnlikeBackend>().build().backend("unlike").unwrap();
    let bytes = model(&[("x", &[2, 3])], vec![node("Abs", &["x"], &["y"])], &[("y", &[2, 3])]);
    let error = match on.compile(Module::from_bytes(bytes).unwrap(), &CompileOptions::default()) {
        Err(error) => error,
        Ok(compiled) => compiled.run(&[Some(&on.tensor(&[2, 3], &super::X).unwrap())]).unwrap_err(),
    };
    let text = super::causes(&error);
    let expected = "the pattern `size_of_gelu` of `MinusGelu` in `com.example.unlike` ignores a parameter of the type Bool";
    assert!(text.contains(expected), "{text}");
}
