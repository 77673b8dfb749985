//! A pattern of an operation with several results.

fn halves<B: bb::ext::Ops + ?Sized>(on: &B, x: &B::Tensor) -> Result<Vec<B::Tensor>, B::Error> {
    Ok(vec![on.neg(x)?, on.abs(x)?])
}

bb::vendor! {
    /// Operations.
    pub trait Acme(AcmeOp, AcmeCalls) in "com.acme" {
        /// Negates, and takes the absolute value.
        Halves 1 = halves(x: Tensor) -> Tensors => body: halves, pattern: halves;
    }
}

fn main() {}
