//! `#[bb::native]` records the methods that are written, if they are compiled.
#![deny(warnings)]
#![expect(clippy::non_minimal_cfg, reason = "`cfg(all())` is compiled always, and `cfg(any())` never")]

use bb::ext::{Create, CreateOp, Native, Nn, NnOp};
use ui_tests::Handle;

struct Cpu;
ui_tests::backend!(Cpu);

#[bb::native]
/// The backend's own kernels.
impl Nn for Cpu {
    /// Not compiled, so not native.
    #[cfg(any())]
    fn relu(&self, x: &Handle) -> Result<Handle, bb::Error> {
        Ok(x.clone())
    }

    #[inline]
    #[cfg(all())]
    fn softmax(&self, x: &Handle, _axis: i64) -> Result<Handle, bb::Error> {
        fn nested(x: &Handle) -> Handle {
            x.clone()
        }
        let f: fn(&Handle) -> Handle = nested;
        Ok(f(x))
    }
}

/// The family is adopted with the default body of every method.
#[bb::native]
impl Create for Cpu {}

/// An `impl` that is not compiled is not recorded a second time.
#[cfg(any())]
#[bb::native]
impl Nn for Cpu {}

#[bb::native]
#[cfg(all())]
impl bb::ext::Llm for Cpu {}

fn main() {
    assert_eq!(<Cpu as Native<NnOp>>::NATIVE, [NnOp::Softmax]);
    assert!(<Cpu as Native<CreateOp>>::NATIVE.is_empty());
}
