//! Compiled graphs, kept by the graph's identity and the options that it was compiled with.

use crate::{Backend, CompileOptions, Error, Executable, GraphIdentity, InputSpec};
use bb_ir::proto::GraphProto;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

/// The most compiled graphs that a running backend keeps.
const KEPT: usize = 64;

/// The compiled graphs of a running backend; the one unused for longest makes room.
pub(super) struct Plans<B: Backend>(Mutex<VecDeque<Kept<B>>>);

/// A compiled graph, with the options it was compiled with, which say whose it is.
type Kept<B> = (CompileOptions, Arc<dyn Executable<B>>);

impl<B: Backend> Default for Plans<B> {
    fn default() -> Self {
        Plans(Mutex::default())
    }
}

impl<B: Backend> Plans<B> {
    /// Returns the compiled graph, or keeps what `compile` makes; a graph without an identity is not kept.
    ///
    /// Two callers who miss at once both compile; the later result is kept.
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

    /// Returns what is kept for these options, which then was used last.
    fn known(&self, options: &CompileOptions) -> Option<Arc<dyn Executable<B>>> {
        let mut plans = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = plans.iter().position(|(known, _)| known.are_like(options))?;
        let kept = plans.remove(at)?;
        let plan = kept.1.clone();
        plans.push_front(kept);
        Some(plan)
    }
}

/// What graphs declare of their inputs, for those that are handed over as they come; the one unused for longest makes room.
#[derive(Default)]
pub(super) struct Declarations(Mutex<VecDeque<(GraphIdentity, Arc<InputSpec>)>>);

impl Declarations {
    /// Returns what a graph declares; without an identity it is taken apart anew.
    ///
    /// # Errors
    ///
    /// [`Error::Ir`] if the graph declares what is no type.
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
