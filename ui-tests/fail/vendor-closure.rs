//! A closure where a row takes the path of a function.

bb::vendor! {
    /// Operations.
    pub trait Acme(AcmeOp, AcmeCalls) in "com.acme" {
        /// Negates.
        Negated 1 = negated(x: Tensor) -> Tensor => body: |on, x| on.neg(x);
    }
}

fn main() {}
