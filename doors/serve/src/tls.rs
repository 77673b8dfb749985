//! Encrypted connections.

use crate::config::TlsFiles;
use crate::error::Error;
use crate::metrics::Protocol;
use crate::stream::Stream;
use std::time::Duration;

#[cfg(feature = "tls")]
mod rustls;
#[cfg(feature = "tls")]
pub(crate) use rustls::Acceptor;

/// An uninhabited type, because without the feature `tls` no connection is encrypted.
#[cfg(not(feature = "tls"))]
#[derive(Clone)]
pub(crate) enum Acceptor {}

#[cfg(not(feature = "tls"))]
pub(crate) type Encrypted = Stream;

#[cfg(not(feature = "tls"))]
impl Acceptor {
    pub(crate) fn new(_: &TlsFiles, _: Protocol) -> Result<Acceptor, Error> {
        Err(Error::NoTls)
    }

    pub(crate) async fn accept(&self, _: Stream, _: Duration) -> Option<Encrypted> {
        match *self {}
    }
}
