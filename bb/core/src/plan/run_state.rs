//! The limits of a run: the bytes of its values, the iterations of its loops, and its deadline.

use crate::contract::{RunOptions, bytes_of, tensor_bytes, too_large};
use crate::{CompileOptions, Error, Tensor};
use bb_ir::{DataType, TensorData};

/// The limits of the runs of a program.
#[derive(Debug, Clone, Copy)]
pub(super) struct RunLimits {
    /// The maximum number of bytes of one value.
    value_bytes: usize,
    /// The maximum number of bytes of all values that exist at the same time.
    run_bytes: usize,
    /// The maximum number of iterations of all loops together.
    iterations: usize,
}

impl RunLimits {
    pub(super) fn new(options: &CompileOptions) -> RunLimits {
        let CompileOptions { value_bytes, run_bytes, iterations, .. } = *options;
        RunLimits { value_bytes, run_bytes, iterations }
    }
}

/// A run in progress.
#[derive(Debug)]
pub(super) struct RunState {
    pub(super) ledger: Ledger,
    /// The deadline and cancellation of the run, looked up once.
    options: RunOptions,
    iterations: usize,
    limits: RunLimits,
}

impl RunState {
    /// Begins a run on this thread.
    pub(super) fn new(limits: RunLimits) -> RunState {
        let RunLimits { value_bytes, run_bytes, .. } = limits;
        RunState {
            ledger: Ledger::new(value_bytes, run_bytes),
            options: RunOptions::current(),
            iterations: 0,
            limits,
        }
    }

    /// Checks whether the run must end.
    ///
    /// # Errors
    ///
    /// [`Error::DeadlineExceeded`] and [`Error::Cancelled`].
    #[inline]
    pub(super) fn go_on(&self) -> Result<(), Error> {
        self.options.check()
    }

    /// Counts one iteration of a loop.
    ///
    /// # Errors
    ///
    /// [`bb_ir::Error::Limit`] if there are too many iterations.
    pub(super) fn iterate(&mut self) -> Result<(), Error> {
        self.iterations += 1;
        let (got, limit) = (self.iterations, self.limits.iterations);
        if got > limit {
            let (what, name) = ("iterations of loops", Some("iterations"));
            return Err(Error::from(bb_ir::Error::Limit { what, name, got, limit }));
        }
        Ok(())
    }
}

/// The bytes of the values of a run that exist at the same time, and their limits.
#[derive(Debug)]
pub(super) struct Ledger {
    /// The maximum number of bytes of one value.
    value_bytes: usize,
    /// The maximum number of bytes of all values.
    run_bytes: usize,
    /// The bytes that the frames of all loops keep while other segments run.
    kept: usize,
    /// The bytes of strings that host computations created. When strings are freed is not known, so these bytes count until the
    /// run ends.
    texts: usize,
    /// The bytes of the values of the running segment.
    live: usize,
}

impl Ledger {
    pub(super) fn new(value_bytes: usize, run_bytes: usize) -> Ledger {
        Ledger { value_bytes, run_bytes, kept: 0, texts: 0, live: 0 }
    }

    /// Returns the maximum number of bytes of one value.
    pub(super) fn value_bytes(&self) -> usize {
        self.value_bytes
    }

    /// Begins a segment with its input tensors.
    ///
    /// # Errors
    ///
    /// [`bb_ir::Error::Limit`] if there are too many bytes.
    pub(super) fn begin<'t, T: Tensor + 't>(
        &mut self,
        inputs: impl IntoIterator<Item = &'t T>,
    ) -> Result<(), Error> {
        self.live = 0;
        self.add(inputs.into_iter().map(tensor_bytes).fold(0, usize::saturating_add))
    }

    /// Returns whether the total stays within the limit if this number of bytes is added.
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        self.total().checked_add(bytes).is_some_and(|total| total <= self.run_bytes)
    }

    /// Adds the size of a result to the total of the run, and returns the size in bytes.
    ///
    /// # Errors
    ///
    /// [`bb_ir::Error::Limit`] and [`bb_ir::Error::TooLarge`] if the result has too many bytes.
    #[inline]
    pub(super) fn result<T: Tensor>(&mut self, result: &T) -> Result<usize, Error> {
        let bytes = bytes_of(result.dtype(), result.shape());
        if bytes > self.value_bytes {
            return Err(too_large(result.dtype(), result.shape(), self.value_bytes));
        }
        self.add(bytes)?;
        Ok(bytes)
    }

    /// Adds bytes to the running segment.
    ///
    /// # Errors
    ///
    /// [`bb_ir::Error::Limit`] if the total exceeds the limit.
    #[inline]
    pub(super) fn add(&mut self, bytes: usize) -> Result<(), Error> {
        self.live = self.live.saturating_add(bytes);
        self.check()
    }

    /// Subtracts bytes that are no longer used.
    #[inline]
    pub(super) fn free(&mut self, bytes: usize) {
        self.live = self.live.saturating_sub(bytes);
    }

    /// Checks results that were computed on the host, and counts their strings. The lengths of strings are known only on the
    /// host.
    ///
    /// # Errors
    ///
    /// [`bb_ir::Error::Limit`] and [`bb_ir::Error::TooLarge`] if there are too many bytes.
    pub(super) fn host<'t>(
        &mut self,
        results: impl IntoIterator<Item = &'t TensorData>,
    ) -> Result<(), Error> {
        for data in results {
            if data.byte_len() > self.value_bytes {
                return Err(too_large(data.dtype(), data.shape(), self.value_bytes));
            }
            if data.dtype() == DataType::String {
                self.texts = self.texts.saturating_add(data.byte_len());
            }
        }
        self.check()
    }

    /// Updates the bytes that loops keep while other segments run: `before` is replaced by `after`.
    ///
    /// # Errors
    ///
    /// [`bb_ir::Error::Limit`] if the total exceeds the limit.
    pub(super) fn keep(&mut self, before: usize, after: usize) -> Result<(), Error> {
        self.kept = self.kept.saturating_sub(before).saturating_add(after);
        self.check()
    }

    fn total(&self) -> usize {
        self.kept.saturating_add(self.texts).saturating_add(self.live)
    }

    #[inline]
    fn check(&self) -> Result<(), Error> {
        if self.total() > self.run_bytes {
            return Err(self.exceeded());
        }
        Ok(())
    }

    #[cold]
    fn exceeded(&self) -> Error {
        let (what, name) = ("bytes of the values of a run that exist at the same time", Some("run_bytes"));
        Error::from(bb_ir::Error::Limit { what, name, limit: self.run_bytes, got: self.total() })
    }
}
