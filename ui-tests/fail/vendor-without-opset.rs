//! A vendor's row without the opset that the operation exists since.

fn negated<B: bb::ext::Ops + ?Sized>(on: &B, x: &B::Tensor) -> Result<B::Tensor, B::Error> {
    on.neg(x)
}

bb::vendor! {
    /// Operations.
    pub trait Acme(AcmeOp, AcmeCalls) in "com.acme" {
        /// Negates.
        Negated = negated(x: Tensor) -> Tensor => body: negated;
    }
}

fn main() {}
