//! The constraints (*demands*) that a graph's operators have on the extents of their operands, as relations between dim expressions.
//!
//! Each operator adds its demands in one arm of [`Node::demand`]. Weights have known extents, so a demand often determines an extent of an
//! input. The result only helps to choose extents: operators without an arm add no demands.

mod classical;

use bb_ir::convert::{Rounding, cast};
use bb_ir::graph::{self, Attribute, Dim, DimExpr, Graph, ValueType};
use bb_ir::{DataType, TensorData};
use std::collections::{HashMap, HashSet};

/// A constraint of a node.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Demand {
    /// The expressions are equal.
    Equal(DimExpr, DimExpr),
    /// The expressions are equal, or one of them is 1.
    Broadcast(DimExpr, DimExpr),
    /// The extent is at least this number.
    AtLeast(DimExpr, i64),
    /// The extent is a multiple of this number.
    Multiple(DimExpr, i64),
}

/// The maximum number of operands of one node that are compared with each other.
const MOST_COMPARED: usize = 32;

/// Collects the demands of the nodes in a graph with inferred extents, and in the bodies of its loops. Equal demands are collected once.
/// Branches are skipped, because a branch may not run.
pub(super) fn demands(graph: &Graph) -> Vec<Demand> {
    let mut all = Vec::new();
    let mut pending = vec![graph];
    while let Some(graph) = pending.pop() {
        let constants: HashMap<_, _> = graph.constants.iter().map(|(id, data)| (*id, data)).collect();
        for node in &graph.nodes {
            Node { graph, constants: &constants, node, all: &mut all }.demand();
            let repeats = matches!(node.op_type.as_str(), "Loop" | "Scan" | "SequenceMap");
            pending.extend(node.attributes.iter().filter_map(|(_, attribute)| match attribute {
                Attribute::Graph(inner) if repeats => Some(&**inner),
                _ => None,
            }));
        }
    }
    let mut seen = HashSet::new();
    all.retain(|demand| seen.insert(demand.clone()));
    all
}

/// The extents of an operand, as far as they are known.
type Operand = Vec<Option<DimExpr>>;

struct Node<'g> {
    graph: &'g Graph,
    constants: &'g HashMap<graph::ValueId, &'g TensorData>,
    node: &'g graph::Node,
    all: &'g mut Vec<Demand>,
}

