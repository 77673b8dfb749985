//! The decoder of a GGUF file as a graph of ONNX's operators and `MatMulNBits`, and the code that runs it.
//!
//! One graph serves prompts and single tokens of any number of sequences, and one plan serves all lengths. The graph reads the earlier keys
//! and values in blocks, and returns only the new ones, so that no cache is copied. A run writes the new ones into the caches in place.
//!
//! Weights of few bits are not converted, except that weights of 5 and 6 bits are stored in 8 bits.

mod attention;
mod graph;
mod run;
mod shape;
#[cfg(test)]
#[path = "../../tests/tiny/mod.rs"]
mod tiny;
mod weights;

use crate::blocks::{Blocks, CacheRow};
use crate::cache::Cache;
use crate::gguf::{Gguf, GgufTensor};
use crate::{CacheType, Error, OpenOptions, Products};
use attention::Attention;
use bb::ir::memory;
use bb::{BackendHandle, CompileOptions, DataType, ErasedExecutable, Value};
use graph::{Builder, Extent};
pub(crate) use run::{Joined, Ran};
use shape::{DecoderShape, Gate};
use std::sync::Arc;
use weights::{Matrix, Weights};

/// The name of the embedding tensor, which has a row for each token.
const EMBEDDING: &str = "token_embd.weight";
/// The default maximum number of positions.
const CONTEXT: usize = 8192;
/// The maximum number of cosines and sines of all positions, which corresponds to 1 GiB.
const ANGLES: usize = 1 << 28;

/// A decoder that was compiled for a backend.
pub(crate) struct Decoder {
    on: BackendHandle,
    program: Arc<dyn ErasedExecutable>,
    shape: DecoderShape,
    /// The embeddings of tokens. They are read from the file in place, so that memory has no second copy in addition to the matrix of the
    /// logits.
    embedding: GgufTensor,
    /// The maximum number of positions of a sequence.
    positions: usize,
    kept: CacheType,
}

/// Returns the name of a weight of a layer.
fn of_layer(layer: usize, name: &str) -> String {
    format!("blk.{layer}.{name}")
}

/// Writes the graph of a decoder.
struct DecoderWriter<'a> {
    file: Weights<'a>,
    shape: &'a DecoderShape,
    products: Products,
    kept: CacheType,
    graph: Builder,
}

