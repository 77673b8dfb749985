//! Selects a backend that meets requirements.

use super::{BackendHandle, LinkedBackends};
use crate::service::{Candidate, CandidateList, Doubt, Requirements, Unmet};
use crate::{Error, Primitive};
use bb_ir::{DataType, TensorData};

/// A backend that [`LinkedBackends::find_with_doubts`] found.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Found {
    /// The backend.
    pub backend: BackendHandle,
    /// The requirements that could not be checked. Programs show them as warnings.
    pub doubts: Vec<Doubt>,
}

impl Requirements {
    /// Returns all requirements that a running backend does not meet.
    pub fn unmet(&self, on: &BackendHandle) -> Vec<Unmet> {
        let mut unmet = Vec::new();
        let capabilities = on.runtime().capabilities();
        for &dtype in &self.types {
            // The runtime emulates missing types, but the requirement is that the backend itself supports the type.
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
    /// Returns the requirements that could not be checked, for a running backend that leaves nothing
    /// [`unmet`](Self::unmet).
    pub fn doubts(&self, on: &BackendHandle) -> Vec<Doubt> {
        let memory = self.memory.filter(|_| can_allocate(on).is_none());
        memory.map(|needed| Doubt::Memory { needed }).into_iter().collect()
    }
}

/// Returns the number of bytes that a backend can still allocate, if it reports that.
fn can_allocate(on: &BackendHandle) -> Option<u64> {
    on.memory().and_then(|memory| memory.statistics()).ok()?.can_allocate()
}

/// Checks an element type by copying one element to the backend and back.
fn holds(on: &BackendHandle, dtype: DataType) -> Result<(), Error> {
    /// A limit in bytes that one element of any type fits into.
    const ROOM: usize = 64;
    let one = TensorData::zeros(dtype, &[1], ROOM)?;
    on.runtime().try_call(Primitive::Identity.spec(), &[Some(one)], &[])
}

impl LinkedBackends {
    /// Returns the first backend, by name, that meets all requirements. A backend without doubts is preferred to a
    /// backend with doubts ([`find_with_doubts`](Self::find_with_doubts)).
    ///
    /// # Errors
    ///
    /// [`Error::NoCandidate`] with the unmet requirements of each backend.
    pub fn find(&self, requirements: &Requirements) -> Result<BackendHandle, Error> {
        self.find_with_doubts(requirements).map(|found| found.backend)
    }

    /// Does the same as [`find`](Self::find), and also returns the doubts about the backend.
    ///
    /// # Errors
    ///
    /// The errors of [`find`](Self::find).
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
