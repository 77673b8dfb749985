//! A misspelt fact, and an unknown one, in the rows of a vendor.

fn negated<B: bb::ext::Ops + ?Sized>(on: &B, x: &B::Tensor) -> Result<B::Tensor, B::Error> {
    on.neg(x)
}

bb::vendor! {
    /// Operations.
    pub trait Acme(AcmeOp, AcmeCalls) in "com.acme" {
        /// Negates.
        Negated 1 = negated(x: Tensor) -> Tensor => body: negated, patern: negated;
        /// Negates, too.
        Again 1 = again(x: Tensor) -> Tensor => body: negated, pattern: negated, fast: negated;
    }
}

fn main() {}
