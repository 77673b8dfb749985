//! The handle of a running backend for user code.

use super::{BackendId, DispatchResult, ErasedExecutable, Runtime, Value};
use crate::export::{ExportOptions, Keep, ModelTrace};
use crate::ext::{ErasedTensor, Owned};
use crate::narrow::{NarrowTensor, Narrowed};
use crate::{Backend, CompileOptions, Error, ErrorKind, Module, NarrowError};
use bb_ir::op::{OpSpec, Param};
use bb_ir::{HostElement, TensorData};
use std::ops::Deref;
use std::sync::Arc;

/// A running backend: its operations on [`Value`]s, and functions that create and transfer values.
///
/// A clone is a handle to the same instance.
#[derive(Clone)]
pub struct BackendHandle {
    runtime: Arc<Runtime>,
}

impl BackendHandle {
    /// Wraps a running backend.
    pub fn new(runtime: Arc<Runtime>) -> BackendHandle {
        BackendHandle { runtime }
    }

    /// Starts a backend or a layer under a name, outside of the registry.
    ///
    /// For element types that the backend lacks, the runtime converts to a type that the backend has, if that is exact.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn run<B: bb::InnerBackend>(layer: B) -> Result<(), bb::Error> {
    /// let counted = bb::BackendHandle::start("counted", layer);
    /// let x = counted.tensor(&[2], &[1f32, 2.0])?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn start<B: crate::InnerBackend>(name: &'static str, backend: B) -> BackendHandle {
        BackendHandle::new(super::start::start_inner(name, backend, false))
    }

    /// Returns the running backend.
    pub fn runtime(&self) -> &Arc<Runtime> {
        &self.runtime
    }

    /// Returns the id of the instance.
    pub fn owner(&self) -> BackendId {
        self.runtime.owner()
    }

    /// Returns the name.
    pub fn name(&self) -> &'static str {
        self.runtime.name()
    }

    /// Creates a tensor from `elements`, which are in row-major order.
    ///
    /// # Errors
    ///
    /// [`bb_ir::Error::ByteLength`] if `shape` does not have `elements.len()` elements; the backend's own errors.
    pub fn tensor<T: HostElement>(&self, shape: &[usize], elements: &[T]) -> Result<Value, Error> {
        self.runtime.constant(&TensorData::new(shape, elements)?)
    }

    /// Creates a tensor from a function, which is called with the indices of each element. The function runs on the
    /// host.
    ///
    /// # Errors
    ///
    /// [`bb_ir::Error::TooLarge`] or [`bb_ir::Error::Memory`] if the elements do not fit into memory; the backend's own
    /// errors.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # fn main() -> Result<(), bb::Error> {
    /// let table = bb::backend("cpu")?.tensor_from_fn(&[2, 3], |at| (10 * at[0] + at[1]) as i32)?;
    /// assert_eq!(table.to_host(24)?.as_slice::<i32>()?, [0, 1, 2, 10, 11, 12]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn tensor_from_fn<T: HostElement>(
        &self,
        shape: &[usize],
        element: impl FnMut(&[usize]) -> T,
    ) -> Result<Value, Error> {
        self.runtime.constant(&TensorData::from_fn(shape, element)?)
    }

    /// Copies a tensor to the host.
    ///
    /// # Errors
    ///
    /// [`Error::ForeignTensor`] if the tensor belongs to another instance; the backend's own errors.
    pub fn to_host(&self, value: &Value) -> Result<TensorData, Error> {
        self.runtime.to_host(value)
    }

    /// Returns the tensor on this backend. A tensor that is already there is returned unchanged; otherwise it is copied
    /// through the host. If both backends use host memory, they share the elements.
    ///
    /// # Errors
    ///
    /// [`Error::Gone`] if the tensor's backend was dropped; errors of either backend.
    pub fn adopt(&self, value: &Value) -> Result<Value, Error> {
        if value.owner() == self.owner() {
            return Ok(value.clone());
        }
        self.runtime.constant(&value.to_host(usize::MAX)?)
    }

    /// Builds a tensor from a frame that was received.
    ///
    /// # Errors
    ///
    /// An error of the frame's contents; the backend's own errors.
    pub fn materialize_from_wire(&self, type_hash: u64, bytes: Vec<u8>) -> Result<Value, Error> {
        self.runtime.materialize_from_wire(type_hash, bytes)
    }

    /// Builds a tensor from the next frame on a stream; returns `None` if the stream has ended.
    ///
    /// Units: `limit` counts the bytes of the whole frame.
    ///
    /// # Errors
    ///
    /// The errors of [`read_frame`](bb_ir::wire::read_frame); errors of the elements; the backend's own errors.
    pub fn read_frame(&self, from: &mut impl std::io::Read, limit: usize) -> Result<Option<Value>, Error> {
        match bb_ir::wire::read_frame(from, limit)? {
            Some(frame) => self.materialize_from_wire(frame.type_hash, frame.bytes).map(Some),
            None => Ok(None),
        }
    }

    /// Returns the kind of an error of this backend, which is the kind of its cause. Callers choose their reaction by
    /// the kind.
    ///
    /// If a backend wraps an error of `bb` into its own error, the kind is found only if
    /// [`Backend::wrapped`](crate::Backend::wrapped) returns the inner error.
    pub fn error_kind(&self, error: &Error) -> ErrorKind {
        error.kind_by(&|error| self.runtime.wrapped(error))
    }

    /// Prepares a graph that will run more than once.
    ///
    /// # Errors
    ///
    /// The backend's own error if the graph is invalid or the options refuse it.
    pub fn compile(
        &self,
        module: Module,
        options: &CompileOptions,
    ) -> Result<Arc<dyn ErasedExecutable>, Error> {
        self.runtime.clone().compile(module, options)
    }

    /// Prepares a trace that will run more than once: the trace of a function or of a model, or a trace that the
    /// program rewrote ([`ModelTrace::rewrite`]).
    ///
    /// The steps are planned like the steps of a checked graph. An operation of a family that corresponds to an ONNX
    /// operator is kept, so that the backend's kernel for it runs; other operations are replaced by the primitives of
    /// their bodies.
    ///
    /// # Errors
    ///
    /// The errors of [`ModelTrace::module`] and of [`compile`](Self::compile).
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use bb::{Backend, CompileOptions, DataType, export::ModelTrace};
    /// # fn main() -> Result<(), bb::Error> {
    /// let cpu = bb::backend("cpu")?;
    /// let trace = ModelTrace::new(&[("x", DataType::F32, &[2])], |on, inputs| Ok(vec![on.exp(&inputs[0])?]))?;
    /// let program = cpu.compile_trace(&trace, &CompileOptions::default())?;
    /// let results = program.run(&[Some(&cpu.tensor(&[2], &[0f32, 1.0])?)])?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn compile_trace(
        &self,
        trace: &ModelTrace,
        options: &CompileOptions,
    ) -> Result<Arc<dyn ErasedExecutable>, Error> {
        let newest = ExportOptions::default().opset(bb_ir::opset::NEWEST).keep(Keep::All);
        self.compile(trace.module(&newest)?, options)
    }

    /// Returns the backend as `B`, if it has this type.
    pub fn typed<B: Backend + 'static>(&self) -> Option<TypedBackend<'_, B>> {
        let runtime = &*self.runtime;
        if let Some(on) = runtime.owned::<B>() {
            return Some(TypedBackend { on, runtime, narrowed: false });
        }
        let on = runtime.owned::<Narrowed>()?.backend.own()?;
        Some(TypedBackend { on, runtime, narrowed: true })
    }

    /// Calls an operation of any family.
    ///
    /// # Errors
    ///
    /// The errors of [`Runtime::dispatch_atomic`].
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
        write!(f, "BackendHandle({})", self.owner())
    }
}

