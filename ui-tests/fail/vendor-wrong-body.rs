//! A body whose arguments are not those of its row.

fn scaled<B: bb::ext::Ops + ?Sized>(on: &B, x: &B::Tensor) -> Result<B::Tensor, B::Error> {
    on.neg(x)
}

bb::vendor! {
    /// Operations.
    pub trait Acme(AcmeOp, AcmeCalls) in "com.acme" {
        /// Scales.
        Scaled 1 = scaled(x: Tensor; factor: Float = 1.0) -> Tensor => body: scaled;
    }
}

fn main() {}
