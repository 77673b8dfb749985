//! Implements the backend contract for a loaded backend.

use super::LoadedError;
use super::calls;
use super::instance::Instance;
use super::library::{BackendLibrary, Said};
use crate::abi::{Items, MemoryUse, Parameter, ParameterKind, RawTensor, Slot, Text, status};
use bb_core::ext::{Extended, OpSet};
use bb_core::services::{Lifecycle, Memory, MemoryStatistics, ServiceError};
use bb_core::{
    Backend, BackendAttrs, CompileOptions, CompletionHandle, ContractResponse, DataType, DataTypes, Error,
    ErrorKind, Executable, GraphProto, InnerBackend, Module, Outputs, Shape, SlotValue, Tensor, TensorData,
};
use bb_ir::infer;
use bb_ir::op::{Family, OpSpec, Param, Primitive};
use smallvec::SmallVec;
use std::any::Any;
use std::collections::HashMap;
use std::sync::Arc;

/// Tensors by name.
type Named<T> = HashMap<String, T>;

/// A backend of a library. Clones share the open backend.
#[derive(Clone)]
pub struct LoadedBackend(pub(super) Arc<Instance>);

/// A tensor of a loaded backend.
#[derive(Clone)]
pub struct LoadedTensor(Arc<TensorHandle>);

/// A tensor of the library. It is released when the last reference is dropped.
struct TensorHandle {
    raw: *mut RawTensor,
    dtype: DataType,
    shape: Shape,
    on: Arc<Instance>,
}

// SAFETY: the interface allows calling functions with a tensor from any thread, and from several threads at the same time.
unsafe impl Send for TensorHandle {}
// SAFETY: as above.
unsafe impl Sync for TensorHandle {}

impl Drop for TensorHandle {
    fn drop(&mut self) {
        self.on.release(self.raw);
    }
}

impl SlotValue for TensorHandle {
    fn dtype(&self) -> DataType {
        self.dtype
    }

    fn shape(&self) -> &[usize] {
        &self.shape
    }
}

#[diagnostic::do_not_recommend]
impl Tensor for LoadedTensor {
    fn dtype(&self) -> DataType {
        self.0.dtype
    }

    fn shape(&self) -> &[usize] {
        &self.0.shape
    }

    fn erase(self) -> Arc<dyn SlotValue> {
        self.0
    }

    fn restore(value: &Arc<dyn SlotValue>) -> Option<Self> {
        let any: Arc<dyn Any + Send + Sync> = value.clone();
        any.downcast::<TensorHandle>().ok().map(LoadedTensor)
    }
}

impl std::fmt::Debug for LoadedTensor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LoadedTensor({}{:?} on {})", self.0.dtype, self.0.shape, self.0.on.name())
    }
}

impl std::fmt::Debug for LoadedBackend {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("LoadedBackend").field(&self.0.library).finish()
    }
}

impl LoadedTensor {
    /// Returns the library's pointer to the tensor.
    pub(super) fn raw(&self) -> *const RawTensor {
        self.0.raw
    }
}

/// The results of a call, before they become tensors.
pub(super) type Slots = SmallVec<[Slot; 1]>;

/// An empty slot for a result.
pub(super) const EMPTY: Slot =
    Slot { tensor: std::ptr::null_mut(), dtype: 0, rank: 0, shape: std::ptr::null() };

impl LoadedBackend {
    pub(super) fn new(instance: Arc<Instance>) -> LoadedBackend {
        LoadedBackend(instance)
    }

    /// Returns the library of the backend.
    pub fn library(&self) -> &BackendLibrary {
        &self.0.library
    }

    fn refuse_types(&self, op: &'static str, dtype: DataType) -> Result<(), LoadedError> {
        match self.0.types.has(dtype) {
            true => Ok(()),
            false => Err(bb_ir::Error::Unsupported { op, dtype }.into()),
        }
    }

