//! An engine on its own, as one of several backends.

use crate::{Engine, EngineError, Host, Whole};
use bb::ir::op::{Family, OpSpec, Param};
use bb::{InnerBackend, Outputs, ext::OpSet};

/// An engine that refuses the nodes that it cannot run.
pub(crate) struct Alone<E: Engine> {
    pub(crate) whole: Whole<E>,
}

crate::implement_backend!(@ [<E: Engine>] Alone<E>, true);

impl<E: Engine> InnerBackend for Alone<E> {
    fn natives(&self) -> Vec<(Family, OpSet)> {
        Vec::new()
    }

    fn native(
        &self,
        _spec: &'static OpSpec,
        _inputs: &[Option<&Host>],
        _params: &[Param<'_>],
    ) -> Result<Outputs<Host>, EngineError> {
        Err(bb::Error::excluded("no native operation of an engine").into())
    }

    fn version(&self) -> &'static str {
        env!("CARGO_PKG_VERSION")
    }
}
