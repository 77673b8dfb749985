//! Opens object stores by URL, and reads the bytes of models.

use crate::error::Error;
use crate::location::ModelPlace;
use bb::Limits;
use bytes::Bytes;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::object_store::{DefaultObjectStoreRegistry, ObjectStoreRegistry};
use object_store::path::Path as ObjectPath;
use object_store::{ObjectStore, ObjectStoreExt as _};
use std::future::Future;
use std::io::Read as _;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;
use tokio::runtime::{Builder, Runtime};
use url::Url;

/// The prefixes of environment variables with settings of object stores, in lower case.
const SETTINGS: &[&str] = &["aws_", "azure_", "google_"];

/// The object stores by URL. A store that is not registered is opened with the settings in the environment, if this build has a client for
/// it. The variables have the names that the crate `object_store` defines, for example `AWS_ACCESS_KEY_ID`.
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
            let settings =
                settings.filter(|(name, _)| SETTINGS.iter().any(|prefix| name.starts_with(prefix)));
            // A URL with `http` is a deliberate choice, so unencrypted connections are allowed.
            let plain = (url.scheme() == "http").then(|| ("allow_http".to_owned(), "true".to_owned()));
            let settings = settings.chain(plain);
            match object_store::parse_url_opts(url, settings) {
                Ok((store, _)) => {
                    let store: Arc<dyn ObjectStore> = Arc::from(store);
                    self.0.register_store(url, store.clone());
                    Ok(store)
                }
                Err(object_store::Error::NotSupported { .. } | object_store::Error::Generic { .. }) => {
                    Err(unknown)
                }
                Err(error) => Err(DataFusionError::ObjectStore(Box::new(error))),
            }
        })
    }
}

/// The version of the content at a location. It can be compared without reading the content.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Version {
    bytes: u64,
    changed: Option<SystemTime>,
    tag: Option<String>,
}

/// The content at a location.
pub(crate) struct Content {
    pub(crate) bytes: Bytes,
    /// The folder that may contain external data.
    pub(crate) folder: Option<PathBuf>,
}

/// Access to the locations of models: the object stores, and the limits of reading.
#[derive(Clone, Copy)]
pub(crate) struct Places<'a> {
    pub(crate) stores: &'a Arc<dyn ObjectStoreRegistry>,
    pub(crate) limits: &'a Limits,
}

impl Places<'_> {
    /// Returns the version of the content at a location.
    pub(crate) fn version(self, location: &str) -> Result<Version, Error> {
        match ModelPlace::of(location) {
            ModelPlace::File(path) => {
                let of = std::fs::metadata(path).map_err(unreadable(location))?;
                Ok(Version { bytes: of.len(), changed: of.modified().ok(), tag: None })
            }
            ModelPlace::Object(url) => {
                let (store, path) = self.object(location, &url)?;
                let head = blocking(async move { store.head(&path).await });
                let of = head.and_then(|head| head).map_err(unfetched(location))?;
                Ok(Version { bytes: of.size, changed: Some(of.last_modified.into()), tag: of.e_tag })
            }
        }
    }

    /// Reads the content at a location.
    pub(crate) fn read(self, location: &str) -> Result<Content, Error> {
        match ModelPlace::of(location) {
            ModelPlace::File(path) => {
                let file = std::fs::File::open(&path).map_err(unreadable(location))?;
                let size = file.metadata().map_err(unreadable(location))?.len();
                let most = self.within(location, size)?;
                let mut bytes = Vec::new();
                // Reads one byte more than allowed, to detect a file that grew since its size was checked.
                file.take(most.saturating_add(1)).read_to_end(&mut bytes).map_err(unreadable(location))?;
                self.within(location, bytes.len() as u64)?;
                let folder = path.parent().map(std::path::Path::to_path_buf);
                Ok(Content { bytes: bytes.into(), folder })
            }
            ModelPlace::Object(url) => {
                let (store, path) = self.object(location, &url)?;
                let read = async move {
                    let found = store.get(&path).await.map_err(unfetched(location))?;
                    self.within(location, found.meta.size)?;
                    found.bytes().await.map_err(unfetched(location))
                };
                let bytes = blocking(read).map_err(unfetched(location))??;
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

/// Waits for a store on a separate thread, because a thread that runs queries must not block on a future. All calls use one runtime,
/// because clients keep connections that end with their runtime.
fn blocking<T: Send>(of: impl Future<Output = T> + Send) -> Result<T, object_store::Error> {
    static RUNTIME: OnceLock<std::io::Result<Runtime>> = OnceLock::new();
    let failed = |source| object_store::Error::Generic { store: "bb", source };
    let start =
        || Builder::new_multi_thread().worker_threads(1).thread_name("bb-stores").enable_all().build();
    let runtime = RUNTIME.get_or_init(start).as_ref().map_err(|error| failed(error.to_string().into()))?;
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| runtime.block_on(of));
        thread.join().map_err(|_| failed("the client of the store panicked".into()))
    })
}
