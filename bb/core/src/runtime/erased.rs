//! The interface between the engine and a backend: all calls, without the backend's Rust type.

use super::answers::Answers;
use super::{BackendId, Capabilities, OfferedServices, State, Status, Value};
use crate::contract::OnnxValue;
use crate::contract::{by_name, by_output, by_position};
use crate::measure::Profile;
use crate::service::Fingerprint;
use crate::{
    BackendAttrs, CheckedGraph, CompileOptions, ContractResponse, Error, Module, Outputs, Port, ResultBuffer,
    RunOptions,
};
use bb_ir::op::{AtomicOpsetDecl, OpSpec, Param, Primitive};
use bb_ir::proto::GraphProto;
use bb_ir::{DataType, TensorData};
use std::any::Any;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

/// The results of one operation, or its error.
pub type DispatchResult = Result<Outputs<Value>, Error>;

/// A supertrait that seals [`BackendRuntime`]: other crates cannot name this trait, so they cannot implement `BackendRuntime`.
pub trait Sealed {}

/// A running backend whose type is erased; [`Runtime`](super::Runtime) implements it.
///
/// A panic of the backend becomes [`Error::Panicked`], or [`Error::KernelPanicked`] inside the error of a node if a
/// plan made the call. The backend can still be called afterwards. The backend's own error becomes the source of
/// [`Error::Kernel`].
///
/// The trait is sealed, so that methods can be added: only [`Runtime`](super::Runtime) implements it. An author of a
/// backend implements [`Backend`](crate::Backend).
pub trait BackendRuntime: OfferedServices + Any {
    /// Returns the name under which the backend is found.
    fn name(&self) -> &'static str;

    /// Returns the version.
    fn version(&self) -> &'static str;

    /// Returns the path of the backend's type.
    fn path(&self) -> &'static str;

    /// Returns the id of this instance, which its values carry.
    fn owner(&self) -> BackendId;

