//! A running backend: the backend with its plans, counters and state.

use super::answers::Answers;
use super::ask::primitive_of;
use super::erased::Sealed;
use super::instances::Entered;
use super::offered::KernelTable;
use super::plans::{Declarations, Plans};
use super::start::Identity;
use super::status::{Counters, Pending};
use super::{
    BackendId, BackendRuntime, Capabilities, Declared, DispatchResult, ErasedExecutable, OpenOptions, State,
    Status, Value,
};
use super::{bridge, open};
use crate::contract::OnnxValue;
use crate::contract::{KeepsPlans, Plans as LentPlans, begin_buffers, catch, refused_buffer};
use crate::error::is_panic;
use crate::ext::{Extended, FamilyTable};
use crate::measure::Profile;
use crate::narrow::Narrowed;
use crate::plan::Stamp;
use crate::service::{Fingerprint, Lifecycle, Service, ServiceError};
use crate::{
    Backend, BackendAttrs, CheckedGraph, CompileOptions, CompletionHandle, ContractResponse, Error,
    Executable, InputSpec, Module, OpenOption, Outputs, Port, ResultBuffer, RunOptions,
};
use bb_ir::compact::Writer;
use bb_ir::op::{AtomicOpDecl, AtomicOpsetDecl, Family, OpSpec, Param, Primitive};
use bb_ir::proto::GraphProto;
use bb_ir::{DataType, TensorData};
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

/// A running backend.
pub struct Runtime<B: Backend + 'static> {
    pub(super) backend: B,
    entered: Entered,
    pub(super) counters: Arc<Counters>,
    plans: Plans<B>,
    declarations: Declarations,
    pub(super) name: &'static str,
    version: &'static str,
    path: &'static str,
    families: &'static [FamilyTable<B>],
    answers: Answers,
    /// The kernels that users loaded.
    pub(super) loaded: KernelTable<B::Tensor>,
}

impl<B: Declared> Runtime<B> {
    /// Starts a backend that was declared by `#[derive(bb::Backend)]`.
    pub fn new(backend: B) -> Arc<Runtime<B>> {
        Runtime::start_declared(backend, B::NAME)
    }

    /// Starts a declared backend under a name that may differ from its declared name.
    pub(crate) fn start_declared(backend: B, name: &'static str) -> Arc<Runtime<B>> {
        Runtime::start(backend, Identity { name, version: B::VERSION, path: B::PATH }, B::FAMILIES)
    }

    /// Constructs a backend and starts it.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the constructor fails or panics.
    pub fn open() -> Result<Arc<dyn BackendRuntime>, Error> {
        Runtime::<B>::open_with(&OpenOptions::default())
    }

    /// Constructs a backend with options.
    pub(crate) fn constructed(options: &OpenOptions) -> Result<B, Error> {
        open::check::<B>(options)?;
        let options = &open::complete(B::OPTIONS, options);
        bridge::construct(B::NAME, || B::create(options))
    }

    /// Constructs a backend with options and starts it.
    ///
    /// # Errors
    ///
    /// The errors of [`open`](Self::open); [`Error::OpenOption`] if the backend does not accept one of the options;
    /// [`Error::UnknownDevice`] if it lists its devices and the requested one is not among them.
    pub fn open_with(options: &OpenOptions) -> Result<Arc<dyn BackendRuntime>, Error> {
        let backend = Runtime::<B>::constructed(options)?;
        open::check_types(B::NAME, backend.types())?;
        if options.narrow_floats && backend.types().is_all() {
            let option = OpenOption::NarrowFloats;
            return Err(Error::OpenOption { backend: B::NAME, option, takes: B::OPTIONS.to_vec() });
        }
        let name = open::instance_name(B::NAME, options.device.as_deref());
        Ok(backend.start(open::Start { name, narrow_floats: options.narrow_floats }))
    }
}

