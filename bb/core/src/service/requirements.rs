//! Requirements of a program on a backend, and why a backend does not meet them.

use bb_ir::DataType;
use bb_ir::op::{Family, OpSpec};
use bb_ir::text::sentence;

/// A program's requirements on a backend. The default has none.
///
/// # Examples
///
/// ```no_run
/// # fn main() -> Result<(), bb::Error> {
/// use bb::{DataType, ir::op::Family, services::Requirements};
/// let found = bb::linked_backends()?.find(&Requirements {
///     types: vec![DataType::F16],
///     families: vec![Family::Quant],
///     ..Requirements::default()
/// })?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Requirements {
    /// Element types that the backend itself must have: it holds their tensors and copies them back.
    pub types: Vec<DataType>,
    /// Families all of whose operations must be native.
    pub families: Vec<Family>,
    /// Operations that must be native.
    pub operations: Vec<&'static OpSpec>,
    /// The number of bytes that the backend must be able to allocate. A backend that does not report how much it can
    /// allocate meets this with a [`Doubt`], because many devices do not report it.
    pub memory: Option<u64>,
    /// Whether calls must return before the device has computed.
    pub asynchronous: bool,
}

/// The reason that a backend does not meet the requirements.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unmet {
    /// It cannot be opened, or was shut down.
    #[error("it is not available: {0}")]
    Unavailable(String),

    /// It does not hold tensors of an element type.
    #[error("it does not hold {dtype}: {reason}", reason = sentence(.reason))]
    Type {
        /// The element type.
        dtype: DataType,
        /// The backend's reason.
        reason: String,
    },

    /// Operations of a family are not native.
    #[error("of `{}`, these are not native: {}", .family.name(), .missing.join(", "))]
    Family {
        /// The family.
        family: Family,
        /// The operations that are not native.
        missing: Vec<&'static str>,
    },

    /// An operation is not native.
    #[error("`{0}` is not native")]
    Operation(&'static str),

    /// It has too little memory.
    #[error("it can allocate {available} bytes of the {needed} that are needed")]
    Memory {
        /// The bytes needed.
        needed: u64,
        /// The bytes available.
        available: u64,
    },

    /// Its calls return only when they have computed.
    #[error("its calls return only when they have computed")]
    Synchronous,
}

/// An uncertainty about a backend that meets the requirements as far as it reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Doubt {
    /// It does not report how much memory it can allocate.
    #[error("it does not tell whether it can allocate the {needed} bytes that are needed")]
    Memory {
        /// The bytes needed.
        needed: u64,
    },
}

/// A backend that does not meet the requirements.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// The backend's name.
    pub backend: &'static str,
    /// Everything that it does not meet.
    pub unmet: Vec<Unmet>,
}

/// The backends that do not meet the requirements, by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CandidateList(pub Vec<Candidate>);

impl std::fmt::Display for CandidateList {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.0.is_empty() {
            return f.write_str("none is linked");
        }
        for (i, Candidate { backend, unmet }) in self.0.iter().enumerate() {
            let reasons: Vec<String> = unmet.iter().map(Unmet::to_string).collect();
            write!(f, "{}`{backend}`: {}", if i == 0 { "" } else { "; " }, reasons.join(", "))?;
        }
        Ok(())
    }
}
