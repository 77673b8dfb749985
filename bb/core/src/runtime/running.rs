//! A running backend: the backend with its plans, counters and state.

use super::answers::Answers;
use super::ask::primitive_of;
use super::bridge;
use super::executable::RunningExecutable;
use super::instances::Entered;
use super::loaded::KernelTable;
use super::plans::{Declarations, Plans};
use super::start::Identity;
use super::status::{Counters, Pending};
use super::trial::as_trial;
use super::{BackendId, Capabilities, DispatchResult, ErasedExecutable, State, Status, Value};
use crate::contract::{by_name, catch};
use crate::erased::{
    ErasedCompiled, ErasedError, ErasedTensor, KeepsPlans, Kernels, Owned, Plans as KeptPlans,
};
use crate::error::is_panic;
use crate::ext::OpSet;
use crate::family::call_erased;
use crate::narrow::Narrowed;
use crate::plan::{Stamp, taken_by_port};
use crate::service::{Fingerprint, Lifecycle, Service, ServiceError};
use crate::{
    Backend, BackendAttrs, CheckedGraph, CompileOptions, ContractResponse, Error, InputSpec, Module, Tensor,
};
use bb_ir::TensorData;
use bb_ir::op::{AtomicOpDecl, AtomicOpsetDecl, Family, OpSpec, Param, Primitive};
use bb_ir::proto::GraphProto;
use std::collections::HashMap;
use std::sync::Arc;

/// A running backend: the backend with its plans, counters and state. The engine calls backends through it.
///
/// A panic of the backend becomes [`Error::Panicked`], or [`Error::KernelPanicked`] inside the error of a node if a
/// plan made the call. The backend can still be called afterwards. The backend's own error becomes the source of
/// [`Error::Kernel`].
pub struct Runtime {
    pub(super) on: Arc<dyn Kernels>,
    entered: Entered,
    pub(super) counters: Arc<Counters>,
    plans: Plans,
    declarations: Declarations,
    pub(super) name: &'static str,
    version: &'static str,
    path: &'static str,
    /// The native operations of each family.
    natives: Vec<(Family, OpSet)>,
    answers: Answers,
    /// The kernels that users loaded.
    pub(super) loaded: KernelTable,
}

impl Runtime {
    /// Starts a backend whose type is erased.
    pub(crate) fn start(on: Arc<dyn Kernels>, identity: Identity) -> Arc<Runtime> {
        let Identity { name, version, path } = identity;
        let natives = on.natives();
        Arc::new_cyclic(|this: &std::sync::Weak<Runtime>| Runtime {
            on,
            entered: super::instances::enter(name, this.clone()),
            counters: Arc::default(),
            plans: Plans::default(),
            declarations: Declarations::default(),
            name,
            version,
            path,
            natives,
            answers: Answers::default(),
            loaded: KernelTable::default(),
        })
    }