impl<B: Backend + 'static> Runtime<B> {
    /// Starts a backend without the derive, under a name, with only the primitives.
    ///
    /// The runtime then ignores native methods of extension families; use [`with_families`](Self::with_families) for
    /// them.
    pub fn named(name: &'static str, backend: B) -> Arc<Runtime<B>> {
        Runtime::with_families(name, backend, &[])
    }

    /// Starts a backend without the derive, under a name, with families, for example `bb::ext::nn::table()`.
    pub fn with_families(
        name: &'static str,
        backend: B,
        families: &'static [FamilyTable<B>],
    ) -> Arc<Runtime<B>> {
        Runtime::start(backend, Runtime::<B>::unversioned(name), families)
    }

    /// Starts a backend without the derive, like [`with_families`](Self::with_families). If the backend lacks element
    /// types ([`Backend::types`]), the runtime emulates them, if the emulation is exact.
    pub fn erased(
        name: &'static str,
        backend: B,
        families: &'static [FamilyTable<B>],
    ) -> Arc<dyn BackendRuntime> {
        crate::runtime::start(backend, Runtime::<B>::unversioned(name), families, false)
    }

    fn unversioned(name: &'static str) -> Identity {
        Identity { name, version: "", path: std::any::type_name::<B>() }
    }

    pub(crate) fn start(
        backend: B,
        identity: Identity,
        families: &'static [FamilyTable<B>],
    ) -> Arc<Runtime<B>> {
        let Identity { name, version, path } = identity;
        Arc::new_cyclic(|this: &std::sync::Weak<Runtime<B>>| Runtime {
            backend,
            entered: super::instances::enter(name, this.clone()),
            counters: Arc::default(),
            plans: Plans::default(),
            declarations: Declarations::default(),
            name,
            version,
            path,
            families,
            answers: Answers::default(),
            loaded: KernelTable::default(),
        })
    }

    /// Returns the backend.
    pub fn backend(&self) -> &B {
        &self.backend
    }

    /// Returns the backend with all extension families.
    pub fn extended(&self) -> Extended<'_, B> {
        Extended::new(&self.backend, self.families)
    }

    /// Erases the type of a tensor of this backend.
    ///
    /// # Panics
    ///
    /// If the author's [`Tensor::erase`](crate::Tensor::erase) panics.
    pub fn erase(&self, tensor: B::Tensor) -> Value {
        bridge::erase(self.owner(), tensor)
    }

    /// Restores the type of a tensor of this backend.
    ///
    /// # Errors
    ///
    /// [`Error::ForeignTensor`] if the tensor belongs to another instance; [`Error::Panicked`] if the author's
    /// [`Tensor::restore`](crate::Tensor::restore) panics.
    pub fn restore(&self, value: &Value) -> Result<B::Tensor, Error> {
        let restore = || bridge::restore("restore", self.owner(), value);
        bridge::contain(&self.counters, self.owner(), "restore", restore)
    }

    /// Runs code of the backend's author as one counted call.
    #[inline]
    pub(super) fn enter<R>(
        &self,
        op: &'static str,
        body: impl FnOnce() -> Result<R, Error>,
    ) -> Result<R, Error> {
        bridge::enter(&self.counters, self.owner(), op, body)
    }

    /// Returns a function that converts the backend's own error.
    #[inline]
    fn failed(&self, op: &'static str) -> impl FnOnce(B::Error) -> Error {
        move |error| self.failure(op, error)
    }

    /// Converts the backend's own error, or returns an error that its device is lost.
    #[cold]
    fn failure(&self, op: &'static str, error: B::Error) -> Error {
        if is_panic(&error, &|error| self.wrapped(error)) {
            self.counters.panicked();
        }
        // The caller omitted the input, so this is not an error of the backend.
        if let Some(Error::MissingInput { name, expected }) = self.wrapped(&error) {
            return Error::MissingInput { name: name.clone(), expected: expected.clone() };
        }
        match self.find_lost() {
            Some(reason) => self.lost(reason, Some(Box::new(error))),
            None => bridge::kernel::<B>(self.owner(), op, error),
        }
    }

    /// Converts the error of a service, or returns an error that the device is lost.
    #[cold]
    pub(super) fn service_failure(&self, service: Service, error: ServiceError) -> Error {
        match (error, self.find_lost()) {
            (ServiceError::Lost { reason }, _) => {
                self.counters.lose(&reason);
                self.lost(reason, None)
            }
            (error, Some(reason)) => self.lost(reason, Some(Box::new(error))),
            (source, None) => Error::Service { backend: self.name, service, source },
        }
    }

    fn lost(&self, reason: String, source: Option<crate::BoxError>) -> Error {
        Error::DeviceLost { backend: self.owner(), reason, source }
    }

    /// Queries whether the backend's device is lost, and records a loss.
    fn find_lost(&self) -> Option<String> {
        let ask = || self.backend.lifecycle().and_then(|lifecycle| lifecycle.lost());
        let reason = catch(ask).ok().flatten()?;
        self.counters.lose(&reason);
        Some(reason)
    }

    /// Calls the lifecycle service, if there is one.
    fn with_lifecycle(
        &self,
        op: &'static str,
        body: impl FnOnce(&dyn Lifecycle) -> Result<(), ServiceError>,
    ) -> Result<(), Error> {
        bridge::contain(&self.counters, self.owner(), op, || match self.backend.lifecycle() {
            Some(lifecycle) => body(lifecycle).map_err(|e| self.service_failure(Service::Lifecycle, e)),
            None => Ok(()),
        })
    }

    /// Calls an operation by its table row. If it is neither a primitive nor a native operation of the backend, its
    /// body runs.
    #[inline]
    fn call(
        &self,
        op: &'static OpSpec,
        inputs: &[Option<&B::Tensor>],
        params: &[Param<'_>],
    ) -> Result<Outputs<B::Tensor>, B::Error> {
        if let (Family::Primitive, Some(primitive)) = (op.family, Primitive::from_index(op.index)) {
            return crate::call::call_primitive(&self.backend, primitive, inputs, params);
        }
        self.extended().call(op, inputs, params)
    }

    fn opset(&self, family: Family, ops: Vec<&'static OpSpec>) -> AtomicOpsetDecl {
        let natives = self.families.iter().find(|table| table.family() == family).map(FamilyTable::native);
        let native = |index| family == Family::Primitive || natives.is_some_and(|set| set.contains(index));
        AtomicOpsetDecl {
            family,
            ops: ops.into_iter().map(|spec| AtomicOpDecl { spec, native: native(spec.index) }).collect(),
        }
    }

    /// Returns the stamp that models compiled for this backend carry.
    fn stamp(&self) -> Stamp {
        Stamp::new(self.name, self.version, self.fingerprint())
    }

    /// Compiles a graph with the operations that the backend declared as native.
    fn prepare(&self, module: Module, options: &CompileOptions) -> Result<Arc<dyn Executable<B>>, Error> {
        let options = options.clone().with_families(self.families);
        let compile = || self.backend.compile(module, &options).map_err(self.failed("compile"));
        Ok(self.enter("compile", compile)?.into())
    }

    /// Dispatches a graph with typed tensors, after checking the inputs with `declared`.
    ///
    /// Through the attributes the backend can use the plans of this runtime, which the default `execute` runs.
    fn hand_over(
        self: &Arc<Self>,
        graph: Arc<GraphProto>,
        declared: &InputSpec,
        inputs: HashMap<String, Value>,
        attrs: BackendAttrs<'_>,
    ) -> ContractResponse<HashMap<String, Value>, Error> {
        let plans = LentPlans::<B::Tensor, B::Error>(self.clone());
        let attrs = attrs.with_plans(&plans);
        let answer = self.enter("dispatch", || {
            let inputs = bridge::restore_named::<B::Tensor>("dispatch", self.owner(), inputs)?;
            declared.check_named(&inputs)?;
            Ok(match self.backend.dispatch(graph, inputs, attrs, CompletionHandle::new()) {
                ContractResponse::Now(result) => ContractResponse::Now(Ok(self.erase_results(result)?)),
                ContractResponse::Later(later) => {
                    // The graph is counted as pending before the call ends, so that at every moment one of the two is
                    // counted.
                    later.keep_until_end(Box::new(Pending::new(self.counters.clone())));
                    let on = self.clone();
                    ContractResponse::Later(later.map(move |result| {
                        bridge::contain(&on.counters, on.owner(), "dispatch", || on.erase_results(result))
                    }))
                }
            })
        });
        answer.unwrap_or_else(|error| ContractResponse::Now(Err(error)))
    }

    /// Erases the types of the tensors that a backend returned.
    fn erase_results(
        &self,
        result: Result<HashMap<String, B::Tensor>, B::Error>,
    ) -> Result<HashMap<String, Value>, Error> {
        Ok(bridge::erase_named(self.owner(), result.map_err(self.failed("dispatch"))?))
    }
}