impl DecoderWriter<'_> {
    /// Adds a vector of floats from the file. `order` reorders its elements.
    fn vector(&mut self, name: &str, length: usize, order: Option<&[usize]>) -> Result<String, Error> {
        let numbers = self.file.tensor(name)?.expect(&[length as u64])?.dequantize()?;
        let numbers = match order {
            None => numbers,
            Some(order) => order.iter().filter_map(|&i| numbers.get(i)).copied().collect(),
        };
        self.graph.floats(&[length], numbers)
    }

    fn norm(&mut self, x: &str, name: &str, length: usize) -> Result<String, Error> {
        let scale = self.vector(name, length, None)?;
        Ok(self.graph.rms_norm(x, &scale, self.shape.epsilon))
    }

    /// Multiplies with several matrices, and returns the products separately. If the matrices are of one kind, they are stacked and
    /// multiplied in one operation.
    fn products(&mut self, x: &str, parts: Vec<(Matrix, usize)>) -> Result<Vec<String>, Error> {
        let sizes: Vec<usize> = parts.iter().map(|(_, rows)| *rows).collect();
        let matrices = parts.into_iter().map(|(matrix, _)| matrix).collect();
        match Matrix::joined(matrices) {
            Ok(whole) => {
                let y = whole.placed(&mut self.graph, "weights")?.times(&mut self.graph, x, self.products);
                let mut from = 0;
                let mut all = Vec::new();
                for size in sizes {
                    let to = from + size as i64;
                    all.push(self.graph.slice(&y, 1, from, to)?);
                    from = to;
                }
                Ok(all)
            }
            Err(matrices) => {
                let mut product = |matrix: Matrix| {
                    let placed = matrix.placed(&mut self.graph, "weights")?;
                    Ok(placed.times(&mut self.graph, x, self.products))
                };
                matrices.into_iter().map(&mut product).collect()
            }
        }
    }

    fn product(&mut self, x: &str, name: &str, extents: [usize; 2]) -> Result<String, Error> {
        let matrix = Matrix::find(&self.file, name, extents, None)?;
        Ok(matrix.placed(&mut self.graph, "weights")?.times(&mut self.graph, x, self.products))
    }

    /// Writes the projections, and returns queries, keys and values of the new positions: `[s, heads * size]` each.
    fn projections(&mut self, x: &str, layer: usize) -> Result<[String; 3], Error> {
        let &DecoderShape { width, heads, groups, size, .. } = self.shape;
        let rows = [heads * size, groups * size, groups * size];
        let [q, k] = [heads, groups].map(|heads| self.shape.order(heads));
        let orders = [q.as_deref(), k.as_deref(), None];
        let names = ["attn_q", "attn_k", "attn_v"];
        let whole = of_layer(layer, "attn_qkv.weight");
        let mut all = if self.file.find(&whole).is_some() {
            let order = match orders {
                [Some(q), Some(k), _] => {
                    let behind = |by: usize| move |i: &usize| i + by;
                    let k = k.iter().map(behind(q.len()));
                    let v = q.len() + k.len()..rows.iter().sum();
                    Some(q.iter().copied().chain(k).chain(v).collect::<Vec<_>>())
                }
                _ => None,
            };
            let extents = [rows.iter().sum(), width];
            let matrix = Matrix::find(&self.file, &whole, extents, order.as_deref())?;
            let y = matrix.placed(&mut self.graph, "weights")?.times(&mut self.graph, x, self.products);
            let mut from = 0;
            let mut parts = Vec::new();
            for rows in rows {
                parts.push(self.graph.slice(&y, 1, from, from + rows as i64)?);
                from += rows as i64;
            }
            parts
        } else {
            let mut parts = Vec::new();
            for ((name, rows), order) in names.iter().zip(rows).zip(orders) {
                let name = of_layer(layer, &format!("{name}.weight"));
                parts.push((Matrix::find(&self.file, &name, [rows, width], order)?, rows));
            }
            self.products(x, parts)?
        };
        for (((y, name), rows), order) in all.iter_mut().zip(names).zip(rows).zip(orders) {
            let name = of_layer(layer, &format!("{name}.bias"));
            if self.file.find(&name).is_some() {
                let bias = self.vector(&name, rows, order)?;
                *y = self.graph.node("Add", &[y, &bias], &[]);
            }
        }
        all.try_into().map_err(|_| Error::Internal { what: "a layer has other than three projections" })
    }

    /// Writes the gated feed-forward layer after attention.
    fn feed_forward(&mut self, x: &str, layer: usize) -> Result<String, Error> {
        let &DecoderShape { width, hidden, gate, .. } = self.shape;
        let (name, up) = (of_layer(layer, "ffn_gate.weight"), of_layer(layer, "ffn_up.weight"));
        let parts = if self.file.find(&name).is_some() {
            let gate = Matrix::find(&self.file, &name, [hidden, width], None)?;
            let up = Matrix::find(&self.file, &up, [hidden, width], None)?;
            self.products(x, vec![(gate, hidden), (up, hidden)])?
        } else {
            // The file has both matrices stacked.
            let y = self.product(x, &up, [2 * hidden, width])?;
            let n = hidden as i64;
            vec![self.graph.slice(&y, 1, 0, n)?, self.graph.slice(&y, 1, n, 2 * n)?]
        };
        let [gated, up]: [String; 2] =
            parts.try_into().map_err(|_| Error::Internal { what: "a layer has other than two products" })?;
        let gated = match gate {
            Gate::Silu => self.graph.node("Swish", &[&gated], &[]),
            Gate::Gelu => {
                let y = self.graph.node("Gelu", &[&gated], &[]);
                self.graph.with_text("approximate", "tanh");
                y
            }
        };
        let y = self.graph.node("Mul", &[&gated, &up], &[]);
        self.product(&y, &of_layer(layer, "ffn_down.weight"), [width, hidden])
    }

    fn layer(&mut self, x: &str, layer: usize, attention: &Attention) -> Result<String, Error> {
        let &DecoderShape { width, heads, groups, size, .. } = self.shape;
        let normal = self.norm(x, &of_layer(layer, "attn_norm.weight"), width)?;
        let [q, k, v] = self.projections(&normal, layer)?;
        let mut split = |y: &str, heads: usize| self.graph.reshape(y, &[0, heads as i64, size as i64]);
        let [mut q, mut k, v] = [split(&q, heads)?, split(&k, groups)?, split(&v, groups)?];
        for (y, name) in [(&mut q, "attn_q_norm.weight"), (&mut k, "attn_k_norm.weight")] {
            let name = of_layer(layer, name);
            if self.file.find(&name).is_some() {
                let order = self.shape.order(1);
                let scale = self.vector(&name, size, order.as_deref())?;
                *y = self.graph.rms_norm(y, &scale, self.shape.epsilon);
            }
        }
        if self.shape.rotates(layer) {
            [q, k] = [attention.rotated(&mut self.graph, &q)?, attention.rotated(&mut self.graph, &k)?];
        }
        let y = attention.attended(&mut self.graph, layer, [&q, &k, &v])?;
        let y = self.product(&y, &of_layer(layer, "attn_output.weight"), [width, heads * size])?;
        let x = self.graph.node("Add", &[x, &y], &[]);
        let normal = self.norm(&x, &of_layer(layer, "ffn_norm.weight"), width)?;
        let y = self.feed_forward(&normal, layer)?;
        Ok(self.graph.node("Add", &[&x, &y], &[]))
    }

    /// Writes the whole graph.
    fn write(mut self, positions: usize) -> Result<bb::Module, Error> {
        let &DecoderShape { width, vocabulary, .. } = self.shape;
        let mut x = self.graph.input(
            "embedded",
            DataType::F32,
            &[Extent::Name("new"), Extent::Number(self.shape.width)],
        );
        let rows = self.graph.input("rows", DataType::I64, &[Extent::Name("rows")]);
        let states = self.graph.input("states", DataType::I64, &[Extent::Name("states")]);
        let embedding = Matrix::find(&self.file, EMBEDDING, [vocabulary, width], None)?;
        let factors = match self.file.find("rope_freqs.weight") {
            Some(tensor) => Some(tensor.expect(&[self.shape.rotated as u64 / 2])?.dequantize()?),
            None => None,
        };
        let attention =
            Attention::new(&mut self.graph, self.shape, self.kept, positions, factors.as_deref())?;
        for layer in 0..self.shape.layers {
            x = self.layer(&x, layer, &attention)?;
        }
        // Only compute the last steps for the positions whose logits or states are requested.
        let scale = self.vector("output_norm.weight", width, None)?;
        let mut chosen = |rows: &str| {
            let wanted = self.graph.node("Gather", &[&x, rows], &[]);
            self.graph.rms_norm(&wanted, &scale, self.shape.epsilon)
        };
        let (normal, states) = (chosen(&rows), chosen(&states));
        let head = match self.file.find("output.weight") {
            Some(_) => Matrix::find(&self.file, "output.weight", [vocabulary, width], None)?,
            None => embedding,
        };
        let logits = head.placed(&mut self.graph, "head")?.times(&mut self.graph, &normal, self.products);
        self.graph.output("logits", &logits);
        self.graph.output("last", &states);
        self.file.all_asked_for()?;
        self.graph.finish()
    }
}

