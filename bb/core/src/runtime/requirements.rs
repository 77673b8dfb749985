//! Selection of a backend by its abilities.

use super::{BackendHandle, LinkedBackends};
use crate::service::{Candidate, CandidateList, Doubt, Requirements, Unmet};
use crate::{Error, Primitive};
use bb_ir::{DataType, TensorData};

/// A backend that meets requirements: [`LinkedBackends::find_with_doubts`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Found {
    /// The backend.
    pub backend: BackendHandle,
    /// Requirements that could not be checked, as warnings for people.
    pub doubts: Vec<Doubt>,
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
