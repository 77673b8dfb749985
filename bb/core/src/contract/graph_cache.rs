//! The compiled form of a graph, which is stored with the graph.

use super::attrs::GraphIdentity;
use std::any::Any;
use std::sync::{Arc, Mutex, PoisonError};

/// The identity of a graph, and its form that a backend compiled. Both live as long as the graph, so a backend need not decide
/// when it drops the form.
///
/// A plan has one for each of its graphs. It is dropped with the plan, for example when the last session of the model is closed.
pub struct GraphCache {
    identity: GraphIdentity,
    compiled: Mutex<Option<Arc<dyn Any + Send + Sync>>>,
}

impl GraphCache {
    /// Creates an empty cache for a graph with a new identity.
    pub(crate) fn fresh() -> GraphCache {
        GraphCache { identity: GraphIdentity::fresh(), compiled: Mutex::default() }
    }

    /// Returns the identity of the graph.
    pub fn identity(&self) -> GraphIdentity {
        self.identity
    }

    /// Returns the stored form, or calls `compile` and stores the result.
    ///
    /// `is_own` returns whether a form belongs to the calling backend: another instance may have stored one. Then the new form replaces
    /// it. If several threads call this at the same time, one of them compiles and the others wait.
    ///
    /// # Errors
    ///
    /// The errors of `compile`.
    pub fn get_or<T: Send + Sync + 'static, E>(
        &self,
        is_own: impl FnOnce(&T) -> bool,
        compile: impl FnOnce() -> Result<T, E>,
    ) -> Result<Arc<T>, E> {
        let mut compiled = self.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        let known = compiled.clone().and_then(|known| known.downcast::<T>().ok());
        if let Some(known) = known.filter(|known| is_own(known)) {
            return Ok(known);
        }
        let made = Arc::new(compile()?);
        let before = compiled.replace(made.clone());
        // Dropping a form runs code of a backend, so the lock is released first.
        drop(compiled);
        drop(before);
        Ok(made)
    }
}

impl std::fmt::Debug for GraphCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GraphCache").field("identity", &self.identity).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_is_compiled_once_for_each_instance_and_dropped_with_the_graph() {
        let cache = GraphCache::fresh();
        let get = |instance: u32| cache.get_or(|known: &u32| *known == instance, || Ok::<_, ()>(instance));
        let first = get(1).ok();
        assert!(first.is_some());
        assert!(first.as_ref().zip(get(1).ok().as_ref()).is_some_and(|(a, b)| Arc::ptr_eq(a, b)));
        // Another instance replaces the form.
        assert_eq!(get(2), Ok(Arc::new(2)));
        assert!(cache.get_or(|_: &u32| false, || Err(())).is_err());
        assert_eq!(get(2), Ok(Arc::new(2)));
        let last = get(2).map(|form| Arc::downgrade(&form));
        drop(cache);
        assert!(last.is_ok_and(|form| form.upgrade().is_none()));
    }
}
