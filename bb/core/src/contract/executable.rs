//! Compiled graphs and how they run.

use super::Backend;
use super::buffer::{Ordered, ResultBuffer, begin as begin_buffers, by_output, fill as fill_buffers};
use super::{Module, OnnxValue, RunOptions};
use crate::Error;
use crate::measure::Profile;
use bb_ir::DataType;
use bb_ir::graph::{Graph, ValueId, ValueType};
use std::collections::{HashMap, HashSet};

/// An input or an output of a compiled graph.
#[derive(Debug, Clone, PartialEq)]
pub struct Port {
    /// The name in the graph.
    pub name: String,
    /// The type. Parts of it may be unknown, for example extents.
    pub ty: ValueType,
    /// Whether a caller may omit the input because the graph has a default value for it.
    pub optional: bool,
}

impl Port {
    /// Returns the names and types of inputs or outputs of a graph. Each input has the type that the model declares.
    pub fn all_of(graph: &Graph, values: &[ValueId]) -> Vec<Port> {
        let constants: HashSet<ValueId> = graph.constants.iter().map(|(constant, _)| *constant).collect();
        let port = |value: &ValueId| Port {
            name: graph.name_of(*value).to_owned(),
            ty: graph.values.get(value.index()).map_or(ValueType::Unknown, |v| v.named()),
            optional: constants.contains(value),
        };
        values.iter().map(port).collect()
    }
}

/// A compiled graph that runs on the backend that compiled it.
///
/// It does not own the backend. Threads may share it.
pub trait Executable<B: Backend + ?Sized>: Send + Sync {
    /// Returns the inputs, in the order that [`run`](Self::run) takes them.
    fn inputs(&self) -> &[Port];

    /// Returns the outputs, in the order that [`run`](Self::run) returns them.
    fn outputs(&self) -> &[Port];

    /// Runs the graph. An optional input that is omitted is `None`.
    ///
    /// The default plans check the inputs against the graph's declarations. A [`Runtime`](crate::Runtime) does the same
    /// before it runs any executable. A backend's own executable that is called without a runtime should check its
    /// inputs with an [`InputSpec`](crate::InputSpec).
    ///
    /// # Errors
    ///
    /// [`Error::Input`](crate::Error::Input) if an input differs from its declaration;
    /// [`Error::MissingInput`](crate::Error::MissingInput) if an input without a default is omitted;
    /// [`Error::Node`](crate::Error::Node) if a node failed.
    fn run(&self, on: &B, inputs: &[Option<&B::Tensor>]) -> Result<Vec<B::Tensor>, B::Error>;

    /// Runs like [`run`](Self::run), but stops when `options` end the run.
    ///
    /// # Errors
    ///
    /// [`Error::DeadlineExceeded`](crate::Error::DeadlineExceeded) and [`Error::Cancelled`](crate::Error::Cancelled); the
    /// errors of [`run`](Self::run).
    fn run_with(
        &self,
        on: &B,
        inputs: &[Option<&B::Tensor>],
        options: &RunOptions,
    ) -> Result<Vec<B::Tensor>, B::Error> {
        options.within(|| self.run(on, inputs))
    }

    /// Runs the graph with inputs by name, and returns the outputs by name.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownInput`](crate::Error::UnknownInput) if the graph has no input of this name;
    /// [`Error::RepeatedInput`](crate::Error::RepeatedInput) if a name occurs twice; the errors of [`run`](Self::run).
    fn run_named(
        &self,
        on: &B,
        inputs: &[(&str, &B::Tensor)],
    ) -> Result<HashMap<String, B::Tensor>, B::Error> {
        let results = self.run(on, &by_position(self.inputs(), inputs)?)?;
        Ok(by_name(self.outputs(), results))
    }