impl<B: Backend + 'static> KeepsPlans<B::Tensor, B::Error> for Runtime<B> {
    fn are_of(&self, backend: *const (), ty: &str) -> bool {
        (std::ptr::eq(std::ptr::from_ref(&self.backend).cast(), backend) && ty == std::any::type_name::<B>())
            || self.backend.stands_on(backend, ty)
    }

    fn run(
        &self,
        graph: &GraphProto,
        inputs: HashMap<String, B::Tensor>,
        attrs: BackendAttrs<'_>,
    ) -> Result<HashMap<String, B::Tensor>, B::Error> {
        let mut options = CompileOptions::default().with_node(attrs.attributes, attrs.metadata);
        options.identity = attrs.identity;
        let plan = self.plans.get_or(&options, || {
            let module = attrs.module(graph)?;
            let options = options.clone().with_families(self.families);
            Ok::<_, B::Error>(self.backend.compile(module, &options)?.into())
        })?;
        crate::plan::run_named(&self.backend, &*plan, inputs)
    }
}

impl<B: Backend + 'static> std::fmt::Debug for Runtime<B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Runtime")
            .field("owner", &self.entered.id())
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl<B: Backend + 'static> Sealed for Runtime<B> {}

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

    #[inline]
    fn owner(&self) -> BackendId {
        self.entered.id()
    }

    fn declines(&self, graph: &bb_ir::graph::Graph, node: &bb_ir::graph::Node) -> Option<String> {
        catch(|| self.backend.declines(graph, node)).unwrap_or_else(Some)
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
        // The name is not part of the fingerprint, because a plan that was saved for one device of a backend runs on
        // all its devices.
        let own = [self.version, self.path, env!("CARGO_PKG_VERSION")];
        let opsets = std::iter::once(self.atomic_opset()).chain(self.extension_opsets());
        bb_ir::op::fingerprint(own, opsets)
    }

    fn dispatch_atomic(
        &self,
        op: &'static OpSpec,
        inputs: &[Option<&Value>],
        params: &[Param<'_>],
    ) -> DispatchResult {
        self.enter(op.method, || {
            bridge::with_operands::<B::Tensor, _>(op.method, self.owner(), inputs, |operands| {
                let results = self.call(op, operands, params).map_err(self.failed(op.method))?;
                Ok(bridge::erase_all(self.owner(), results))
            })
        })
    }

    fn materialize_from_wire(&self, type_hash: u64, bytes: Vec<u8>) -> Result<Value, Error> {
        const OP: &str = "materialize_from_wire";
        self.enter(OP, || {
            let made = self.backend.materialize_from_wire(type_hash, bytes).map_err(self.failed(OP))?;
            Ok(self.erase(made))
        })
    }

    fn constant(&self, data: &TensorData) -> Result<Value, Error> {
        self.enter("constant", || {
            Ok(self.erase(self.backend.constant(data).map_err(self.failed("constant"))?))
        })
    }

    fn to_host(&self, value: &Value) -> Result<TensorData, Error> {
        self.enter("to_host", || {
            let typed: B::Tensor = bridge::restore("to_host", self.owner(), value)?;
            self.backend.to_host(&typed).map_err(self.failed("to_host"))
        })
    }

    fn compile(
        self: Arc<Self>,
        module: Module,
        options: &CompileOptions,
    ) -> Result<Arc<dyn ErasedExecutable>, Error> {
        let module = module.opened(|| self.stamp())?;
        let declared = InputSpec::new(module.graph()).with_strict(options.strict);
        let executable = self.plans.get_or(options, || self.prepare(module, options))?;
        Ok(Arc::new(RunningExecutable { runtime: self, executable, declared }))
    }

    fn dispatch(
        self: Arc<Self>,
        graph: Arc<GraphProto>,
        inputs: HashMap<String, Value>,
        attrs: BackendAttrs<'_>,
    ) -> ContractResponse<HashMap<String, Value>, Error> {
        match self.declarations.of(&graph, attrs.identity) {
            Ok(declared) => self.hand_over(graph, &declared, inputs, attrs),
            Err(error) => ContractResponse::Now(Err(error)),
        }
    }

    fn dispatch_checked(
        self: Arc<Self>,
        graph: &CheckedGraph,
        inputs: HashMap<String, Value>,
        attrs: BackendAttrs<'_>,
    ) -> ContractResponse<HashMap<String, Value>, Error> {
        match graph.proto().and_then(|proto| Ok((proto.clone(), graph.accompany(attrs)?))) {
            Ok((proto, attrs)) => self.hand_over(proto, graph.declared(), inputs, attrs),
            Err(error) => ContractResponse::Now(Err(error)),
        }
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            families: self.families.iter().map(|t| (t.family(), t.native())).collect(),
            types: self.backend.types(),
            device: catch(|| self.backend.device_info()).unwrap_or_default(),
        }
    }

    fn runs_primitive(&self, op: Primitive) -> bool {
        self.backend.runs_primitive(op)
    }

    fn wrapped<'a>(&self, error: &'a (dyn std::error::Error + 'static)) -> Option<&'a Error> {
        self.backend.wrapped_in(error)
    }

    fn try_call(
        &self,
        op: &'static OpSpec,
        operands: &[Option<TensorData>],
        params: &[Param<'_>],
    ) -> Result<(), Error> {
        // A call on a whole-graph backend may need a compilation, so its declaration is used instead of a trial.
        if self.backend.runs_whole_graphs() {
            if let Some(primitive) = primitive_of(op).filter(|op| !self.backend.runs_primitive(*op)) {
                let source = Box::new(Error::NoPrimitive { op: primitive.spec().method });
                return Err(Error::Kernel { backend: self.name, op: op.method, source });
            }
            let own: &dyn std::any::Any = &self.backend;
            let narrowed = own.downcast_ref::<Narrowed>();
            let told = narrowed.map_or(Ok(()), |on| on.would_refuse(op, operands, params));
            return told.map_err(|source| Error::Kernel {
                backend: self.name,
                op: op.method,
                source: source.into_source(),
            });
        }
        let _running = self.counters.begin(self.owner())?;
        self.counters.leave_out();
        let called = catch(|| {
            let bring = |x: &Option<TensorData>| x.as_ref().map(|x| self.backend.constant(x)).transpose();
            let operands = operands.iter().map(bring).collect::<Result<Vec<Option<B::Tensor>>, _>>()?;
            let operands: Vec<Option<&B::Tensor>> = operands.iter().map(Option::as_ref).collect();
            let results = self.call(op, &operands, params)?;
            // A device may report an error only when a result is read, so all results are read.
            results.iter().try_for_each(|x| self.backend.to_host(x).map(drop))
        });
        match called {
            Ok(answer) => answer.map_err(|source: B::Error| Error::Kernel {
                backend: self.name,
                op: op.method,
                source: Box::new(source),
            }),
            Err(message) => Err(Error::Panicked { backend: self.name, op: op.method, message }),
        }
    }

    fn answers(&self) -> &Answers {
        &self.answers
    }

    fn status(&self) -> Status {
        let ask = || self.backend.lifecycle().and_then(|lifecycle| lifecycle.queued());
        let count = || self.backend.memory().map(|memory| memory.statistics());
        Status {
            queued: catch(ask).ok().flatten(),
            memory: catch(count).ok().flatten(),
            ..self.counters.status()
        }
    }

    fn state(&self) -> State {
        self.counters.state()
    }

    fn initialize(&self) {
        self.counters.initialize();
    }

    fn fingerprint(&self) -> Fingerprint {
        let opsets = std::iter::once(self.atomic_opset()).chain(self.extension_opsets());
        Fingerprint::new(self.version, self.path, opsets)
    }

    fn is_asynchronous(&self) -> bool {
        let ask = || self.backend.lifecycle().is_some_and(|lifecycle| lifecycle.is_asynchronous());
        catch(ask).unwrap_or(false)
    }

    fn is_lost(&self) -> bool {
        self.find_lost().is_some() || self.counters.state() == State::Lost
    }

    fn synchronize(&self) -> Result<(), Error> {
        self.counters.wait_idle();
        self.with_lifecycle("synchronize", |lifecycle| lifecycle.synchronize())
    }

    fn shut_down(&self) -> Result<(), Error> {
        if !self.counters.shut_down() {
            return Ok(());
        }
        let ended = self.with_lifecycle("shut_down", |lifecycle| lifecycle.shut_down());
        // Dropping a kernel runs the backend's code, so panics are contained.
        let dropped = bridge::contain(&self.counters, self.owner(), "unload_kernel", || {
            self.loaded.clear();
            Ok(())
        });
        ended.and(dropped)
    }
}

/// A compiled graph and the backend that runs it.
struct RunningExecutable<B: Backend + 'static> {
    runtime: Arc<Runtime<B>>,
    executable: Arc<dyn Executable<B>>,
    /// The declared inputs. The runtime checks the inputs of each run, even if the executable checks them too.
    declared: InputSpec,
}