/// A running backend of known type. It gives access to `B`, and converts tensors of `B` from and to [`Value`]s.
pub struct TypedBackend<'a, B: Backend + 'static> {
    on: &'a Owned<B>,
    runtime: &'a Runtime,
    /// Whether the backend lacks element types, so that the runtime holds tensors of the adapter that emulates them.
    narrowed: bool,
}

impl<B: Backend + 'static> std::fmt::Debug for TypedBackend<'_, B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("TypedBackend").field(self.runtime).finish()
    }
}

impl<'a, B: Backend + 'static> TypedBackend<'a, B> {
    /// Returns the backend.
    pub fn backend(&self) -> &'a B {
        &self.on.backend
    }

    /// Restores the type of a tensor.
    ///
    /// If the backend lacks the tensor's element type, the result has the type that stores its elements, for example
    /// `i32` for `i64`.
    ///
    /// # Errors
    ///
    /// [`Error::ForeignTensor`] if the tensor belongs to another instance; [`Error::Narrow`] if its elements are stored
    /// on the host, because the backend has no type for them.
    pub fn restore(&self, value: &Value) -> Result<B::Tensor, Error> {
        if !self.narrowed {
            return self.runtime.restore(value);
        }
        let narrow: NarrowTensor = self.runtime.restore(value)?;
        let own = narrow.on_device().and_then(|x| x.get::<B::Tensor>());
        Ok(own.ok_or(NarrowError::Lacks { op: "restore", dtype: value.dtype() })?)
    }

    /// Erases the type of a tensor.
    ///
    /// # Panics
    ///
    /// If the author's [`Tensor::erase`](crate::Tensor::erase) panics.
    pub fn erase(&self, tensor: B::Tensor) -> Value {
        let tensor = ErasedTensor::new(tensor);
        self.runtime.value(match self.narrowed {
            true => ErasedTensor::new(Narrowed::adopt(tensor)),
            false => tensor,
        })
    }
}

impl<B: Backend + 'static> Deref for TypedBackend<'_, B> {
    type Target = B;

    fn deref(&self) -> &B {
        &self.on.backend
    }
}
