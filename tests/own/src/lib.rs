//! A backend that consists of one function. Like a backend under development, it prints to standard output,
//! crashes and hangs.
#![forbid(unsafe_code)]

use bb::{Backend, BackendAttrs, GraphProto};
use bb_reference::Reference;
use std::collections::HashMap;

type Tensor = <Reference as Backend>::Tensor;
type Error = <Reference as Backend>::Error;

/// The backend.
#[derive(Debug, bb::Backend)]
#[bb(name = "own", open = Own::open, options(lanes: u64 = 8 => "how many lanes compute"))]
pub struct Own {
    engine: Reference,
    lanes: usize,
}

impl Own {
    fn open(options: &bb::OpenOptions) -> Result<Own, bb::Error> {
        Ok(Own { engine: Reference, lanes: options.own("lanes")? })
    }

    fn run(
        &self,
        graph: &GraphProto,
        inputs: HashMap<String, Tensor>,
        attrs: BackendAttrs<'_>,
    ) -> Result<HashMap<String, Tensor>, Error> {
        if std::env::var_os("OWN_TALKS").is_some() {
            print!("{} nodes\n1 ", graph.node.len());
        }
        if std::env::var_os("OWN_TELLS").is_some() {
            eprintln!("{} lanes", self.lanes);
        }
        if let Some(operator) = std::env::var_os("OWN_CRASHES")
            && graph.node.iter().any(|node| *operator == *node.op_type())
        {
            std::process::abort();
        }
        if std::env::var_os("OWN_EXITS").is_some_and(|op| graph.node.iter().any(|node| op == *node.op_type()))
        {
            std::process::exit(0);
        }
        if std::env::var_os("OWN_HANGS").is_some_and(|op| graph.node.iter().any(|node| op == *node.op_type()))
        {
            std::thread::sleep(std::time::Duration::MAX);
        }
        self.engine.execute(graph, inputs, attrs)
    }
}

impl Backend for Own {
    type Tensor = Tensor;
    type Error = Error;

    bb::forward_to_execute!(Self::run);

    fn to_host(&self, x: &Tensor) -> Result<bb::TensorData, Error> {
        self.engine.to_host(x)
    }
}
