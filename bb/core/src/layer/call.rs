//! The call of an operation that a layer intercepts.

use super::{Delegate, InnerBackend, Layer, LayerError, LayerTensor, has};
use crate::contract::nested;
use crate::error::{type_name, type_path};
use crate::{Error, ErrorKind, Kernel, KernelOperands, Outputs};
use bb_ir::op::{Arity, Family, OpSpec, Param, Primitive};
use std::cell::Cell;

/// A call of an operation, passed to [`Layer::operation`]: its table row, operands and parameters, with a method that
/// runs it on the inner backend.
pub struct LayerCall<'a, L: Delegate> {
    on: &'a L,
    spec: &'static OpSpec,
    params: &'a [Param<'a>],
    call: &'a mut dyn Call<L>,
}

/// The part of a call that depends on how the inner backend is called.
trait Call<L: Delegate> {
    fn operand(&self, index: usize) -> Option<&LayerTensor<L>>;

    fn operands(&self) -> usize;

    fn is_prepared(&self) -> bool;

    fn run(
        &mut self,
        on: &L::Inner,
        spec: &'static OpSpec,
        params: &[Param<'_>],
    ) -> Result<Outputs<LayerTensor<L>>, LayerError<L>>;
}

impl<L: Delegate> LayerCall<'_, L> {
    /// Returns the table row of the operation.
    pub fn spec(&self) -> &'static OpSpec {
        self.spec
    }

    /// Returns the parameters, in the order of the table row.
    pub fn params(&self) -> &[Param<'_>] {
        self.params
    }

    /// Returns the number of operands, including omitted ones.
    pub fn operands(&self) -> usize {
        self.call.operands()
    }

    /// Returns an operand; `None` if it is omitted, or if it is a constant that a prepared kernel has packed.
    ///
    /// If an operand that a prepared kernel may overwrite is cloned, the kernel allocates a result instead.
    pub fn operand(&self, index: usize) -> Option<&LayerTensor<L>> {
        self.call.operand(index)
    }

    /// Returns whether a kernel runs that the inner backend prepared, instead of the operation's method.
    pub fn is_prepared(&self) -> bool {
        self.call.is_prepared()
    }

    /// Returns true if the call is inside the body of a family's operation, or inside a model's operator that is
    /// lowered to several operations. The last of these operations computes the operator's result and does not count as
    /// inside.
    pub fn is_inside(&self) -> bool {
        crate::contract::is_inside()
    }

    /// Calls the inner backend.
    ///
    /// # Errors
    ///
    /// The errors of the inner backend.
    pub fn run(self) -> Result<Outputs<LayerTensor<L>>, LayerError<L>> {
        self.call.run(self.on.inner(), self.spec, self.params)
    }
}

impl<L: Delegate> std::fmt::Debug for LayerCall<'_, L> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LayerCall")
            .field("operation", &self.spec.method)
            .field("params", &self.params)
            .finish()
    }
}

