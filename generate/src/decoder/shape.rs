//! The shape of a decoder, read from the metadata of a GGUF file.

use crate::gguf::{Gguf, GgufError, shortened};
use crate::{ARCHITECTURES, Error};

/// The maximum value of each size of a decoder, including products of the number of heads and their elements.
const MOST: u64 = 1 << 20;
/// The maximum number of elements of a head. Models have 32 to 512.
const HEAD: u64 = 1 << 10;
/// The maximum number of positions.
const POSITIONS: u64 = 1 << 24;
/// The maximum number of layers.
const LAYERS: u64 = 1 << 12;

/// The activation of a layer's gate. The result is multiplied by the layer's `up` projection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Gate {
    Silu,
    Gelu,
}

/// The sizes and kinds of a decoder.
#[derive(Debug, Clone)]
pub(super) struct DecoderShape {
    pub(super) layers: usize,
    pub(super) width: usize,
    pub(super) hidden: usize,
    pub(super) heads: usize,
    /// The number of heads of keys and values.
    pub(super) groups: usize,
    /// The number of elements of a key and of a value.
    pub(super) size: usize,
    /// The number of elements of a head that are rotated.
    pub(super) rotated: usize,
    /// Whether a rotated pair consists of two adjacent elements. Otherwise, it has one element from each half.
    pub(super) interleaved: bool,
    pub(super) base: f64,
    /// The number that positions are divided by before they become angles.
    pub(super) stretch: f64,
    /// The period of layers without rotation: the last of every `n` layers does not rotate.
    pub(super) unrotated: Option<usize>,
    pub(super) epsilon: f32,
    /// The maximum number of positions that the model was trained for.
    pub(super) context: usize,
    pub(super) vocabulary: usize,
    /// The number of positions that a query attends to, including its own.
    pub(super) window: Option<usize>,
    pub(super) gate: Gate,
    /// The factor that scales the embeddings.
    pub(super) embedding_scale: f64,
}

