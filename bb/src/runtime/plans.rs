//! A cache of compiled graphs; the key is the identity of the graph and the options of the compilation.

use crate::{Backend, CompileOptions, Error, Executable, GraphIdentity, InputSpec};
use bb_ir::proto::GraphProto;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

/// The greatest number of compiled graphs that a running backend keeps.
const KEPT: usize = 64;

/// The compiled graphs of a running backend. If there are too many, the least recently used one is dropped.
pub(super) struct Plans<B: Backend>(Mutex<VecDeque<Kept<B>>>);

/// A compiled graph and the options that it was compiled with, which contain its identity.
type Kept<B> = (CompileOptions, Arc<dyn Executable<B>>);

impl<B: Backend> Default for Plans<B> {
    fn default() -> Self {
        Plans(Mutex::default())
    }
}

impl<B: Backend> Plans<B> {
    /// Returns the cached graph; if there is none, calls `compile` and keeps the result. A graph without an
    /// identity is not cached.
    ///
    /// If two callers miss at the same time, both compile, and the later result is kept.
    ///
    /// # Errors
    ///
    /// Those of `compile`.
    pub(super) fn get_or<E>(
        &self,
        options: &CompileOptions,
        compile: impl FnOnce() -> Result<Arc<dyn Executable<B>>, E>,
    ) -> Result<Arc<dyn Executable<B>>, E> {
        if options.identity.is_none() {
            return compile();
        }
        if let Some(plan) = self.known(options) {
            return Ok(plan);
        }
        let plan = compile()?;
        let mut plans = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        plans.push_front((options.clone(), plan.clone()));
        plans.truncate(KEPT);
        Ok(plan)
    }

    /// Returns the cached graph for these options and marks it as most recently used.
    fn known(&self, options: &CompileOptions) -> Option<Arc<dyn Executable<B>>> {
        let mut plans = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = plans.iter().position(|(known, _)| known.are_like(options))?;
        let kept = plans.remove(at)?;
        let plan = kept.1.clone();
        plans.push_front(kept);
        Some(plan)
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
