//! What no primitive can say: computations on host tensors, which plans run as steps of their own.

use crate::{Backend, Error, Outputs};
use bb_ir::TensorData;
use bb_ir::op::Param;

/// Computes results from operands, `None` where one is left out, and parameters.
pub type HostRun = fn(&[Option<&TensorData>], &[Param<'_>]) -> Result<Vec<TensorData>, Error>;

/// A computation on host tensors: the default body of an operation that is no composition of primitives.
#[derive(Debug, Clone, Copy)]
pub struct HostKernel {
    /// The name in plans and errors, as in `top_k`; no two bodies share one.
    pub name: &'static str,
    /// Whether two runs on the same operands may differ, so that no run may stand for another.
    pub random: bool,
    /// What computes.
    pub run: HostRun,
}

impl PartialEq for HostKernel {
    fn eq(&self, other: &HostKernel) -> bool {
        self.name == other.name
    }
}

impl Eq for HostKernel {}

impl std::hash::Hash for HostKernel {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

/// Copies operands to the host, computes, and copies the results back.
///
/// # Errors
///
/// The body's own, and the backend's.
pub(crate) fn run<B: Backend + ?Sized>(
    on: &B,
    body: &HostKernel,
    inputs: &[Option<&B::Tensor>],
    params: &[Param<'_>],
) -> Result<Outputs<B::Tensor>, B::Error> {
    let operands: Vec<Option<TensorData>> =
        inputs.iter().map(|x| x.map(|x| on.to_host(x)).transpose()).collect::<Result<_, _>>()?;
    let refs: Vec<Option<&TensorData>> = operands.iter().map(Option::as_ref).collect();
    (body.run)(&refs, params)?.iter().map(|y| on.constant(y)).collect()
}