/// A call of an operation's method, with a list of operands.
struct Listed<'a, T>(&'a [Option<&'a T>]);

impl<L: Delegate> Call<L> for Listed<'_, LayerTensor<L>> {
    fn operand(&self, index: usize) -> Option<&LayerTensor<L>> {
        self.0.get(index).copied().flatten()
    }

    fn operands(&self) -> usize {
        self.0.len()
    }

    fn is_prepared(&self) -> bool {
        false
    }

    fn run(
        &mut self,
        on: &L::Inner,
        spec: &'static OpSpec,
        params: &[Param<'_>],
    ) -> Result<Outputs<LayerTensor<L>>, LayerError<L>> {
        match (spec.family, Primitive::from_index(spec.index)) {
            (Family::Primitive, Some(op)) => crate::call::call_primitive(on, op, self.0, params),
            _ => on.native(spec, self.0, params),
        }
    }
}

/// A call of a kernel that the inner backend prepared.
struct Ready<'a, 'k, L: Delegate> {
    kernel: &'a dyn Kernel<L::Inner>,
    operands: &'a mut KernelOperands<'k, LayerTensor<L>>,
}

impl<L: Delegate> Call<L> for Ready<'_, '_, L> {
    fn operand(&self, index: usize) -> Option<&LayerTensor<L>> {
        self.operands.get(index)
    }

    fn operands(&self) -> usize {
        self.operands.len()
    }

    fn is_prepared(&self) -> bool {
        true
    }

    fn run(
        &mut self,
        on: &L::Inner,
        _spec: &'static OpSpec,
        _params: &[Param<'_>],
    ) -> Result<Outputs<LayerTensor<L>>, LayerError<L>> {
        self.kernel.run(on, self.operands)
    }
}

/// Calls a layer's `operation` for a method call with a list of operands.
pub(super) fn operation<L: Layer>(
    on: &L,
    spec: &'static OpSpec,
    inputs: &[Option<&LayerTensor<L>>],
    params: &[Param<'_>],
) -> Result<Outputs<LayerTensor<L>>, LayerError<L>> {
    intercepted::<L>(spec, || on.operation(LayerCall { on, spec, params, call: &mut Listed(inputs) }))
}

/// Calls a layer's `operation` for a step that the inner backend prepared.
pub(super) fn prepared<L: Layer>(
    on: &L,
    spec: &'static OpSpec,
    params: &[Param<'_>],
    kernel: &dyn Kernel<L::Inner>,
    operands: &mut KernelOperands<'_, LayerTensor<L>>,
) -> Result<Outputs<LayerTensor<L>>, LayerError<L>> {
    intercepted::<L>(spec, || {
        on.operation(LayerCall { on, spec, params, call: &mut Ready::<L> { kernel, operands } })
    })
}

/// Runs a call of [`Layer::operation`], and checks the number of its results.
///
/// # Errors
///
/// [`Error::Layer`] with [`Error::Results`], so that the error names the layer; the errors of [`guarded`].
fn intercepted<L: Layer>(
    spec: &'static OpSpec,
    call: impl FnOnce() -> Result<Outputs<LayerTensor<L>>, LayerError<L>>,
) -> Result<Outputs<LayerTensor<L>>, LayerError<L>> {
    let results = guarded::<L, _>(spec, call)?;
    match (spec.output, results.len()) {
        (Arity::Tensor, 1) | (Arity::Optional | Arity::Tensors, _) => Ok(results),
        (Arity::Tensor, got) => {
            let wrong = Error::Results { op: spec.method.to_owned(), expected: 1, got };
            Err(Error::layer(type_name::<L>(), spec.method, ErrorKind::Device, wrong).into())
        }
    }
}

/// Calls the method of a layer for the primitive with the index `OP`. Calls of a method that the layer writes are guarded.
///
/// # Errors
///
/// [`Error::EndlessLayer`] if the layer calls itself again and again; the errors of the call.
#[inline]
pub fn method<L: Layer, R, const OP: u16>(
    on: &L,
    call: impl FnOnce(&L) -> Result<R, LayerError<L>>,
) -> Result<R, LayerError<L>> {
    match const { written::<L>(OP) } {
        Some(op) => guarded::<L, _>(op.spec(), || call(on)),
        None => call(on),
    }
}

/// Returns the primitive with this index if the layer writes its method.
const fn written<L: Layer>(index: u16) -> Option<Primitive> {
    match Primitive::from_index(index) {
        Some(op) if has(L::METHODS, op.spec().method) => Some(op),
        _ => None,
    }
}

thread_local! {
    /// The number of nested calls of written methods of layers on this thread.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// The layers that are registered by a name, in the runtime.
pub(crate) struct RegisteredLayers;

/// Finds the names of registered layers. The runtime, a higher module, implements this.
pub(crate) trait FindLayerName {
    /// Returns the name of the registered layer whose type has this path.
    fn name_of(&self, path: &str) -> Option<&'static str>;
}

/// The maximum number of nested calls of written methods. Each layer of a stack counts, in each nested body.
const MOST_DEEP: usize = 64;

/// Calls a method that a layer writes, unless too many of these calls are nested, because a layer calls itself.
///
/// # Errors
///
/// [`Error::EndlessLayer`]; the errors of the call.
pub(super) fn guarded<L: Layer, R>(
    spec: &'static OpSpec,
    call: impl FnOnce() -> Result<R, LayerError<L>>,
) -> Result<R, LayerError<L>> {
    let endless = || {
        let layer = RegisteredLayers.name_of(type_path::<L>()).unwrap_or_else(std::any::type_name::<L>);
        Error::EndlessLayer { layer, op: spec.method }
    };
    nested(&DEPTH, MOST_DEEP, endless, call)
}
