//! One running backend, as user code holds it.

use super::{BackendId, BackendRuntime, DispatchResult, ErasedExecutable, Runtime, Value};
use crate::{Backend, CompileOptions, Error, Module};
use bb_ir::op::{OpSpec, Param};
use bb_ir::{Element, TensorData};
use std::any::Any;
use std::ops::Deref;
use std::sync::Arc;

/// A running backend: its operations on [`Value`]s, and ways to make and move them.
///
/// A clone is the same instance.
#[derive(Clone)]
pub struct BackendHandle {
    runtime: Arc<dyn BackendRuntime>,
    owner: BackendId,
}

impl BackendHandle {
    /// Wraps a running backend.
    pub fn new(runtime: Arc<dyn BackendRuntime>) -> BackendHandle {
        let owner = runtime.owner();
        BackendHandle { runtime, owner }
    }

    /// Returns what the engine sees of the backend.
    pub fn runtime(&self) -> &Arc<dyn BackendRuntime> {
        &self.runtime
    }

    /// Returns the instance.
    pub fn owner(&self) -> BackendId {
        self.owner
    }

    /// Returns the name.
    pub fn name(&self) -> &'static str {
        self.runtime.name()
    }

    /// Makes a tensor of `elements`, in row-major order.
    ///
    /// # Errors
    ///
    /// [`bb_ir::Error::ByteLength`] if `shape` does not have `elements.len()` elements; the backend's own.
    pub fn tensor<T: Element>(&self, shape: &[usize], elements: &[T]) -> Result<Value, Error> {
        self.runtime.constant(&TensorData::new(shape, elements)?)
    }

    /// Copies a tensor to the host.
    ///
    /// # Errors
    ///
    /// [`Error::ForeignTensor`] if it is another instance's; the backend's own.
    pub fn to_host(&self, value: &Value) -> Result<TensorData, Error> {
        self.runtime.to_host(value)
    }

    /// Returns the tensor on this backend: itself if it is there, else a copy by way of the host.
    ///
    /// # Errors
    ///
    /// [`Error::Gone`] if the tensor's backend was dropped; either backend's own.
    pub fn adopt(&self, value: &Value) -> Result<Value, Error> {
        if value.owner() == self.owner {
            return Ok(value.clone());
        }
        self.runtime.constant(&value.to_host(usize::MAX)?)
    }

    /// Makes a tensor of a frame that came over the wire.
    ///
    /// # Errors
    ///
    /// What is wrong with the frame, or the backend's own.
    pub fn materialize_from_wire(&self, type_hash: u64, bytes: Vec<u8>) -> Result<Value, Error> {
        self.runtime.materialize_from_wire(type_hash, bytes)
    }

    /// Makes a tensor of the next frame on a stream; `None` where the stream ends before it.
    ///
    /// Units: `limit` counts the bytes of the whole frame.
    ///
    /// # Errors
    ///
    /// Those of [`read_frame`](bb_ir::wire::read_frame), what is wrong with the elements, or the backend's own.
    pub fn read_frame(&self, from: &mut impl std::io::Read, limit: usize) -> Result<Option<Value>, Error> {
        match bb_ir::wire::read_frame(from, limit)? {
            Some(frame) => self.materialize_from_wire(frame.type_hash, frame.bytes).map(Some),
            None => Ok(None),
        }
    }

    /// Prepares a graph that will run more than once.
    ///
    /// # Errors
    ///
    /// The backend's own: what makes the graph invalid, or what the options refuse.
    pub fn compile(
        &self,
        module: Module,
        options: &CompileOptions,
    ) -> Result<Arc<dyn ErasedExecutable>, Error> {
        self.runtime.clone().compile(module, options)
    }

    /// Returns the backend with its type, if it is `B`.
    pub fn typed<B: Backend + 'static>(&self) -> Option<Typed<'_, B>> {
        let any: &dyn Any = &*self.runtime;
        any.downcast_ref::<Runtime<B>>().map(Typed)
    }

    /// Calls an operation of any family.
    ///
    /// # Errors
    ///
    /// As [`BackendRuntime::dispatch_atomic`].
    #[inline]
    pub fn call(
        &self,
        op: &'static OpSpec,
        inputs: &[Option<&Value>],
        params: &[Param<'_>],
    ) -> DispatchResult {
        self.runtime.dispatch_atomic(op, inputs, params)
    }
}

impl std::fmt::Debug for BackendHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "BackendHandle({})", self.owner)
    }
}

/// A running backend whose type is known: everything of `B`, and the way from and to [`Value`]s.
#[derive(Debug)]
pub struct Typed<'a, B: Backend + 'static>(&'a Runtime<B>);

impl<B: Backend + 'static> Typed<'_, B> {
    /// Restores the type of a tensor.
    ///
    /// # Errors
    ///
    /// [`Error::ForeignTensor`] if it is another instance's.
    pub fn restore(&self, value: &Value) -> Result<B::Tensor, Error> {
        self.0.restore(value)
    }

    /// Erases the type of a tensor.
    pub fn erase(&self, tensor: B::Tensor) -> Value {
        self.0.erase(tensor)
    }
}

impl<B: Backend + 'static> Deref for Typed<'_, B> {
    type Target = B;

    fn deref(&self) -> &B {
        self.0.backend()
    }
}
