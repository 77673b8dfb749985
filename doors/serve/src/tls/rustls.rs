//! TLS by rustls.

use super::{Duration, Error, Protocol, Stream, TlsFiles};
use std::path::Path;
use std::sync::Arc;
use tokio::time::timeout;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

/// An encrypted connection. The inner [`Stream`] records how fast the peer reads, because bytes leave there.
pub(crate) type Encrypted = TlsStream<Stream>;

/// Encrypts the connections that clients open.
#[derive(Clone)]
pub(crate) struct Acceptor(TlsAcceptor);

impl Acceptor {
    pub(crate) fn new(files: &TlsFiles, protocol: Protocol) -> Result<Acceptor, Error> {
        fn wrong(path: &Path) -> impl FnOnce(bb_ir::BoxError) -> Error {
            move |source| Error::Tls { path: path.to_owned(), source }
        }
        let certificates = CertificateDer::pem_file_iter(&files.certificate)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(|source| wrong(&files.certificate)(source.into()))?;
        let key =
            PrivateKeyDer::from_pem_file(&files.key).map_err(|source| wrong(&files.key)(source.into()))?;
        let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .and_then(|builder| builder.with_no_client_auth().with_single_cert(certificates, key))
            .map_err(|source| wrong(&files.certificate)(source.into()))?;
        config.alpn_protocols = match protocol {
            Protocol::Http => vec![b"http/1.1".to_vec()],
            Protocol::Grpc => vec![b"h2".to_vec()],
        };
        Ok(Acceptor(TlsAcceptor::from(Arc::new(config))))
    }

    /// Performs the TLS handshake with a client. Returns `None` if it fails or takes too long.
    pub(crate) async fn accept(&self, stream: Stream, time: Duration) -> Option<Encrypted> {
        timeout(time, self.0.accept(stream)).await.ok()?.ok()
    }
}
