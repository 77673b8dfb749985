//! A transformer: rows normalised by their root mean square, rotary positions, heads that share keys, a sliding window, and
//! SwiGLU layers, with weights of 8 bits in blocks.

use bb::ext::{CachedAttentionOptions, DequantizeOptions, QuantizedLinearOptions, RotateOptions};
use bb::{BackendHandle, DataType, Error, TensorData, Value};
use bytes::Bytes;

/// What `train.py` wrote, which has the same numbers.
const WEIGHTS: &[u8] = include_bytes!("../weights.npy");
const VOCABULARY: usize = 96;
const WIDTH: usize = 96;
const LAYERS: usize = 2;
const HEADS: usize = 6;
const GROUPS: usize = 2;
const HIDDEN: usize = 192;
const SIZE: usize = WIDTH / HEADS;
/// To how many positions before its own a token attends.
const WINDOW: i64 = 63;
const EPSILON: f64 = 1e-5;
const BASE: f64 = 10_000.0;
const BLOCK: usize = 32;

/// Weights of 8 bits: `[rows, blocks, BLOCK]`, and a scale for each block.
struct Matrix {
    ints: Value,
    scales: Value,
}

impl Matrix {
    /// Multiplies rows of `x` with the rows of the matrix.
    fn times(&self, x: &Value) -> Result<Value, Error> {
        let options = QuantizedLinearOptions { bits: 8, block: BLOCK as i64 };
        x.quantized_linear(&self.ints, &self.scales, None, None, options)
    }
}

struct Layer {
    norm1: Value,
    norm2: Value,
    qkv: Matrix,
    out: Matrix,
    gate_up: Matrix,
    down: Matrix,
}

/// The model on a backend.
pub(crate) struct LanguageModel {
    on: BackendHandle,
    /// The embeddings as floats, from which rows are taken; as a matrix they give the logits.
    table: Value,
    embedding: Matrix,
    norm: Value,
    layers: Vec<Layer>,
}

/// What the tokens so far left: how many they are, and the keys and values of each layer.
#[derive(Default)]
pub(crate) struct State {
    count: usize,
    caches: Vec<[Value; 2]>,
}

/// Reads weights one after the other.
struct Reader<'a> {
    on: &'a BackendHandle,
    bytes: &'a [u8],
}

impl Reader<'_> {
    fn tensor(&mut self, dtype: DataType, shape: &[usize]) -> Result<Value, Error> {
        let length = shape.iter().product::<usize>() * dtype.bits() / 8;
        let (own, rest) = self.bytes.split_at_checked(length).unwrap_or((self.bytes, &[]));
        self.bytes = rest;
        // The bytes lie wherever the weights before them end, so that they are copied to where floats may lie.
        self.on.runtime().constant(&TensorData::adopt(dtype, shape, Bytes::copy_from_slice(own))?)
    }

    fn vector(&mut self) -> Result<Value, Error> {
        self.tensor(DataType::F32, &[WIDTH])
    }

    fn matrix(&mut self, rows: usize, columns: usize) -> Result<Matrix, Error> {
        let blocks = columns / BLOCK;
        let ints = self.tensor(DataType::U8, &[rows, blocks, BLOCK])?;
        Ok(Matrix { ints, scales: self.tensor(DataType::F32, &[rows, blocks])? })
    }
}

impl LanguageModel {
    /// Copies the weights to a backend.
    pub(crate) fn load(on: &BackendHandle) -> Result<LanguageModel, Error> {
        let file = TensorData::from_npy(Bytes::from_static(WEIGHTS))?;
        let mut reader = Reader { on, bytes: file.bytes()? };
        let embedding = reader.matrix(VOCABULARY, WIDTH)?;
        let norm = reader.vector()?;
        let mut layers = Vec::new();
        for _ in 0..LAYERS {
            layers.push(Layer {
                norm1: reader.vector()?,
                norm2: reader.vector()?,
                qkv: reader.matrix((HEADS + 2 * GROUPS) * SIZE, WIDTH)?,
                out: reader.matrix(WIDTH, WIDTH)?,
                gate_up: reader.matrix(2 * HIDDEN, WIDTH)?,
                down: reader.matrix(WIDTH, HIDDEN)?,
            });
        }
        let flat = embedding.ints.reshape(&[VOCABULARY, WIDTH])?;
        let middle = on.tensor(&[], &[128u8])?;
        let blocks = DequantizeOptions { axis: 1, block: BLOCK as i64 };
        // One zero point for all blocks needs the extents of the scales.
        let middle = middle.expand(embedding.scales.shape())?;
        let table = flat.dequantize(&embedding.scales, Some(&middle), DataType::F32, blocks)?;
        Ok(LanguageModel { on: on.clone(), table, embedding, norm, layers })
    }

