//! Kernels that decline operands, on a backend that adopted every family.
#![expect(clippy::unwrap_used, reason = "tests")]

use bb::ext::{Create, Extended, Nn, Ops, Scalar};
use bb::{Backend, Outputs, Primitive, TensorData};
use bb_reference::Reference;
use std::sync::atomic::{AtomicUsize, Ordering};

type Tensor = <Reference as Backend>::Tensor;
type Error = <Reference as Backend>::Error;

/// A backend whose kernels count their calls. That of `clip` declines, and `maximum`, which the body of `clip` calls, does not.
#[derive(Default)]
struct Declines {
    clip: AtomicUsize,
    maximum: AtomicUsize,
    /// Whether `maximum` calls `clip`, whose body calls `maximum`.
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
    fn clip(&self, x: &Tensor, min: Option<&Tensor>, max: Option<&Tensor>) -> Result<Tensor, Error> {
        self.clip.fetch_add(1, Ordering::Relaxed);
        Extended::declining(self).clip(x, min, max)
    }
}

#[bb::native]
impl Scalar for Declines {
    fn maximum(&self, x: &Tensor, y: &Tensor) -> Result<Tensor, Error> {
        self.maximum.fetch_add(1, Ordering::Relaxed);
        if self.endless {
            return Extended::declining(self).clip(x, Some(y), None);
        }
        Extended::new(&Reference, &[]).maximum(x, y)
    }
}

#[bb::native]
impl Create for Declines {}
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
    let zero = on.constant(&TensorData::scalar(0f32)).unwrap();
    let y = on.clip(&x, Some(&zero), None).unwrap();
    assert_eq!(on.to_host(&y).unwrap().as_slice::<f32>().unwrap(), [0.0, 0.0, 2.0]);
    let calls = [&on.clip, &on.maximum].map(|count| count.load(Ordering::Relaxed));
    assert_eq!(calls, [1, 1]);
    let declining = Extended::declining(&on);
    declining.clip(&x, Some(&zero), None).unwrap();
    declining.maximum(&x, &zero).unwrap();
    let calls = [&on.clip, &on.maximum].map(|count| count.load(Ordering::Relaxed));
    assert_eq!(calls, [1, 2], "the operation that is called runs its body");
}

/// Without a bound, the process would end with an overflow of the stack.
#[test]
fn kernels_that_call_each_other_without_end_are_an_error() {
    let on = Declines { endless: true, ..Declines::default() };
    let x = on.constant(&TensorData::new(&[3], &[-1f32, 0.0, 2.0]).unwrap()).unwrap();
    let error = on.clip(&x, Some(&x), None).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the native `clip` calls itself again and again: within it, `bb::ext::Extended::new(self, &[]).clip(…)` runs the body of the \
         operation"
    );
    // The count ends with the calls.
    let plain = Declines::default();
    let x = plain.constant(&TensorData::new(&[1], &[-1f32]).unwrap()).unwrap();
    assert!(plain.clip(&x, Some(&x), None).is_ok());
}
