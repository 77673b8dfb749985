//! A cache of compiled graphs; the key is the identity of the graph and the options of the compilation.

use crate::erased::ErasedCompiled;
use crate::single_flight::SingleFlight;
use crate::sync::Mutex;
use crate::{CompileOptions, Error, GraphIdentity, InputSpec};
use bb_ir::proto::GraphProto;
use std::collections::VecDeque;
use std::sync::{Arc, PoisonError};

/// The maximum number of compiled graphs that a running backend caches.
const KEPT: usize = 64;

/// The cached compiled graphs of a running backend. If there are too many, the least recently used one is dropped.
pub(super) struct Plans<P = Arc<dyn ErasedCompiled>>(Mutex<VecDeque<Kept<P>>>);

/// A cache entry: the options of a compilation, which contain the graph's identity, and its result.
type Kept<P> = (CompileOptions, Arc<Compilation<P>>);

/// The result of a compilation; `None` until it succeeds.
type Compilation<P> = SingleFlight<Option<P>>;

impl<P> Default for Plans<P> {
    fn default() -> Self {
        Plans(Mutex::default())
    }
}

impl<P: Clone> Plans<P> {
    /// Returns the cached graph. If there is none, calls `compile` and caches the result. A graph without an
    /// identity is not cached.
    ///
    /// If several callers miss at the same time, one of them compiles and the others wait. If it fails, the next
    /// caller tries.
    ///
    /// # Errors
    ///
    /// The errors of `compile`.
    pub(super) fn get_or<E>(
        &self,
        options: &CompileOptions,
        compile: impl FnOnce() -> Result<P, E>,
    ) -> Result<P, E> {
        if options.identity.is_none() {
            return compile();
        }
        let compilation = self.find(options);
        let find = |_: &mut ()| Ok(compilation.read().clone());
        compilation.find_or_make(&mut (), find, |_| {
            let plan = compile()?;
            Ok(compilation.write().insert(plan).clone())
        })
    }

    /// Returns the cache entry for these options, and marks it as most recently used.
    fn find(&self, options: &CompileOptions) -> Arc<Compilation<P>> {
        let mut plans = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = plans.iter().position(|(known, _)| known.are_like(options));
        let kept = at.and_then(|at| plans.remove(at));
        let kept = kept.unwrap_or_else(|| (options.clone(), Arc::default()));
        let compilation = kept.1.clone();
        plans.push_front(kept);
        plans.truncate(KEPT);
        compilation
    }
}

/// A cache of the declared inputs of graphs that are dispatched without compiling. If there are too many, the
/// least recently used one is dropped.
#[derive(Default)]
pub(super) struct Declarations(Mutex<VecDeque<(GraphIdentity, Arc<InputSpec>)>>);

impl Declarations {
    /// Returns the declared inputs of a graph. Without an identity, they are decoded each time.
    ///
    /// # Errors
    ///
    /// [`Error::Ir`] if a declared type is invalid.
    pub(super) fn of(
        &self,
        graph: &GraphProto,
        identity: Option<GraphIdentity>,
    ) -> Result<Arc<InputSpec>, Error> {
        let Some(identity) = identity else { return Ok(Arc::new(InputSpec::of_proto(graph)?)) };
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = known.iter().position(|(graph, _)| *graph == identity);
        let spec = match at.and_then(|at| known.remove(at)) {
            Some((_, spec)) => spec,
            None => Arc::new(InputSpec::of_proto(graph)?),
        };
        known.push_front((identity, spec.clone()));
        known.truncate(KEPT);
        Ok(spec)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::GraphIdentity;
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    /// Returns options with an identity, so that the result is cached.
    fn known() -> CompileOptions {
        let mut options = CompileOptions::default();
        options.identity = Some(GraphIdentity::fresh());
        options
    }

    #[test]
    fn one_thread_compiles_and_the_others_wait() {
        let plans: Plans<()> = Plans::default();
        let options = known();
        let (compiled, together) = (AtomicUsize::new(0), Barrier::new(8));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    together.wait();
                    let compile = || {
                        compiled.fetch_add(1, Ordering::Relaxed);
                        std::thread::sleep(Duration::from_millis(20));
                        Ok::<_, Error>(())
                    };
                    plans.get_or(&options, compile).unwrap();
                });
            }
        });
        assert_eq!(compiled.into_inner(), 1);
    }

    #[test]
    fn a_compilation_that_failed_is_tried_again() {
        let plans: Plans<()> = Plans::default();
        let options = known();
        assert!(plans.get_or(&options, || Err(Error::Cancelled)).is_err());
        assert!(plans.get_or(&options, || Ok::<_, Error>(())).is_ok());
    }
}
