//! Selection of a backend by its abilities.

use crate::runtime::LinkedBackends;
use crate::{BackendHandle, Error, Primitive};
use bb_ir::op::{Family, OpSpec};
use bb_ir::text::sentence;
use bb_ir::{DataType, TensorData};

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

/// A backend that meets requirements: [`LinkedBackends::find_with_doubts`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Found {
    /// The backend.
    pub backend: BackendHandle,
    /// What is not certain, as warnings for people.
    pub doubts: Vec<Doubt>,
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

impl Requirements {
    /// Returns everything that a running backend does not meet.
    pub fn unmet(&self, on: &BackendHandle) -> Vec<Unmet> {
        let mut unmet = Vec::new();
        let capabilities = on.runtime().capabilities();
        for &dtype in &self.types {
            // The runtime emulates missing types with other types or on the host, but the requirement is that the
            // backend has the type.
            if !capabilities.types.has(dtype) {
                let reason = format!("it has {}", capabilities.types);
                unmet.push(Unmet::Type { dtype, reason });
            } else if let Err(error) = holds(on, dtype) {
                unmet.push(Unmet::Type { dtype, reason: crate::error::causes(&error) });
            }
        }
        for &family in &self.families {
            let missing: Vec<&'static str> = crate::ext::rows(family)
                .into_iter()
                .filter(|row| !capabilities.is_native(family, row.index))
                .map(|row| row.method)
                .collect();
            if !missing.is_empty() {
                unmet.push(Unmet::Family { family, missing });
            }
        }
        let missing = self.operations.iter().filter(|op| !capabilities.is_native(op.family, op.index));
        unmet.extend(missing.map(|op| Unmet::Operation(op.method)));
        if let Some(needed) = self.memory {
            match can_allocate(on) {
                Some(available) if available < needed => unmet.push(Unmet::Memory { needed, available }),
                Some(_) | None => {}
            }
        }
        if self.asynchronous && !on.runtime().is_asynchronous() {
            unmet.push(Unmet::Synchronous);
        }
        unmet
    }
}

impl Requirements {
    /// Returns the uncertainties about a running backend that leaves nothing [`unmet`](Self::unmet).
    pub fn doubts(&self, on: &BackendHandle) -> Vec<Doubt> {
        let memory = self.memory.filter(|_| can_allocate(on).is_none());
        memory.map(|needed| Doubt::Memory { needed }).into_iter().collect()
    }
}

/// Returns how many bytes a backend can allocate, if it reports that.
fn can_allocate(on: &BackendHandle) -> Option<u64> {
    on.memory().and_then(|memory| memory.statistics()).ok()?.can_allocate()
}

/// Copies an element to the backend and back.
fn holds(on: &BackendHandle, dtype: DataType) -> Result<(), Error> {
    /// More than an element of any type.
    const ROOM: usize = 64;
    let one = TensorData::zeros(dtype, &[1], ROOM)?;
    on.runtime().try_call(Primitive::Identity.spec(), &[Some(one)], &[])
}

impl LinkedBackends {
    /// Returns the first backend, by name, that meets all requirements. A backend that certainly meets them goes before
    /// one with doubts ([`find_with_doubts`](Self::find_with_doubts)).
    ///
    /// # Errors
    ///
    /// [`Error::NoCandidate`] with the reasons of each backend.
    pub fn find(&self, requirements: &Requirements) -> Result<BackendHandle, Error> {
        self.find_with_doubts(requirements).map(|found| found.backend)
    }

    /// Returns the result of [`find`](Self::find), with its doubts.
    ///
    /// # Errors
    ///
    /// As [`find`](Self::find).
    pub fn find_with_doubts(&self, requirements: &Requirements) -> Result<Found, Error> {
        let (mut candidates, mut doubtful) = (Vec::new(), None);
        for linked in self.iter() {
            let unmet = match &linked.backend {
                Ok(handle) => match requirements.unmet(handle) {
                    unmet if unmet.is_empty() => {
                        let found = Found { backend: handle.clone(), doubts: requirements.doubts(handle) };
                        if found.doubts.is_empty() {
                            return Ok(found);
                        }
                        doubtful = doubtful.or(Some(found));
                        continue;
                    }
                    unmet => unmet,
                },
                Err(error) => vec![Unmet::Unavailable(crate::error::causes(error))],
            };
            candidates.push(Candidate { backend: linked.name, unmet });
        }
        doubtful.ok_or(Error::NoCandidate { candidates: CandidateList(candidates) })
    }
}
