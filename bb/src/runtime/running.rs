//! A backend with what its own type has no room for: plans, counters, state.

use super::bridge;
use super::plans::Plans;
use super::services::Counters;
use super::{BackendRuntime, Capabilities, Declared, DispatchResult, ErasedExecutable, Owner, Status, Value};
use crate::ext::{Extended, FamilyTable};
use crate::onnx::Item;
use crate::{
    Backend, BackendAttrs, CompileOptions, CompletionHandle, ContractResponse, Error, Executable,
    GraphIdentity, Module, Outputs, Port, Profile,
};
use bb_ir::TensorData;
use bb_ir::op::{AtomicOpDecl, AtomicOpsetDecl, Family, OpSpec, Param, Primitive};
use bb_ir::proto::GraphProto;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// A running backend.
pub struct Runtime<B: Backend + 'static> {
    backend: B,
    owner: Owner,
    counters: Counters,
    plans: Plans<B>,
    name: &'static str,
    version: &'static str,
    path: &'static str,
    families: &'static [FamilyTable<B>],
    /// Whether the backend has a `dispatch` of its own; known after the first graph.
    dispatches: AtomicU8,
}

/// No graph came yet.
const UNKNOWN: u8 = 0;
/// The backend has a `dispatch` of its own.
const ITSELF: u8 = 1;
/// The backend inherits `dispatch`, so that the runtime may run a plan it keeps.
const INHERITS: u8 = 2;

/// What a backend answers.
type Typed<B> = ContractResponse<HashMap<String, <B as Backend>::Tensor>, <B as Backend>::Error>;

impl<B: Declared> Runtime<B> {
    /// Starts a backend that was declared by `#[derive(bb::Backend)]`.
    pub fn new(backend: B) -> Arc<Runtime<B>> {
        Runtime::start(backend, B::NAME, B::VERSION, B::PATH, B::FAMILIES)
    }

    /// Makes a backend by its constructor and starts it.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the constructor fails or panics.
    pub fn open() -> Result<Arc<dyn BackendRuntime>, Error> {
        Ok(Runtime::new(bridge::construct(B::NAME, B::create)?))
    }
}