    /// Returns the backend if it is a `B` without an adapter for its element types.
    pub(super) fn owned<B: Backend + 'static>(&self) -> Option<&Owned<B>> {
        self.on.any()?.downcast_ref()
    }

    /// Returns a tensor of this backend as a value.
    pub(super) fn value(&self, tensor: ErasedTensor) -> Value {
        Value::new(tensor, self.owner())
    }

    /// Returns the tensor of a value.
    ///
    /// # Errors
    ///
    /// [`Error::ForeignTensor`] if the tensor belongs to another instance.
    pub(super) fn tensor<'a>(&self, op: &'static str, value: &'a Value) -> Result<&'a ErasedTensor, Error> {
        bridge::tensor(op, self.owner(), value)
    }

    /// Restores the type of a tensor.
    ///
    /// # Errors
    ///
    /// [`Error::ForeignTensor`] if the tensor belongs to another instance; [`Error::Panicked`] if the author's
    /// [`Tensor::restore`](crate::Tensor::restore) panics.
    pub(super) fn restore<T: Tensor>(&self, value: &Value) -> Result<T, Error> {
        const OP: &str = "restore";
        bridge::contain(&self.counters, self.owner(), OP, || {
            let foreign = || Error::ForeignTensor { op: OP, expected: self.owner(), got: value.owner() };
            self.tensor(OP, value)?.get().ok_or_else(foreign)
        })
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
    pub(super) fn failed(&self, op: &'static str) -> impl FnOnce(ErasedError) -> Error {
        move |error| self.failure(op, error)
    }

    /// Converts the backend's own error, or returns an error that its device is lost.
    #[cold]
    fn failure(&self, op: &'static str, error: ErasedError) -> Error {
        let source = error.into_source();
        if is_panic(&*source, &|error| self.wrapped(error)) {
            self.counters.panicked();
        }
        // The caller omitted the input, so this is not an error of the backend.
        if let Some(Error::MissingInput { name, expected }) = self.wrapped(&*source) {
            return Error::MissingInput { name: name.clone(), expected: expected.clone() };
        }
        match self.find_lost() {
            Some(reason) => self.lost(reason, Some(source)),
            None => Error::Kernel { backend: self.name, op, source },
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
        let ask = || self.on.lifecycle().and_then(|lifecycle| lifecycle.lost());
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
        bridge::contain(&self.counters, self.owner(), op, || match self.on.lifecycle() {
            Some(lifecycle) => body(lifecycle).map_err(|e| self.service_failure(Service::Lifecycle, e)),
            None => Ok(()),
        })
    }

    fn opset(&self, family: Family, natives: OpSet, ops: Vec<&'static OpSpec>) -> AtomicOpsetDecl {
        let native = |index| family == Family::Primitive || natives.contains(index);
        AtomicOpsetDecl {
            family,
            ops: ops.into_iter().map(|spec| AtomicOpDecl { spec, native: native(spec.index) }).collect(),
        }
    }

    /// Returns the stamp that models compiled for this backend carry.
    pub(super) fn stamp(&self) -> Stamp {
        Stamp::new(self.name, self.version, self.fingerprint())
    }

    /// Compiles a graph with the operations that the backend declared as native.
    fn prepare(&self, module: Module, options: &CompileOptions) -> Result<Arc<dyn ErasedCompiled>, Error> {
        let compile = || self.on.compile(module, options, None).map_err(self.failed("compile"));
        Ok(self.enter("compile", compile)?.into())
    }

    /// Dispatches a graph after checking the inputs with `declared`.
    ///
    /// The attributes give the backend access to the plans of this runtime. The default `execute` runs these plans.
    fn hand_over(
        self: &Arc<Self>,
        graph: Arc<GraphProto>,
        declared: &InputSpec,
        inputs: HashMap<String, Value>,
        attrs: BackendAttrs<'_>,
    ) -> ContractResponse<HashMap<String, Value>, Error> {
        const OP: &str = "dispatch";
        let plans = KeptPlans(self.clone());
        let attrs = attrs.with_plans(&plans);
        let values = |results| bridge::named_values(self.owner(), results);
        let answer = self.enter(OP, || {
            let inputs = bridge::named_tensors(OP, self.owner(), inputs)?;
            declared.check_named(&inputs)?;
            Ok(match self.on.dispatch(graph, inputs, attrs) {
                ContractResponse::Now(result) => {
                    ContractResponse::Now(Ok(values(result.map_err(self.failed(OP))?)))
                }
                ContractResponse::Later(later) => {
                    // The graph is counted as pending before the call ends, so that at every moment one of the two is
                    // counted.
                    later.keep_until_end(Box::new(Pending::new(self.counters.clone())));
                    let on = self.clone();
                    ContractResponse::Later(later.map(move |result| on.answered(result)))
                }
            })
        });
        answer.unwrap_or_else(|error| ContractResponse::Now(Err(error)))
    }

    /// Converts an answer that the backend completed later.
    fn answered(
        &self,
        result: Result<HashMap<String, ErasedTensor>, ErasedError>,
    ) -> Result<HashMap<String, Value>, Error> {
        const OP: &str = "dispatch";
        bridge::contain(&self.counters, self.owner(), OP, || {
            result.map(|results| bridge::named_values(self.owner(), results)).map_err(|error| {
                match error.as_bb() {
                    Some(Error::Panicked { message, .. }) => {
                        bridge::panicked(&self.counters, self.owner(), OP, message.clone())
                    }
                    _ => self.failure(OP, error),
                }
            })
        })
    }
}

impl KeepsPlans for Runtime {
    fn are_of(&self, backend: *const (), ty: &str) -> bool {
        self.on.is(backend, ty)
    }

    fn are_narrowed(&self) -> bool {
        self.owned::<Narrowed>().is_some()
    }

    fn run(
        &self,
        graph: &GraphProto,
        mut inputs: HashMap<String, ErasedTensor>,
        attrs: BackendAttrs<'_>,
    ) -> Result<HashMap<String, ErasedTensor>, ErasedError> {
        let mut options = CompileOptions::default().with_node(attrs.attributes, attrs.metadata);
        options.identity = attrs.identity;
        let plan = self.plans.get_or(&options, || {
            Ok::<_, ErasedError>(self.on.compile(attrs.module(graph)?, &options, None)?.into())
        })?;
        let given = taken_by_port(plan.inputs(), &mut inputs)?;
        let given: Vec<Option<&ErasedTensor>> = given.iter().map(Option::as_ref).collect();
        let mut results = Vec::with_capacity(plan.outputs().len());
        plan.run(&*self.on, &given, &mut |y| results.push(y))?;
        Ok(by_name(plan.outputs(), results))
    }
}

impl std::fmt::Debug for Runtime {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Runtime")
            .field("owner", &self.entered.id())
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl Runtime {
    /// Returns the name under which the backend is found.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the version.
    pub fn version(&self) -> &'static str {
        self.version
    }

    /// Returns the path of the backend's type.
    pub fn path(&self) -> &'static str {
        self.path
    }

    /// Returns the id of this instance, which its values carry.
    #[inline]
    pub fn owner(&self) -> BackendId {
        self.entered.id()
    }

    /// Returns the reason why the backend refuses a node of a graph ([`Backend::declines`](crate::Backend::declines));
    /// `None` if it does not.
    pub fn declines(&self, graph: &bb_ir::graph::Graph, node: &bb_ir::graph::Node) -> Option<String> {
        catch(|| self.on.declines(graph, node)).unwrap_or_else(Some)
    }

    /// Returns the set of primitives.
    pub fn atomic_opset(&self) -> AtomicOpsetDecl {
        self.opset(Family::Primitive, OpSet::default(), Primitive::ALL.iter().map(|op| op.spec()).collect())
    }

    /// Returns the extension families that the backend implements.
    pub fn extension_opsets(&self) -> Vec<AtomicOpsetDecl> {
        self.natives
            .iter()
            .map(|&(family, natives)| self.opset(family, natives, crate::ext::rows(family)))
            .collect()
    }

    /// Returns a hash that changes if a saved plan would call different operations.
    pub fn abi_fingerprint(&self) -> u64 {
        // The name is not part of the fingerprint, because a plan that was saved for one device of a backend runs on
        // all its devices.
        let own = [self.version, self.path, env!("CARGO_PKG_VERSION")];
        let opsets = std::iter::once(self.atomic_opset()).chain(self.extension_opsets());
        bb_ir::op::fingerprint(own, opsets)
    }

    /// Calls an operation of any family. Operands and parameters are in the order of the operation's table row.
    ///
    /// If the backend has no native kernel for the operation, its body of primitives runs.
    ///
    /// # Errors
    ///
    /// [`Error::ForeignTensor`] if an operand belongs to another instance. [`Error::Operand`], [`Error::Surplus`] or
    /// [`Error::Ir`] if operands or parameters do not match the table row; the operation's own errors. All of these
    /// except [`Error::ForeignTensor`] are wrapped into the backend's error and [`Error::Kernel`];
    /// [`wrapped`](Self::wrapped) finds the inner error.
    pub fn dispatch_atomic(
        &self,
        op: &'static OpSpec,
        inputs: &[Option<&Value>],
        params: &[Param<'_>],
    ) -> DispatchResult {
        self.enter(op.method, || {
            let operands = bridge::operands(op.method, self.owner(), inputs)?;
            let results = call_erased(&*self.on, op, &operands, params).map_err(self.failed(op.method))?;
            Ok(bridge::values(self.owner(), results))
        })
    }

    /// Builds a tensor from a frame that was received.
    ///
    /// # Errors
    ///
    /// An error of the frame's contents; the backend's own errors.
    pub fn materialize_from_wire(&self, type_hash: u64, bytes: Vec<u8>) -> Result<Value, Error> {
        const OP: &str = "materialize_from_wire";
        self.enter(OP, || Ok(self.value(self.on.materialize(type_hash, bytes).map_err(self.failed(OP))?)))
    }

    /// Creates a tensor from host elements.
    ///
    /// # Errors
    ///
    /// The backend's own errors.
    pub fn constant(&self, data: &TensorData) -> Result<Value, Error> {
        self.enter("constant", || Ok(self.value(self.on.constant(data).map_err(self.failed("constant"))?)))
    }

    /// Copies a tensor to the host.
    ///
    /// # Errors
    ///
    /// [`Error::ForeignTensor`] if the tensor belongs to another instance; the backend's own errors.
    pub fn to_host(&self, value: &Value) -> Result<TensorData, Error> {
        self.enter("to_host", || {
            self.on.to_host(self.tensor("to_host", value)?).map_err(self.failed("to_host"))
        })
    }

    /// Prepares a graph that will run more than once.
    ///
    /// # Errors
    ///
    /// The backend's own error if the graph is invalid or the options refuse it.
    pub fn compile(
        self: Arc<Self>,
        module: Module,
        options: &CompileOptions,
    ) -> Result<Arc<dyn ErasedExecutable>, Error> {
        let module = module.opened(|| self.stamp())?;
        let declared = InputSpec::new(module.graph()).with_strict(options.strict);
        let executable = self.plans.get_or(options, || self.prepare(module, options))?;
        Ok(Arc::new(RunningExecutable::new(self, executable, declared)))
    }

    /// Sends a whole graph to the backend, which answers immediately or later.
    pub fn dispatch(
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

    /// Sends a checked graph to the backend, which answers immediately or later. Its identity and opsets are sent with
    /// it.
    pub fn dispatch_checked(
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

    /// Returns the operations that the backend declared as native.
    pub fn capabilities(&self) -> Capabilities {
        Capabilities {
            families: self.natives.clone(),
            types: self.on.types(),
            device: catch(|| self.on.device_info()).unwrap_or_default(),
        }
    }

    /// Returns whether a backend that takes whole graphs supports a primitive
    /// ([`Backend::runs_primitive`](crate::Backend::runs_primitive)).
    pub fn runs_primitive(&self, op: Primitive) -> bool {
        self.on.runs_primitive(op)
    }

    /// Returns the error of `bb` that an error of the backend wraps ([`Backend::wrapped`](crate::Backend::wrapped)).
    pub fn wrapped<'a>(&self, error: &'a (dyn std::error::Error + 'static)) -> Option<&'a Error> {
        self.on.wrapped(error)
    }

    /// Tries a call on host elements and copies its results to the host. The call is not counted.
    ///
    /// # Errors
    ///
    /// The backend's own error, or the message of its panic.
    pub fn try_call(
        &self,
        op: &'static OpSpec,
        operands: &[Option<TensorData>],
        params: &[Param<'_>],
    ) -> Result<(), Error> {
        // A call on a whole-graph backend may need a compilation, so its declaration is used instead of a trial.
        if self.on.runs_whole_graphs() {
            if let Some(primitive) = primitive_of(op).filter(|op| !self.on.runs_primitive(*op)) {
                let source = Box::new(Error::NoPrimitive { op: primitive.spec().method });
                return Err(Error::Kernel { backend: self.name, op: op.method, source });
            }
            let narrowed = self.owned::<Narrowed>();
            let told = narrowed.map_or(Ok(()), |on| on.backend.would_refuse(op, operands, params));
            return told.map_err(|source| Error::Kernel {
                backend: self.name,
                op: op.method,
                source: source.into_source(),
            });
        }
        let _running = self.counters.begin(self.owner())?;
        self.counters.leave_out();
        let tried = || {
            let bring = |x: &Option<TensorData>| x.as_ref().map(|x| self.on.constant(x)).transpose();
            let operands = operands.iter().map(bring).collect::<Result<Vec<Option<ErasedTensor>>, _>>()?;
            let operands: Vec<Option<&ErasedTensor>> = operands.iter().map(Option::as_ref).collect();
            let results = call_erased(&*self.on, op, &operands, params)?;
            // A device may report an error only when a result is read, so all results are read.
            results.iter().try_for_each(|x| self.on.to_host(x).map(drop))
        };
        match catch(|| as_trial(tried)) {
            Ok(answer) => answer.map_err(|error: ErasedError| Error::Kernel {
                backend: self.name,
                op: op.method,
                source: error.into_source(),
            }),
            Err(message) => Err(Error::Panicked { backend: self.name, op: op.method, message }),
        }
    }

    /// Returns the cached results of the calls that were tried on the backend.
    pub fn answers(&self) -> &Answers {
        &self.answers
    }

    /// Returns the counters and the state, the last error, and the memory in use.
    pub fn status(&self) -> Status {
        let ask = || self.on.lifecycle().and_then(|lifecycle| lifecycle.queued());
        let count = || self.on.memory().map(|memory| memory.statistics());
        Status {
            queued: catch(ask).ok().flatten(),
            memory: catch(count).ok().flatten(),
            ..self.counters.status()
        }
    }

    /// Returns the state.
    pub fn state(&self) -> State {
        self.counters.state()
    }

    /// Makes the backend ready. Otherwise the first call does this.
    pub fn initialize(&self) {
        self.counters.initialize();
    }

    /// Returns the fingerprint, which a compiled model or a peer compares with its own.
    pub fn fingerprint(&self) -> Fingerprint {
        let opsets = std::iter::once(self.atomic_opset()).chain(self.extension_opsets());
        Fingerprint::new(self.version, self.path, opsets)
    }

    /// Returns whether calls return before the device has finished computing
    /// ([`Lifecycle::is_asynchronous`](crate::services::Lifecycle::is_asynchronous)).
    pub fn is_asynchronous(&self) -> bool {
        let ask = || self.on.lifecycle().is_some_and(|lifecycle| lifecycle.is_asynchronous());
        catch(ask).unwrap_or(false)
    }

    /// Returns whether the device is lost. If so, every call fails with [`Error::DeviceLost`].
    pub fn is_lost(&self) -> bool {
        self.find_lost().is_some() || self.counters.state() == State::Lost
    }

    /// Blocks until no dispatched graph is pending ([`Status::pending`]) and the device has finished all submitted
    /// work.
    ///
    /// # Errors
    ///
    /// [`Error::DeviceLost`]; [`Error::Service`] with the backend's own error.
    pub fn synchronize(&self) -> Result<(), Error> {
        self.counters.wait_idle();
        self.with_lifecycle("synchronize", |lifecycle| lifecycle.synchronize())
    }

    /// Shuts the backend down: every later call fails with [`Error::ShutDown`]. Blocks until no call is running, no
    /// dispatched graph is pending, and the device has finished all submitted work. Unloads all kernels of users.
    ///
    /// If it is called inside a call of this backend, it does not block, because it would wait for that call.
    ///
    /// # Errors
    ///
    /// The errors of [`synchronize`](Self::synchronize). The backend is shut down even if an error is returned.
    pub fn shut_down(&self) -> Result<(), Error> {
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
