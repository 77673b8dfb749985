//! The file format of a recording: a header, and an entry for each operation.
//!
//! Integers are little-endian. An entry consists of the length of its compact encoding ([`Compact`]),
//! the number of its tensors, the encoding, and the tensors as frames of the wire format.

use bb::ir::op::{Family, OpSpec, Param};
use bb::{DataType, InnerBackend, Primitive, TensorData};
use bb_ir::compact::{Compact, Reader, Writer};
use bb_ir::wire::{self, Checksum};
use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

/// The first bytes of a recording. The last byte is the version of the format.
const MAGIC: [u8; 8] = *b"bbrecor\x01";

/// An error while writing a recording.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The file cannot be written.
    #[error("cannot write the recording `{}`", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// A tensor cannot be encoded.
    #[error(transparent)]
    Ir(#[from] bb_ir::Error),
}

/// An error while reading or replaying a recording.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// The file cannot be read.
    #[error("cannot read the recording `{}`", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// The file is not a recording, or is damaged.
    #[error("`{}` is no recording, or it is damaged", path.display())]
    Form {
        /// The file.
        path: PathBuf,
    },
    /// Another version of `bb` created the recording.
    #[error("the recording is of version {got} of `bb`, and this is {expected}: record it again")]
    Version {
        /// The version of this program.
        expected: String,
        /// The version that created the recording.
        got: String,
    },
    /// No remaining recorded call matches.
    #[error("call {number} differs: expected {expected}, got {got}")]
    Differs {
        /// The sequence number of the first recorded call that has not been made, counted from 1.
        number: usize,
        /// The recorded call.
        expected: String,
        /// The actual call.
        got: String,
    },
    /// All recorded calls have already been made.
    #[error("the recording has {calls} calls; one more came: {got}")]
    Ended {
        /// The number of recorded calls.
        calls: usize,
        /// The actual call.
        got: String,
    },
    /// The recorded call failed.
    #[error("{message}")]
    Failed {
        /// The recorded message.
        message: String,
    },
    /// A tensor in the file is damaged.
    #[error(transparent)]
    Ir(#[from] bb_ir::Error),
}

/// Returns whether an operation is `constant`, whose parameter contains its elements.
pub(crate) fn is_constant(spec: &OpSpec) -> bool {
    spec == Primitive::Constant.spec()
}

/// The header of a recording: versions, and the backend properties that affect plans.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Header {
    /// The version of `bb`.
    pub(crate) bb: String,
    /// The version of the backend.
    pub(crate) backend: String,
    pub(crate) types: Vec<DataType>,
    pub(crate) natives: Vec<Native>,
}

/// A native operation, identified by its family and method.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Native {
    pub(crate) family: String,
    pub(crate) method: String,
}

bb_ir::__compact!(struct Header { bb, backend, types, natives });
bb_ir::__compact!(struct Native { family, method });

/// A recorded operation.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RecordedCall {
    pub(crate) family: String,
    pub(crate) method: String,
    pub(crate) operands: Vec<Option<RecordedOperand>>,
    pub(crate) params: Vec<Param<'static>>,
    pub(crate) outcome: Outcome,
    pub(crate) microseconds: u64,
}

/// An operand, identified by its type, its shape and a hash of its elements.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RecordedOperand {
    pub(crate) dtype: DataType,
    pub(crate) shape: Vec<usize>,
    pub(crate) hash: u64,
}

/// The outcome of an operation.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Outcome {
    Results(Vec<TensorData>),
    Failed(String),
}

bb_ir::__compact!(struct RecordedCall { family, method, operands, params, outcome, microseconds });
bb_ir::__compact!(struct RecordedOperand { dtype, shape, hash });
bb_ir::__compact!(enum Outcome: "an outcome" { 0 => Results(v), 1 => Failed(v) });

impl Header {
    pub(crate) fn of<B: InnerBackend>(on: &B) -> Header {
        let natives = on.natives().into_iter().flat_map(|(family, set)| {
            let rows = bb::layer::rows(family).into_iter().filter(move |spec| set.contains(spec.index));
            rows.map(|spec| Native { family: spec.family.name().to_owned(), method: spec.method.to_owned() })
        });
        Header {
            bb: env!("CARGO_PKG_VERSION").to_owned(),
            backend: on.version().to_owned(),
            types: on.types().iter().collect(),
            natives: natives.collect(),
        }
    }
}

impl RecordedOperand {
    pub(crate) fn of(x: &TensorData) -> Result<RecordedOperand, bb_ir::Error> {
        let mut hash = Fnv::new();
        match x.dtype() {
            DataType::String => x.iter_bytes().for_each(|text| {
                hash.bytes(&(text.len() as u64).to_le_bytes());
                hash.bytes(text);
            }),
            _ => hash.bytes(x.bytes()?),
        }
        Ok(RecordedOperand { dtype: x.dtype(), shape: x.shape().to_vec(), hash: hash.0 })
    }
}

/// The 64-bit FNV-1a hash.
///
/// Source: Fowler, Noll and Vo, "The FNV Non-Cryptographic Hash Algorithm".
struct Fnv(u64);

impl Fnv {
    fn new() -> Fnv {
        Fnv(0xcbf2_9ce4_8422_2325)
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.0 =
            bytes.iter().fold(self.0, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3));
    }
}

