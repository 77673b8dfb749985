//! Object stores by URL, and the bytes of models.

use crate::error::Error;
use crate::location::Place;
use bb::Limits;
use bytes::Bytes;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::object_store::{DefaultObjectStoreRegistry, ObjectStoreRegistry};
use datafusion::object_store::path::Path as ObjectPath;
use datafusion::object_store::{self, ObjectStore, ObjectStoreExt as _};
use std::future::Future;
use std::io::Read as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;
use url::Url;

/// Object stores by URL. A store that nobody registered is opened with the settings in the environment, if this build has a
/// client for it: `AWS_ACCESS_KEY_ID` and the like, by the names that the crate `object_store` gives them.
#[derive(Debug, Default)]
pub struct Stores(DefaultObjectStoreRegistry);

impl ObjectStoreRegistry for Stores {
    fn register_store(&self, url: &Url, store: Arc<dyn ObjectStore>) -> Option<Arc<dyn ObjectStore>> {
        self.0.register_store(url, store)
    }

    fn deregister_store(&self, url: &Url) -> Result<Arc<dyn ObjectStore>> {
        self.0.deregister_store(url)
    }

    fn get_store(&self, url: &Url) -> Result<Arc<dyn ObjectStore>> {
        self.0.get_store(url).or_else(|unknown| {
            let settings = std::env::vars().map(|(name, value)| (name.to_ascii_lowercase(), value));
            match object_store::parse_url_opts(url, settings) {
                Ok((store, _)) => {
                    let store: Arc<dyn ObjectStore> = Arc::from(store);
                    self.0.register_store(url, store.clone());
                    Ok(store)
                }
                Err(object_store::Error::NotSupported { .. } | object_store::Error::Generic { .. }) => Err(unknown),
                Err(error) => Err(DataFusionError::ObjectStore(Box::new(error))),
            }
        })
    }
}

/// What tells two contents of one place apart without reading them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Version {
    bytes: u64,
    changed: Option<SystemTime>,
    tag: Option<String>,
}

/// What lies at a place.
pub(crate) struct Content {
    pub(crate) bytes: Bytes,
    /// The folder in which external data may lie.
    pub(crate) folder: Option<PathBuf>,
}

/// The places of models, as far as an object store is needed for them.
#[derive(Clone, Copy)]
pub(crate) struct Places<'a> {
    pub(crate) stores: &'a Arc<dyn ObjectStoreRegistry>,
    pub(crate) limits: &'a Limits,
}

impl Places<'_> {
    /// Returns the version of what lies at a place.
    pub(crate) fn version(self, location: &str) -> Result<Version, Error> {
        match Place::of(location) {
            Place::File(path) => {
                let of = std::fs::metadata(path).map_err(unreadable(location))?;
                Ok(Version { bytes: of.len(), changed: of.modified().ok(), tag: None })
            }
            Place::Object(url) => {
                let (store, path) = self.object(location, &url)?;
                let of = blocking(async move { store.head(&path).await }).map_err(unfetched(location))?;
                Ok(Version { bytes: of.size, changed: Some(of.last_modified.into()), tag: of.e_tag })
            }
        }
    }

    /// Reads what lies at a place.
    pub(crate) fn read(self, location: &str) -> Result<Content, Error> {
        match Place::of(location) {
            Place::File(path) => {
                let file = std::fs::File::open(&path).map_err(unreadable(location))?;
                let size = file.metadata().map_err(unreadable(location))?.len();
                let most = self.within(location, size)?;
                let mut bytes = Vec::new();
                // One byte more than allowed tells a file that grows.
                file.take(most.saturating_add(1)).read_to_end(&mut bytes).map_err(unreadable(location))?;
                self.within(location, bytes.len() as u64)?;
                let folder = path.parent().map(std::path::Path::to_path_buf);
                Ok(Content { bytes: bytes.into(), folder })
            }
            Place::Object(url) => {
                let (store, path) = self.object(location, &url)?;
                let found = blocking({
                    let (store, path) = (store.clone(), path.clone());
                    async move { store.get(&path).await }
                });
                let found = found.map_err(unfetched(location))?;
                self.within(location, found.meta.size)?;
                let bytes = blocking(async move { found.bytes().await }).map_err(unfetched(location))?;
                Ok(Content { bytes, folder: None })
            }
        }
    }

    fn within(self, location: &str, bytes: u64) -> Result<u64, Error> {
        let most = self.limits.model_bytes as u64;
        if bytes > most {
            return Err(Error::ModelSize { location: location.to_owned(), bytes, most });
        }
        Ok(most)
    }

    fn object(self, location: &str, url: &Url) -> Result<(Arc<dyn ObjectStore>, ObjectPath), Error> {
        let failed = |source| Error::FetchModel { location: location.to_owned(), source };
        let store = self.stores.get_store(url).map_err(failed)?;
        let path = ObjectPath::from_url_path(url.path());
        let path = path.map_err(|error| failed(DataFusionError::External(Box::new(error))))?;
        Ok((store, path))
    }
}

fn unreadable(location: &str) -> impl Fn(std::io::Error) -> Error {
    move |source| Error::ReadModel { location: location.to_owned(), source }
}

fn unfetched(location: &str) -> impl Fn(object_store::Error) -> Error {
    move |error| Error::FetchModel {
        location: location.to_owned(),
        source: DataFusionError::ObjectStore(Box::new(error)),
    }
}

/// Waits for a store on a thread of its own, because a thread that runs queries may not wait for a future.
fn blocking<T: Send>(
    of: impl Future<Output = Result<T, object_store::Error>> + Send,
) -> Result<T, object_store::Error> {
    let failed = |source| object_store::Error::Generic { store: "bb", source };
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.map_err(|error| failed(error.into()))?.block_on(of)
        });
        thread.join().unwrap_or_else(|_| Err(failed("the client of the store panicked".into())))
    })
}
