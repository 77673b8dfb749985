//! Runs calls on the backend under test.

use super::check::checked;
use super::show::shown;
use super::watch::CurrentCall;
use super::{Call, Subject};
use bb_core::ext::{ErasedError, ErasedTensor};
use bb_core::{Outputs, TensorData};

impl Call {
    /// Copies the operands to the backend and runs the call.
    ///
    /// # Errors
    ///
    /// The backend's own errors.
    pub fn run(&self, on: &Subject<'_>) -> Result<Outputs<ErasedTensor>, ErasedError> {
        let inputs = self.inputs.iter().map(|x| on.constant(x)).collect::<Result<Vec<_>, _>>()?;
        self.run_on(on, &inputs)
    }

    /// Runs the call with these operands, which are already on the backend, instead of the call's own.
    ///
    /// # Errors
    ///
    /// The backend's own errors.
    pub fn run_on(
        &self,
        on: &Subject<'_>,
        inputs: &[ErasedTensor],
    ) -> Result<Outputs<ErasedTensor>, ErasedError> {
        on.note(self.op, inputs.to_vec(), self.params.clone());
        let inputs: Vec<Option<&ErasedTensor>> = inputs.iter().map(Some).collect();
        let call = || bb_core::call::call_primitive(&on.backend(), self.op, &inputs, &self.params);
        on.called(CurrentCall::of(self), call)
    }

    /// Runs the call, checks the types and shapes of the results, and copies them to the host.
    #[track_caller]
    pub(crate) fn expect(&self, on: &Subject<'_>) -> Vec<TensorData> {
        let outputs = self.run(on).unwrap_or_else(|error| on.failed(self, &error));
        self.fetch(on, outputs)
    }

    /// Checks the types and shapes of results, and copies them to the host.
    #[track_caller]
    pub(crate) fn fetch(&self, on: &Subject<'_>, outputs: Outputs<ErasedTensor>) -> Vec<TensorData> {
        let want = self.inferred().unwrap_or_else(|error| panic!("{self} is no valid call: {error}"));
        let call = self.to_string();
        assert!(outputs.len() == want.len(), "{call} {}", wrong_results(outputs.len(), want.len()));
        let pairs = outputs.iter().zip(&want);
        pairs
            .map(|(got, (dtype, shape))| {
                let host = checked(on, got, &call);
                assert!(
                    (host.dtype(), host.shape()) == (*dtype, &shape[..]),
                    "{call}: another type or shape\n  got      {}\n  expected {dtype}{shape:?}",
                    shown(&host)
                );
                host
            })
            .collect()
    }
}

/// Describes a wrong number of results, for a message.
pub(super) fn wrong_results(got: usize, expected: usize) -> String {
    let results = if got == 1 { "result" } else { "results" };
    format!("returned {got} {results}, expected {expected}")
}
