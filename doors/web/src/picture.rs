//! Describes the graph as boxes and lines, which the web page draws.

use crate::layout::{Anchor, HEIGHT, Problem, Size, place};
use bb::coverage::{Coverage, How};
use bb::ir::graph::{Attribute, Graph, ValueId};
use serde_json::{Value as Json, json};
use std::collections::HashMap;

/// The maximum number of bytes of a string, and of items of a list, in the description of an attribute.
const TEXT: usize = 200;
const ITEMS: usize = 20;

/// The maximum number of boxes that are laid out, because a person cannot read a picture with more.
const BOXES: usize = 20_000;

/// Returns the name of a domain. ONNX's own domain has an empty name in models.
pub(crate) fn domain(name: &str) -> &str {
    if name.is_empty() { "ai.onnx" } else { name }
}

/// Returns a word that says how a node runs.
pub(crate) fn how(how: How) -> &'static str {
    match how {
        How::Native => "native",
        How::Lowered(_) => "lowered",
        How::Host => "host",
        How::Unsupported => "unsupported",
    }
}

#[derive(Default)]
struct Picture {
    boxes: Vec<Json>,
    widths: Vec<f64>,
    edges: Vec<(usize, usize)>,
    values: Vec<String>,
}

/// Describes the graph: boxes for its inputs, nodes and outputs, lines for the values between them, and the position of each box.
pub(crate) fn describe(graph: &Graph, coverage: &Coverage) -> Json {
    let mut picture = Picture::default();
    let mut makers: HashMap<ValueId, usize> = HashMap::new();
    for &value in &graph.inputs {
        makers.insert(value, picture.port(graph, value, "input"));
    }
    let mut covered = coverage.nodes.iter().peekable();
    for node in &graph.nodes {
        // The coverage lists the used nodes in the same order as the graph.
        let name = graph.label_of(node);
        let known = covered.next_if(|c| c.node == name && c.op == node.op_type && c.domain == node.domain);
        let values = |list: &[Option<ValueId>]| -> Vec<Json> {
            list.iter().map(|value| value.map_or(Json::Null, |value| describe_value(graph, value))).collect()
        };
        let attributes: Vec<Json> =
            node.attributes.iter().map(|(name, value)| json!([name, attribute(value)])).collect();
        let at = picture.add(
            &node.op_type,
            json!({
                "kind": known.map_or("unused", |c| how(c.how)), "title": node.op_type, "name": name,
                "domain": domain(&node.domain), "opset": node.opset, "inputs": values(&node.inputs),
                "outputs": values(&node.outputs), "attributes": attributes,
                "missing": known.map_or(Vec::new(), |c| c.missing.iter().map(ToString::to_string).collect()),
            }),
        );
        let mut read: Vec<ValueId> = node.reads().collect();
        read.sort_unstable();
        read.dedup();
        for value in read {
            picture.line(graph, &makers, value, at);
        }
        makers.extend(node.outputs.iter().flatten().map(|value| (*value, at)));
    }
    for &value in &graph.outputs {
        let at = picture.port(graph, value, "output");
        picture.line(graph, &makers, value, at);
    }
    picture.placed(&graph.name)
}

impl Picture {
    fn add(&mut self, title: &str, described: Json) -> usize {
        self.widths.push(44.0_f64.max(title.chars().take(28).count() as f64 * 7.5 + 18.0));
        self.boxes.push(described);
        self.boxes.len() - 1
    }

    fn port(&mut self, graph: &Graph, value: ValueId, kind: &str) -> usize {
        let name = graph.name_of(value);
        self.add(name, json!({ "kind": kind, "title": name, "name": name, "type": type_of(graph, value) }))
    }

    /// Adds a line to a box, unless the value is a constant, because constants have no box.
    fn line(&mut self, graph: &Graph, makers: &HashMap<ValueId, usize>, value: ValueId, to: usize) {
        if let Some(&from) = makers.get(&value) {
            self.edges.push((from, to));
            self.values.push(format!("{} {}", graph.name_of(value), type_of(graph, value)));
        }
    }

    fn placed(mut self, name: &str) -> Json {
        let total = self.boxes.len();
        let problem = if total <= BOXES {
            let size = |&width: &f64| Size { width, height: HEIGHT, anchor: Anchor::Free };
            Problem { boxes: self.widths.iter().map(size).collect(), edges: self.edges.clone() }
        } else {
            Problem { boxes: Vec::new(), edges: Vec::new() }
        };
        let layout = place(&problem);
        for ((described, width), at) in self.boxes.iter_mut().zip(&self.widths).zip(&layout.boxes) {
            if let Some(fields) = described.as_object_mut() {
                fields.extend([
                    ("x".to_owned(), json!(at.x.round())),
                    ("y".to_owned(), json!(at.y.round())),
                    ("width".to_owned(), json!(width)),
                ]);
            }
        }
        let bends = |i: usize| -> Vec<[f64; 2]> {
            let points = layout.bends.get(i).into_iter().flatten();
            points.map(|point| [point.x.round(), point.y.round()]).collect()
        };
        let lines: Vec<Json> = self
            .edges
            .iter()
            .zip(&self.values)
            .enumerate()
            .map(|(i, ((from, to), value))| json!({ "from": from, "to": to, "value": value, "bends": bends(i) }))
            .collect();
        json!({
            "name": name, "boxes": self.boxes, "lines": lines, "placed": total <= BOXES, "width": layout.width,
            "height": layout.height, "box_height": HEIGHT,
        })
    }
}

fn type_of(graph: &Graph, value: ValueId) -> String {
    graph.values.get(value.index()).map_or_else(|| "?".to_owned(), |value| value.ty.to_string())
}

fn describe_value(graph: &Graph, value: ValueId) -> Json {
    json!({ "name": graph.name_of(value), "type": type_of(graph, value) })
}

/// Formats an attribute, shortened if it is long.
fn attribute(value: &Attribute) -> String {
    fn list<T: std::fmt::Debug>(items: &[T]) -> String {
        let more = if items.len() > ITEMS { ", …" } else { "" };
        let shown: Vec<String> = items.iter().take(ITEMS).map(|item| format!("{item:?}")).collect();
        format!("[{}{more}]", shown.join(", "))
    }
    let short = |bytes: &[u8]| -> String {
        let text = String::from_utf8_lossy(bytes.get(..TEXT).unwrap_or(bytes)).into_owned();
        if bytes.len() > TEXT { text + "…" } else { text }
    };
    match value {
        Attribute::Float(x) => x.to_string(),
        Attribute::Int(x) => x.to_string(),
        Attribute::Text(text) => short(text),
        Attribute::Floats(items) => list(items),
        Attribute::Ints(items) => list(items),
        Attribute::Texts(items) => {
            list(&items.iter().take(ITEMS + 1).map(|text| short(text)).collect::<Vec<_>>())
        }
        Attribute::Tensor(tensor) => format!("{}{:?}", tensor.dtype(), tensor.shape()),
        Attribute::Tensors(items) => format!("{} tensors", items.len()),
        Attribute::Graph(graph) => format!("a graph of {} nodes", graph.nodes.len()),
        Attribute::Graphs(items) => format!("{} graphs", items.len()),
        Attribute::Type(ty) => ty.to_string(),
        Attribute::Types(items) => format!("{} types", items.len()),
        other => other.kind().to_owned(),
    }
}
