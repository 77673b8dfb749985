//! A kernel of a vendor's operation under `#[bb::native]` without the enum of the operations.

use ui_tests::Handle;

fn negated<B: bb::ext::Ops + ?Sized>(on: &B, x: &B::Tensor) -> Result<B::Tensor, B::Error> {
    on.neg(x)
}

bb::vendor! {
    /// Operations.
    pub trait Acme(AcmeOp, AcmeCalls) in "com.acme" {
        /// Negates.
        Negated 1 = negated(x: Tensor) -> Tensor => body: negated;
    }
}

#[derive(bb::Backend, Default)]
#[bb(vendors(Acme))]
struct Cpu;

ui_tests::backend!(Cpu);

#[bb::native]
impl Acme for Cpu {
    fn negated(&self, x: &Handle) -> Result<Handle, bb::Error> {
        Ok(x.clone())
    }
}

fn main() {}