impl<B: Backend + 'static> Runtime<B> {
    /// Starts a backend that nothing declares, under a name.
    pub fn named(name: &'static str, backend: B) -> Arc<Runtime<B>> {
        Runtime::start(backend, name, "", std::any::type_name::<B>(), &[])
    }

    fn start(
        backend: B,
        name: &'static str,
        version: &'static str,
        path: &'static str,
        families: &'static [FamilyTable<B>],
    ) -> Arc<Runtime<B>> {
        Arc::new_cyclic(|this: &std::sync::Weak<Runtime<B>>| Runtime {
            backend,
            owner: Owner::enter(name, this.clone()),
            counters: Counters::default(),
            plans: Plans::default(),
            name,
            version,
            path,
            families,
            dispatches: AtomicU8::new(UNKNOWN),
        })
    }

    /// Returns the backend.
    pub fn backend(&self) -> &B {
        &self.backend
    }

    /// Returns the backend with every extension family.
    pub fn extended(&self) -> Extended<'_, B> {
        Extended::new(&self.backend, self.families)
    }

    /// Erases the type of a tensor of this backend.
    pub fn erase(&self, tensor: B::Tensor) -> Value {
        bridge::erase(self.owner, tensor)
    }

    /// Restores the type of a tensor of this backend.
    ///
    /// # Errors
    ///
    /// [`Error::ForeignTensor`] if it is another instance's.
    pub fn restore(&self, value: &Value) -> Result<B::Tensor, Error> {
        bridge::restore("restore", self.owner, value)
    }

    #[inline]
    fn guard<R>(&self, op: &'static str, body: impl FnOnce() -> Result<R, B::Error>) -> Result<R, Error> {
        bridge::guard::<B, R>(&self.counters, self.owner, op, body)
    }

    /// Calls an operation by number: a primitive, a native, or the body of one that is not.
    #[inline]
    fn call(
        &self,
        op: &'static OpSpec,
        inputs: &[Option<&B::Tensor>],
        params: &[Param<'_>],
    ) -> Result<Outputs<B::Tensor>, B::Error> {
        if let (Family::Primitive, Some(primitive)) = (op.family, Primitive::from_index(op.index)) {
            return crate::call::primitive(&self.backend, primitive, inputs, params);
        }
        let extended = self.extended();
        match extended.native(op.family, op.index) {
            Some(table) => table.call(&self.backend, op.index, inputs, params),
            None => crate::ext::call(&extended, op, inputs, params),
        }
    }

    fn opset(&self, family: Family, ops: Vec<&'static OpSpec>) -> AtomicOpsetDecl {
        let native = |index| self.capabilities().is_native(family, index);
        AtomicOpsetDecl {
            family,
            ops: ops.into_iter().map(|spec| AtomicOpDecl { spec, native: native(spec.index) }).collect(),
        }
    }

    /// Compiles with the operations that the backend declared native.
    fn prepare(&self, module: Module, options: &CompileOptions) -> Result<Arc<dyn Executable<B>>, Error> {
        let options = options.clone().with_families(self.families);
        Ok(self.guard("compile", || self.backend.compile(module, &options))?.into())
    }

    /// Hands a graph over with typed tensors.
    fn hand_over(
        self: &Arc<Self>,
        graph: Arc<GraphProto>,
        inputs: HashMap<String, B::Tensor>,
        attrs: BackendAttrs<'_>,
    ) -> ContractResponse<HashMap<String, Value>, Error> {
        match (attrs.identity, self.dispatches.load(Ordering::Relaxed)) {
            (Some(identity), INHERITS) => {
                ContractResponse::Now(self.run_kept(identity, &graph, inputs, attrs))
            }
            (Some(identity), UNKNOWN) => {
                let (completion, declined) = CompletionHandle::declinable();
                let (again, kept) = (graph.clone(), inputs.clone());
                let response =
                    self.guard("dispatch", || Ok(self.backend.dispatch(again, kept, attrs, completion)));
                let inherits = declined.load(Ordering::Relaxed);
                self.dispatches.store(if inherits { INHERITS } else { ITSELF }, Ordering::Relaxed);
                match inherits {
                    true => ContractResponse::Now(self.run_kept(identity, &graph, inputs, attrs)),
                    false => self.answer(response),
                }
            }
            _ => self.answer(self.guard("dispatch", || {
                Ok(self.backend.dispatch(graph, inputs, attrs, CompletionHandle::new()))
            })),
        }
    }

    /// Runs the kept plan of a graph; a graph that does not compile is left to the backend's `execute`.
    fn run_kept(
        &self,
        identity: GraphIdentity,
        graph: &GraphProto,
        inputs: HashMap<String, B::Tensor>,
        attrs: BackendAttrs<'_>,
    ) -> Result<HashMap<String, Value>, Error> {
        let plan = self.plans.get_or(identity, || {
            let module = Module::from_graph(graph, attrs.opsets, attrs.functions)?;
            self.prepare(module, &CompileOptions::default())
        });
        let outputs = self.guard("dispatch", || match plan {
            Ok(plan) => crate::plan::run_named(&self.backend, &*plan, inputs),
            Err(_) => self.backend.execute(graph, inputs, attrs),
        })?;
        Ok(bridge::erase_named(self.owner, outputs))
    }

    /// Erases what a backend answered.
    fn answer(
        self: &Arc<Self>,
        response: Result<Typed<B>, Error>,
    ) -> ContractResponse<HashMap<String, Value>, Error> {
        match response {
            Err(error) => ContractResponse::Now(Err(error)),
            Ok(ContractResponse::Now(result)) => ContractResponse::Now(self.erase_results(result)),
            Ok(ContractResponse::Later(later)) => {
                let pending = Pending::new(self.clone());
                ContractResponse::Later(later.map(move |result| pending.0.erase_results(result)))
            }
        }
    }

    fn erase_results(
        &self,
        result: Result<HashMap<String, B::Tensor>, B::Error>,
    ) -> Result<HashMap<String, Value>, Error> {
        match result {
            Ok(outputs) => Ok(bridge::erase_named(self.owner, outputs)),
            Err(error) => Err(bridge::kernel::<B>(&self.counters, self.owner, "dispatch", error)),
        }
    }
}

impl<B: Backend + 'static> std::fmt::Debug for Runtime<B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Runtime")
            .field("owner", &self.owner)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// A result that is not here yet; counted until it is dropped.
struct Pending<B: Backend + 'static>(Arc<Runtime<B>>);

impl<B: Backend + 'static> Pending<B> {
    fn new(runtime: Arc<Runtime<B>>) -> Self {
        runtime.counters.add_pending();
        Pending(runtime)
    }
}

impl<B: Backend + 'static> Drop for Pending<B> {
    fn drop(&mut self) {
        self.0.counters.end_pending();
    }
}

