//! The attention of a decoder, whose caches stay where they are.

use super::graph::{Builder, Extent};
use super::shape::DecoderShape;
use crate::Error;
use bb::DataType;

/// The values that all layers share.
#[derive(Debug)]
pub(super) struct Attention {
    /// Cosines and sines of the new positions: `[s, 1, rotated / 2]`.
    angles: [String; 2],
    /// What is added to the products with the new keys: `[queries * s, s]`.
    mask: String,
    /// What is added to the products with the keys so far, if they are not all reached: `[queries * s, p]`.
    past_mask: Option<String>,
    heads: usize,
    groups: usize,
    size: usize,
    rotated: usize,
}

impl Attention {
    /// Writes what all layers share.
    pub(super) fn new(
        graph: &mut Builder,
        shape: &DecoderShape,
        positions: usize,
        factors: Option<&[f32]>,
    ) -> Result<Attention, Error> {
        let &DecoderShape { heads, groups, size, rotated, window, .. } = shape;
        let own = graph.input("positions", DataType::I64, &[Extent::Name("new")]);
        let before = window.map(|_| graph.input("before", DataType::I64, &[Extent::Name("past")]));
        let axes = graph.numbers(&[1])?;
        let mut angles = Vec::new();
        for numbers in shape.angles(positions, factors) {
            let table = graph.floats(&[positions, rotated / 2], numbers)?;
            let chosen = graph.node("Gather", &[&table, &own], &[]);
            angles.push(graph.node("Unsqueeze", &[&chosen, &axes], &[]));
        }
        let angles: [String; 2] =
            angles.try_into().map_err(|_| Error::Internal { what: "angles have other than two tables" })?;
        // The queries that share keys stand below each other.
        let queries = vec![own.as_str(); heads / groups];
        let rows = match queries.len() {
            1 => own.clone(),
            _ => graph.node("Concat", &queries, &[("axis", 0)]),
        };
        let rows = graph.node("Unsqueeze", &[&rows, &axes], &[]);
        let (zero, nothing) =
            (graph.scalar(DataType::F32, 0.0)?, graph.scalar(DataType::F32, f64::NEG_INFINITY)?);
        let mut reached = graph.node("GreaterOrEqual", &[&rows, &own], &[]);
        let mut past_mask = None;
        if let (Some(window), Some(before)) = (window, before) {
            let window = graph.scalar(DataType::I64, window as f64)?;
            let least = graph.node("Sub", &[&rows, &window], &[]);
            let near = graph.node("Less", &[&least, &own], &[]);
            reached = graph.node("And", &[&reached, &near], &[]);
            let near = graph.node("Less", &[&least, &before], &[]);
            past_mask = Some(graph.node("Where", &[&near, &zero, &nothing], &[]));
        }
        let mask = graph.node("Where", &[&reached, &zero, &nothing], &[]);
        Ok(Attention { angles, mask, past_mask, heads, groups, size, rotated })
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

    /// Computes attention of the new positions, `[s, heads, size]`, to those so far and to each other: `[s, heads * size]`. The new keys
    /// and values, `[s, groups, size]`, are outputs of the graph.
    pub(super) fn attended(
        &self,
        graph: &mut Builder,
        layer: usize,
        [q, k, v]: [&str; 3],
    ) -> Result<String, Error> {
        let &Attention { heads, groups, size, .. } = self;
        let (g, d) = (groups as i64, size as i64);
        let extents = [Extent::Name("past"), Extent::Number(groups), Extent::Number(size)];
        let [past_k, past_v] = ["key", "value"]
            .map(|what| graph.input(&format!("past.{layer}.{what}"), DataType::F32, &extents));
        graph.output(&format!("new.{layer}.key"), k);
        graph.output(&format!("new.{layer}.value"), v);

        let scale = graph.scalar(DataType::F32, 1.0 / (size as f64).sqrt())?;
        let q = graph.node("Mul", &[q, &scale], &[]);
        let q = graph.reshape(&q, &[0, g, (heads / groups) as i64, d])?;
        let q = graph.transpose(&q, &[1, 2, 0, 3]);
        let q = graph.reshape(&q, &[g, -1, d])?;
        let products = |graph: &mut Builder, k: &str, mask: Option<&str>| {
            let k = graph.transpose(k, &[1, 2, 0]);
            let y = graph.node("MatMul", &[&q, &k], &[]);
            mask.map_or(y.clone(), |mask| graph.node("Add", &[&y, mask], &[]))
        };
        let before = products(graph, &past_k, self.past_mask.as_deref());
        let among = products(graph, k, Some(&self.mask));
        let all = graph.node("Concat", &[&before, &among], &[("axis", 2)]);
        let shares = graph.node("Softmax", &[&all], &[("axis", -1)]);
        let count = graph.node("Shape", &[&past_k], &[("start", 0), ("end", 1)]);
        let (from, end, axis) = (graph.numbers(&[0])?, graph.numbers(&[i64::MAX])?, graph.numbers(&[2])?);
        let mut average = |from: &str, to: &str, v: &str| {
            let own = graph.node("Slice", &[&shares, from, to, &axis], &[]);
            let v = graph.transpose(v, &[1, 0, 2]);
            graph.node("MatMul", &[&own, &v], &[])
        };
        let (before, among) = (average(&from, &count, &past_v), average(&count, &end, v));
        let y = graph.node("Add", &[&before, &among], &[]);
        let y = graph.reshape(&y, &[g, (heads / groups) as i64, -1, d])?;
        let y = graph.transpose(&y, &[2, 0, 1, 3]);
        graph.reshape(&y, &[0, (heads * size) as i64])
    }
}