impl RecordedCall {
    /// Describes a call. The elements of a constant are hashed like an operand, and not stored.
    pub(crate) fn of(
        spec: &OpSpec,
        operands: Vec<Option<RecordedOperand>>,
        params: &[Param<'_>],
    ) -> Result<RecordedCall, bb_ir::Error> {
        let (operands, params) = match params {
            [Param::Data(data)] if is_constant(spec) => (vec![Some(RecordedOperand::of(data)?)], Vec::new()),
            _ => (operands, params.iter().cloned().map(Param::into_owned).collect()),
        };
        Ok(RecordedCall {
            family: spec.family.name().to_owned(),
            method: spec.method.to_owned(),
            operands,
            params,
            outcome: Outcome::Results(Vec::new()),
            microseconds: 0,
        })
    }

    /// Returns whether another call has the same operation, operands and parameters.
    pub(crate) fn is_call(&self, other: &RecordedCall) -> bool {
        self.family == other.family
            && self.method == other.method
            && self.operands == other.operands
            && self.params == other.params
    }
}

impl std::fmt::Display for RecordedCall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}(", self.method)?;
        for (index, operand) in self.operands.iter().enumerate() {
            f.write_str(if index == 0 { "" } else { ", " })?;
            match operand {
                Some(RecordedOperand { dtype, shape, hash }) => write!(f, "{dtype}{shape:?} #{hash:016x}")?,
                None => f.write_str("-")?,
            }
        }
        for param in &self.params {
            write!(f, "; {param:?}")?;
        }
        f.write_str(")")
    }
}

/// Writes a recording.
pub(crate) struct WriteEntries(BufWriter<File>);

impl WriteEntries {
    pub(crate) fn create(path: &Path, header: &Header) -> Result<WriteEntries, RecordError> {
        let failed = |source| RecordError::Write { path: path.to_path_buf(), source };
        let mut to = BufWriter::new(File::create(path).map_err(failed)?);
        to.write_all(&MAGIC).map_err(failed)?;
        let mut entries = WriteEntries(to);
        entries.form(header, path)?;
        Ok(entries)
    }

    pub(crate) fn entry(&mut self, entry: &RecordedCall, path: &Path) -> Result<(), RecordError> {
        self.form(entry, path)
    }

    fn form(&mut self, value: &impl Compact, path: &Path) -> Result<(), RecordError> {
        let failed = |source| RecordError::Write { path: path.to_path_buf(), source };
        let mut form = Writer::default();
        value.write(&mut form);
        let lengths = [form.as_bytes().len() as u64, form.tensors().len() as u64];
        for length in lengths {
            self.0.write_all(&length.to_le_bytes()).map_err(failed)?;
        }
        self.0.write_all(form.as_bytes()).map_err(failed)?;
        for x in form.tensors() {
            wire::write(&mut self.0, x, Checksum::All)?;
        }
        self.0.flush().map_err(failed)
    }
}

/// Reads a recording within limits. A length in the file never causes an allocation larger than the
/// file.
pub(crate) fn read(path: &Path, limits: &bb::Limits) -> Result<(Header, Vec<RecordedCall>), ReplayError> {
    let failed = |source| ReplayError::Read { path: path.to_path_buf(), source };
    let file = File::open(path).map_err(failed)?;
    let size = file.metadata().map_err(failed)?.len();
    let mut from = BufReader::new(file);
    let mut magic = [0; 8];
    from.read_exact(&mut magic).map_err(failed)?;
    if magic != MAGIC {
        return Err(ReplayError::Form { path: path.to_path_buf() });
    }
    let header: Header =
        form(&mut from, size, limits, path)?.ok_or_else(|| ReplayError::Form { path: path.to_path_buf() })?;
    let mut entries = Vec::new();
    while let Some(entry) = form(&mut from, size, limits, path)? {
        entries.push(entry);
    }
    Ok((header, entries))
}

/// Decodes a value; `None` at the end of the file.
fn form<T: Compact>(
    from: &mut BufReader<File>,
    size: u64,
    limits: &bb::Limits,
    path: &Path,
) -> Result<Option<T>, ReplayError> {
    let failed = |source| ReplayError::Read { path: path.to_path_buf(), source };
    let damaged = || ReplayError::Form { path: path.to_path_buf() };
    let mut lengths = [[0u8; 8]; 2];
    let first = from.read(&mut lengths[0]).map_err(failed)?;
    if first == 0 {
        return Ok(None);
    }
    from.read_exact(lengths[0].get_mut(first..).unwrap_or_default()).map_err(failed)?;
    from.read_exact(&mut lengths[1]).map_err(failed)?;
    let [bytes, tensors] = lengths.map(u64::from_le_bytes);
    if bytes > size || tensors > size {
        return Err(damaged());
    }
    let mut form = Vec::new();
    from.take(bytes).read_to_end(&mut form).map_err(failed)?;
    let mut read = Vec::new();
    for _ in 0..tensors {
        let limit = usize::try_from(size).unwrap_or(usize::MAX);
        read.push(wire::read(from, limit)?.ok_or_else(damaged)?);
    }
    let mut reader = Reader::new(&form, &read, limits);
    let value = T::read(&mut reader)?;
    if reader.position() != form.len() {
        return Err(damaged());
    }
    Ok(Some(value))
}

/// Returns the family of an operation and its index in the family, looked up by family name and method
/// name.
pub(crate) fn native(of: &Native) -> Option<(Family, u16)> {
    let spec = bb::operation(&of.method).ok().filter(|spec| spec.family.name() == of.family)?;
    Some((spec.family, spec.index))
}
