//! What the engine sees of a backend: every call without the backend's type.

use super::{BackendId, Capabilities, Status, Value};
use crate::coverage::Answers;
use crate::onnx::OnnxValue;
use crate::{BackendAttrs, CompileOptions, ContractResponse, Error, Module, Outputs, Port, Profile};
use bb_ir::TensorData;
use bb_ir::op::{AtomicOpsetDecl, OpSpec, Param};
use bb_ir::proto::GraphProto;
use std::any::Any;
use std::collections::HashMap;
use std::sync::Arc;

/// The results of one operation, or why there are none.
pub type DispatchResult = Result<Outputs<Value>, Error>;

/// A running backend, its type erased; [`Runtime`](super::Runtime) is what implements it.
///
/// Every method turns a panic of the backend into [`Error::Panicked`], after which the next call works, and
/// the backend's own error into [`Error::Kernel`], whose source it stays.
pub trait BackendRuntime: Any + Send + Sync {
    /// Returns the name by which the backend is found.
    fn name(&self) -> &'static str;

    /// Returns the version.
    fn version(&self) -> &'static str;

    /// Returns the path of the backend's type.
    fn path(&self) -> &'static str;

    /// Returns this instance, which the values it makes carry.
    fn owner(&self) -> BackendId;

    /// Returns the primitives.
    fn atomic_opset(&self) -> AtomicOpsetDecl;

    /// Returns the extension families that the backend adopted.
    fn extension_opsets(&self) -> Vec<AtomicOpsetDecl>;

    /// Returns a number that changes where a saved plan would call something else.
    fn abi_fingerprint(&self) -> u64;

    /// Calls an operation of any family, with operands and parameters in the order of its row.
    ///
    /// Operations that the backend does not declare native run their bodies of primitives.
    ///
    /// # Errors
    ///
    /// [`Error::ForeignTensor`] if an operand is another instance's; the operation's own.
    fn dispatch_atomic(
        &self,
        op: &'static OpSpec,
        inputs: &[Option<&Value>],
        params: &[Param<'_>],
    ) -> DispatchResult;

    /// Makes a tensor of a frame that came over the wire.
    ///
    /// # Errors
    ///
    /// What is wrong with the frame, or the backend's own.
    fn materialize_from_wire(&self, type_hash: u64, bytes: Vec<u8>) -> Result<Value, Error>;

    /// Makes a tensor of host elements.
    ///
    /// # Errors
    ///
    /// The backend's own.
    fn constant(&self, data: &TensorData) -> Result<Value, Error>;

    /// Copies a tensor to the host.
    ///
    /// # Errors
    ///
    /// [`Error::ForeignTensor`] if it is another instance's; the backend's own.
    fn to_host(&self, value: &Value) -> Result<TensorData, Error>;

    /// Prepares a graph that will run more than once.
    ///
    /// # Errors
    ///
    /// The backend's own: what makes the graph invalid, or what the options refuse.
    fn compile(
        self: Arc<Self>,
        module: Module,
        options: &CompileOptions,
    ) -> Result<Arc<dyn ErasedExecutable>, Error>;

    /// Hands a whole graph to the backend, which answers now or later.
    fn dispatch(
        self: Arc<Self>,
        graph: Arc<GraphProto>,
        inputs: HashMap<String, Value>,
        attrs: BackendAttrs<'_>,
    ) -> ContractResponse<HashMap<String, Value>, Error>;

    /// Returns what the backend declared that it can do.
    fn capabilities(&self) -> Capabilities;

    /// Tries a call on host elements and takes its results to the host; no counter knows of it.
    ///
    /// # Errors
    ///
    /// The backend's own, or what it panicked with.
    fn try_call(
        &self,
        op: &'static OpSpec,
        operands: &[Option<TensorData>],
        params: &[Param<'_>],
    ) -> Result<(), Error>;

    /// Returns what the backend answered to calls that were tried.
    fn answers(&self) -> &Answers;

    /// Returns counters and state.
    fn status(&self) -> Status;

    /// Makes the backend ready; the first call does so too.
    fn initialize(&self);

    /// Blocks until no graph that was handed over is pending.
    fn synchronize(&self);

    /// Waits for what is pending; every later call is [`Error::ShutDown`].
    fn shut_down(&self);
}

/// A compiled graph together with the backend it runs on.
pub trait ErasedExecutable: Send + Sync {
    /// Returns the inputs, in the order that [`run`](Self::run) takes them.
    fn inputs(&self) -> &[Port];

    /// Returns the outputs, in the order that [`run`](Self::run) returns them.
    fn outputs(&self) -> &[Port];

    /// Runs the graph; `None` leaves out an optional input.
    ///
    /// # Errors
    ///
    /// [`Error::ForeignTensor`] if an input is another instance's; the backend's own.
    fn run(&self, inputs: &[Option<&Value>]) -> Result<Vec<Value>, Error>;

    /// Runs a graph whose inputs or outputs may be sequences, optionals or maps.
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run).
    fn run_items(&self, inputs: &[Option<OnnxValue<Value>>]) -> Result<Vec<OnnxValue<Value>>, Error>;

    /// Runs as [`run_items`](Self::run_items) does, and adds to a profile what took how long.
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run).
    fn run_profiled(
        &self,
        inputs: &[Option<OnnxValue<Value>>],
        profile: &mut Profile,
    ) -> Result<Vec<OnnxValue<Value>>, Error>;
}
