//! The attention of a decoder to its caches, which stay where they are.

use super::graph::{Builder, Extent};
use super::shape::DecoderShape;
use crate::Error;
use crate::blocks::BLOCK;
use bb::DataType;

/// The values that all layers share.
#[derive(Debug)]
pub(super) struct Attention {
    /// Cosines and sines of the new positions: `[s, 1, rotated / 2]`.
    angles: [String; 2],
    /// Where sequences begin, how long their pasts are, and in which blocks these lie.
    numbers: [String; 3],
    heads: usize,
    groups: usize,
    size: usize,
    rotated: usize,
    window: Option<usize>,
    /// The type of cached keys and values.
    kept: DataType,
}

impl Attention {
    /// Writes what all layers share.
    pub(super) fn new(
        graph: &mut Builder,
        shape: &DecoderShape,
        kept: DataType,
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

    /// Computes attention of the new positions, `[s, heads, size]`, to those so far of their sequences and to each other:
    /// `[s, heads * size]`. The new keys and values, `[s, groups, size]`, are outputs of the graph.
    pub(super) fn attended(
        &self,
        graph: &mut Builder,
        layer: usize,
        [q, k, v]: [&str; 3],
    ) -> Result<String, Error> {
        let &Attention { heads, groups, size, window, kept, .. } = self;
        let extents =
            [Extent::Name("blocks"), Extent::Number(BLOCK), Extent::Number(groups), Extent::Number(size)];
        let [past_k, past_v] =
            ["key", "value"].map(|what| graph.input(&format!("past.{layer}.{what}"), kept, &extents));
        // A new key is rounded before it is used, so that it counts the same now and later.
        let mut rounded = |x: &str| match kept {
            DataType::F32 => x.to_owned(),
            _ => graph.node("Cast", &[x], &[("to", kept.to_onnx().into())]),
        };
        let (k, v) = (rounded(k), rounded(v));
        let (k, v) = (k.as_str(), v.as_str());
        graph.output(&format!("new.{layer}.key"), k);
        graph.output(&format!("new.{layer}.value"), v);

        let mut flat = |x: &str, heads: usize| graph.reshape(x, &[0, (heads * size) as i64]);
        let (q, k, v) = (flat(q, heads)?, flat(k, groups)?, flat(v, groups)?);
        let [starts, pasts, table] = &self.numbers;
        let operands: [&str; 8] = [&q, &k, &v, &past_k, &past_v, starts, pasts, table];
        let mut attributes = vec![("num_heads", heads as i64), ("kv_num_heads", groups as i64)];
        attributes.extend(window.map(|window| ("local_window_size", window as i64)));
        Ok(graph.microsoft("PagedAttention", &operands, &attributes))
    }
}
