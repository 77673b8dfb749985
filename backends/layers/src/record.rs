//! The layer `record`, which writes every operation with its operands and results to a file.

use crate::recording::{
    Header, Outcome, RecordError, RecordedCall, RecordedOperand, WriteEntries, is_constant,
};
use bb::{
    BoxError, Erased, Error, ErrorKind, InnerBackend, LayerCall, OpenOption, OpenOptions, OptionDefault,
    Outputs, OwnOption,
};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// Writes every operation to a file that [`Replay`](crate::Replay) answers from. An entry contains the operation, its parameters, the
/// element type, shape and hash of each operand, the results or the error, and the duration.
///
/// The layer copies each result to the host, and each operand to compute its hash. Plans call operations by their methods, because a
/// prepared kernel has packed some operands. After each operation, the file is complete.
#[derive(bb::Backend)]
#[bb(delegate = inner, crate = bb)]
pub struct Record<B> {
    inner: B,
    to: Mutex<WriteEntries>,
    path: PathBuf,
}

impl<B: InnerBackend> Record<B> {
    /// Records the operations of a backend.
    ///
    /// # Errors
    ///
    /// [`RecordError::Write`].
    pub fn new(inner: B, path: &Path) -> Result<Record<B>, RecordError> {
        let header = Header::of(&inner);
        let to = WriteEntries::create(path, &header)?;
        Ok(Record { inner, to: Mutex::new(to), path: path.to_path_buf() })
    }

    /// Copies operands to the host and describes them.
    fn described(&self, call: &LayerCall<'_, Self>) -> Result<Vec<Option<RecordedOperand>>, B::Error> {
        let mut operands = Vec::with_capacity(call.operands());
        for index in 0..call.operands() {
            operands.push(match call.operand(index) {
                Some(x) => Some(RecordedOperand::of(&self.inner.to_host(x)?).map_err(Error::from)?),
                None => None,
            });
        }
        Ok(operands)
    }

    /// Writes an operation.
    fn write(&self, entry: &RecordedCall, op: &'static str) -> Result<(), Error> {
        let mut to = self.to.lock().unwrap_or_else(PoisonError::into_inner);
        to.entry(entry, &self.path).map_err(|error| Error::layer("record", op, ErrorKind::Device, error))
    }
}

#[bb::layer]
impl<B: InnerBackend> bb::Layer for Record<B> {
    fn keeps_prepared(&self) -> bool {
        false
    }

    fn operation(&self, call: LayerCall<'_, Self>) -> Result<Outputs<B::Tensor>, B::Error> {
        let spec = call.spec();
        let mut entry = RecordedCall::of(spec, self.described(&call)?, call.params()).map_err(Error::from)?;
        let start = Instant::now();
        let outcome = call.run();
        entry.microseconds = u64::try_from(start.elapsed().as_micros()).unwrap_or(u64::MAX);
        entry.outcome = match &outcome {
            // The elements of a constant come from the caller, so they need not be stored.
            Ok(_) if is_constant(spec) => Outcome::Results(Vec::new()),
            Ok(results) => {
                let mut host = Vec::with_capacity(results.len());
                for y in results {
                    host.push(self.inner.to_host(y)?);
                }
                Outcome::Results(host)
            }
            Err(error) => Outcome::Failed(error.to_string()),
        };
        self.write(&entry, spec.method)?;
        outcome
    }
}

impl bb::RegisteredLayer for Record<Erased> {
    const NAME: &'static str = "record";
    const ABOUT: &'static str = "writes every operation, its operands and its results to a file";
    const OPTIONS: &'static [OpenOption] =
        &[OpenOption::Own(OwnOption::new("to", OptionDefault::Text("bb.recording"), "the file"))];

    fn on(inner: Erased, options: &OpenOptions) -> Result<Self, BoxError> {
        let path: PathBuf = options.own("to")?;
        Ok(Record::new(inner, &path).map_err(|error| crate::refused_file("to", &path, error))?)
    }
}

bb::register_layer!(Record<Erased>);
