//! Decoders in ONNX's format with a cache, as Optimum and ONNX Runtime GenAI export them, with or without an encoder.
//!
//! Inputs and outputs are found by the names that exporters use: `past_key_values.N.key` and `present.N.key`, or the names in
//! `genai_config.json`. The caches are values in the model's own layout, and the model itself appends to them. Keys and values of an
//! encoder's states, `present.N.encoder.key`, are computed in the first run of a sequence, and do not change.

mod encoder;
mod program;

use crate::{Error, OpenOptions};
use bb::{BackendHandle, DataType, Module, TensorData, Value};
use encoder::Encoder;
pub use encoder::EncoderInput;
use program::{DecoderCache, DecoderProgram, Role, renamed};
use serde_json::Value as Json;

/// The maximum number of positions if neither the caller nor the model specifies one.
const CONTEXT: usize = 8192;

/// The error for a source that is passed to a model without an encoder.
pub(crate) const NO_ENCODER: Error =
    Error::Source { found: "a source", expected: "none, because it has no encoder" };

/// The graphs of a model.
pub(crate) struct Modules {
    /// The encoder; `None` if the model has none.
    pub(crate) encoder: Option<Module>,
    pub(crate) decoder: Module,
    /// The decoder for tokens with a past, if it is a separate graph.
    pub(crate) with_past: Option<Module>,
}

/// A decoder in ONNX's format.
pub(crate) struct OnnxDecoder {
    on: BackendHandle,
    encoder: Option<Encoder>,
    first: DecoderProgram,
    /// Runs tokens with a past, if `first` does not.
    next: Option<DecoderProgram>,
    kept: Vec<DecoderCache>,
    vocabulary: usize,
    positions: usize,
    start: Option<u32>,
}

/// The caches of a sequence.
#[derive(Debug, Default)]
pub(crate) struct Past {
    /// The caches. The flag of each cache is true if it was computed from the encoder's states.
    values: Vec<(Option<Value>, bool)>,
    length: usize,
    /// The states of an encoder.
    states: Option<Value>,
}

impl Past {
    pub(crate) fn len(&self) -> usize {
        self.length
    }

    /// Removes all positions from the index `length` on.
    pub(crate) fn truncate(&mut self, length: usize) -> Result<(), Error> {
        if length >= self.length {
            return Ok(());
        }
        for (value, of_states) in &mut self.values {
            if let (Some(whole), false) = (&*value, *of_states) {
                *value = Some(whole.slice(&[0], &[length as i64], &[2], &[])?);
            }
        }
        self.length = length;
        Ok(())
    }

    pub(crate) fn bytes(&self) -> usize {
        let size = |x: &Value| x.shape().iter().product::<usize>() * x.dtype().bits() / 8;
        self.values.iter().filter_map(|(value, _)| value.as_ref()).chain(&self.states).map(size).sum()
    }
}

impl std::fmt::Debug for OnnxDecoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OnnxDecoder").field("positions", &self.positions).finish_non_exhaustive()
    }
}

/// Creates a tensor with one row of integers.
fn numbers(on: &BackendHandle, dtype: DataType, numbers: &[i64]) -> Result<Value, Error> {
    let data = TensorData::new(&[1, numbers.len()], numbers)?;
    let data = bb::ir::convert::cast(&data, dtype, bb::ir::convert::Rounding::default())?;
    Ok(on.runtime().constant(&data)?)
}

impl OnnxDecoder {
    /// Compiles a model. `configs` are the contents of `genai_config.json` and `config.json`, if these exist.
    pub(crate) fn open(
        modules: Modules,
        on: &BackendHandle,
        options: &OpenOptions,
        [genai, config]: [Option<&Json>; 2],
    ) -> Result<OnnxDecoder, Error> {
        let patterns = renamed(genai);
        let mut kept = Vec::new();
        let encoder = modules.encoder.map(|module| Encoder::new(module, on)).transpose()?;
        let mut first = DecoderProgram::new(modules.decoder, on, &patterns, &[], &mut kept)?;
        let with_past = |module| DecoderProgram::new(module, on, &patterns, &first.outputs(), &mut kept);
        let mut next = modules.with_past.map(with_past).transpose()?;
        for program in std::iter::once(&mut first).chain(&mut next) {
            program.find(&kept);
        }
        if let Some(next) = &next
            && !kept.iter().enumerate().all(|(i, kept)| first.gives(i) && (kept.of_states || next.gives(i)))
        {
            return Err(Error::Lacks { what: "output for each cache in both of its decoders" });
        }
        if kept.is_empty() {
            return Err(Error::Lacks { what: "pairs of past and present, such as `past_key_values.0.key`" });
        }
        if encoder.is_none() && first.takes_states() {
            return Err(Error::Lacks { what: "file `encoder_model.onnx`, whose states its decoder takes" });
        }
        let number = |config: Option<&Json>, path| {
            config?.pointer(path)?.as_u64().and_then(|n| usize::try_from(n).ok()).filter(|&n| n > 0)
        };
        let vocabulary = number(config, "/vocab_size")
            .or_else(|| number(config, "/decoder/vocab_size"))
            .or_else(|| number(genai, "/model/vocab_size"))
            .ok_or(Error::Json { file: "config.json", expected: "number `vocab_size`", source: None })?;
        let trained = number(config, "/max_position_embeddings")
            .or_else(|| number(config, "/max_target_positions"))
            .or_else(|| number(genai, "/model/context_length"))
            .unwrap_or(CONTEXT);
        let positions = options.context.unwrap_or(CONTEXT).min(trained);
        let start = ["/decoder_start_token_id", "/decoder/decoder_start_token_id", "/pad_token_id"];
        let start = start.iter().find_map(|path| config?.pointer(path)?.as_u64());
        let start = start.and_then(|token| u32::try_from(token).ok()).filter(|_| encoder.is_some());
        Ok(OnnxDecoder { on: on.clone(), encoder, first, next, kept, vocabulary, positions, start })
    }

