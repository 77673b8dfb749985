//! A kernel of a vendor's operation whose trait the derive does not name.

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
struct Cpu;

ui_tests::backend!(Cpu);

#[bb::native(operations = AcmeOp)]
impl Acme for Cpu {
    fn negated(&self, x: &Handle) -> Result<Handle, bb::Error> {
        Ok(x.clone())
    }
}

fn main() {}
