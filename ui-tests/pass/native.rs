//! `#[bb::native]` records what is written, and only what is compiled.
#![deny(warnings)]

use bb::ext::{Create, CreateOp, Native, Nn, NnOp};
use ui_tests::Handle;

struct Cpu;
ui_tests::backend!(Cpu);

#[bb::native]
/// Kernels of its own.
impl Nn for Cpu {
    /// Not compiled, hence not native.
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

/// Adopted, with the default body of every method.
#[bb::native]
impl Create for Cpu {}

/// What is not compiled is not recorded twice.
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
