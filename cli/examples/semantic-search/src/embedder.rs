//! Computes vectors of passages with a sentence embedding model, on any backend.

use crate::error::{Error, Result, io};
use crate::package::{MODEL, TOKENIZER};
use bb::{BackendHandle, CompileOptions, DataType, ErasedExecutable, Module, Value};
use sha2::{Digest, Sha256};
use std::path::Path;
use std::sync::Arc;
use tokenizers::Tokenizer;

/// The maximum number of tokens in a batch, including padding.
const BATCH: usize = 2048;
/// The maximum number of passages in a batch.
const ROWS: usize = 32;
/// The lengths of batches are multiples of this number, so that a backend plans for few different shapes.
const STEP: usize = 16;

/// The role of an input of the model.
#[derive(Debug, Clone, Copy)]
enum InputRole {
    Tokens,
    Mask,
    Types,
}

/// A model with its tokenizer.
pub(crate) struct Embedder {
    tokenizer: Tokenizer,
    on: BackendHandle,
    model: Arc<dyn ErasedExecutable>,
    inputs: Vec<InputRole>,
    /// The special tokens before and after a passage.
    around: [u32; 2],
    padding: u32,
    dimensions: usize,
    identity: [u8; 32],
}

impl Embedder {
    /// Loads the model in `folder` on a backend.
    ///
    /// # Errors
    ///
    /// An error of the model, of its tokenizer or of the backend.
    pub(crate) fn load(folder: &Path, backend: &str) -> Result<Embedder> {
        let path = folder.join(TOKENIZER);
        let file = std::fs::read(&path).map_err(io("read", &path))?;
        let tokenizer = read_tokenizer(&file, &path)?;
        let token = |token| tokenizer.token_to_id(token).ok_or(Error::NoToken { token });
        let (around, padding) = ([token("[CLS]")?, token("[SEP]")?], token("[PAD]")?);
        let path = folder.join(MODEL);
        let bytes = bb_ir::file::load(&path, &bb_ir::Limits::default())?;
        let identity = Sha256::new().chain_update(Sha256::digest(&bytes)).chain_update(Sha256::digest(&file));
        let on = bb::backend(backend)?;
        let model = on.compile(Module::load(&path)?, &CompileOptions::default())?;
        let known = |name: &str| match name {
            "input_ids" => Ok(InputRole::Tokens),
            "attention_mask" => Ok(InputRole::Mask),
            "token_type_ids" => Ok(InputRole::Types),
            other => Err(Error::Input { name: other.to_owned() }),
        };
        let inputs = model.inputs().iter().map(|port| known(&port.name)).collect::<Result<_>>()?;
        let mut own = Embedder {
            tokenizer,
            on,
            model,
            inputs,
            around,
            padding,
            dimensions: 0,
            identity: identity.finalize().into(),
        };
        let [first, last] = own.around;
        let probe = own.run(&[&[first, last]])?;
        own.dimensions = probe.shape().last().copied().unwrap_or(0);
        Ok(own)
    }

    pub(crate) fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    pub(crate) fn backend(&self) -> &BackendHandle {
        &self.on
    }

    /// Returns the number of elements of a vector.
    pub(crate) fn dimensions(&self) -> usize {
        self.dimensions
    }

    /// Returns a digest of the model and its tokenizer. Vectors can be compared only if their digests are equal.
    pub(crate) fn identity(&self) -> [u8; 32] {
        self.identity
    }

