//! Draws a model's graph, with its nodes coloured by what runs them.

mod dot;
mod html;
mod layout;
mod svg;

use crate::error::{Error, Result};
use crate::render;
use bb::Module;
use bb::coverage::{Coverage, How};
use bb_ir::graph::{Attribute, Graph, Node, ValueId};
use std::collections::HashMap;
use std::path::Path;

/// The kind of a box, which determines its colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Input,
    Output,
    Native,
    Lowered,
    Host,
    Unsupported,
    /// A node whose results are not used.
    Unused,
}

impl Kind {
    const ALL: [Kind; 7] =
        [Kind::Input, Kind::Output, Kind::Native, Kind::Lowered, Kind::Host, Kind::Unsupported, Kind::Unused];

    fn name(self) -> &'static str {
        match self {
            Kind::Input => "input",
            Kind::Output => "output",
            Kind::Native => "native",
            Kind::Lowered => "lowered",
            Kind::Host => "host",
            Kind::Unsupported => "unsupported",
            Kind::Unused => "unused",
        }
    }

    /// Returns the colour of the box, which is light enough for black text.
    fn colour(self) -> &'static str {
        match self {
            Kind::Input | Kind::Output => "#e8e8ec",
            Kind::Native => "#b9e4c0",
            Kind::Lowered => "#b8d5f5",
            Kind::Host => "#fbd9a0",
            Kind::Unsupported => "#f6a9a6",
            Kind::Unused => "#ffffff",
        }
    }
}

/// A box: an input, an output, or a node.
struct Drawn {
    kind: Kind,
    /// The operator; for an input or output, its name.
    title: String,
    /// The name of the node; for an input or output, its type.
    subtitle: String,
    /// The lines of text that the picture shows when the pointer is on the box.
    details: Vec<String>,
}

/// A value that one box makes and another reads.
struct Edge {
    from: usize,
    to: usize,
    /// The name and the type.
    details: String,
}

/// A graph as boxes, each after the boxes that it reads.
struct Picture {
    title: String,
    boxes: Vec<Drawn>,
    edges: Vec<Edge>,
}

/// Draws a model's graph to a file; the extension of the file decides the format.
pub(crate) fn draw(path: &Path, module: &Module, coverage: &Coverage) -> Result<()> {
    let extension = path.extension().and_then(|e| e.to_str()).unwrap_or_default().to_ascii_lowercase();
    let picture = Picture::of(module.graph(), coverage);
    let text = match extension.as_str() {
        "svg" => svg::text(&picture),
        "html" | "htm" => html::text(&picture),
        "dot" | "gv" => dot::text(&picture),
        _ => return Err(Error::PictureForm { path: path.to_owned() }),
    };
    std::fs::write(path, text).map_err(|source| Error::Write { path: path.to_owned(), source })
}

impl Picture {
    fn of(graph: &Graph, coverage: &Coverage) -> Picture {
        let mut picture = Picture { title: graph.name.clone(), boxes: Vec::new(), edges: Vec::new() };
        let mut makers: HashMap<ValueId, usize> = HashMap::new();
        for &value in &graph.inputs {
            makers.insert(value, picture.port(graph, value, Kind::Input));
        }
        let mut covered = coverage.nodes.iter().peekable();
        for node in &graph.nodes {
            // The coverage lists the nodes that are used, in the same order.
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
        for &value in &graph.outputs {
            let to = picture.port(graph, value, Kind::Output);
            picture.edge(graph, &makers, value, to);
        }
        picture
    }

    fn port(&mut self, graph: &Graph, value: ValueId, kind: Kind) -> usize {
        let ty = type_of(graph, value);
        let details = vec![format!("{} {}", kind.name(), graph.name_of(value)), ty.clone()];
        self.boxes.push(Drawn { kind, title: graph.name_of(value).to_owned(), subtitle: ty, details });
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
        details.push(how.map_or_else(|| "nobody reads its results".to_owned(), |how| how.to_string()));
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
        self.boxes.push(Drawn { kind, title: node.op_type.clone(), subtitle: name.to_owned(), details });
        self.boxes.len() - 1
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

/// Shortens text to `most` characters by cutting its middle, because names often differ at their ends.
fn shortened(text: &str, most: usize) -> String {
    let count = text.chars().count();
    if count <= most {
        return text.to_owned();
    }
    let (head, tail) = (most.saturating_sub(1) / 3, most.saturating_sub(1) - most.saturating_sub(1) / 3);
    text.chars().take(head).chain(['…']).chain(text.chars().skip(count - tail)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_shortened_in_the_middle() {
        assert_eq!(shortened("abcdefghij", 10), "abcdefghij");
        assert_eq!(shortened("abcdefghijk", 10), "abc…fghijk");
        assert_eq!(shortened("äöüäöüäöüäö", 4), "ä…äö");
        assert_eq!(shortened("ab", 0), "…");
    }
}