    /// Calls a primitive: checks the operands by ONNX's rules, calls the library, and checks the results against the inferred types and
    /// shapes.
    fn apply(
        &self,
        op: Primitive,
        inputs: &[Option<&LoadedTensor>],
        params: &[Param<'_>],
    ) -> Result<Outputs<LoadedTensor>, LoadedError> {
        let method = op.spec().method;
        self.own(method, inputs.iter().copied().flatten())?;
        let operands: SmallVec<[(DataType, &[usize]); 4]> =
            inputs.iter().flatten().map(|x| (x.0.dtype, &x.0.shape[..])).collect();
        let expected = infer::primitive(op, &operands, params)?;
        for (dtype, _) in &expected {
            self.refuse_types(method, *dtype)?;
        }
        if self.0.lacking.contains(&op) || !calls::has(&self.0.library.0.primitives, op) {
            return bb_core::__private::one_node(self, op, inputs, params);
        }
        let mut slots: Slots = expected
            .iter()
            .map(|(dtype, shape)| Slot {
                tensor: std::ptr::null_mut(),
                dtype: dtype.to_onnx(),
                rank: shape.len(),
                shape: shape.as_ptr(),
            })
            .collect();
        let pointers: SmallVec<[*const RawTensor; 4]> = inputs.iter().flatten().map(|x| x.raw()).collect();
        let mut said = Said::new();
        let (table, raw) = (&self.0.library.0.primitives, self.0.raw.as_ptr());
        let status = calls::call(table, raw, op, inputs, params, &mut slots, said.failure())?;
        self.0.judge(method, status.unwrap_or(status::OK), || said.message(), (&slots, &pointers))?;
        self.take(method, &slots, &pointers, Some(&expected))
    }

    /// Converts the results of a call to tensors. If a result is wrong, releases all results.
    pub(super) fn take(
        &self,
        op: &'static str,
        slots: &[Slot],
        operands: &[*const RawTensor],
        expected: Option<&infer::Outputs>,
    ) -> Result<Outputs<LoadedTensor>, LoadedError> {
        match self.checked(op, slots, operands, expected) {
            Ok(kinds) => {
                let made = slots.iter().zip(kinds);
                let held = made.map(|(slot, (dtype, shape))| {
                    LoadedTensor(Arc::new(TensorHandle {
                        raw: slot.tensor,
                        dtype,
                        shape,
                        on: self.0.clone(),
                    }))
                });
                Ok(held.collect())
            }
            Err(error) => {
                self.0.release_all(slots, operands);
                Err(error)
            }
        }
    }

    /// Checks results against the expected types and shapes, and returns their types and shapes.
    fn checked(
        &self,
        op: &'static str,
        slots: &[Slot],
        operands: &[*const RawTensor],
        expected: Option<&infer::Outputs>,
    ) -> Result<SmallVec<[(DataType, Shape); 1]>, LoadedError> {
        let mut kinds = SmallVec::with_capacity(slots.len());
        for (at, slot) in slots.iter().enumerate() {
            let result = || format!("result {at}");
            if slot.tensor.is_null() {
                return Err(self.0.broken(op, result(), "a tensor", "null"));
            }
            let operand = operands.iter().position(|x| std::ptr::eq(*x, slot.tensor));
            let earlier = || slots.iter().take(at).position(|other| std::ptr::eq(other.tensor, slot.tensor));
            let held = operand.map(|at| ("operand", at)).or_else(|| Some(("result", earlier()?)));
            if let Some((what, at)) = held {
                let got = format!("{what} {at}: make a new tensor, which may share the memory");
                return Err(self.0.broken(op, result(), "a tensor of its own", got));
            }
            let kind = match expected.and_then(|expected| expected.get(at)) {
                Some((dtype, shape)) => {
                    self.promised(op, at, slot, (*dtype, &shape[..]))?;
                    (*dtype, shape.clone())
                }
                None => self.0.read_result(op, at, slot)?,
            };
            kinds.push(kind);
        }
        Ok(kinds)
    }

    /// Refuses a result whose type or shape differs from the inferred one.
    ///
    /// The rank is compared first, because with a wrong rank the list of extents may be shorter than the rank says.
    fn promised(
        &self,
        op: &'static str,
        at: usize,
        slot: &Slot,
        (dtype, shape): (DataType, &[usize]),
    ) -> Result<(), LoadedError> {
        if slot.dtype != dtype.to_onnx() {
            let got = DataType::from_onnx(slot.dtype).map_or(slot.dtype.to_string(), |t| t.to_string());
            return Err(self.0.broken(op, format_args!("the element type of result {at}"), dtype, got));
        }
        if slot.rank != shape.len() {
            let expected = format!("{} for the extents {shape:?}", shape.len());
            return Err(self.0.broken(op, format_args!("the rank of result {at}"), expected, slot.rank));
        }
        if std::ptr::eq(slot.shape, shape.as_ptr()) {
            return Ok(());
        }
        let (_, got) = self.0.read_result(op, at, slot)?;
        match got[..] == *shape {
            true => Ok(()),
            false => Err(self.0.broken(
                op,
                format_args!("the shape of result {at}"),
                format_args!("{shape:?}"),
                format_args!("{:?}", &got[..]),
            )),
        }
    }

    /// Refuses tensors of another instance, because their pointers are not valid for this one.
    pub(super) fn own<'a>(
        &self,
        op: &'static str,
        mut inputs: impl Iterator<Item = &'a LoadedTensor>,
    ) -> Result<(), LoadedError> {
        match inputs.all(|x| Arc::ptr_eq(&x.0.on, &self.0)) {
            true => Ok(()),
            false => {
                Err(self.0.broken(op, "an operand", "a tensor of this backend", "one of another instance"))
            }
        }
    }

