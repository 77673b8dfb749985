//! Kernels that decline operands, on a backend that adopted every family.
#![expect(clippy::unwrap_used, reason = "tests")]

use bb::ext::{Create, Extended, Nn, Ops, Scalar};
use bb::{Backend, Outputs, Primitive, TensorData};
use bb_reference::Reference;
use std::sync::atomic::{AtomicUsize, Ordering};

type Tensor = <Reference as Backend>::Tensor;
type Error = <Reference as Backend>::Error;

/// A backend whose kernels count their calls. That of `relu` declines, and `scalar_like`, which the body of `relu` calls, does not.
#[derive(Default)]
struct Declines {
    relu: AtomicUsize,
    scalar_like: AtomicUsize,
    /// Whether `scalar_like` calls `relu`, whose body calls `scalar_like`.
    endless: bool,
}

impl Declines {
    fn call(
        &self,
        op: Primitive,
        inputs: &[Option<&Tensor>],
        params: &[bb::ir::op::Param<'_>],
    ) -> Result<Outputs<Tensor>, Error> {
        bb::call_primitive(&Reference, op, inputs, params)
    }
}

impl Backend for Declines {
    type Tensor = Tensor;
    type Error = Error;

    bb::forward_to_call!(Self::call);

    fn to_host(&self, x: &Tensor) -> Result<TensorData, Error> {
        Reference.to_host(x)
    }
}

#[bb::native]
impl Nn for Declines {
    fn relu(&self, x: &Tensor) -> Result<Tensor, Error> {
        self.relu.fetch_add(1, Ordering::Relaxed);
        Extended::declining(self).relu(x)
    }
}

#[bb::native]
impl Create for Declines {
    fn scalar_like(&self, x: &Tensor, value: f64) -> Result<Tensor, Error> {
        self.scalar_like.fetch_add(1, Ordering::Relaxed);
        if self.endless {
            return Extended::declining(self).relu(x);
        }
        Extended::new(&Reference, &[]).scalar_like(x, value)
    }
}

#[bb::native]
impl Scalar for Declines {}
#[bb::native]
impl bb::ext::Llm for Declines {}
#[bb::native]
impl bb::ext::Index for Declines {}
#[bb::native]
impl bb::ext::Bits for Declines {}
#[bb::native]
impl bb::ext::Image for Declines {}
#[bb::native]
impl bb::ext::Ml for Declines {}
#[bb::native]
impl bb::ext::Quant for Declines {}
#[bb::native]
impl bb::ext::Train for Declines {}

impl Ops for Declines {}

#[test]
fn a_declining_kernel_runs_its_body_once_with_the_other_kernels() {
    let on = Declines::default();
    let x = on.constant(&TensorData::new(&[3], &[-1f32, 0.0, 2.0]).unwrap()).unwrap();
    let y = on.relu(&x).unwrap();
    assert_eq!(on.to_host(&y).unwrap().as_slice::<f32>().unwrap(), [0.0, 0.0, 2.0]);
    let calls = [&on.relu, &on.scalar_like].map(|count| count.load(Ordering::Relaxed));
    assert_eq!(calls, [1, 1]);
    // Of another operation's body, the kernel that declines is a part like the others.
    let declining = Extended::declining(&on);
    declining.relu(&x).unwrap();
    declining.scalar_like(&x, 1.0).unwrap();
    let calls = [&on.relu, &on.scalar_like].map(|count| count.load(Ordering::Relaxed));
    assert_eq!(calls, [1, 2], "the operation that is called runs its body");
}

/// Without a bound, the process would end with an overflow of the stack.
#[test]
fn kernels_that_call_each_other_without_end_are_an_error() {
    let on = Declines { endless: true, ..Declines::default() };
    let x = on.constant(&TensorData::new(&[3], &[-1f32, 0.0, 2.0]).unwrap()).unwrap();
    let error = on.relu(&x).unwrap_err();
    assert!(format!("{error:?}").contains(r#"EndlessNative { op: "relu" }"#), "{error:?}");
    assert_eq!(
        bb::Error::EndlessNative { op: "relu" }.to_string(),
        "the native `relu` calls itself again and again: within it, `bb::ext::Extended::new(self, &[]).relu(…)` runs the body of the \
         operation"
    );
    // The count ends with the calls.
    let plain = Declines::default();
    let x = plain.constant(&TensorData::new(&[1], &[-1f32]).unwrap()).unwrap();
    assert!(plain.relu(&x).is_ok());
}
