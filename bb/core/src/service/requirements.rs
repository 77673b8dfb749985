//! Requirements of a program on a backend, and the reasons why a backend does not meet them.

use bb_ir::DataType;
use bb_ir::op::{Family, OpSpec};
use bb_ir::text::sentence;

/// A program's requirements on a backend. The default requires nothing.
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
    /// The element types that the backend itself must support, without emulation.
    pub types: Vec<DataType>,
    /// The families whose operations must all be native.
    pub families: Vec<Family>,
    /// The operations that must be native.
    pub operations: Vec<&'static OpSpec>,
    /// The number of bytes that the backend must be able to allocate. Many devices do not report this; then the
    /// backend meets the requirement with a [`Doubt`].
    pub memory: Option<u64>,
    /// Whether calls must return before the device has finished computing.
    pub asynchronous: bool,
}

/// The reason why a backend does not meet the requirements.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unmet {
    /// The backend cannot be opened, or was shut down.
    #[error("it is not available: {0}")]
    Unavailable(String),

    /// The backend does not support an element type.
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

    /// The backend cannot allocate enough memory.
    #[error("it can allocate {available} bytes of the {needed} that are needed")]
    Memory {
        /// The bytes needed.
        needed: u64,
        /// The bytes available.
        available: u64,
    },

    /// The backend's calls return only after the computation has finished.
    #[error("its calls return only when they have computed")]
    Synchronous,
}

/// A requirement that could not be checked, because the backend does not report the information.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Doubt {
    /// The backend does not report how much memory it can allocate.
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
    /// All requirements that the backend does not meet.
    pub unmet: Vec<Unmet>,
}

/// The backends that do not meet the requirements, sorted by name.
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
