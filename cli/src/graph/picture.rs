//! Converts a graph to the boxes and edges of a picture.

use super::{Drawn, Edge, Kind, Picture, Times, times};
use crate::render;
use bb::coverage::{Coverage, How};
use bb_ir::graph::{Attribute, Dim, Graph, Node, ValueId, ValueType};
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

impl Picture {
    pub(super) fn of(graph: &Graph, coverage: &Coverage, times: Option<&Times>) -> Picture {
        let mut picture = Picture {
            title: graph.name.clone(),
            boxes: Vec::new(),
            edges: Vec::new(),
            frames: Vec::new(),
            run: times.map(Times::run),
        };
        let mut makers: HashMap<ValueId, usize> = HashMap::new();
        for &value in &graph.inputs {
            makers.insert(value, picture.port(graph, value, Kind::Input));
        }
        let mut covered = coverage.nodes.iter().peekable();
        for node in &graph.nodes {
            // The coverage lists the used nodes in the same order as the graph.
            let name = graph.label_of(node).to_owned();
            let how = covered.next_if(|c| c.node == name && c.op == node.op_type && c.domain == node.domain);
            let to = picture.node(graph, node, &name, how.map(|c| c.how));
            let mut read: Vec<ValueId> = node.reads().collect();
            read.sort_unstable();
            read.dedup();
            for value in read {
                picture.edge(graph, &makers, value, to);
            }
            makers.extend(node.outputs.iter().flatten().map(|value| (*value, to)));
        }
        if let Some(times) = times {
            picture.take_times(times, graph);
        }
        for &value in &graph.outputs {
            let to = picture.port(graph, value, Kind::Output);
            picture.edge(graph, &makers, value, to);
        }
        picture
    }

    fn port(&mut self, graph: &Graph, value: ValueId, kind: Kind) -> usize {
        let ty = type_of(graph, value);
        let details = vec![format!("{} {}", kind.name(), graph.name_of(value)), ty.clone()];
        let title = graph.name_of(value).to_owned();
        self.boxes.push(Drawn { kind, title, subtitle: ty, details, looks: 0, seconds: None });
        self.boxes.len() - 1
    }

    fn node(&mut self, graph: &Graph, node: &Node, name: &str, how: Option<How>) -> usize {
        let kind = match how {
            Some(How::Native) => Kind::Native,
            Some(How::Lowered(_)) => Kind::Lowered,
            Some(How::Host) => Kind::Host,
            Some(How::Unsupported) => Kind::Unsupported,
            None => Kind::Unused,
        };
        let domain = if node.domain.is_empty() { String::new() } else { format!(" of {}", node.domain) };
        let mut details = vec![name.to_owned(), format!("{}{domain}, opset {}", node.op_type, node.opset)];
        details.push(how.map_or_else(|| "its results are not read".to_owned(), |how| how.to_string()));
        for (label, values) in [("reads", &node.inputs), ("gives", &node.outputs)] {
            for &value in values.iter().flatten() {
                details.push(format!("{label} {} {}", graph.name_of(value), type_of(graph, value)));
            }
        }
        for (name, attribute) in node.attributes.iter() {
            if let Attribute::Graph(inner) = attribute {
                details.push(format!("holds {} nodes as {name}", inner.nodes.len()));
            }
        }
        let looks = looks(graph, node, kind);
        let (title, subtitle) = (node.op_type.clone(), name.to_owned());
        self.boxes.push(Drawn { kind, title, subtitle, details, looks, seconds: None });
        self.boxes.len() - 1
    }

    /// Sets the time of each node.
    fn take_times(&mut self, times: &Times, graph: &Graph) {
        let names: Vec<&str> = graph.nodes.iter().map(|node| graph.label_of(node)).collect();
        let nodes = self.boxes.iter_mut().skip(graph.inputs.len());
        for (drawn, seconds) in nodes.zip(times.of_nodes(&names)) {
            drawn.seconds = Some(seconds);
            drawn.details.push(format!("takes {}", times::shown(seconds, times.run())));
        }
    }

    /// Adds an edge, unless the value is a constant, because constants have no box.
    fn edge(&mut self, graph: &Graph, makers: &HashMap<ValueId, usize>, value: ValueId, to: usize) {
        if let Some(&from) = makers.get(&value) {
            let details = format!("{} {}", graph.name_of(value), type_of(graph, value));
            self.edges.push(Edge { from, to, details });
        }
    }
}

fn type_of(graph: &Graph, value: ValueId) -> String {
    graph.values.get(value.index()).map_or_else(|| "?".to_owned(), |v| render::ty(&v.ty))
}

/// Hashes the kind, operator and attributes of a node, and the types of its results. The names of symbolic dimensions do not affect the
/// hash.
fn looks(graph: &Graph, node: &Node, kind: Kind) -> u64 {
    let mut hasher = DefaultHasher::new();
    (kind.name(), &node.op_type, &node.domain, node.opset, node.inputs.len()).hash(&mut hasher);
    for (name, attribute) in node.attributes.iter() {
        name.hash(&mut hasher);
        match attribute {
            Attribute::Tensor(tensor) => (tensor.dtype().name(), tensor.shape()).hash(&mut hasher),
            Attribute::Graph(inner) => inner.nodes.len().hash(&mut hasher),
            Attribute::Tensors(_) | Attribute::Graphs(_) => {}
            plain => format!("{plain:?}").hash(&mut hasher),
        }
    }
    for &value in node.outputs.iter().flatten() {
        match graph.values.get(value.index()).map(|value| &value.ty) {
            Some(ValueType::Tensor { dtype, shape: Some(dims) }) => {
                let known = |dim: &Dim| if let Dim::Known(extent) = dim { Some(*extent) } else { None };
                (dtype.name(), dims.iter().map(known).collect::<Vec<_>>()).hash(&mut hasher);
            }
            Some(ValueType::Tensor { dtype, shape: None }) => dtype.name().hash(&mut hasher),
            _ => 0.hash(&mut hasher),
        }
    }
    hasher.finish()
}