    /// Calls a native operation.
    fn native_call(
        &self,
        spec: &'static OpSpec,
        inputs: &[Option<&LoadedTensor>],
        params: &[Param<'_>],
    ) -> Result<Outputs<LoadedTensor>, LoadedError> {
        /// The maximum number of results. No operation of any family has more.
        const MOST: usize = 64;
        self.own(spec.method, inputs.iter().copied().flatten())?;
        let Some(native) = self.0.table().native else {
            return Err(self.0.broken(spec.method, "the function `native`", "a function", "null"));
        };
        let pointers: SmallVec<[*const RawTensor; 8]> =
            inputs.iter().map(|x| x.map_or(std::ptr::null(), LoadedTensor::raw)).collect();
        let data = params.iter().map(|param| match param {
            Param::Data(data) => calls::lent(data).map(Some),
            _ => Ok(None),
        });
        let data: Vec<Option<crate::abi::Data>> = data.collect::<Result<_, _>>()?;
        let parameters: Vec<Parameter> =
            params.iter().zip(&data).map(|(p, data)| parameter(p, data.as_ref())).collect();
        let mut slots = [EMPTY; MOST];
        let mut count = MOST;
        self.0.call_into(spec.method, &mut slots, &pointers, |slots, error| {
            // SAFETY: the library is of this version of the interface. Borrowed arguments live until the call returns.
            unsafe {
                native(
                    self.0.raw.as_ptr(),
                    Text::new(spec.method),
                    Items::of(&pointers),
                    Items::of(&parameters),
                    slots.as_mut_ptr(),
                    &raw mut count,
                    error,
                )
            }
        })?;
        let Some(results) = slots.get(..count) else {
            self.0.release_all(&slots, &pointers);
            return Err(self.0.broken(
                spec.method,
                "the number of results",
                format!("at most {MOST}"),
                count,
            ));
        };
        self.take(spec.method, results, &pointers, None)
    }

    /// Copies a tensor into a buffer of exactly its size in bytes.
    fn copy(&self, x: &LoadedTensor, into: &mut [u8]) -> Result<(), LoadedError> {
        let length = self.to_host_length(x, into.as_mut_ptr(), into.len())?;
        match length == into.len() {
            true => Ok(()),
            false => {
                let expected = format!("{} bytes for {}{:?}", into.len(), x.0.dtype, x.0.shape);
                Err(self.0.broken("to_host", "the number of bytes", expected, length))
            }
        }
    }

    fn to_host_length(
        &self,
        x: &LoadedTensor,
        bytes: *mut u8,
        capacity: usize,
    ) -> Result<usize, LoadedError> {
        let mut length = 0usize;
        let to_host = self.0.table().to_host;
        self.0.call("to_host", |error| {
            let (raw, length) = (self.0.raw.as_ptr(), &raw mut length);
            // SAFETY: the library is of this version of the interface, and `bytes` has the capacity.
            to_host.map_or(status::OK, |to_host| unsafe {
                to_host(raw, x.raw(), bytes, capacity, length, error)
            })
        })?;
        Ok(length)
    }

    /// Returns the size of a tensor on the host in bytes. For numbers, it is computed from the shape; for strings, the library is called.
    fn host_length(&self, x: &LoadedTensor) -> Result<usize, LoadedError> {
        let elements = bb_ir::element_count(&x.0.shape);
        match elements.and_then(|n| x.0.dtype.bytes_for(n)) {
            Some(bytes) => Ok(bytes),
            None => self.to_host_length(x, std::ptr::null_mut(), 0),
        }
    }
}

/// Converts a parameter to a structure of C, which borrows it.
fn parameter(param: &Param<'_>, data: Option<&crate::abi::Data>) -> Parameter {
    use ParameterKind as K;
    let none =
        Parameter { kind: K::Nothing as i32, integer: 0, number: 0.0, items: std::ptr::null(), count: 0 };
    let integer = |integer: i64| Parameter { kind: K::Integer as i32, integer, ..none };
    let number = |number: f64| Parameter { kind: K::Number as i32, number, ..none };
    fn list<T>(kind: K, items: &[T], none: Parameter) -> Parameter {
        Parameter { kind: kind as i32, items: items.as_ptr().cast(), count: items.len(), ..none }
    }
    match param {
        Param::Int(v) | Param::OptInt(Some(v)) => integer(*v),
        Param::Float(v) | Param::OptFloat(Some(v)) => number(*v),
        Param::Bool(v) => integer(i64::from(*v)),
        Param::Ints(v) => list(K::Integers, v, none),
        Param::Floats(v) => list(K::Numbers, v, none),
        Param::Extents(v) => list(K::Extents, v, none),
        Param::Type(v) | Param::OptType(Some(v)) => integer(v.to_onnx().into()),
        Param::Round(v) => integer(*v as i64),
        Param::Text(v) => list(K::Text, v.as_bytes(), none),
        Param::Data(_) => data.map_or(none, |data| list(K::Data, std::slice::from_ref(data), none)),
        _ => none,
    }
}

#[diagnostic::do_not_recommend]
impl Backend for LoadedBackend {
    type Tensor = LoadedTensor;
    type Error = LoadedError;

