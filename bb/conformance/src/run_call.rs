//! Running calls on the backend under test.

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

    /// Runs the call on these operands of the backend instead of the call's own.
    ///
    /// # Errors
    ///
    /// The backend's own errors.
    pub fn run_on(
        &self,
        on: &Subject<'_>,
        inputs: &[ErasedTensor],
    ) -> Result<Outputs<ErasedTensor>, ErasedError> {
        let inputs: Vec<Option<&ErasedTensor>> = inputs.iter().map(Some).collect();
        let call = || bb_core::call::call_primitive(&on.backend(), self.op, &inputs, &self.params);
        on.called(&|| self.to_string(), call)
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
        assert_eq!(outputs.len(), want.len(), "{self}: the number of results");
        let pairs = outputs.iter().zip(&want);
        pairs
            .map(|(got, (dtype, shape))| {
                let claimed = (bb_core::Tensor::dtype(got), bb_core::Tensor::shape(got));
                assert_eq!(claimed, (*dtype, &shape[..]), "{self}: what the result claims");
                let host = on.fetch(got);
                assert_eq!(
                    (host.dtype(), host.shape()),
                    (*dtype, &shape[..]),
                    "{self}: what `to_host` gives"
                );
                host
            })
            .collect()
    }
}