    /// Returns the vectors of tokenized passages, in the order of the passages. Calls `done` with the number of passages of each batch.
    ///
    /// # Errors
    ///
    /// An error of the backend.
    pub(crate) fn embed(&self, passages: &[&[u32]], mut done: impl FnMut(usize)) -> Result<Vec<f32>> {
        let mut order: Vec<usize> = (0..passages.len()).collect();
        order.sort_by_key(|&i| std::cmp::Reverse(passages.get(i).map_or(0, |tokens| tokens.len())));
        let mut vectors = vec![0.0; passages.len() * self.dimensions];
        let mut rest = order.as_slice();
        while let Some(longest) = rest.first().and_then(|&i| passages.get(i)) {
            let rows = (BATCH / padded(longest.len())).clamp(1, ROWS).min(rest.len());
            let (batch, others) = rest.split_at(rows);
            rest = others;
            let tokens: Vec<&[u32]> = batch.iter().filter_map(|&i| passages.get(i).copied()).collect();
            let rows = self.run(&tokens)?.to_host(usize::MAX)?;
            for (&i, row) in batch.iter().zip(rows.as_slice::<f32>()?.chunks_exact(self.dimensions)) {
                if let Some(to) = vectors.get_mut(i * self.dimensions..(i + 1) * self.dimensions) {
                    to.copy_from_slice(row);
                }
            }
            done(batch.len());
        }
        Ok(vectors)
    }

    /// Runs a batch. Returns the vectors as `[passages, dimensions]`.
    ///
    /// As specified by the model's authors, the vector of a passage is the mean of its tokens' vectors, normalized to length 1. The matrix
    /// product with the mask computes the sum instead of the mean. They differ by a factor, which the normalization removes.
    fn run(&self, passages: &[&[u32]]) -> Result<Value> {
        let longest = passages.iter().map(|tokens| tokens.len()).max().unwrap_or(0);
        let (rows, length) = (passages.len(), padded(longest));
        let mut ids = Vec::with_capacity(rows * length);
        let mut mask = Vec::with_capacity(rows * length);
        let [first, last] = self.around;
        for tokens in passages {
            let padding = length - tokens.len() - 2;
            let whole = [first].into_iter().chain(tokens.iter().copied()).chain([last]);
            ids.extend(whole.chain(std::iter::repeat_n(self.padding, padding)).map(i64::from));
            mask.extend(std::iter::repeat_n(1i64, tokens.len() + 2).chain(std::iter::repeat_n(0, padding)));
        }
        let shape = [rows, length];
        let weights: Vec<f32> = mask.iter().map(|&own| if own == 1 { 1.0 } else { 0.0 }).collect();
        let mask = self.on.tensor(&shape, &mask)?;
        let given = |input: &InputRole| match input {
            InputRole::Tokens => self.on.tensor(&shape, &ids),
            InputRole::Mask => Ok(mask.clone()),
            InputRole::Types => self.on.tensor(&shape, &vec![0i64; rows * length]),
        };
        let inputs = self.inputs.iter().map(given).collect::<std::result::Result<Vec<_>, _>>()?;
        let outputs = self.model.run(&inputs.iter().map(Some).collect::<Vec<_>>())?;
        let wrong = |got: String| Error::Output { got };
        let states = outputs.first().ok_or_else(|| wrong("nothing".to_owned()))?;
        let &[got_rows, got_length, dimensions] = states.shape() else {
            return Err(wrong(format!("{} of {:?}", states.dtype(), states.shape())));
        };
        if states.dtype() != DataType::F32 || [got_rows, got_length] != shape || dimensions == 0 {
            return Err(wrong(format!("{} of {:?}", states.dtype(), states.shape())));
        }
        let weights = self.on.tensor(&[rows, 1, length], &weights)?;
        let sums = weights.matmul(states)?.reshape(&[rows, dimensions])?;
        let lengths = (&sums * &sums)?.reduce_sum(&[1], true)?.sqrt()?;
        Ok((&sums / lengths)?)
    }
}

/// Returns the padded length of a batch whose longest passage has `tokens` tokens.
fn padded(tokens: usize) -> usize {
    (tokens + 2).next_multiple_of(STEP)
}

/// Loads a tokenizer. Disables its truncation and padding, because passages and batches have their own.
fn read_tokenizer(file: &[u8], path: &Path) -> Result<Tokenizer> {
    let wrong = |source| Error::Tokenizer { path: path.to_owned(), source };
    let mut tokenizer = Tokenizer::from_bytes(file).map_err(wrong)?;
    tokenizer.with_truncation(None).map_err(wrong)?;
    tokenizer.with_padding(None);
    Ok(tokenizer)
}
