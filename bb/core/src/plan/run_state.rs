//! What a run must keep to: how much its values may take, how often its loops may repeat, and when it must end.

use crate::contract::{RunOptions, bytes_of, too_large};
use crate::{CompileOptions, Error, Tensor};
use bb_ir::{DataType, TensorData};

/// The limits of the runs of a program.
#[derive(Debug, Clone, Copy)]
pub(super) struct RunLimits {
    /// The most bytes of one value.
    value_bytes: usize,
    /// The most bytes of all values that exist at the same time.
    run_bytes: usize,
    /// The most iterations that all repetitions may take together.
    iterations: usize,
}

impl RunLimits {
    pub(super) fn new(options: &CompileOptions) -> RunLimits {
        let CompileOptions { value_bytes, run_bytes, iterations, .. } = *options;
        RunLimits { value_bytes, run_bytes, iterations }
    }
}

/// A run under way.
#[derive(Debug)]
pub(super) struct RunState {
    pub(super) ledger: Ledger,
    /// Who may end the run; looked up once for all.
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

    /// Returns whether the run must end.
    ///
    /// # Errors
    ///
    /// [`Error::DeadlineExceeded`] and [`Error::Cancelled`].
    #[inline]
    pub(super) fn go_on(&self) -> Result<(), Error> {
        self.options.check()
    }

    /// Counts an iteration of a loop.
    ///
    /// # Errors
    ///
    /// [`bb_ir::Error::Limit`] if there are too many.
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

/// What a tensor takes beside its elements. Without it, a sequence of a million tensors without elements would take nothing.
const TENSOR: usize = 64;

/// The bytes of the values of a run that exist at the same time, and how many there may be.
#[derive(Debug)]
pub(super) struct Ledger {
    /// The most bytes of one value.
    value_bytes: usize,
    /// The most bytes of all values.
    run_bytes: usize,
    /// The bytes of what is kept while other segments run, frame by frame.
    kept: usize,
    /// The texts that computations on the host made. Nobody knows which of them still exist, so they count until the end.
    texts: usize,
    /// The bytes of the values of the segment that runs.
    live: usize,
}

impl Ledger {
    pub(super) fn new(value_bytes: usize, run_bytes: usize) -> Ledger {
        Ledger { value_bytes, run_bytes, kept: 0, texts: 0, live: 0 }
    }

    /// Returns the most bytes that a value may have.
    pub(super) fn value_bytes(&self) -> usize {
        self.value_bytes
    }

    /// Begins a segment with the tensors that go into it.
    ///
    /// # Errors
    ///
    /// [`bb_ir::Error::Limit`] if there are too many bytes.
    pub(super) fn begin<'t, T: Tensor + 't>(
        &mut self,
        inputs: impl IntoIterator<Item = &'t T>,
    ) -> Result<(), Error> {
        self.live = 0;
        self.add(inputs.into_iter().map(taken).fold(0, usize::saturating_add))
    }

    /// Returns whether these further bytes are within the limit.
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        self.total().checked_add(bytes).is_some_and(|total| total <= self.run_bytes)
    }

    /// Counts a result, and returns its bytes.
    ///
    /// # Errors
    ///
    /// [`bb_ir::Error::Limit`] and [`bb_ir::Error::TooLarge`] if it has too many.
    #[inline]
    pub(super) fn result<T: Tensor>(&mut self, result: &T) -> Result<usize, Error> {
        let bytes = bytes_of(result.dtype(), result.shape());
        if bytes > self.value_bytes {
            return Err(too_large(result.dtype(), result.shape(), self.value_bytes));
        }
        self.add(bytes)?;
        Ok(bytes)
    }

    /// Counts bytes of the segment that runs.
    ///
    /// # Errors
    ///
    /// [`bb_ir::Error::Limit`] if there are too many.
    #[inline]
    pub(super) fn add(&mut self, bytes: usize) -> Result<(), Error> {
        self.live = self.live.saturating_add(bytes);
        self.check()
    }

    /// Counts bytes that exist no more.
    #[inline]
    pub(super) fn free(&mut self, bytes: usize) {
        self.live = self.live.saturating_sub(bytes);
    }

    /// Checks results that were computed on the host, and counts their texts, which only the host can count.
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

    /// Counts what is kept while other segments run: `before` bytes become `after`.
    ///
    /// # Errors
    ///
    /// [`bb_ir::Error::Limit`] if there are too many.
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

/// Returns what a tensor takes.
pub(super) fn taken<T: Tensor>(x: &T) -> usize {
    bytes_of(x.dtype(), x.shape()).saturating_add(TENSOR)
}