    /// Runs the model on the next tokens; returns the logits of the token that follows them, `[VOCABULARY]`.
    pub(crate) fn step(&self, tokens: &[i64], state: &mut State) -> Result<Value, Error> {
        let count = tokens.len();
        let [cos, sin] = self.angles(state.count, count)?;
        let mut x = self.table.gather(&self.on.tensor(&[count], tokens)?, 0)?;
        let first = self.layers.first().map_or(&self.norm, |layer| &layer.norm1);
        let mut normal = x.rms_normalization(first, -1, EPSILON)?;
        let mut caches = Vec::new();
        for (i, layer) in self.layers.iter().enumerate() {
            let heads = layer.qkv.times(&normal)?.reshape(&[1, count, HEADS + 2 * GROUPS, SIZE])?;
            let parts = heads.transpose(&[0, 2, 1, 3])?.split(1, &[HEADS, GROUPS, GROUPS])?;
            let [q, k, v] = three(parts)?;
            let q = q.rotate(&cos, &sin, RotateOptions::default())?;
            let k = k.rotate(&cos, &sin, RotateOptions::default())?;
            let [past_k, past_v] = match state.caches.get(i) {
                Some([k, v]) => [Some(k), Some(v)],
                None => [None, None],
            };
            let window = CachedAttentionOptions { left: Some(WINDOW), ..Default::default() };
            let [y, k, v] = three(q.cached_attention(&k, &v, past_k, past_v, None, window)?)?;
            // No later token attends to what is farther back.
            let near = |x: &Value| x.slice(&[-WINDOW], &[i64::MAX], &[2], &[]);
            caches.push([near(&k)?, near(&v)?]);
            let y = layer.out.times(&y.transpose(&[0, 2, 1, 3])?.reshape(&[count, WIDTH])?)?;
            [normal, x] = two(x.skip_rms_norm(&y, &layer.norm2, None, EPSILON)?)?;
            let [gate, up] = two(layer.gate_up.times(&normal)?.split(1, &[HIDDEN, HIDDEN])?)?;
            let y = layer.down.times(&gate.silu_mul(&up)?)?;
            let next = self.layers.get(i + 1).map_or(&self.norm, |layer| &layer.norm1);
            [normal, x] = two(x.skip_rms_norm(&y, next, None, EPSILON)?)?;
        }
        *state = State { count: state.count + count, caches };
        let last = normal.slice(&[-1], &[i64::MAX], &[0], &[])?;
        self.embedding.times(&last)?.reshape(&[VOCABULARY])
    }

    /// The angles by which positions are rotated, as cosines and sines: `[count, SIZE / 2]`.
    fn angles(&self, from: usize, count: usize) -> Result<[Value; 2], Error> {
        let half = SIZE / 2;
        let angle = |i: usize| (from + i / half) as f64 * BASE.powf(-((i % half) as f64) * 2.0 / SIZE as f64);
        let table = |f: fn(f64) -> f64| {
            let elements: Vec<f32> = (0..count * half).map(|i| f(angle(i)) as f32).collect();
            self.on.tensor(&[count, half], &elements)
        };
        Ok([table(f64::cos)?, table(f64::sin)?])
    }
}

/// Takes the results of an operation that has as many.
fn exactly<const N: usize>(values: Vec<Value>) -> Result<[Value; N], Error> {
    let got = values.len();
    values.try_into().map_err(|_| Error::Results { op: "a layer".to_owned(), expected: N, got })
}

fn two(values: Vec<Value>) -> Result<[Value; 2], Error> {
    exactly(values)
}

fn three(values: Vec<Value>) -> Result<[Value; 3], Error> {
    exactly(values)
}

/// Returns the tokens of a text.
pub(crate) fn encoded(text: &str) -> Result<Vec<i64>, String> {
    let token = |c: char| match c {
        '\n' => Ok(0),
        ' '..='~' => Ok(i64::from(u32::from(c)) - 31),
        other => Err(format!("the model knows no `{other}`, only printable ASCII and ends of lines")),
    };
    let tokens: Vec<i64> = text.chars().map(token).collect::<Result<_, _>>()?;
    if tokens.is_empty() { Err("the prompt is empty".to_owned()) } else { Ok(tokens) }
}

/// Returns the character of a token.
pub(crate) fn character(token: i64) -> char {
    u8::try_from(token + 31).ok().filter(|_| token > 0).map_or('\n', char::from)
}