    pub(crate) fn positions(&self) -> usize {
        self.positions
    }

    pub(crate) fn vocabulary(&self) -> usize {
        self.vocabulary
    }

    /// Returns whether the model has an encoder, which reads a source.
    pub(crate) fn has_encoder(&self) -> bool {
        self.encoder.is_some()
    }

    /// Returns the decoder start token.
    pub(crate) fn start(&self) -> Option<u32> {
        self.start
    }

    /// Runs the encoder on a source.
    pub(crate) fn read(&self, source: EncoderInput<'_>) -> Result<Past, Error> {
        let encoder = self.encoder.as_ref().ok_or(NO_ENCODER)?;
        Ok(Past { states: Some(encoder.states(&self.on, source)?), ..Past::default() })
    }

    /// Runs the decoder on new tokens. Returns the logits after the tokens at the indices `rows`, `[rows, vocabulary]`.
    pub(crate) fn step(&self, tokens: &[u32], rows: &[i64], past: &mut Past) -> Result<TensorData, Error> {
        // In exports with two graphs, the graph with a past takes one token at a time.
        let Some(next) = self.next.as_ref().filter(|_| past.length > 0) else {
            return self.run(&self.first, tokens, rows, past);
        };
        let mut all = Vec::new();
        for (i, token) in tokens.iter().enumerate() {
            let wanted = rows.contains(&(i as i64));
            let logits = self.run(next, &[*token], if wanted { &[0] } else { &[] }, past)?;
            all.extend_from_slice(logits.as_slice::<f32>()?);
        }
        Ok(TensorData::new(&[rows.len(), self.vocabulary], &all)?)
    }

    fn run(
        &self,
        program: &DecoderProgram,
        tokens: &[u32],
        rows: &[i64],
        past: &mut Past,
    ) -> Result<TensorData, Error> {
        let tokens: &[i64] = &tokens.iter().map(|&token| i64::from(token)).collect::<Vec<_>>();
        let (count, before) = (tokens.len(), past.length);
        if before + count > self.positions {
            return Err(Error::Context { needed: before + count, most: self.positions });
        }
        let states = || {
            past.states.as_ref().ok_or(Error::Source { found: "no source", expected: "one for its encoder" })
        };
        let mut inputs = Vec::with_capacity(program.roles.len());
        for role in &program.roles {
            inputs.push(match role {
                Role::Tokens(dtype) => numbers(&self.on, *dtype, tokens)?,
                Role::Mask(dtype) => numbers(&self.on, *dtype, &vec![1; before + count])?,
                Role::Positions(dtype) | Role::Places(dtype) => {
                    let positions: Vec<i64> = (before as i64..).take(count).collect();
                    let positions = numbers(&self.on, *dtype, &positions)?;
                    if matches!(role, Role::Places(_)) { positions.reshape(&[count])? } else { positions }
                }
                Role::UsesCache => self.on.tensor(&[1], &[before > 0])?,
                Role::States => states()?.clone(),
                Role::StatesMask(dtype) => {
                    let positions = states()?.shape().get(1).copied().unwrap_or(0);
                    numbers(&self.on, *dtype, &vec![1; positions])?
                }
                Role::Past(at, dtype, extents) => match past.values.get(*at) {
                    Some((Some(value), _)) => value.clone(),
                    _ => self.on.zeros(extents, *dtype)?,
                },
            });
        }
        let given: Vec<Option<&Value>> = inputs.iter().map(Some).collect();
        let results = program.run.run(&given)?;
        let result =
            |at: usize| results.get(at).ok_or(Error::Internal { what: "a run gave too few results" });
        past.values.resize_with(self.kept.len(), Default::default);
        for &(cache, output) in &program.presents {
            let Some((value, of_states)) = past.values.get_mut(cache) else { continue };
            *of_states = self.kept.get(cache).is_some_and(|kept| kept.of_states);
            // If there is a past, the graph does not return caches that do not change, so the old value is kept.
            if !*of_states || value.is_none() {
                *value = Some(result(output)?.clone());
            }
        }
        past.length += count;
        let logits = result(program.logits)?;
        // Some exports return only the logits of the last token.
        let given = match logits.shape() {
            [1, given, vocabulary] if *vocabulary == self.vocabulary => *given,
            other => {
                let found = format!("the shape {other:?}");
                return Err(Error::Port {
                    name: "logits".to_owned(),
                    expected: "one row for each token",
                    found,
                });
            }
        };
        let logits = logits.reshape(&[given, self.vocabulary])?;
        let skipped = (count - given.min(count)) as i64;
        let rows: Vec<i64> = rows.iter().map(|row| row - skipped).collect();
        if let Some(row) = rows.iter().find(|row| **row < 0) {
            let found = format!("no logits for token {}", row + skipped);
            return Err(Error::Port { name: "logits".to_owned(), expected: "one row for each token", found });
        }
        let chosen = logits.gather(&self.on.tensor(&[rows.len()], &rows)?, 0)?;
        let chosen = match chosen.dtype() {
            DataType::F32 => chosen,
            _ => chosen.cast(DataType::F32, true, bb::RoundMode::default())?,
        };
        Ok(self.on.to_host(&chosen)?)
    }
}
