//! Computations on host tensors that primitives cannot express. Plans run each of them as one step.

use crate::error::Internal;
use crate::{Backend, Error, Outputs, RunOptions};
use bb_ir::TensorData;
use bb_ir::op::Param;

/// A function that computes results from operands and parameters. An omitted operand is `None`.
pub type HostRun = fn(&[Option<&TensorData>], &[Param<'_>]) -> Result<Vec<TensorData>, Error>;

/// A computation on host tensors: the default body of an operation that cannot be composed of primitives.
#[derive(Debug, Clone, Copy)]
pub struct HostKernel {
    /// The name in plans and errors, for example `top_k`. It is unique.
    pub name: &'static str,
    /// Whether two runs on the same operands may return different results. If so, results must not be reused.
    pub random: bool,
    /// The function that computes.
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

/// Returns the operands of a host kernel that takes exactly `N` operands.
///
/// # Errors
///
/// [`Internal::Count`] if the number of operands differs or an operand is omitted, because the caller must pass all
/// of them.
pub fn operands<'a, const N: usize>(
    kernel: &'static str,
    inputs: &[Option<&'a TensorData>],
) -> Result<[&'a TensorData; N], Error> {
    let given: Vec<&TensorData> = inputs.iter().flatten().copied().collect();
    let got = given.len();
    given.try_into().map_err(|_| Error::Internal(Internal::Count { what: kernel, expected: N, got }))
}

/// Copies operands to the host, computes, and copies the results back.
///
/// # Errors
///
/// The errors of the body and of the backend.
pub(crate) fn run<B: Backend + ?Sized>(
    on: &B,
    body: &HostKernel,
    inputs: &[Option<&B::Tensor>],
    params: &[Param<'_>],
) -> Result<Outputs<B::Tensor>, B::Error> {
    run_checked(on, body, inputs, params, |_| Ok(()))
}

/// Runs a host kernel like [`run`], and calls `check` on the results before they are copied back.
///
/// # Errors
///
/// The errors of [`run`] and of `check`.
pub(crate) fn run_checked<B: Backend + ?Sized>(
    on: &B,
    body: &HostKernel,
    inputs: &[Option<&B::Tensor>],
    params: &[Param<'_>],
    check: impl FnOnce(&[TensorData]) -> Result<(), Error>,
) -> Result<Outputs<B::Tensor>, B::Error> {
    let operands: Vec<Option<TensorData>> =
        inputs.iter().map(|x| x.map(|x| on.to_host(x)).transpose()).collect::<Result<_, _>>()?;
    let refs: Vec<Option<&TensorData>> = operands.iter().map(Option::as_ref).collect();
    let results = RunOptions::paced(|| (body.run)(&refs, params))??;
    drop(operands);
    check(&results)?;
    results.iter().map(|y| on.constant(y)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_without_one_of_its_operands_is_an_internal_error() {
        let x = TensorData::scalar(1f32);
        assert!(operands::<2>("pair", &[Some(&x), Some(&x)]).is_ok());
        for inputs in [&[Some(&x)][..], &[Some(&x), None], &[Some(&x); 3]] {
            let got = inputs.iter().flatten().count();
            let expected = Internal::Count { what: "pair", expected: 2, got };
            assert!(
                matches!(operands::<2>("pair", inputs), Err(Error::Internal(found)) if found == expected)
            );
        }
    }
}