impl Node<'_> {
    fn demand(&mut self) {
        let domain = self.node.domain.as_str();
        match (domain, self.node.op_type.as_str()) {
            (
                "",
                "Add" | "Sub" | "Mul" | "Div" | "Pow" | "Mod" | "And" | "Or" | "Xor" | "Equal" | "Greater"
                | "GreaterOrEqual" | "Less" | "LessOrEqual" | "Min" | "Max" | "Mean" | "Sum" | "Where"
                | "PRelu" | "BitShift" | "BitwiseAnd" | "BitwiseOr" | "BitwiseXor",
            ) => self.broadcast(&(0..self.node.inputs.len()).collect::<Vec<_>>()),
            ("com.microsoft", "QLinearAdd" | "QLinearMul") => self.broadcast(&[0, 3]),
            ("com.microsoft", "BiasGelu" | "BiasDropout") => self.broadcast(&[0, 1]),
            ("", "MatMul" | "MatMulInteger")
            | ("com.microsoft", "MatMulIntegerToFloat" | "DynamicQuantizeMatMul") => {
                self.product(0, 1, [false; 2]);
            }
            ("com.microsoft", "FusedMatMul" | "TransposeMatMul") => {
                let turned = ["transA", "transB"].map(|name| self.int(name, 0) != 0);
                self.product(0, 1, turned);
            }
            ("", "QLinearMatMul") => self.product(0, 3, [false; 2]),
            ("com.microsoft", "MatMulNBits" | "MatMulBnb4" | "MatMulFpQ4") => {
                let inner = self.int("K", 0);
                let extent = self.extent(0, -1);
                self.number(extent, inner);
            }
            ("", "Gemm") | ("com.microsoft", "FusedGemm") => self.gemm(0, 1),
            ("com.microsoft", "QGemm") => self.gemm(0, 3),
            ("", "Conv" | "ConvInteger") | ("com.microsoft", "FusedConv" | "NhwcFusedConv") => self.window(1),
            ("", "QLinearConv") | ("com.microsoft", "QLinearConv") => self.window(3),
            ("", "ConvTranspose") => {
                let (x, w) = (self.extent(0, 1), self.extent(1, 0));
                self.equal(x, w);
            }
            ("", "MaxPool" | "AveragePool" | "LpPool") => {
                let kernel = self.ints("kernel_shape");
                self.spatial(&kernel);
            }
            ("", "BatchNormalization" | "InstanceNormalization" | "GroupNormalization") => self.channels(),
            ("", "LayerNormalization" | "RMSNormalization" | "SimplifiedLayerNormalization")
            | ("com.microsoft", "LayerNormalization" | "SimplifiedLayerNormalization") => {
                self.broadcast(&[0, 1])
            }
            ("com.microsoft", "SkipLayerNormalization" | "SkipSimplifiedLayerNormalization") => {
                self.broadcast(&[0, 1]);
                self.broadcast(&[0, 2]);
            }
            ("com.microsoft", "Attention") => {
                let (x, w) = (self.extent(0, -1), self.extent(1, 0));
                self.equal(x, w);
            }
            ("", "LSTM" | "GRU" | "RNN") | ("com.microsoft", "DynamicQuantizeLSTM") => self.recurrent(domain),
            ("", "Reshape") => {
                let [x, out] = [self.operand(0), self.output()];
                if let (Some(x), Some(out)) = (x.and_then(count), out.and_then(count)) {
                    self.all.push(Demand::Equal(x, out));
                }
            }
            ("", "Concat") => {
                let axis = self.int("axis", 1);
                self.alike(axis);
            }
            ("", "Gather" | "GatherElements") => self.indexed(self.int("axis", 0)),
            ("ai.onnx.ml", "ArrayFeatureExtractor") => self.indexed(-1),
            ("", "Split") => self.split(),
            ("", "Squeeze") => {
                for axis in self.numbers(1).unwrap_or_else(|| self.ints("axes")) {
                    let extent = self.extent(0, axis);
                    self.number(extent, 1);
                }
            }
            ("", "Expand") => {
                if let (Some(x), Some(out)) = (self.operand(0), self.output()) {
                    self.aligned(&x, &out);
                }
            }
            ("", "TopK") => {
                let least = self.numbers(1).and_then(|k| k.first().copied()).unwrap_or(0);
                let extent = self.extent(0, self.int("axis", -1));
                self.at_least(extent, least);
            }
            ("", "DepthToSpace") => {
                let size = self.int("blocksize", 1);
                let extent = self.extent(0, 1);
                self.multiple(extent, size.saturating_mul(size));
            }
            ("", "SpaceToDepth") => {
                for axis in [2, 3] {
                    let extent = self.extent(0, axis);
                    self.multiple(extent, self.int("blocksize", 1));
                }
            }
            ("", "Einsum") => self.einsum(),
            ("ai.onnx.ml", _) => self.features(),
            _ => {}
        }
    }

    /// Adds the demands of a normalization over channels: a scale for each channel, and groups of channels.
    fn channels(&mut self) {
        let (channels, scale) = (self.extent(0, 1), self.extent(1, 0));
        if self.int("num_groups", 0) == 0 || self.node.opset >= 21 {
            self.equal(channels.clone(), scale);
        }
        self.multiple(channels, self.int("num_groups", 1));
    }

    /// Adds the demand that the indices in operand 1 are valid along an axis of operand 0. Negative indices count from the end.
    fn indexed(&mut self, axis: i64) {
        let count = |&n: &i64| if n < 0 { n.saturating_neg() } else { n.saturating_add(1) };
        let least = self.numbers(1).and_then(|indices| indices.iter().map(count).max());
        let extent = self.extent(0, axis);
        self.at_least(extent, least.unwrap_or(0));
    }

    fn split(&mut self) {
        let sizes = self.numbers(1).unwrap_or_else(|| self.ints("split"));
        let extent = self.extent(0, self.int("axis", 0));
        if !sizes.is_empty() {
            self.number(extent, sizes.iter().fold(0, |sum, n| i64::saturating_add(sum, *n)));
        }
    }

    /// Adds the demands of a matrix product of two operands.
    fn product(&mut self, a: usize, b: usize, [turned_a, turned_b]: [bool; 2]) {
        let (Some(x), Some(y)) = (self.operand(a), self.operand(b)) else { return };
        let inner =
            |x: &Operand, last: bool| if last { x.last() } else { x.iter().rev().nth(1) }.cloned().flatten();
        let columns = inner(&x, !turned_a || x.len() < 2);
        let rows = inner(&y, turned_b || y.len() < 2);
        self.equal(columns, rows);
        let batch = |x: &Operand| x.get(..x.len().saturating_sub(2)).unwrap_or_default().to_vec();
        self.aligned(&batch(&x), &batch(&y));
    }

    fn gemm(&mut self, a: usize, b: usize) {
        let (x, w) = (
            self.extent(a, i64::from(self.int("transA", 0) == 0)),
            self.extent(b, i64::from(self.int("transB", 0) != 0)),
        );
        self.equal(x, w);
    }

    /// Adds the demands of a convolution whose filters are operand `w`.
    fn window(&mut self, w: usize) {
        let group = self.int("group", 1);
        let (channels, of_filter) = (self.extent(0, 1), self.extent(w, 1));
        let all = of_filter.and_then(|n| n.scaled(group));
        self.equal(channels, all);
        let filter = self.operand(w).unwrap_or_default();
        let kernel: Vec<i64> = filter.iter().skip(2).map_while(|n| n.as_ref()?.constant()).collect();
        self.spatial(&kernel);
    }

    /// Adds the demand that windows of these extents fit into the operand and its padding.
    fn spatial(&mut self, kernel: &[i64]) {
        let (pads, dilations) = (self.ints("pads"), self.ints("dilations"));
        if self.node.attributes.text("auto_pad").ok().flatten().is_some_and(|pad| pad.starts_with("SAME")) {
            return;
        }
        for (i, extent) in kernel.iter().enumerate() {
            let reach = extent.saturating_sub(1).saturating_mul(dilations.get(i).copied().unwrap_or(1));
            let padded = [i, i + kernel.len()].map(|at| pads.get(at).copied().unwrap_or(0));
            let least = reach.saturating_add(1).saturating_sub(padded[0].saturating_add(padded[1]));
            let extent = self.extent(0, i as i64 + 2);
            self.at_least(extent, least);
        }
    }

    fn recurrent(&mut self, domain: &str) {
        let batch_first = self.int("layout", 0) != 0;
        // The quantised variant has transposed weights.
        let (inputs, hidden) = if domain.is_empty() { (2, 2) } else { (1, 1) };
        let (x, w) = (self.extent(0, 2), self.extent(1, inputs));
        self.equal(x, w);
        let (batch, hidden) = (self.extent(0, i64::from(!batch_first)), self.extent(2, hidden));
        let lengths = self.extent(4, 0);
        self.equal(lengths, batch.clone());
        let directions = self.extent(1, 0);
        for state in [5, 6] {
            let [of_directions, of_batch] = if batch_first { [1, 0] } else { [0, 1] };
            let (d, n, h) =
                (self.extent(state, of_directions), self.extent(state, of_batch), self.extent(state, 2));
            self.equal(d, directions.clone());
            self.equal(n, batch.clone());
            self.equal(h, hidden.clone());
        }
    }

    /// Adds the demands that all operands have the same extents, except along `axis`.
    fn alike(&mut self, axis: i64) {
        let operands: Vec<Operand> = (0..self.node.inputs.len()).filter_map(|i| self.operand(i)).collect();
        let Some((first, rest)) = operands.split_first() else { return };
        let axis = if axis < 0 { axis + first.len() as i64 } else { axis };
        for other in rest {
            for (i, (a, b)) in first.iter().zip(other).enumerate() {
                if i as i64 != axis {
                    self.equal(a.clone(), b.clone());
                }
            }
        }
    }

    fn broadcast(&mut self, operands: &[usize]) {
        let all: Vec<Operand> = operands.iter().filter_map(|i| self.operand(*i)).collect();
        let mut seen = HashSet::new();
        let all: Vec<Operand> = all.into_iter().filter(|operand| seen.insert(operand.clone())).collect();
        // If there are many operands, each is compared only with the next ones.
        for (i, a) in all.iter().enumerate() {
            for b in all.iter().skip(i + 1).take(MOST_COMPARED) {
                self.aligned(a, b);
            }
        }
    }

    fn aligned(&mut self, a: &Operand, b: &Operand) {
        for (a, b) in a.iter().rev().zip(b.iter().rev()) {
            if let (Some(a), Some(b)) = (a, b)
                && a != b
            {
                self.all.push(Demand::Broadcast(a.clone(), b.clone()));
            }
        }
    }

    fn einsum(&mut self) {
        let Ok(Some(text)) = self.node.attributes.text("equation") else { return };
        let terms = text.split("->").next().unwrap_or_default();
        if terms.contains('.') {
            return;
        }
        let mut extents: HashMap<char, DimExpr> = HashMap::new();
        for (i, term) in terms.split(',').enumerate() {
            let labels = term.chars().filter(char::is_ascii_alphabetic);
            for (label, extent) in labels.zip(self.operand(i).unwrap_or_default()) {
                let Some(extent) = extent else { continue };
                match extents.get(&label).cloned() {
                    Some(other) => self.equal(Some(extent), Some(other)),
                    None => {
                        extents.insert(label, extent);
                    }
                }
            }
        }
    }

    fn equal(&mut self, a: Option<DimExpr>, b: Option<DimExpr>) {
        if let (Some(a), Some(b)) = (a, b)
            && a != b
        {
            self.all.push(Demand::Equal(a, b));
        }
    }

    fn number(&mut self, extent: Option<DimExpr>, number: i64) {
        if number > 0 {
            self.equal(extent, Some(DimExpr::from(number)));
        }
    }

    fn at_least(&mut self, extent: Option<DimExpr>, least: i64) {
        if let Some(extent) = extent
            && least > 1
        {
            self.all.push(Demand::AtLeast(extent, least));
        }
    }

    fn multiple(&mut self, extent: Option<DimExpr>, of: i64) {
        if let Some(extent) = extent
            && of > 1
        {
            self.all.push(Demand::Multiple(extent, of));
        }
    }

    fn int(&self, name: &str, usual: i64) -> i64 {
        self.node.attributes.int(name).ok().flatten().unwrap_or(usual)
    }

    fn ints(&self, name: &str) -> Vec<i64> {
        self.node.attributes.ints(name).ok().flatten().map(<[i64]>::to_vec).unwrap_or_default()
    }

    /// Returns the extents of an operand, or `None` if its rank is unknown.
    fn operand(&self, index: usize) -> Option<Operand> {
        self.extents(self.node.inputs.get(index).copied().flatten()?)
    }

    fn output(&self) -> Option<Operand> {
        self.extents(self.node.outputs.first().copied().flatten()?)
    }

    fn extents(&self, value: graph::ValueId) -> Option<Operand> {
        match &self.graph.values.get(value.index())?.ty {
            ValueType::Tensor { shape, .. } => Some(shape.as_ref()?.iter().map(Dim::formula).collect()),
            _ => None,
        }
    }

    /// Returns an extent of an operand. A negative axis counts from the end.
    fn extent(&self, operand: usize, axis: i64) -> Option<DimExpr> {
        let operand = self.operand(operand)?;
        let axis = if axis < 0 { axis.checked_add(i64::try_from(operand.len()).ok()?)? } else { axis };
        operand.into_iter().nth(usize::try_from(axis).ok()?)?
    }

    /// Returns the elements of an operand if it is an integer constant.
    fn numbers(&self, operand: usize) -> Option<Vec<i64>> {
        let data = self.constants.get(&self.node.inputs.get(operand).copied().flatten()?)?;
        let wide =
            data.dtype().is_integer().then(|| cast(data, DataType::I64, Rounding::default()).ok())??;
        wide.as_slice::<i64>().ok().map(<[i64]>::to_vec)
    }
}

/// Returns the number of elements.
fn count(extents: Operand) -> Option<DimExpr> {
    extents.into_iter().try_fold(DimExpr::from(1), |product, extent| product.times(&extent?))
}