impl std::fmt::Debug for Decoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Decoder").field("positions", &self.positions).finish_non_exhaustive()
    }
}

impl Decoder {
    /// Compiles the decoder of a file.
    pub(crate) fn open(file: &Gguf, on: &BackendHandle, options: &OpenOptions) -> Result<Decoder, Error> {
        let shape = DecoderShape::read(file)?;
        let positions = options.context.unwrap_or(CONTEXT).min(shape.context);
        // A hostile file may claim any number of layers. Check first that the last layer has weights.
        file.tensor(&of_layer(shape.layers.saturating_sub(1), "attn_norm.weight"))?;
        let angles = positions.saturating_mul(shape.rotated);
        if angles > ANGLES {
            let key = "rope.dimension_count times the number of positions".to_owned();
            return Err(Error::Size { key, found: angles as u64, most: ANGLES as u64 });
        }
        memory::probe("the angles of positions", angles.saturating_mul(8))?;
        let writer = DecoderWriter {
            file: Weights::of(file),
            shape: &shape,
            products: options.products,
            kept: options.cache,
            graph: Builder::default(),
        };
        let module = writer.write(positions)?;
        let program = on.compile(module, &CompileOptions::default())?;
        let embedding = file.tensor(EMBEDDING)?.clone();
        let kept = options.cache;
        let decoder = Decoder { on: on.clone(), program, shape, embedding, positions, kept };
        // A run of one token creates the plan and packs the weights, so that the first prompt does not have to.
        decoder.step(&[0], &[0], &mut decoder.cache())?;
        Ok(decoder)
    }

