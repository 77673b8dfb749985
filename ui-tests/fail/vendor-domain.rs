//! A vendor's domain without a dot.

fn negated<B: bb::ext::Ops + ?Sized>(on: &B, x: &B::Tensor) -> Result<B::Tensor, B::Error> {
    on.neg(x)
}

bb::vendor! {
    /// Operations.
    pub trait Acme(AcmeOp, AcmeCalls) in "acme" {
        /// Negates.
        Negated 1 = negated(x: Tensor) -> Tensor => body: negated;
    }
}

fn main() {}
