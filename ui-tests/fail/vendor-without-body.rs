//! A vendor's row that does not say what the operation is made of.

bb::vendor! {
    /// Operations.
    pub trait Acme(AcmeOp, AcmeCalls) in "com.acme" {
        /// Negates.
        Negated 1 = negated(x: Tensor) -> Tensor;
    }
}

fn main() {}