    /// Returns the embeddings of tokens: `[tokens, width]`.
    fn embedded(&self, tokens: &[i64]) -> Result<Value, Error> {
        let mut rows = memory::room("the rows of tokens", tokens.len() * self.shape.width)?;
        for &token in tokens {
            let row = usize::try_from(token).unwrap_or(usize::MAX);
            self.embedding.append(self.embedding.row(row), &mut rows)?;
        }
        if self.shape.embedding_scale != 1.0 {
            let scale = self.shape.embedding_scale as f32;
            rows.iter_mut().for_each(|x| *x *= scale);
        }
        Ok(self.on.tensor(&[tokens.len(), self.shape.width], &rows)?)
    }

    pub(crate) fn positions(&self) -> usize {
        self.positions
    }

    pub(crate) fn vocabulary(&self) -> usize {
        self.shape.vocabulary
    }

    /// Returns the number of elements of a state.
    pub(crate) fn width(&self) -> usize {
        self.shape.width
    }

    /// Creates empty caches for one sequence.
    pub(crate) fn cache(&self) -> Cache {
        Cache::new(self.blocks(), self.positions)
    }

    /// Creates empty caches for several sequences.
    pub(crate) fn blocks(&self) -> Blocks {
        Blocks::new(self.on.clone(), self.rows())
    }

    /// Returns the cache rows of keys and values for one position, in the order of the inputs and the results of a run.
    fn rows(&self) -> Vec<CacheRow> {
        let &DecoderShape { groups, size, layers, .. } = &self.shape;
        let numbers = CacheRow { dtype: self.kept.dtype(), extents: vec![groups, size] };
        let mut of_layer = vec![numbers];
        if self.kept == CacheType::I8 {
            of_layer.push(CacheRow { dtype: DataType::F32, extents: vec![groups] });
        }
        std::iter::repeat_n(of_layer, layers).flatten().collect()
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use std::collections::HashMap;

    /// Checks that one plan serves all lengths of prompts and caches, and all numbers of sequences: no node fixes one of these extents in
    /// the plan.
    #[test]
    fn one_plan_holds_for_all_lengths() {
        for (window, kept) in [(None, CacheType::F16), (Some(5), CacheType::F16), (None, CacheType::I8)] {
            let small = tiny::Tiny { window, ..tiny::Tiny::default() };
            let file = Gguf::read(small.writer().bytes().into()).unwrap();
            let shape = DecoderShape::read(&file).unwrap();
            let (shape, products) = (&shape, Products::Integers);
            let writer =
                DecoderWriter { file: Weights::of(&file), shape, products, kept, graph: Builder::default() };
            // The start and end indices of three sequences are four numbers.
            let shapes = [("starts", vec![4]), ("pasts", vec![3]), ("table", vec![3, 2])];
            let shapes: HashMap<_, _> =
                shapes.into_iter().map(|(name, shape)| (name.to_owned(), shape)).collect();
            let conditions = writer.write(32).unwrap().plan_conditions(&shapes, &[]).unwrap();
            assert!(conditions.fixed.is_empty(), "{conditions}");
            let free = ["new", "rows", "states", "starts", "sequences", "width", "blocks"];
            assert_eq!(conditions.free, free, "{conditions}");
            // The conditions of all runs, and whether there is any past at all, because the lowered operator omits an empty past.
            let compared: Vec<&str> = conditions.compared.iter().map(|one| one.what.as_str()).collect();
            let expected = [
                "starts is sequences + 1",
                "new is at most 536870912",
                "32*width is not 0",
                "blocks is not 0",
                "sequences is not 0",
                "width is at most 16777216",
                "sequences is at most 536870912",
            ];
            assert_eq!(compared, expected, "{conditions}");
        }
    }
}