impl<B: Backend + 'static> ErasedExecutable for RunningExecutable<B> {
    fn inputs(&self) -> &[Port] {
        self.executable.inputs()
    }

    fn outputs(&self) -> &[Port] {
        self.executable.outputs()
    }

    fn run(&self, inputs: &[Option<&Value>]) -> Result<Vec<Value>, Error> {
        let on = &*self.runtime;
        on.enter("run", || {
            let outputs = bridge::with_operands::<B::Tensor, _>("run", on.owner(), inputs, |operands| {
                self.declared.check(operands)?;
                self.executable.run(&on.backend, operands).map_err(on.failed("run"))
            })?;
            // A run that must end fails even if it has finished, because a backend's own executable need not check the
            // options.
            RunOptions::check_current()?;
            Ok(outputs.into_iter().map(|t| on.erase(t)).collect())
        })
    }

    fn run_into(
        &self,
        inputs: &[Option<&Value>],
        outputs: &mut [Option<&mut ResultBuffer<'_>>],
    ) -> Result<(), Error> {
        let on = &*self.runtime;
        on.enter("run", || {
            // A backend's own executable need not check the buffers, so they are checked here.
            begin_buffers(self.executable.outputs(), outputs)?;
            bridge::with_operands::<B::Tensor, _>("run", on.owner(), inputs, |operands| {
                self.declared.check(operands)?;
                let ran = self.executable.run_into(&on.backend, operands, outputs);
                ran.map_err(|error| refused_buffer(outputs).unwrap_or_else(|| on.failed("run")(error)))
            })?;
            RunOptions::check_current()
        })
    }

    fn plan_ahead(&self, inputs: &[Option<(DataType, &[usize])>]) -> Result<(), Error> {
        let on = &*self.runtime;
        on.enter("compile", || self.executable.plan_ahead(&on.backend, inputs).map_err(on.failed("compile")))
    }

    fn save(&self, path: &Path) -> Result<(), Error> {
        let on = &*self.runtime;
        let module = on.enter("save", || self.executable.compiled_module().map_err(on.failed("save")))?;
        let module = module.ok_or(Error::NotSaved { backend: on.name })?;
        let mut content = Writer::default();
        module.write(&on.stamp(), &mut content);
        crate::export::write_whole(path, |file| bb_ir::compact::write(&content, file))
    }

    fn run_items(&self, inputs: &[Option<OnnxValue<Value>>]) -> Result<Vec<OnnxValue<Value>>, Error> {
        self.with_items(inputs, |executable, on, items| executable.run_items(on, items))
    }

    fn run_profiled(
        &self,
        inputs: &[Option<OnnxValue<Value>>],
        profile: &mut Profile,
    ) -> Result<Vec<OnnxValue<Value>>, Error> {
        self.with_items(inputs, |executable, on, items| executable.run_profiled(on, items, profile))
    }
}