    /// Returns the error of `bb` that an error of the backend wraps ([`Backend::wrapped`](crate::Backend::wrapped)).
    fn wrapped<'a>(&self, error: &'a (dyn std::error::Error + 'static)) -> Option<&'a Error>;

    /// Returns the reason why the backend refuses a node of a graph ([`Backend::declines`](crate::Backend::declines));
    /// `None` if it does not.
    fn declines(&self, graph: &bb_ir::graph::Graph, node: &bb_ir::graph::Node) -> Option<String>;

    /// Returns the set of primitives.
    fn atomic_opset(&self) -> AtomicOpsetDecl;

    /// Returns the extension families that the backend implements.
    fn extension_opsets(&self) -> Vec<AtomicOpsetDecl>;

    /// Returns a hash that changes if a saved plan would call different operations.
    fn abi_fingerprint(&self) -> u64;

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
    fn dispatch_atomic(
        &self,
        op: &'static OpSpec,
        inputs: &[Option<&Value>],
        params: &[Param<'_>],
    ) -> DispatchResult;

    /// Builds a tensor from a frame that was received.
    ///
    /// # Errors
    ///
    /// An error of the frame's contents; the backend's own errors.
    fn materialize_from_wire(&self, type_hash: u64, bytes: Vec<u8>) -> Result<Value, Error>;

    /// Creates a tensor from host elements.
    ///
    /// # Errors
    ///
    /// The backend's own errors.
    fn constant(&self, data: &TensorData) -> Result<Value, Error>;

    /// Copies a tensor to the host.
    ///
    /// # Errors
    ///
    /// [`Error::ForeignTensor`] if the tensor belongs to another instance; the backend's own errors.
    fn to_host(&self, value: &Value) -> Result<TensorData, Error>;

    /// Prepares a graph that will run more than once.
    ///
    /// # Errors
    ///
    /// The backend's own error if the graph is invalid or the options refuse it.
    fn compile(
        self: Arc<Self>,
        module: Module,
        options: &CompileOptions,
    ) -> Result<Arc<dyn ErasedExecutable>, Error>;

    /// Sends a whole graph to the backend, which answers immediately or later.
    fn dispatch(
        self: Arc<Self>,
        graph: Arc<GraphProto>,
        inputs: HashMap<String, Value>,
        attrs: BackendAttrs<'_>,
    ) -> ContractResponse<HashMap<String, Value>, Error>;

    /// Sends a checked graph to the backend, which answers immediately or later. Its identity and opsets are sent with
    /// it.
    fn dispatch_checked(
        self: Arc<Self>,
        graph: &CheckedGraph,
        inputs: HashMap<String, Value>,
        attrs: BackendAttrs<'_>,
    ) -> ContractResponse<HashMap<String, Value>, Error>;

    /// Returns whether a backend that takes whole graphs supports a primitive
    /// ([`Backend::runs_primitive`](crate::Backend::runs_primitive)).
    fn runs_primitive(&self, op: Primitive) -> bool;

    /// Returns the operations that the backend declared as native.
    fn capabilities(&self) -> Capabilities;

    /// Tries a call on host elements and copies its results to the host. The call is not counted.
    ///
    /// # Errors
    ///
    /// The backend's own error, or the message of its panic.
    fn try_call(
        &self,
        op: &'static OpSpec,
        operands: &[Option<TensorData>],
        params: &[Param<'_>],
    ) -> Result<(), Error>;

    /// Returns the cached results of the calls that were tried on the backend.
    fn answers(&self) -> &Answers;

    /// Returns the counters and the state, the last error, and the memory in use.
    fn status(&self) -> Status;

    /// Returns the state.
    fn state(&self) -> State;

    /// Makes the backend ready. Otherwise the first call does this.
    fn initialize(&self);

    /// Returns the fingerprint, which a compiled model or a peer compares with its own.
    fn fingerprint(&self) -> Fingerprint;

    /// Returns whether calls return before the device has finished computing
    /// ([`Lifecycle::is_asynchronous`](crate::services::Lifecycle::is_asynchronous)).
    fn is_asynchronous(&self) -> bool;

    /// Returns whether the device is lost. If so, every call fails with [`Error::DeviceLost`].
    fn is_lost(&self) -> bool;

    /// Blocks until no dispatched graph is pending ([`Status::pending`]) and the device has finished all submitted
    /// work.
    ///
    /// # Errors
    ///
    /// [`Error::DeviceLost`]; [`Error::Service`] with the backend's own error.
    fn synchronize(&self) -> Result<(), Error>;

    /// Shuts the backend down: every later call fails with [`Error::ShutDown`]. Blocks until no call is running, no
    /// dispatched graph is pending, and the device has finished all submitted work. Unloads all kernels of users.
    ///
    /// If it is called inside a call of this backend, it does not block, because it would wait for that call.
    ///
    /// # Errors
    ///
    /// The errors of [`synchronize`](Self::synchronize). The backend is shut down even if an error is returned.
    fn shut_down(&self) -> Result<(), Error>;
}

/// A compiled graph and the backend that runs it.
pub trait ErasedExecutable: Send + Sync {
    /// Returns the inputs, in the order that [`run`](Self::run) takes them.
    fn inputs(&self) -> &[Port];

    /// Returns the outputs, in the order that [`run`](Self::run) returns them.
    fn outputs(&self) -> &[Port];

    /// Runs the graph. An optional input that is omitted is `None`.
    ///
    /// # Errors
    ///
    /// [`Error::ForeignTensor`] if an input belongs to another instance; the backend's own errors.
    fn run(&self, inputs: &[Option<&Value>]) -> Result<Vec<Value>, Error>;

    /// Runs like [`run`](Self::run), but stops when `options` end the run.
    ///
    /// # Errors
    ///
    /// [`Error::DeadlineExceeded`] and [`Error::Cancelled`]; the
    /// errors of [`run`](Self::run).
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # fn main() -> Result<(), bb::Error> {
    /// # let cpu = bb::backend("cpu")?;
    /// # let model = cpu.compile(bb::Module::load("model.onnx")?, &bb::CompileOptions::default())?;
    /// let soon = std::time::Instant::now() + std::time::Duration::from_millis(100);
    /// let options = bb::RunOptions::default().with_deadline(soon);
    /// let x = cpu.tensor(&[1, 2], &[1f32, 2.])?;
    /// let outputs = model.run_with(&[Some(&x)], &options)?;
    /// # Ok(())
    /// # }
    /// ```
    fn run_with(&self, inputs: &[Option<&Value>], options: &RunOptions) -> Result<Vec<Value>, Error> {
        options.within(|| self.run(inputs))
    }

    /// Starts a run on its own thread, and returns its result as a future for any executor. The caller can also block
    /// on the future.
    ///
    /// The run ends when the [`RunOptions`] of the calling thread end it, or when the future is dropped. Each call
    /// starts a thread; where no thread can be started, as in WebAssembly, the run is finished when this method
    /// returns.
    ///
    /// # Errors
    ///
    /// The future returns the errors of [`run`](Self::run).
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn both(cpu: &bb::BackendHandle) -> Result<(), bb::Error> {
    /// let model = cpu.compile(bb::Module::load("model.onnx")?, &bb::CompileOptions::default())?;
    /// let (x, y) = (cpu.tensor(&[1, 2], &[1f32, 2.])?, cpu.tensor(&[1, 2], &[3f32, 4.])?);
    /// let (first, second) = (model.clone().run_async(vec![Some(x)]), model.run_async(vec![Some(y)]));
    /// let outputs = [first.await?, second.await?];
    /// # Ok(())
    /// # }
    /// ```
    fn run_async(self: Arc<Self>, inputs: Vec<Option<Value>>) -> ContractResponse<Vec<Value>, Error>
    where
        Self: 'static,
    {
        crate::contract::on_own_thread(move || {
            let inputs: Vec<Option<&Value>> = inputs.iter().map(Option::as_ref).collect();
            self.run(&inputs)
        })
    }

    /// Runs the graph with inputs by name, and returns the outputs by name.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownInput`] if the graph has no input of this name; [`Error::RepeatedInput`] if a name occurs twice;
    /// the errors of [`run`](Self::run).
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # fn main() -> Result<(), bb::Error> {
    /// let cpu = bb::backend("cpu")?;
    /// let model = cpu.compile(bb::Module::load("model.onnx")?, &bb::CompileOptions::default())?;
    /// let x = cpu.tensor(&[1, 2], &[1f32, 2.])?;
    /// let y = &model.run_named(&[("x", &x)])?["y"];
    /// # Ok(())
    /// # }
    /// ```
    fn run_named(&self, inputs: &[(&str, &Value)]) -> Result<HashMap<String, Value>, Error> {
        let results = self.run(&by_position(self.inputs(), inputs)?)?;
        Ok(by_name(self.outputs(), results))
    }

    /// Runs like [`run`](Self::run), and writes the results into buffers of the caller, in the order of the outputs.
    ///
    /// Outputs without a buffer and failures are handled as in [`Executable::run_into`](crate::Executable::run_into).
    ///
    /// # Errors
    ///
    /// [`Error::OutputCount`] and [`Error::Buffer`]; the errors of [`run`](Self::run).
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # fn main() -> Result<(), bb::Error> {
    /// let cpu = bb::backend("cpu")?;
    /// let model = cpu.compile(bb::Module::load("model.onnx")?, &bb::CompileOptions::default())?;
    /// let x = cpu.tensor(&[1, 2], &[1f32, 2.])?;
    /// let mut scores = [0f32; 10];
    /// let mut buffer = bb::ResultBuffer::new(&[1, 10], &mut scores)?;
    /// for _ in 0..1000 {
    ///     model.run_into(&[Some(&x)], &mut [Some(&mut buffer)])?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    fn run_into(
        &self,
        inputs: &[Option<&Value>],
        outputs: &mut [Option<&mut ResultBuffer<'_>>],
    ) -> Result<(), Error>;

    /// Runs like [`run_into`](Self::run_into), with inputs and buffers by name. Outputs without a buffer are dropped.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownInput`], [`Error::RepeatedInput`], [`Error::UnknownOutput`] and [`Error::RepeatedOutput`]; the errors
    /// of [`run_into`](Self::run_into).
    fn run_named_into(
        &self,
        inputs: &[(&str, &Value)],
        outputs: &mut [(&str, &mut ResultBuffer<'_>)],
    ) -> Result<(), Error> {
        let inputs = by_position(self.inputs(), inputs)?;
        self.run_into(&inputs, &mut by_output(self.outputs(), outputs)?)
    }

    /// Builds the plan for inputs of these element types and shapes before the inputs exist. Also copies constants to the device and
    /// prepares kernels, so that the first run on these types and shapes takes no longer than later runs.
    ///
    /// Nothing is planned if an input without a default is omitted, if the plan depends on the elements of an input, or
    /// if the backend compiles graphs itself. A plan is often valid for other extents too.
    ///
    /// # Errors
    ///
    /// [`Error::Input`] if an input differs from its declaration; errors of lowering.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # fn main() -> Result<(), bb::Error> {
    /// let cpu = bb::backend("cpu")?;
    /// let model = cpu.compile(bb::Module::load("model.onnx")?, &bb::CompileOptions::default())?;
    /// model.plan_ahead(&[Some((bb::DataType::F32, &[1, 3, 224, 224]))])?;
    /// # Ok(())
    /// # }
    /// ```
    fn plan_ahead(&self, inputs: &[Option<(DataType, &[usize])>]) -> Result<(), Error>;

    /// Saves the compiled graph to a file that [`Module::load`] loads. The file contains the checked graph with its weights and the plans
    /// built so far, so that [`BackendHandle::compile`](super::BackendHandle::compile) does not have to plan again. The file is written
    /// atomically, and replaces an existing file.
    ///
    /// A plan is built when the graph first runs on inputs of its element types and shapes, so run the graph before saving it. A plan is
    /// saved unless a part of it runs on the host or a loop is not unrolled. Compilations with the same options use the saved plans. Inputs
    /// without a saved plan are planned as usual. Kernels are prepared again.
    ///
    /// The file is valid for this version of the backend on processors like this one. Compiling it for another backend
    /// or processor returns [`Error::SavedFor`]. It is loaded like an untrusted model: within limits, and with an error
    /// if it is damaged.
    ///
    /// # Errors
    ///
    /// [`Error::Write`] if the file cannot be written; [`Error::NotSaved`] if the backend compiles graphs itself.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # fn main() -> Result<(), bb::Error> {
    /// let cpu = bb::backend("cpu")?;
    /// let options = bb::CompileOptions::default();
    /// let model = cpu.compile(bb::Module::load("model.onnx")?, &options)?;
    /// model.run(&[Some(&cpu.tensor(&[1, 2], &[1f32, 2.])?)])?;
    /// model.save("model.bb".as_ref())?;
    /// // In another process:
    /// let model = cpu.compile(bb::Module::load("model.bb")?, &options)?;
    /// # Ok(())
    /// # }
    /// ```
    fn save(&self, path: &Path) -> Result<(), Error>;

    /// Runs a graph whose inputs or outputs may be sequences, optionals or maps.
    ///
    /// # Errors
    ///
    /// The errors of [`run`](Self::run).
    fn run_items(&self, inputs: &[Option<OnnxValue<Value>>]) -> Result<Vec<OnnxValue<Value>>, Error>;

    /// Runs like [`run_items`](Self::run_items) and adds the time of each part to a profile.
    ///
    /// # Errors
    ///
    /// The errors of [`run`](Self::run).
    fn run_profiled(
        &self,
        inputs: &[Option<OnnxValue<Value>>],
        profile: &mut Profile,
    ) -> Result<Vec<OnnxValue<Value>>, Error>;
}