    bb_core::forward_to_call!(Self::apply);

    fn types(&self) -> DataTypes {
        self.0.types
    }

    fn runs_whole_graphs(&self) -> bool {
        self.0.whole_graphs
    }

    fn runs_primitive(&self, op: Primitive) -> bool {
        !self.0.lacking.contains(&op)
    }

    fn wrapped(error: &LoadedError) -> Option<&Error> {
        match error {
            LoadedError::Bb(error) => Some(error),
            LoadedError::Panicked { .. } => None,
        }
    }

    fn to_host(&self, x: &LoadedTensor) -> Result<TensorData, LoadedError> {
        self.own("to_host", std::iter::once(x))?;
        let length = self.host_length(x)?;
        let mut bytes: Vec<u8> = bb_ir::memory::room("to_host", length)?;
        bytes.resize(length, 0);
        self.copy(x, &mut bytes)?;
        match TensorData::adopt(x.0.dtype, &x.0.shape, bytes.into()) {
            Ok(host) => Ok(host),
            Err(error) => Err(self.0.broken("to_host", "the elements", "what `bb_data` says", error)),
        }
    }

    fn read_into(&self, x: &LoadedTensor, into: &mut [u8]) -> Result<(), LoadedError> {
        self.own("to_host", std::iter::once(x))?;
        let expected = self.host_length(x)?;
        if into.len() != expected {
            let (dtype, shape) = (x.0.dtype, x.0.shape[..].into());
            return Err(bb_ir::Error::ByteLength { dtype, shape, expected, got: into.len() }.into());
        }
        self.copy(x, into)
    }

