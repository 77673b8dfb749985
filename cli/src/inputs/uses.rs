//! Determines the valid elements of an input by following the input to the nodes that read it.
//!
//! The search follows operators that pass elements on: reshaping, casting, slicing, concatenation, and addition of a constant. The result
//! only helps to generate inputs. An input that reaches no known operator has no rule.

use bb_ir::convert::{Rounding, cast};
use bb_ir::graph::{Attribute, Dim, Graph, Node, ValueId, ValueType};
use bb_ir::{DataType, TensorData};
use std::borrow::Cow;
use std::cell::Cell;
use std::collections::{HashMap, HashSet};

/// The valid elements of an input.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum ElementChoice {
    /// Integers in the half-open range between two bounds.
    Indices(i64, i64),
    /// Any of these numbers.
    Numbers(Vec<i64>),
    /// Any of these strings.
    Texts(Vec<String>),
}

/// The maximum number of values that are followed for one input, and for all inputs.
const MOST: usize = 4096;
const MOST_IN_ALL: usize = 1 << 20;

/// The nodes that read each value of a graph with inferred extents, including subgraphs.
pub(super) struct Uses<'g> {
    graph: &'g Graph,
    readers: HashMap<Key, Vec<(Reader<'g>, usize)>>,
    captures: HashMap<Key, Vec<(&'g Graph, ValueId)>>,
    constants: HashMap<Key, &'g TensorData>,
    /// The number of values that may still be followed.
    left: Cell<usize>,
}

/// The identity of a value. Each subgraph numbers its values independently, so the address of the graph is part of the identity.
type Key = (*const Graph, ValueId);

impl<'g> Uses<'g> {
    pub(super) fn new(graph: &'g Graph) -> Uses<'g> {
        let mut uses = Uses {
            graph,
            readers: HashMap::new(),
            captures: HashMap::new(),
            constants: HashMap::new(),
            left: Cell::new(MOST_IN_ALL),
        };
        let mut pending = vec![graph];
        while let Some(graph) = pending.pop() {
            let key = |value: ValueId| (std::ptr::from_ref(graph), value);
            uses.constants.extend(graph.constants.iter().map(|(value, data)| (key(*value), data)));
            for node in &graph.nodes {
                for (operand, read) in node.inputs.iter().enumerate() {
                    if let Some(value) = read {
                        let reader = (Reader { graph, node }, operand);
                        uses.readers.entry(key(*value)).or_default().push(reader);
                    }
                }
                for (_, attribute) in node.attributes.iter() {
                    let Attribute::Graph(inner) = attribute else { continue };
                    for (outer, value) in &inner.captures {
                        uses.captures.entry(key(*outer)).or_default().push((inner, *value));
                    }
                    pending.push(inner);
                }
            }
        }
        uses
    }

    /// Determines the valid elements of an input.
    pub(super) fn elements(&self, input: ValueId) -> Option<ElementChoice> {
        let mut search = Search { uses: self, low: i64::MIN, high: i64::MAX, choice: None };
        let mut seen = HashSet::new();
        let mut pending = vec![Followed { graph: self.graph, value: input, plus: 0 }];
        while let Some(followed) = pending.pop() {
            let key = (std::ptr::from_ref(followed.graph), followed.value);
            if seen.len() >= MOST || !seen.insert(key) {
                continue;
            }
            for (reader, operand) in self.readers.get(&key).into_iter().flatten() {
                let left = self.left.get().checked_sub(1)?;
                self.left.set(left);
                search.read(*reader, *operand, followed.plus, &mut pending);
            }
            let inside = self.captures.get(&key).into_iter().flatten();
            pending.extend(inside.map(|(graph, value)| Followed {
                graph,
                value: *value,
                plus: followed.plus,
            }));
        }
        if search.low > i64::MIN && search.high < i64::MAX && search.low < search.high {
            return Some(ElementChoice::Indices(search.low, search.high));
        }
        search.choice
    }
}

/// A value whose elements are the input's elements plus a number.
struct Followed<'g> {
    graph: &'g Graph,
    value: ValueId,
    plus: i64,
}

#[derive(Clone, Copy)]
struct Reader<'g> {
    graph: &'g Graph,
    node: &'g Node,
}

struct Search<'u, 'g> {
    uses: &'u Uses<'g>,
    low: i64,
    high: i64,
    choice: Option<ElementChoice>,
}

