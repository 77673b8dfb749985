//! Compiled graphs.

use super::Backend;
use crate::Profile;
use crate::onnx::OnnxValue;
use bb_ir::graph::ValueType;

/// An input or an output of a compiled graph.
#[derive(Debug, Clone, PartialEq)]
pub struct Port {
    /// The name in the graph.
    pub name: String,
    /// What is known of its type.
    pub ty: ValueType,
    /// Whether a caller may leave it out, because the graph has a default for it.
    pub optional: bool,
}

/// A compiled graph, which runs on the backend that compiled it.
///
/// It does not own the backend; it may be shared between threads.
pub trait Executable<B: Backend + ?Sized>: Send + Sync {
    /// Returns the inputs, in the order that [`run`](Self::run) takes them.
    fn inputs(&self) -> &[Port];

    /// Returns the outputs, in the order that [`run`](Self::run) returns them.
    fn outputs(&self) -> &[Port];

    /// Runs the graph; `None` leaves out an optional input.
    ///
    /// Plans compare the inputs with what the graph declares, and a [`Runtime`](crate::Runtime) does so before it runs an
    /// executable of any kind. One of a backend's own that is called without a runtime asks an
    /// [`InputSpec`](crate::InputSpec).
    ///
    /// # Errors
    ///
    /// [`Error::Input`](crate::Error::Input) if an input is not what the graph declares,
    /// [`Error::MissingInput`](crate::Error::MissingInput) if an input without a default is left out,
    /// [`Error::Node`](crate::Error::Node) if a node failed.
    fn run(&self, on: &B, inputs: &[Option<&B::Tensor>]) -> Result<Vec<B::Tensor>, B::Error>;

    /// Runs a graph whose inputs or outputs may be sequences, optionals or maps.
    ///
    /// What only runs tensors keeps the default.
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run); [`Error::NotTensor`](crate::Error::NotTensor) if an input is no tensor and the executable
    /// takes no other.
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

    /// Runs as [`run_items`](Self::run_items) does, and adds to a profile what took how long.
    ///
    /// What cannot look inside a run keeps the default, which has one row for all of it.
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