impl<B: Backend + 'static> BackendRuntime for Runtime<B> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn version(&self) -> &'static str {
        self.version
    }

    fn path(&self) -> &'static str {
        self.path
    }

    fn owner(&self) -> Owner {
        self.owner
    }

    fn atomic_opset(&self) -> AtomicOpsetDecl {
        self.opset(Family::Primitive, Primitive::ALL.iter().map(|op| op.spec()).collect())
    }

    fn extension_opsets(&self) -> Vec<AtomicOpsetDecl> {
        self.families
            .iter()
            .map(|table| self.opset(table.family(), crate::ext::rows(table.family())))
            .collect()
    }

    fn abi_fingerprint(&self) -> u64 {
        let own = [self.name, self.version, self.path, env!("CARGO_PKG_VERSION")];
        let opsets = std::iter::once(self.atomic_opset()).chain(self.extension_opsets());
        bb_ir::op::fingerprint(own, opsets)
    }

    fn dispatch_atomic(
        &self,
        op: &'static OpSpec,
        inputs: &[Option<&Value>],
        params: &[Param<'_>],
    ) -> DispatchResult {
        bridge::with_operands::<B::Tensor, _>(op.method, self.owner, inputs, |operands| {
            self.guard(op.method, || Ok(bridge::erase_all(self.owner, self.call(op, operands, params)?)))
        })
    }

    fn materialize_from_wire(&self, type_hash: u64, bytes: Vec<u8>) -> Result<Value, Error> {
        let made =
            self.guard("materialize_from_wire", || self.backend.materialize_from_wire(type_hash, bytes))?;
        Ok(self.erase(made))
    }

    fn constant(&self, data: &TensorData) -> Result<Value, Error> {
        let made = self.guard("constant", || self.backend.constant(data))?;
        Ok(self.erase(made))
    }

    fn to_host(&self, value: &Value) -> Result<TensorData, Error> {
        let typed: B::Tensor = bridge::restore("to_host", self.owner, value)?;
        self.guard("to_host", move || self.backend.to_host(&typed))
    }

    fn compile(
        self: Arc<Self>,
        module: Module,
        options: &CompileOptions,
    ) -> Result<Arc<dyn ErasedExecutable>, Error> {
        let executable = match options.identity {
            Some(identity) => self.plans.get_or(identity, || self.prepare(module, options))?,
            None => self.prepare(module, options)?,
        };
        Ok(Arc::new(Compiled { runtime: self, executable }))
    }

    fn dispatch(
        self: Arc<Self>,
        graph: Arc<GraphProto>,
        inputs: HashMap<String, Value>,
        attrs: BackendAttrs<'_>,
    ) -> ContractResponse<HashMap<String, Value>, Error> {
        match bridge::restore_named("dispatch", self.owner, inputs) {
            Ok(typed) => self.hand_over(graph, typed, attrs),
            Err(error) => ContractResponse::Now(Err(error)),
        }
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { families: self.families.iter().map(|t| (t.family(), t.native())).collect() }
    }

    fn status(&self) -> Status {
        self.counters.status()
    }

    fn initialize(&self) {
        self.counters.initialize();
    }

    fn synchronize(&self) {
        self.counters.wait_idle();
    }

    fn shut_down(&self) {
        self.counters.shut_down();
    }
}

/// A compiled graph and the backend it runs on.
struct Compiled<B: Backend + 'static> {
    runtime: Arc<Runtime<B>>,
    executable: Arc<dyn Executable<B>>,
}

impl<B: Backend + 'static> ErasedExecutable for Compiled<B> {
    fn inputs(&self) -> &[Port] {
        self.executable.inputs()
    }

    fn outputs(&self) -> &[Port] {
        self.executable.outputs()
    }

    fn run(&self, inputs: &[Option<&Value>]) -> Result<Vec<Value>, Error> {
        let on = &*self.runtime;
        let outputs = bridge::with_operands::<B::Tensor, _>("run", on.owner, inputs, |operands| {
            on.guard("run", || self.executable.run(&on.backend, operands))
        })?;
        Ok(outputs.into_iter().map(|t| on.erase(t)).collect())
    }

    fn run_items(&self, inputs: &[Option<Item<Value>>]) -> Result<Vec<Item<Value>>, Error> {
        self.with_items(inputs, |executable, on, items| executable.run_items(on, items))
    }

    fn run_profiled(
        &self,
        inputs: &[Option<Item<Value>>],
        profile: &mut Profile,
    ) -> Result<Vec<Item<Value>>, Error> {
        self.with_items(inputs, |executable, on, items| executable.run_profiled(on, items, profile))
    }
}

impl<B: Backend + 'static> Compiled<B> {
    /// Runs with the types of the inputs restored.
    fn with_items(
        &self,
        inputs: &[Option<Item<Value>>],
        run: impl FnOnce(
            &dyn Executable<B>,
            &B,
            &[Option<Item<&B::Tensor>>],
        ) -> Result<Vec<Item<B::Tensor>>, B::Error>,
    ) -> Result<Vec<Item<Value>>, Error> {
        let on = &*self.runtime;
        let mut restore = |value: &Value| bridge::restore::<B::Tensor>("run", on.owner, value);
        let typed: Vec<Option<Item<B::Tensor>>> = inputs
            .iter()
            .map(|item| item.as_ref().map(|item| item.try_map(&mut restore)).transpose())
            .collect::<Result<_, Error>>()?;
        let refs: Vec<Option<Item<&B::Tensor>>> =
            typed.iter().map(|item| item.as_ref().map(|item| item.map(&mut |x| x))).collect();
        let outputs = on.guard("run", || run(&*self.executable, &on.backend, &refs))?;
        Ok(outputs.iter().map(|item| item.map(&mut |t: &B::Tensor| on.erase(t.clone()))).collect())
    }
}