impl<'g> Search<'_, 'g> {
    /// Handles a node that reads a followed value as the operand with this index.
    fn read(&mut self, reader: Reader<'g>, operand: usize, plus: i64, pending: &mut Vec<Followed<'g>>) {
        let node = reader.node;
        let op = (node.domain.as_str(), node.op_type.as_str(), operand);
        let onward = match op {
            (
                "",
                "Cast" | "CastLike" | "Identity" | "Reshape" | "Squeeze" | "Unsqueeze" | "Flatten"
                | "Transpose" | "Expand" | "Tile" | "Slice" | "Split" | "Gather" | "GatherElements"
                | "GatherND" | "Dropout",
                0,
            )
            | ("", "Concat", _)
            | ("", "Where", 1 | 2) => Some(plus),
            ("", "Add", _) => self.constant(reader, 1 - operand.min(1)).and_then(|n| plus.checked_add(n)),
            ("", "Sub", 0) => self.constant(reader, 1).and_then(|n| plus.checked_sub(n)),
            _ => None,
        };
        if let Some(plus) = onward {
            let handed_on = node.outputs.iter().flatten();
            pending.extend(handed_on.map(|value| Followed { graph: reader.graph, value: *value, plus }));
            return;
        }
        self.bound(reader, operand, plus);
    }

    /// Records the elements that a node accepts, for nodes that do not pass the elements on.
    fn bound(&mut self, reader: Reader<'_>, operand: usize, plus: i64) {
        let node = reader.node;
        let axis = |usual: i64| node.attributes.int("axis").ok().flatten().unwrap_or(usual);
        match (node.domain.as_str(), node.op_type.as_str(), operand) {
            ("", "Gather" | "GatherElements" | "Scatter" | "ScatterElements", 1)
            | ("com.microsoft", "GatherBlockQuantized", 1) => self.indices(reader.extent(0, axis(0)), plus),
            ("", "GatherND" | "ScatterND", 1) => self.indices(reader.least_indexed(), plus),
            ("", "OneHot", 0) => self.indices(self.constant(reader, 1), plus),
            ("", "RotaryEmbedding", 3) => self.indices(reader.extent(1, 0), plus),
            ("com.microsoft", "RotaryEmbedding", 1) => self.indices(reader.extent(2, 0), plus),
            ("com.microsoft", "EmbedLayerNormalization", 0) => self.indices(reader.extent(2, 0), plus),
            ("com.microsoft", "EmbedLayerNormalization", 1) => self.indices(reader.extent(4, 0), plus),
            ("ai.onnx.ml", "ArrayFeatureExtractor", 1) => self.indices(reader.extent(0, -1), plus),
            ("", "RoiAlign", 2) => self.indices(reader.extent(0, 0), plus),
            ("", "NegativeLogLikelihoodLoss" | "SoftmaxCrossEntropyLoss", 1) => {
                self.indices(reader.extent(0, 1), plus);
            }
            ("", "LSTM" | "GRU" | "RNN", 4) => {
                let layout = node.attributes.int("layout").ok().flatten().unwrap_or(0);
                self.lengths(reader.extent(0, layout), plus);
            }
            ("", "ReverseSequence", 1) => {
                let time = node.attributes.int("time_axis").ok().flatten().unwrap_or(0);
                self.lengths(reader.extent(0, time), plus);
            }
            ("", "TopK", 1) => self.lengths(reader.extent(0, axis(-1)), plus),
            ("", "Equal", _) if reader.elements(operand) == Some(1) => {
                let other = self.constant(reader, 1 - operand.min(1));
                if let Some(number) = other.and_then(|n| n.checked_sub(plus)) {
                    match &mut self.choice {
                        Some(ElementChoice::Numbers(numbers)) => numbers.push(number),
                        choice => *choice = Some(ElementChoice::Numbers(vec![number])),
                    }
                }
            }
            ("ai.onnx.ml", "LabelEncoder" | "OneHotEncoder" | "CategoryMapper", 0) => {
                let texts = ["keys_strings", "cats_strings"].into_iter().find_map(|name| texts(node, name));
                let numbers = ["keys_int64s", "cats_int64s"].into_iter().find_map(|name| {
                    node.attributes.ints(name).ok().flatten().filter(|numbers| !numbers.is_empty())
                });
                self.choice = match (reader.dtype(operand), texts, numbers) {
                    (Some(DataType::String), Some(texts), _) => Some(ElementChoice::Texts(texts)),
                    (Some(DataType::String), None, _) => keys(node).map(ElementChoice::Texts),
                    (Some(_), _, Some(numbers)) => Some(ElementChoice::Numbers(numbers.to_vec())),
                    _ => None,
                };
            }
            _ => {}
        }
    }

    /// Records that the elements plus `plus` are in the range from 0 to `count` - 1.
    fn indices(&mut self, count: Option<i64>, plus: i64) {
        self.between(0, count, plus);
    }

    /// Records that the elements plus `plus` are in the range from 1 to `extent`.
    fn lengths(&mut self, extent: Option<i64>, plus: i64) {
        self.between(1, extent.and_then(|n| n.checked_add(1)), plus);
    }

    /// Returns the value of an operand that is a constant with one element.
    fn constant(&self, reader: Reader<'_>, operand: usize) -> Option<i64> {
        let value = reader.node.inputs.get(operand).copied().flatten()?;
        let data = *self.uses.constants.get(&(std::ptr::from_ref(reader.graph), value))?;
        let number = |data: &TensorData| cast(data, DataType::I64, Rounding::default()).ok();
        let data = (data.len() == 1 && data.dtype() != DataType::String).then(|| number(data))??;
        data.as_slice::<i64>().ok()?.first().copied()
    }

    fn between(&mut self, low: i64, high: Option<i64>, plus: i64) {
        if let (Some(low), Some(high)) = (low.checked_sub(plus), high.and_then(|n| n.checked_sub(plus))) {
            self.low = self.low.max(low);
            self.high = self.high.min(high);
        }
    }
}

