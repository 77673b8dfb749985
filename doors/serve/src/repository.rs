//! The served models by name and version, and the folder of models that clients may load.

mod folder;
pub(crate) use folder::find;

use crate::config::{Config, ModelConfig};
use crate::error::Error;
use crate::model::{Found, Model};
use crate::refusal::{Refusal, shown};
use crate::worker;
use bb::CancelToken;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak};
use std::thread::JoinHandle;
use std::time::Instant;
use tokio::sync::{Semaphore, oneshot};

/// The number of replaced or unloaded models that may still be answering their last requests when another model is loaded.
const LEAVING: usize = 2;

/// The models that are served.
pub(crate) struct Repository {
    config: Config,
    /// The canonical path of the folder of models that clients may load.
    folder: Option<PathBuf>,
    served: RwLock<Served>,
    workers: Mutex<Vec<JoinHandle<()>>>,
    stop: CancelToken,
    /// A semaphore that lets one model be loaded at a time.
    loading: Arc<Semaphore>,
    leaving: Mutex<Vec<Weak<Model>>>,
}

struct Served {
    entries: Vec<ModelEntry>,
    /// Whether the server is shutting down, so that no model may be added.
    closed: bool,
}

/// A model name that is served, was served before, or is being loaded.
struct ModelEntry {
    name: String,
    /// Whether the model was configured at start and so cannot be unloaded.
    stays: bool,
    /// The served versions in ascending order. Empty if the model is not served.
    versions: Vec<Arc<Model>>,
    state: ModelState,
}

enum ModelState {
    Ready,
    Loading,
    Unavailable { reason: String },
}

/// A row of the list of models that the server reports.
pub(crate) struct Listed {
    pub(crate) name: String,
    /// The version. `None` if the model is in the folder but not loaded.
    pub(crate) version: Option<String>,
    pub(crate) state: &'static str,
    pub(crate) reason: String,
}

impl Listed {
    pub(crate) fn is_ready(&self) -> bool {
        self.state == "READY"
    }
}

impl Repository {
    /// Loads the models that are configured to be served from the start.
    pub(crate) fn start(config: &Config, stop: &CancelToken) -> Result<Arc<Repository>, Error> {
        let folder = config.repository.as_ref().map(|folder| {
            let real = folder.canonicalize().and_then(|real| match real.is_dir() {
                true => Ok(real),
                false => Err(std::io::ErrorKind::NotADirectory.into()),
            });
            real.map_err(|source| Error::Repository { path: folder.clone(), source })
        });
        let repository = Repository {
            config: config.clone(),
            folder: folder.transpose()?,
            served: RwLock::new(Served { entries: Vec::new(), closed: false }),
            workers: Mutex::default(),
            stop: stop.clone(),
            loading: Arc::new(Semaphore::new(1)),
            leaving: Mutex::default(),
        };
        for of in &config.models {
            let found = find(&of.name, &of.path, None, config.versions)?;
            let versions = repository.versions(of, &found)?;
            repository.enter(ModelEntry {
                name: of.name.clone(),
                stays: true,
                versions,
                state: ModelState::Ready,
            });
        }
        for name in &config.load {
            let (of, found) =
                repository.in_folder(name).ok_or(Error::NoRepository { name: name.clone() })??;
            let versions = repository.versions(&of, &found)?;
            repository.enter(ModelEntry {
                name: name.clone(),
                stays: false,
                versions,
                state: ModelState::Ready,
            });
        }
        let models = repository.models();
        repository.work(&models)?;
        Ok(Arc::new(repository))
    }

    /// Finds the files of a model in the folder. Returns `None` if there is no folder.
    fn in_folder(&self, name: &str) -> Option<Result<(ModelConfig, Vec<Found>), Error>> {
        let folder = self.folder.as_deref()?;
        let path = folder.join(name);
        let found = find(name, &path, Some(folder), self.config.versions);
        let backend = self.config.repository_backend.clone();
        Some(found.map(|found| (ModelConfig { name: name.to_owned(), path, backend }, found)))
    }

    fn versions(&self, of: &ModelConfig, found: &[Found]) -> Result<Vec<Arc<Model>>, Error> {
        found.iter().map(|found| Model::load(of, found, &self.config).map(Arc::new)).collect()
    }

    /// Starts the worker threads of models.
    fn work(&self, models: &[Arc<Model>]) -> Result<(), Error> {
        let mut workers = self.lock_workers();
        workers.retain(|worker| !worker.is_finished());
        for model in models {
            let threads = worker::start(model, self.config.workers, &self.stop);
            let what = "threads for a model";
            workers.extend(threads.map_err(|source| Error::System { what, source })?);
        }
        Ok(())
    }

