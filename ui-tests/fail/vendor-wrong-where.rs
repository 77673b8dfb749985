//! A condition of a pattern with a wrong signature.

use bb::ext::Ops;

fn doubled<B: Ops + ?Sized>(on: &B, x: &B::Tensor) -> Result<B::Tensor, B::Error> {
    on.add(x, x)
}

fn fits(extent: usize) -> bool {
    extent > 0
}

bb::vendor! {
    /// Operations.
    pub trait Acme(AcmeOp, AcmeCalls) in "com.acme" {
        /// Doubles.
        Doubled 1 = doubled(x: Tensor) -> Tensor => body: doubled, pattern: doubled where fits;
    }
}

fn main() {}