impl Reader<'_> {
    fn ty(&self, operand: usize) -> Option<&ValueType> {
        let value = self.node.inputs.get(operand).copied().flatten()?;
        self.graph.values.get(value.index()).map(|value| &value.ty)
    }

    fn dtype(&self, operand: usize) -> Option<DataType> {
        match self.ty(operand)? {
            ValueType::Tensor { dtype, .. } => Some(*dtype),
            _ => None,
        }
    }

    fn dims(&self, operand: usize) -> Option<&[Dim]> {
        match self.ty(operand)? {
            ValueType::Tensor { shape, .. } => shape.as_deref(),
            _ => None,
        }
    }

    /// Returns an extent of an operand, if it is known. A negative axis counts from the end.
    fn extent(&self, operand: usize, axis: i64) -> Option<i64> {
        let dims = self.dims(operand)?;
        let axis = if axis < 0 { axis.checked_add(i64::try_from(dims.len()).ok()?)? } else { axis };
        match dims.get(usize::try_from(axis).ok()?)? {
            Dim::Known(extent) => i64::try_from(*extent).ok(),
            Dim::Symbol(_) | Dim::Computed(_) | Dim::Unknown => None,
        }
    }

    fn elements(&self, operand: usize) -> Option<usize> {
        let known = |dim: &Dim| if let Dim::Known(extent) = dim { Some(*extent) } else { None };
        bb_ir::element_count(&self.dims(operand)?.iter().map(known).collect::<Option<Vec<_>>>()?)
    }

    /// Returns the minimum extent among the axes that the indices select from.
    fn least_indexed(&self) -> Option<i64> {
        let batch = self.node.attributes.int("batch_dims").ok().flatten().unwrap_or(0);
        let axes = self.extent(1, -1)?;
        (batch..batch.checked_add(axes)?.min(64)).map(|axis| self.extent(0, axis)).min().flatten()
    }
}

fn texts(node: &Node, attribute: &str) -> Option<Vec<String>> {
    let texts = node.attributes.texts(attribute).ok().flatten().filter(|texts| !texts.is_empty())?;
    Some(texts.iter().map(|text| String::from_utf8_lossy(text).into_owned()).collect())
}

/// Returns the keys of a `LabelEncoder`, if they are stored as a tensor.
fn keys(node: &Node) -> Option<Vec<String>> {
    let keys = node.attributes.tensor("keys_tensor").ok().flatten()?;
    (keys.dtype() == DataType::String && !keys.is_empty())
        .then(|| keys.iter_str().map(Cow::into_owned).collect())
}
