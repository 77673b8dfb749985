//! The attention of a decoder over its caches, which stay in place.

use super::graph::{Builder, Extent};
use super::shape::DecoderShape;
use crate::blocks::BLOCK;
use crate::{CacheType, Error};
use bb::DataType;

/// The operand index of the scales of cached keys and values in `PagedAttention`.
const SCALES: usize = 17;

/// The attention parameters and values that all layers share.
#[derive(Debug)]
pub(super) struct Attention {
    /// The cosines and sines of the angles of the new positions: `[s, 1, rotated / 2]`.
    angles: [String; 2],
    /// The starts of the sequences, the lengths of their pasts, and the blocks of the pasts.
    numbers: [String; 3],
    heads: usize,
    groups: usize,
    size: usize,
    rotated: usize,
    window: Option<usize>,
    kept: CacheType,
}

/// A new key or value, in the type of the caches.
struct New {
    /// The operand of attention.
    taken: String,
    kept: String,
    /// The scale of each position and head, if the cache type is an integer.
    scale: Option<String>,
}

impl Attention {
    /// Writes the part of the graph that all layers share.
    pub(super) fn new(
        graph: &mut Builder,
        shape: &DecoderShape,
        kept: CacheType,
        positions: usize,
        factors: Option<&[f32]>,
    ) -> Result<Attention, Error> {
        let &DecoderShape { heads, groups, size, rotated, window, .. } = shape;
        let own = graph.input("positions", DataType::I64, &[Extent::Name("new")]);
        let (sequences, width) = (Extent::Name("sequences"), Extent::Name("width"));
        let numbers = [
            graph.input("starts", DataType::I32, &[Extent::Name("starts")]),
            graph.input("pasts", DataType::I32, &[sequences]),
            graph.input("table", DataType::I32, &[sequences, width]),
        ];
        let axes = graph.numbers(&[1])?;
        let mut angles = Vec::new();
        for numbers in shape.angles(positions, factors) {
            let table = graph.floats(&[positions, rotated / 2], numbers)?;
            let chosen = graph.node("Gather", &[&table, &own], &[]);
            angles.push(graph.node("Unsqueeze", &[&chosen, &axes], &[]));
        }
        let angles: [String; 2] =
            angles.try_into().map_err(|_| Error::Internal { what: "angles have other than two tables" })?;
        Ok(Attention { angles, numbers, heads, groups, size, rotated, window, kept })
    }

    /// Rotates `[s, heads, size]` by the angles of the positions.
    pub(super) fn rotated(&self, graph: &mut Builder, x: &str) -> Result<String, Error> {
        let (half, whole) = (self.rotated as i64 / 2, self.rotated as i64);
        let [cos, sin] = &self.angles;
        let (a, b) = (graph.slice(x, 2, 0, half)?, graph.slice(x, 2, half, whole)?);
        let mut product = |x: &str, by: &str| graph.node("Mul", &[x, by], &[]);
        let [a_cos, a_sin, b_cos, b_sin] =
            [product(&a, cos), product(&a, sin), product(&b, cos), product(&b, sin)];
        let first = graph.node("Sub", &[&a_cos, &b_sin], &[]);
        let second = graph.node("Add", &[&b_cos, &a_sin], &[]);
        let mut parts = vec![first, second];
        if self.rotated < self.size {
            parts.push(graph.slice(x, 2, whole, self.size as i64)?);
        }
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        Ok(graph.node("Concat", &parts, &[("axis", 2)]))
    }

    /// Rounds new keys or values, `[s, groups, size]`, to the cache type before they are used, so that they have the same effect now and in
    /// later runs.
    fn rounded(&self, graph: &mut Builder, x: &str) -> Result<New, Error> {
        let dtype = i64::from(self.kept.dtype().to_onnx());
        Ok(match self.kept {
            CacheType::F32 => New { taken: x.to_owned(), kept: x.to_owned(), scale: None },
            CacheType::F16 => {
                let halves = graph.node("Cast", &[x], &[("to", dtype)]);
                New { taken: halves.clone(), kept: halves, scale: None }
            }
            // The scale of zeros is 0; their quotient is NaN, which is cast to 0. An infinite element or a NaN makes the scale infinite or
            // NaN, so that dequantization gives NaN.
            CacheType::I8 => {
                let (axes, most) = (graph.numbers(&[2])?, graph.float(i8::MAX.into())?);
                let magnitudes = graph.node("Abs", &[x], &[]);
                let greatest = graph.node("ReduceMax", &[&magnitudes, &axes], &[("keepdims", 1)]);
                let scale = graph.node("Div", &[&greatest, &most], &[]);
                let blocks = [("axis", 2), ("block_size", self.size as i64)];
                let [axis, block] = blocks;
                let integers =
                    graph.node("QuantizeLinear", &[x, &scale], &[axis, block, ("output_dtype", dtype)]);
                let taken = graph.node("DequantizeLinear", &[&integers, &scale], &blocks);
                New { taken, kept: integers, scale: Some(scale) }
            }
        })
    }

    /// Computes the attention of the new positions, `[s, heads, size]`, over the earlier positions of their sequences and over each other.
    /// Returns `[s, heads * size]`. Outputs of the graph are the new keys followed by the new values, `[2 * s, groups, size]`, and their
    /// scales, `[2 * s, groups, 1]`. They are copies, because views of a layer's results would keep the whole results in memory until the
    /// run ends.
    pub(super) fn attended(
        &self,
        graph: &mut Builder,
        layer: usize,
        [q, k, v]: [&str; 3],
    ) -> Result<String, Error> {
        let &Attention { heads, groups, size, window, kept, .. } = self;
        let dtype = kept.dtype();
        let extents =
            [Extent::Name("blocks"), Extent::Number(BLOCK), Extent::Number(groups), Extent::Number(size)];
        let [past_k, past_v] =
            ["key", "value"].map(|what| graph.input(&format!("past.{layer}.{what}"), dtype, &extents));
        let (k, v) = (self.rounded(graph, k)?, self.rounded(graph, v)?);
        let mut returned = |name: String, [k, v]: [&str; 2]| {
            let both = graph.node("Concat", &[k, v], &[("axis", 0)]);
            graph.output(&name, &both);
        };
        returned(format!("new.{layer}"), [&k.kept, &v.kept]);
        let mut scales = Vec::new();
        if let (Some(of_k), Some(of_v)) = (&k.scale, &v.scale) {
            returned(format!("new.{layer}.scale"), [of_k, of_v]);
            let [blocks, block, groups, _] = extents;
            scales.extend(["key", "value"].map(|what| {
                let name = format!("past.{layer}.{what}_scale");
                graph.input(&name, DataType::F32, &[blocks, block, groups])
            }));
        }

        let mut flat = |x: &str, heads: usize| graph.reshape(x, &[0, (heads * size) as i64]);
        let (q, k, v) = (flat(q, heads)?, flat(&k.taken, groups)?, flat(&v.taken, groups)?);
        let [starts, pasts, table] = &self.numbers;
        let mut operands: Vec<&str> = vec![&q, &k, &v, &past_k, &past_v, starts, pasts, table];
        if !scales.is_empty() {
            operands.resize(SCALES, "");
            operands.extend(scales.iter().map(String::as_str));
        }
        let mut attributes = vec![("num_heads", heads as i64), ("kv_num_heads", groups as i64)];
        attributes.extend(window.map(|window| ("local_window_size", window as i64)));
        Ok(graph.microsoft("PagedAttention", &operands, &attributes))
    }
}
