//! A backend that runs whole graphs of primitives.

mod error;
mod tensor;

pub use error::Error;
pub use tensor::Tensor;

use bb::{BackendAttrs, GraphProto, TensorData};
use std::collections::HashMap;

/// The backend. Its fields hold the device.
#[derive(Debug, Default, bb::Backend)]
#[bb(name = "started-graph")]
pub struct StartedGraph;

impl StartedGraph {
    /// Runs a graph: a value for each input comes by its name, and one for each output goes back.
    ///
    /// Nodes are primitives, and each comes after the nodes that it reads. `attrs` has the identity of the graph and the caller's additions.
    fn run(
        &self,
        graph: &GraphProto,
        _inputs: HashMap<String, Tensor>,
        _attrs: BackendAttrs<'_>,
    ) -> Result<HashMap<String, Tensor>, Error> {
        // Begin here: compile the graph, or compute node by node. A decoded node has the operation, the names of its operands and
        // results, and its parameters.
        let Some(node) = graph.node.first() else {
            return Err(Error::NotWritten("a graph without nodes"));
        };
        let node = bb::decode(node, graph)?;
        Err(Error::NotWritten(node.op.spec().name))
    }
}

impl bb::Backend for StartedGraph {
    type Tensor = Tensor;
    type Error = Error;

    bb::forward_to_execute!(Self::run);

    fn to_host(&self, x: &Tensor) -> Result<TensorData, Error> {
        Ok(x.0.clone())
    }

    /// Returns the error of `bb`, so that a wrong operand counts as a mistake of the caller.
    fn wrapped(error: &Error) -> Option<&bb::Error> {
        match error {
            Error::Bb(error) => Some(error),
            _ => None,
        }
    }
}
