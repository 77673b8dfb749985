//! Compares and decodes the fingerprints of peers.

use crate::Error;
use crate::service::{DifferenceList, Fingerprint};

impl Fingerprint {
    /// Compares another fingerprint with this one.
    ///
    /// # Errors
    ///
    /// [`Error::Fingerprint`] with the differences. `of` names the owner of the other fingerprint.
    pub fn check(&self, other: &Fingerprint, of: &'static str) -> Result<(), Error> {
        match self.differences(other) {
            found if found.is_empty() => Ok(()),
            found => Err(Error::Fingerprint { of, differences: DifferenceList(found) }),
        }
    }

    /// Decodes the fingerprint that a peer sent.
    ///
    /// # Errors
    ///
    /// [`Error::PeerFingerprint`] if the bytes are not a fingerprint.
    pub fn from_bytes(bytes: &[u8]) -> Result<Fingerprint, Error> {
        Fingerprint::parse(bytes).map_err(|source| Error::PeerFingerprint { source })
    }
}
