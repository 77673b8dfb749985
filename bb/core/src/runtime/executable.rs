//! Compiled graphs of running backends.

use super::{Runtime, Value, bridge};
use crate::contract::{OnnxValue, begin_buffers, by_name, by_output, by_position, refused_buffer};
use crate::erased::{ErasedCompiled, ErasedTensor};
use crate::measure::Profile;
use crate::{ContractResponse, Error, InputSpec, Outputs, Port, ResultBuffer, RunOptions};
use bb_ir::DataType;
use bb_ir::compact::Writer;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

/// The results of one operation, or its error.
pub type DispatchResult = Result<Outputs<Value>, Error>;

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

    /// Saves the compiled graph to a file that [`Module::load`](crate::Module::load) loads. The file contains the checked
    /// graph with its weights and the plans built so far, so that [`BackendHandle::compile`](super::BackendHandle::compile) does not have to plan again. The file is written
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

/// A compiled graph and the backend that runs it.
pub(super) struct RunningExecutable {
    runtime: Arc<Runtime>,
    executable: Arc<dyn ErasedCompiled>,
    /// The declared inputs. The runtime checks the inputs of each run, even if the executable checks them too.
    declared: InputSpec,
}

impl ErasedExecutable for RunningExecutable {
    fn inputs(&self) -> &[Port] {
        self.executable.inputs()
    }

    fn outputs(&self) -> &[Port] {
        self.executable.outputs()
    }

    fn run(&self, inputs: &[Option<&Value>]) -> Result<Vec<Value>, Error> {
        let on = &*self.runtime;
        on.enter("run", || {
            let operands = bridge::operands("run", on.owner(), inputs)?;
            self.declared.check(&operands)?;
            let mut outputs = Vec::with_capacity(self.outputs().len());
            let ran = self.executable.run(&*on.on, &operands, &mut |y| outputs.push(on.value(y)));
            ran.map_err(on.failed("run"))?;
            // A run that must end fails even if it has finished, because a backend's own executable need not check the
            // options.
            RunOptions::check_current()?;
            Ok(outputs)
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
            let operands = bridge::operands("run", on.owner(), inputs)?;
            self.declared.check(&operands)?;
            let ran = self.executable.run_into(&*on.on, &operands, outputs);
            ran.map_err(|error| refused_buffer(outputs).unwrap_or_else(|| on.failed("run")(error)))?;
            RunOptions::check_current()
        })
    }

    fn plan_ahead(&self, inputs: &[Option<(DataType, &[usize])>]) -> Result<(), Error> {
        let on = &*self.runtime;
        on.enter("compile", || self.executable.plan_ahead(&*on.on, inputs).map_err(on.failed("compile")))
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
        self.run_measured(inputs, None)
    }

    fn run_profiled(
        &self,
        inputs: &[Option<OnnxValue<Value>>],
        profile: &mut Profile,
    ) -> Result<Vec<OnnxValue<Value>>, Error> {
        self.run_measured(inputs, Some(profile))
    }
}

impl RunningExecutable {
    pub(super) fn new(
        runtime: Arc<Runtime>,
        executable: Arc<dyn ErasedCompiled>,
        declared: InputSpec,
    ) -> RunningExecutable {
        RunningExecutable { runtime, executable, declared }
    }

    fn run_measured(
        &self,
        inputs: &[Option<OnnxValue<Value>>],
        profile: Option<&mut Profile>,
    ) -> Result<Vec<OnnxValue<Value>>, Error> {
        let on = &*self.runtime;
        on.enter("run", || {
            let mut tensor = |value: &Value| on.tensor("run", value).cloned();
            let items: Vec<Option<OnnxValue<ErasedTensor>>> = inputs
                .iter()
                .map(|item| item.as_ref().map(|item| item.try_map(&mut tensor)).transpose())
                .collect::<Result<_, Error>>()?;
            let refs: Vec<Option<OnnxValue<&ErasedTensor>>> =
                items.iter().map(|item| item.as_ref().map(|item| item.map(&mut |x| x))).collect();
            self.declared.check_items(&refs)?;
            let outputs = self.executable.run_items(&*on.on, &items, profile).map_err(on.failed("run"))?;
            RunOptions::check_current()?;
            Ok(outputs.iter().map(|item| item.map(&mut |x: &ErasedTensor| on.value(x.clone()))).collect())
        })
    }
}
