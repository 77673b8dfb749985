//! A cache of loaded models, by the identity of their graph.

use bb::GraphIdentity;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

/// The maximum number of cached models.
const KEPT: usize = 256;

/// A cached model; `None` until a thread has loaded it.
type Entry<P> = Arc<Mutex<Option<Arc<P>>>>;

/// The loaded models, most recently used first. If there are too many, the least recently used model is dropped.
pub(crate) struct Cache<P>(Mutex<VecDeque<(GraphIdentity, Entry<P>)>>);

impl<P> Default for Cache<P> {
    fn default() -> Self {
        Cache(Mutex::default())
    }
}

impl<P> Cache<P> {
    /// Returns the model with this identity, and loads it if it is not cached. One thread loads it while other threads wait.
    /// A failed load is not cached.
    pub(crate) fn get_or<X>(
        &self,
        identity: Option<GraphIdentity>,
        load: impl FnOnce() -> Result<P, X>,
    ) -> Result<Arc<P>, X> {
        let Some(identity) = identity else { return load().map(Arc::new) };
        let entry = self.entry(identity);
        let mut entry = entry.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(loaded) = &*entry {
            return Ok(loaded.clone());
        }
        Ok(entry.insert(Arc::new(load()?)).clone())
    }

    fn entry(&self, identity: GraphIdentity) -> Entry<P> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = kept.iter().position(|(known, _)| *known == identity);
        let (_, entry) = at.and_then(|at| kept.remove(at)).unwrap_or_else(|| (identity, Entry::default()));
        kept.push_front((identity, entry.clone()));
        kept.truncate(KEPT);
        entry
    }
}
