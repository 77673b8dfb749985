//! Comparison and decoding of fingerprints of peers.

use crate::Error;
use crate::service::{DifferenceList, Fingerprint};

impl Fingerprint {
    /// Compares the fingerprint of another side with this one.
    ///
    /// # Errors
    ///
    /// [`Error::Fingerprint`] with what differs. `of` says whose the other fingerprint is.
    pub fn check(&self, other: &Fingerprint, of: &'static str) -> Result<(), Error> {
        match self.differences(other) {
            found if found.is_empty() => Ok(()),
            found => Err(Error::Fingerprint { of, differences: DifferenceList(found) }),
        }
    }

    /// Reads the bytes of a peer.
    ///
    /// # Errors
    ///
    /// [`Error::PeerFingerprint`] if the bytes are no fingerprint.
    pub fn from_bytes(bytes: &[u8]) -> Result<Fingerprint, Error> {
        Fingerprint::parse(bytes).map_err(|source| Error::PeerFingerprint { source })
    }
}