    fn read(&self) -> RwLockReadGuard<'_, Served> {
        self.served.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Served> {
        self.served.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_workers(&self) -> MutexGuard<'_, Vec<JoinHandle<()>>> {
        self.workers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an entry, or replaces the entry of the same name. Returns false if the server is shutting down.
    fn enter(&self, entry: ModelEntry) -> bool {
        let mut served = self.write();
        if served.closed {
            return false;
        }
        let known = served.entries.iter_mut().find(|known| known.name == entry.name);
        let replaced = match known {
            Some(known) => std::mem::replace(known, entry).versions,
            None => {
                served.entries.push(entry);
                Vec::new()
            }
        };
        drop(served);
        self.leave(replaced);
        true
    }

    /// Closes the queues of models that are being removed. The models still answer their queued requests.
    fn leave(&self, models: Vec<Arc<Model>>) {
        let mut leaving = self.leaving.lock().unwrap_or_else(PoisonError::into_inner);
        leaving.retain(|model| model.strong_count() > 0);
        for model in models {
            model.queue.close();
            leaving.push(Arc::downgrade(&model));
        }
    }

    fn leaving(&self) -> usize {
        let leaving = self.leaving.lock().unwrap_or_else(PoisonError::into_inner);
        leaving.iter().filter(|model| model.strong_count() > 0).count()
    }

    /// Returns all versions of all served models.
    pub(crate) fn models(&self) -> Vec<Arc<Model>> {
        self.read().entries.iter().flat_map(|entry| entry.versions.iter().cloned()).collect()
    }

    /// Finds a model. An empty version selects the newest one.
    pub(crate) fn model(&self, name: &str, version: &str) -> Result<Arc<Model>, Refusal> {
        let served = self.read();
        let (entry, newest) = served.known(name)?;
        if version.is_empty() {
            return Ok(newest.clone());
        }
        let found = entry.versions.iter().find(|model| model.version == version);
        found.cloned().ok_or_else(|| Refusal::UnknownVersion {
            model: entry.name.clone(),
            version: shown(version),
            known: match entry.versions.as_slice() {
                [only] => format!("only version `{}`", only.version),
                all => {
                    let all = all.iter().map(|model| format!("`{}`", model.version));
                    format!("the versions {}", all.collect::<Vec<_>>().join(", "))
                }
            },
        })
    }

    /// Returns the requested versions of a model, or all models if the name is empty.
    pub(crate) fn chosen(&self, name: &str, version: &str) -> Result<Vec<Arc<Model>>, Refusal> {
        if name.is_empty() {
            return Ok(self.models());
        }
        if version.is_empty() {
            return Ok(self.read().known(name)?.0.versions.clone());
        }
        Ok(vec![self.model(name, version)?])
    }

    /// Returns the version numbers of a model.
    pub(crate) fn versions_of(&self, name: &str) -> Vec<String> {
        let served = self.read();
        let entry = served.entries.iter().find(|entry| entry.name == name);
        let versions = entry.into_iter().flat_map(|entry| &entry.versions);
        versions.map(|model| model.version.clone()).collect()
    }

    /// Lists the models that are or were served, and those in the folder. May block on the file system.
    pub(crate) fn list(&self, ready: bool) -> Vec<Listed> {
        let mut listed = Vec::new();
        {
            let served = self.read();
            let ready = ready && !served.closed;
            for entry in &served.entries {
                let row = |version: Option<String>, state, reason: &str| {
                    let (name, reason) = (entry.name.clone(), reason.to_owned());
                    Listed { name, version, state, reason }
                };
                let state = if ready { "READY" } else { "UNAVAILABLE" };
                listed.extend(entry.versions.iter().map(|model| row(Some(model.version.clone()), state, "")));
                match &entry.state {
                    ModelState::Loading => listed.push(row(None, "LOADING", "")),
                    ModelState::Unavailable { reason } => listed.push(row(None, "UNAVAILABLE", reason)),
                    ModelState::Ready => {}
                }
            }
        }
        let names = self.folder.as_deref().map(folder::names).unwrap_or_default();
        for name in names {
            if !listed.iter().any(|row| row.name == name) {
                let reason = "not loaded".to_owned();
                listed.push(Listed { name, version: None, state: "UNAVAILABLE", reason });
            }
        }
        listed
    }

    /// Loads or reloads a model from the folder. After the deadline, loading continues in the background.
    pub(crate) async fn load(self: &Arc<Self>, name: &str, deadline: Instant) -> Result<(), Refusal> {
        self.may_change(name)?;
        let permit = tokio::time::timeout_at(deadline.into(), self.loading.clone().acquire_owned());
        let Ok(Ok(permit)) = permit.await else { return Err(Refusal::OtherLoads) };
        if self.leaving() > LEAVING {
            return Err(Refusal::ModelsLeave { limit: LEAVING });
        }
        let (done, loaded) = oneshot::channel();
        let (repository, of) = (self.clone(), name.to_owned());
        let thread = std::thread::Builder::new().name("bb-load".to_owned()).spawn(move || {
            let result = catch_unwind(AssertUnwindSafe(|| repository.load_now(&of)));
            let result = result.unwrap_or(Err(Refusal::Internal { what: "loading a model panicked" }));
            if let Err(refusal) = &result {
                repository.failed(&of, &refusal.text());
            }
            drop(permit);
            // The send fails if the client has left, which is not an error.
            let _gone = done.send(result);
        });
        thread.map_err(|_| Refusal::Internal { what: "the system has no thread for loading a model" })?;
        match tokio::time::timeout_at(deadline.into(), loaded).await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => Err(Refusal::ShuttingDown),
            Err(_) => Err(Refusal::StillLoads { model: shown(name) }),
        }
    }