impl DecoderShape {
    pub(super) fn read(file: &Gguf) -> Result<DecoderShape, Error> {
        const ARCHITECTURE: &str = "general.architecture";
        let missing = |key: &str| GgufError::MissingKey { key: key.to_owned() };
        let kind = file.text(ARCHITECTURE)?.ok_or_else(|| missing(ARCHITECTURE))?;
        if !ARCHITECTURES.contains(&kind) {
            return Err(Error::Architecture { found: shortened(kind) });
        }
        let optional = |key: &str, most: u64| -> Result<Option<usize>, Error> {
            let key = format!("{kind}.{key}");
            let Some(found) = file.uint(&key)? else { return Ok(None) };
            match usize::try_from(found) {
                Ok(n) if (1..=most).contains(&found) => Ok(Some(n)),
                _ => Err(Error::Size { key, found, most }),
            }
        };
        let size = |key: &str, most: u64| -> Result<usize, Error> {
            optional(key, most)?.ok_or_else(|| missing(&format!("{kind}.{key}")).into())
        };
        let float = |key: &str| file.float(&format!("{kind}.{key}"));
        let unserved = |key: &str, value: String| Error::Unserved { key: format!("{kind}.{key}"), value };

        let (width, heads) = (size("embedding_length", MOST)?, size("attention.head_count", MOST)?);
        let groups = optional("attention.head_count_kv", MOST)?.unwrap_or(heads);
        let head = match optional("attention.key_length", MOST)? {
            Some(size) => size,
            None if width.is_multiple_of(heads) => width / heads,
            None => {
                return Err(unserved("attention.head_count", format!("{heads} heads of {width} elements")));
            }
        };
        if head as u64 > HEAD {
            let found = head as u64;
            return Err(Error::Size { key: format!("{kind}.attention.key_length"), found, most: HEAD });
        }
        if optional("attention.value_length", MOST)?.is_some_and(|values| values != head) {
            return Err(unserved("attention.value_length", "other than the length of keys".to_owned()));
        }
        if !heads.is_multiple_of(groups) {
            return Err(unserved("attention.head_count_kv", format!("{groups} for {heads} heads")));
        }
        if (heads * head) as u64 > MOST {
            let found = (heads * head) as u64;
            return Err(Error::Size { key: format!("{kind}.attention.key_length"), found, most: MOST });
        }
        let rotated = optional("rope.dimension_count", MOST)?.unwrap_or(head);
        if rotated > head || !rotated.is_multiple_of(2) {
            return Err(unserved("rope.dimension_count", format!("{rotated} of {head} elements")));
        }
        if let Some(experts) = file.uint(&format!("{kind}.expert_count"))?.filter(|&n| n > 0) {
            return Err(unserved("expert_count", experts.to_string()));
        }
        let stretch = match file.text(&format!("{kind}.rope.scaling.type"))? {
            None | Some("none") => 1.0,
            Some("linear") => float("rope.scaling.factor")?.unwrap_or(1.0),
            Some(other) => return Err(unserved("rope.scaling.type", format!("`{}`", shortened(other)))),
        };
        let base = float("rope.freq_base")?.unwrap_or(10_000.0);
        let epsilon_key = "attention.layer_norm_rms_epsilon";
        let epsilon = float(epsilon_key)?.ok_or_else(|| missing(&format!("{kind}.{epsilon_key}")))?;
        for (key, x) in [("rope.scaling.factor", stretch), ("rope.freq_base", base), (epsilon_key, epsilon)] {
            if !x.is_finite() || x <= 0.0 {
                return Err(unserved(key, x.to_string()));
            }
        }
        let table = file.tensor("token_embd.weight")?;
        let (vocabulary, _) = table.expect(&[width as u64, table.rows().0 as u64])?.rows();
        let gemma = kind == "gemma";
        Ok(DecoderShape {
            layers: size("block_count", LAYERS)?,
            width,
            hidden: size("feed_forward_length", MOST)?,
            heads,
            groups,
            size: head,
            rotated,
            interleaved: matches!(kind, "llama" | "smollm3"),
            base,
            stretch,
            unrotated: (kind == "smollm3").then_some(4),
            epsilon: epsilon as f32,
            context: size("context_length", POSITIONS)?,
            vocabulary,
            window: optional("attention.sliding_window", POSITIONS)?,
            gate: if gemma { Gate::Gelu } else { Gate::Silu },
            embedding_scale: if gemma { (width as f64).sqrt() } else { 1.0 },
        })
    }

    /// Returns whether a layer rotates queries and keys.
    pub(super) fn rotates(&self, layer: usize) -> bool {
        self.unrotated.is_none_or(|each| !(layer + 1).is_multiple_of(each))
    }

    /// Returns the order of the rows of a query or key matrix that moves one element of each rotated pair into each half.
    pub(super) fn order(&self, heads: usize) -> Option<Vec<usize>> {
        let half = self.rotated / 2;
        let place = |i: usize| match i {
            i if i >= self.rotated => i,
            i if i < half => 2 * i,
            i => 2 * (i - half) + 1,
        };
        let row = |head: usize| (0..self.size).map(move |i| head * self.size + place(i));
        self.interleaved.then(|| (0..heads).flat_map(row).collect())
    }

    /// Returns the cosines and sines of the angles of positions: `[positions, rotated / 2]` each. `factors` divide the
    /// frequencies.
    pub(super) fn angles(&self, positions: usize, factors: Option<&[f32]>) -> [Vec<f32>; 2] {
        let half = self.rotated / 2;
        let frequency = |i: usize| {
            let factor = factors.and_then(|factors| factors.get(i)).map_or(1.0, |&x| f64::from(x));
            self.base.powf(-2.0 * i as f64 / self.rotated as f64) / factor / self.stretch
        };
        let frequencies: Vec<f64> = (0..half).map(frequency).collect();
        let table = |f: fn(f64) -> f64| {
            let row = |p: usize| frequencies.iter().map(move |x| f(p as f64 * x) as f32);
            (0..positions).flat_map(row).collect()
        };
        [table(f64::cos), table(f64::sin)]
    }
}