    /// Runs like [`run`](Self::run), and writes the results into buffers of the caller, in the order of the outputs.
    ///
    /// An output without a buffer is computed and dropped: its entry is `None`, or the list is shorter.
    /// [`Module::with_outputs`](crate::Module::with_outputs) avoids computing values that only that output needs.
    ///
    /// Results are copied into the buffers after all results exist and fit. So if the run fails, or a result does not
    /// fit its buffer, no buffer is written. If the backend fails during copying, the contents of all buffers are
    /// unspecified. After every failure, [`ResultBuffer::result`] is `None`.
    ///
    /// # Errors
    ///
    /// [`Error::OutputCount`](crate::Error::OutputCount) if there are more buffers than outputs;
    /// [`Error::Buffer`](crate::Error::Buffer) if a buffer does not fit (known output types are checked before the
    /// run); the errors of [`run`](Self::run) and of [`Backend::read_into`].
    fn run_into(
        &self,
        on: &B,
        inputs: &[Option<&B::Tensor>],
        outputs: &mut [Option<&mut ResultBuffer<'_>>],
    ) -> Result<(), B::Error> {
        begin_buffers(self.outputs(), outputs)?;
        fill_buffers(on, self.outputs(), &self.run(on, inputs)?, outputs)
    }

    /// Runs like [`run_into`](Self::run_into), with inputs and buffers by name. Outputs without a buffer are dropped.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownInput`](crate::Error::UnknownInput), [`Error::RepeatedInput`](crate::Error::RepeatedInput),
    /// [`Error::UnknownOutput`](crate::Error::UnknownOutput) and
    /// [`Error::RepeatedOutput`](crate::Error::RepeatedOutput); the errors of [`run_into`](Self::run_into).
    fn run_named_into(
        &self,
        on: &B,
        inputs: &[(&str, &B::Tensor)],
        outputs: &mut [(&str, &mut ResultBuffer<'_>)],
    ) -> Result<(), B::Error> {
        let inputs = by_position(self.inputs(), inputs)?;
        self.run_into(on, &inputs, &mut by_output(self.outputs(), outputs)?)
    }

    /// Builds the plan for inputs of these element types and shapes before the inputs exist. Also copies constants to the device and
    /// prepares kernels, so that the first run on these types and shapes takes no longer than later runs.
    ///
    /// `inputs` are in the order of [`inputs`](Self::inputs). Nothing is planned if an input without a default is omitted or the plan
    /// depends on the elements of an input; then the first run builds the plan. A plan is often valid for other extents too, and plans
    /// share their prepared kernels.
    ///
    /// The default does nothing.
    ///
    /// # Errors
    ///
    /// [`Error::Input`](crate::Error::Input) if an input differs from its declaration; errors of lowering.
    fn plan_ahead(&self, on: &B, inputs: &[Option<(DataType, &[usize])>]) -> Result<(), B::Error> {
        let _planned_by_the_first_run = (on, inputs);
        Ok(())
    }

    /// Returns the module with the plans that exist so far, to be saved; `None` if the executable cannot save plans.
    ///
    /// The default plans can be saved. The default of this method returns `None`.
    ///
    /// # Errors
    ///
    /// The backend's own error.
    fn compiled_module(&self) -> Result<Option<Module>, B::Error> {
        Ok(None)
    }

    /// Runs a graph whose inputs or outputs may be sequences, optionals or maps.
    ///
    /// The default only accepts tensors.
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run); [`Error::NotTensor`](crate::Error::NotTensor) if an input is not a tensor and
    /// the executable only accepts tensors.
    fn run_items(
        &self,
        on: &B,
        inputs: &[Option<OnnxValue<&B::Tensor>>],
    ) -> Result<Vec<OnnxValue<B::Tensor>>, B::Error> {
        let mut tensors = Vec::with_capacity(inputs.len());
        for (position, item) in inputs.iter().enumerate() {
            tensors.push(match item {
                None | Some(OnnxValue::Absent) => None,
                Some(OnnxValue::Tensor(x)) => Some(*x),
                Some(other) => {
                    let name = self.inputs().get(position).map(|port| port.name.clone()).unwrap_or_default();
                    return Err(crate::Error::NotTensor { name, got: other.kind() }.into());
                }
            });
        }
        Ok(self.run(on, &tensors)?.into_iter().map(OnnxValue::Tensor).collect())
    }

    /// Runs like [`run_items`](Self::run_items) and adds the time of each part to a profile.
    ///
    /// The default adds one row for the whole run.
    ///
    /// # Errors
    ///
    /// As [`run_items`](Self::run_items).
    fn run_profiled(
        &self,
        on: &B,
        inputs: &[Option<OnnxValue<&B::Tensor>>],
        profile: &mut Profile,
    ) -> Result<Vec<OnnxValue<B::Tensor>>, B::Error> {
        profile.measure_whole(|| self.run_items(on, inputs))
    }
}

/// Puts inputs that are passed by name into the order of the ports; an omitted input is `None`.
///
/// # Errors
///
/// [`Error::UnknownInput`] and [`Error::RepeatedInput`].
pub fn by_position<'a, T>(ports: &[Port], inputs: &[(&str, &'a T)]) -> Result<Ordered<&'a T>, Error> {
    let mut ordered: Ordered<&'a T> = ports.iter().map(|_| None).collect();
    for (name, value) in inputs {
        let place = ports.iter().zip(&mut ordered).find(|(port, _)| port.name == *name);
        let Some((_, place)) = place else {
            let expected = ports.iter().map(|port| port.name.clone()).collect();
            return Err(Error::UnknownInput { name: (*name).to_owned(), expected });
        };
        if place.replace(*value).is_some() {
            return Err(Error::RepeatedInput { name: (*name).to_owned() });
        }
    }
    Ok(ordered)
}

/// Returns a map from the names of the ports to their results.
pub fn by_name<T>(ports: &[Port], results: Vec<T>) -> HashMap<String, T> {
    ports.iter().map(|port| port.name.clone()).zip(results).collect()
}