    fn load_now(&self, name: &str) -> Result<(), Refusal> {
        let refused = |source: Error| match source {
            Error::NoSuchModel { .. } => Refusal::NotInRepository { name: shown(name) },
            source => Refusal::NotLoaded { source: Box::new(source) },
        };
        let (of, found) = self.in_folder(name).ok_or(Refusal::NoRepository)?.map_err(refused)?;
        let known = self.read().entries.iter().any(|entry| entry.name == name);
        if !known {
            let entry = ModelEntry {
                name: name.to_owned(),
                stays: false,
                versions: Vec::new(),
                state: ModelState::Loading,
            };
            self.enter(entry);
        } else {
            self.set(name, |entry| {
                if entry.versions.is_empty() {
                    entry.state = ModelState::Loading;
                }
            });
        }
        let versions = self.versions(&of, &found).map_err(refused)?;
        self.work(&versions).map_err(refused)?;
        let entry = ModelEntry { name: name.to_owned(), stays: false, versions, state: ModelState::Ready };
        let models = entry.versions.clone();
        if self.enter(entry) {
            return Ok(());
        }
        models.iter().for_each(|model| model.queue.close());
        Err(Refusal::ShuttingDown)
    }

    fn set(&self, name: &str, change: impl FnOnce(&mut ModelEntry)) {
        if let Some(entry) = self.write().entries.iter_mut().find(|entry| entry.name == name) {
            change(entry);
        }
    }

    /// Records the reason why a model could not be loaded, unless an older version is still served.
    fn failed(&self, name: &str, reason: &str) {
        self.set(name, |entry| {
            if entry.versions.is_empty() {
                entry.state = ModelState::Unavailable { reason: reason.to_owned() };
            }
        });
    }

    /// Unloads a model. Requests that it has already accepted are still answered.
    pub(crate) fn unload(&self, name: &str) -> Result<(), Refusal> {
        self.may_change(name)?;
        let mut versions = Vec::new();
        {
            let mut served = self.write();
            served.known(name)?;
            let entry = served.entries.iter_mut().find(|entry| entry.name == name);
            if let Some(entry) = entry {
                versions = std::mem::take(&mut entry.versions);
                entry.state = ModelState::Unavailable { reason: "unloaded".to_owned() };
            }
        }
        self.leave(versions);
        Ok(())
    }

    fn may_change(&self, name: &str) -> Result<(), Refusal> {
        if self.folder.is_none() {
            return Err(Refusal::NoRepository);
        }
        // Checks the name before the name is used as a path.
        if !is_name(name) {
            return Err(Refusal::NotInRepository { name: shown(name) });
        }
        match self.read().entries.iter().any(|entry| entry.name == name && entry.stays) {
            true => Err(Refusal::Stays { name: name.to_owned() }),
            false => Ok(()),
        }
    }

    /// Stops accepting requests and models.
    pub(crate) fn close(&self) {
        let mut served = self.write();
        served.closed = true;
        served.entries.iter().flat_map(|entry| &entry.versions).for_each(|model| model.queue.close());
    }

    /// Returns whether all threads of models have ended.
    pub(crate) fn is_idle(&self) -> bool {
        self.lock_workers().iter().all(JoinHandle::is_finished)
    }

    /// Answers all waiting requests with an error.
    pub(crate) fn abort(&self) {
        let leaving = self.leaving.lock().unwrap_or_else(PoisonError::into_inner);
        let leaving: Vec<Arc<Model>> = leaving.iter().filter_map(Weak::upgrade).collect();
        for job in self.models().iter().chain(&leaving).flat_map(|model| model.queue.drain()) {
            let _gone = job.answer.send(Err(Refusal::ShuttingDown));
        }
    }
}

impl Served {
    /// Returns the entry of a served model, and its newest version.
    fn known(&self, name: &str) -> Result<(&ModelEntry, &Arc<Model>), Refusal> {
        let entry = self.entries.iter().find(|entry| entry.name == name);
        entry.and_then(|entry| Some((entry, entry.versions.last()?))).ok_or_else(|| {
            let ready = self.entries.iter().filter(|entry| !entry.versions.is_empty());
            let known = ready.map(|entry| format!("`{}`", entry.name)).collect::<Vec<_>>();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            Refusal::UnknownModel { name: shown(name), known }
        })
    }
}

/// The maximum length of a model name, in bytes.
const NAME: usize = 255;

/// Returns whether a string is a valid model name. Names become part of URLs and, for models of the folder, of paths.
pub(crate) fn is_name(name: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    !name.is_empty() && name.len() <= NAME && name.chars().all(allowed) && !matches!(name, "." | "..")
}
