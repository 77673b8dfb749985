//! Misspelt types of operands, parameters and results in the rows of a vendor.

fn scaled<B: bb::ext::Ops + ?Sized>(on: &B, x: &B::Tensor, _: f64) -> Result<B::Tensor, B::Error> {
    on.neg(x)
}

bb::vendor! {
    /// Operations.
    pub trait Acme(AcmeOp, AcmeCalls) in "com.acme" {
        /// Scales.
        Scaled 1 = scaled(x: Tenser; factor: Flaot = 1.0) -> Tensor => body: scaled;
        /// Scales, too.
        Again 1 = again(x: Tensor; factor: f64 = 1.0) -> Tensr => body: scaled;
    }
}

fn main() {}