impl<B: Backend + 'static> RunningExecutable<B> {
    /// Restores the types of the inputs and calls `run` with them.
    fn with_items(
        &self,
        inputs: &[Option<OnnxValue<Value>>],
        run: impl FnOnce(
            &dyn Executable<B>,
            &B,
            &[Option<OnnxValue<&B::Tensor>>],
        ) -> Result<Vec<OnnxValue<B::Tensor>>, B::Error>,
    ) -> Result<Vec<OnnxValue<Value>>, Error> {
        let on = &*self.runtime;
        on.enter("run", || {
            let mut restore = |value: &Value| bridge::restore::<B::Tensor>("run", on.owner(), value);
            let typed: Vec<Option<OnnxValue<B::Tensor>>> = inputs
                .iter()
                .map(|item| item.as_ref().map(|item| item.try_map(&mut restore)).transpose())
                .collect::<Result<_, Error>>()?;
            let refs: Vec<Option<OnnxValue<&B::Tensor>>> =
                typed.iter().map(|item| item.as_ref().map(|item| item.map(&mut |x| x))).collect();
            self.declared.check_items(&refs)?;
            let outputs = run(&*self.executable, &on.backend, &refs).map_err(on.failed("run"))?;
            RunOptions::check_current()?;
            Ok(outputs.iter().map(|item| item.map(&mut |t: &B::Tensor| on.erase(t.clone()))).collect())
        })
    }
}
