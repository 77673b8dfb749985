//! A kernel of a vendor's operation in a layer whose derive does not name the trait.

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

#[derive(bb::Backend)]
#[bb(delegate = inner)]
struct Quiet<B> {
    inner: B,
}

#[bb::layer]
impl<B: bb::InnerBackend> bb::Layer for Quiet<B> {}

#[bb::native(operations = AcmeOp)]
impl<B: bb::InnerBackend> Acme for Quiet<B> {
    fn negated(&self, x: &B::Tensor) -> Result<B::Tensor, B::Error> {
        Ok(x.clone())
    }
}

fn main() {}