    fn execute(
        &self,
        graph: &GraphProto,
        inputs: Named<LoadedTensor>,
        attrs: BackendAttrs<'_>,
    ) -> Result<Named<LoadedTensor>, LoadedError> {
        if !self.0.whole_graphs {
            return bb_core::plan::execute(self, graph, inputs, attrs);
        }
        match bb_core::__private::kept(self, graph, inputs, attrs) {
            Ok(ran) => ran,
            Err(inputs) => self.run(graph, inputs, attrs),
        }
    }

    fn dispatch(
        &self,
        graph: Arc<GraphProto>,
        inputs: Named<LoadedTensor>,
        attrs: BackendAttrs<'_>,
        completion: CompletionHandle<Named<LoadedTensor>, LoadedError>,
    ) -> ContractResponse<Named<LoadedTensor>, LoadedError> {
        match self.0.table().start.filter(|_| self.0.whole_graphs) {
            Some(start) => self.start(start, &graph, inputs, attrs, completion),
            None => ContractResponse::Now(self.execute(&graph, inputs, attrs)),
        }
    }

    fn compile(
        &self,
        module: Module,
        options: &CompileOptions,
    ) -> Result<Box<dyn Executable<Self>>, LoadedError> {
        match self.0.whole_graphs {
            true => bb_core::compile_whole_graph(self, module, options),
            false => bb_core::plan::compile(self, module, options),
        }
    }

    fn lifecycle(&self) -> Option<&dyn Lifecycle> {
        self.0.table().synchronize.is_some().then_some(self)
    }

    fn memory(&self) -> Option<&dyn Memory<LoadedTensor>> {
        self.0.table().memory.is_some().then_some(self)
    }
}

#[diagnostic::do_not_recommend]
impl InnerBackend for LoadedBackend {
    fn natives(&self) -> Vec<(Family, OpSet)> {
        self.0.natives.clone()
    }

    fn native(
        &self,
        spec: &'static OpSpec,
        inputs: &[Option<&LoadedTensor>],
        params: &[Param<'_>],
    ) -> Result<Outputs<LoadedTensor>, LoadedError> {
        let body = || Extended::new(self, &[]).call(spec, inputs, params);
        if !self.0.is_native(spec) {
            return body();
        }
        match self.native_call(spec, inputs, params) {
            // The library declines this call.
            Err(LoadedError::Bb(Error::Loaded { kind: ErrorKind::Unsupported, .. })) => body(),
            called => called,
        }
    }

    fn version(&self) -> &'static str {
        bb_core::layer::interned(self.0.library.version().to_owned())
    }
}

impl Lifecycle for LoadedBackend {
    fn synchronize(&self) -> Result<(), ServiceError> {
        let synchronize = self.0.table().synchronize;
        let waited = self.0.call("synchronize", |error| {
            // SAFETY: the backend is open, and the library is of this version of the interface.
            synchronize.map_or(status::OK, |synchronize| unsafe { synchronize(self.0.raw.as_ptr(), error) })
        });
        waited.map_err(ServiceError::own)
    }
}

impl Memory<LoadedTensor> for LoadedBackend {
    fn statistics(&self) -> MemoryStatistics {
        let known = |bytes: u64| (bytes != u64::MAX).then_some(bytes);
        let mut all = MemoryUse {
            size: size_of::<MemoryUse>(),
            live: 0,
            pooled: 0,
            peak: 0,
            limit: u64::MAX,
            available: u64::MAX,
        };
        if let Some(memory) = self.0.table().memory {
            // SAFETY: the backend is open, and the library is of this version of the interface.
            unsafe { memory(self.0.raw.as_ptr(), &raw mut all) }
        }
        let statistics = MemoryStatistics::new(all.live, all.pooled, all.peak, known(all.limit));
        statistics.with_available(known(all.available))
    }
}
