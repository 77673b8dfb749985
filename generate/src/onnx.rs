//! Decoders in ONNX's format with a cache, as Optimum and ONNX Runtime GenAI export them.
//!
//! Inputs and outputs are found by what exporters call them: `past_key_values.N.key` and `present.N.key`, or the names in
//! `genai_config.json`. The caches are values of the model's own layout, which the model lengthens.

use crate::{Error, OpenOptions};
use bb::ir::graph::{Dim, ValueType};
use bb::{BackendHandle, CompileOptions, DataType, ErasedExecutable, Module, Port, TensorData, Value};
use serde_json::Value as Json;
use std::collections::HashMap;
use std::sync::Arc;

/// The greatest number of positions where neither the caller nor the model says one.
const CONTEXT: usize = 8192;

/// What an input is for.
#[derive(Debug, Clone, PartialEq)]
enum Role {
    Tokens(DataType),
    Mask(DataType),
    Positions(DataType),
    /// Whether there is a past, for models that have a branch for either case.
    UsesCache,
    /// A cache: its number among all, its element type and its extents; a past of no positions has 0 for the third.
    Past(usize, DataType, [usize; 4]),
}

/// A decoder in ONNX's format.
pub(crate) struct OnnxDecoder {
    on: BackendHandle,
    program: Arc<dyn ErasedExecutable>,
    roles: Vec<Role>,
    logits: usize,
    /// The output that each cache comes from.
    presents: Vec<usize>,
    vocabulary: usize,
    positions: usize,
}

/// The caches of a sequence.
#[derive(Debug, Default)]
pub(crate) struct Past {
    values: Vec<Value>,
    length: usize,
}

impl Past {
    pub(crate) fn len(&self) -> usize {
        self.length
    }

    /// Forgets all positions from this one on.
    pub(crate) fn truncate(&mut self, length: usize) -> Result<(), Error> {
        if length >= self.length {
            return Ok(());
        }
        let cut = |x: &Value| x.slice(&[0], &[length as i64], &[2], &[]);
        self.values = self.values.iter().map(cut).collect::<Result<_, _>>()?;
        self.length = length;
        Ok(())
    }

    pub(crate) fn bytes(&self) -> usize {
        let size = |x: &Value| x.shape().iter().product::<usize>() * x.dtype().bits() / 8;
        self.values.iter().map(size).sum()
    }
}

/// The names of caches: those of an input, and what its output may be called.
fn presents(past: &str) -> Vec<String> {
    let stems =
        [("past_key_values", "present"), ("past_key_values", "present_key_values"), ("past", "present")];
    stems
        .iter()
        .filter(|(from, _)| past.starts_with(from))
        .map(|(from, to)| past.replacen(from, to, 1))
        .collect()
}

/// Names that `genai_config.json` gives: of each cache the input and the output, with `%d` for the layer.
fn renamed(config: Option<&Json>) -> Vec<(String, String)> {
    let decoder = config.and_then(|config| config.pointer("/model/decoder"));
    let name = |side: &str, what: &str| {
        let name = decoder?.get(side)?.get(what)?.as_str()?;
        name.contains("%d").then(|| name.to_owned())
    };
    let pair = |past, present| Some((name("inputs", past)?, name("outputs", present)?));
    [pair("past_key_names", "present_key_names"), pair("past_value_names", "present_value_names")]
        .into_iter()
        .flatten()
        .collect()
}

/// Returns the output of a cache by these patterns.
fn by_pattern(past: &str, patterns: &[(String, String)]) -> Option<String> {
    patterns.iter().find_map(|(input, output)| {
        let (before, after) = input.split_once("%d")?;
        let layer = past.strip_prefix(before)?.strip_suffix(after)?;
        layer.bytes().all(|c| c.is_ascii_digit()).then(|| output.replacen("%d", layer, 1))
    })
}

impl std::fmt::Debug for OnnxDecoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OnnxDecoder").field("positions", &self.positions).finish_non_exhaustive()
    }
}

impl OnnxDecoder {
    /// Compiles a model. `configs` are `genai_config.json` and `config.json`, where there are.
    pub(crate) fn open(
        module: Module,
        on: &BackendHandle,
        options: &OpenOptions,
        [genai, config]: [Option<&Json>; 2],
    ) -> Result<OnnxDecoder, Error> {
        let program = on.compile(module, &CompileOptions::default())?;
        let outputs: HashMap<&str, usize> =
            program.outputs().iter().enumerate().map(|(i, port)| (port.name.as_str(), i)).collect();
        let patterns = renamed(genai);
        let mut presents_of = Vec::new();
        let mut roles = Vec::new();
        for port in program.inputs() {
            let role = match port.name.as_str() {
                "input_ids" => Role::Tokens(element(port)?),
                "attention_mask" => Role::Mask(element(port)?),
                "position_ids" => Role::Positions(element(port)?),
                "use_cache_branch" => Role::UsesCache,
                name => {
                    let candidates = by_pattern(name, &patterns).into_iter().chain(presents(name));
                    let output = candidates.filter_map(|name| outputs.get(name.as_str()).copied()).next();
                    let output = output.ok_or_else(|| Error::Input { name: name.to_owned() })?;
                    let (dtype, extents) = cache(port)?;
                    presents_of.push(output);
                    Role::Past(presents_of.len() - 1, dtype, extents)
                }
            };
            roles.push(role);
        }
        if !roles.iter().any(|role| matches!(role, Role::Tokens(_))) {
            return Err(Error::Lacks { what: "input `input_ids`" });
        }
        if presents_of.is_empty() {
            return Err(Error::Lacks { what: "pairs of past and present, such as `past_key_values.0.key`" });
        }
        let logits = *outputs.get("logits").ok_or(Error::Lacks { what: "output `logits`" })?;
        let number = |config: Option<&Json>, path| {
            config?.pointer(path)?.as_u64().and_then(|n| usize::try_from(n).ok()).filter(|&n| n > 0)
        };
        let vocabulary = number(config, "/vocab_size")
            .or_else(|| number(genai, "/model/vocab_size"))
            .ok_or(Error::Json { file: "config.json", expected: "number `vocab_size`", source: None })?;
        let trained = number(config, "/max_position_embeddings")
            .or_else(|| number(genai, "/model/context_length"))
            .unwrap_or(CONTEXT);
        let positions = options.context.unwrap_or(CONTEXT).min(trained);
        let presents = presents_of;
        Ok(OnnxDecoder { on: on.clone(), program, roles, logits, presents, vocabulary, positions })
    }

    pub(crate) fn positions(&self) -> usize {
        self.positions
    }

    pub(crate) fn vocabulary(&self) -> usize {
        self.vocabulary
    }

    /// Runs the decoder on new tokens. Returns the logits behind the tokens of these numbers: `[rows, vocabulary]`.
    pub(crate) fn step(&self, tokens: &[u32], rows: &[i64], past: &mut Past) -> Result<TensorData, Error> {
        let tokens: &[i64] = &tokens.iter().map(|&token| i64::from(token)).collect::<Vec<_>>();
        let (count, before) = (tokens.len(), past.length);
        if before + count > self.positions {
            return Err(Error::Context { needed: before + count, most: self.positions });
        }
        let numbers = |dtype: DataType, numbers: &[i64]| -> Result<Value, Error> {
            let data = TensorData::new(&[1, numbers.len()], numbers)?;
            let data = bb::ir::convert::cast(&data, dtype, bb::ir::convert::Rounding::default())?;
            Ok(self.on.runtime().constant(&data)?)
        };
        let mut inputs = Vec::with_capacity(self.roles.len());
        for role in &self.roles {
            inputs.push(match role {
                Role::Tokens(dtype) => numbers(*dtype, tokens)?,
                Role::Mask(dtype) => numbers(*dtype, &vec![1; before + count])?,
                Role::Positions(dtype) => {
                    numbers(*dtype, &(before as i64..).take(count).collect::<Vec<_>>())?
                }
                Role::UsesCache => self.on.tensor(&[1], &[before > 0])?,
                Role::Past(at, dtype, extents) => match past.values.get(*at) {
                    Some(value) => value.clone(),
                    None => self.on.zeros(extents, *dtype)?,
                },
            });
        }
        let given: Vec<Option<&Value>> = inputs.iter().map(Some).collect();
        let results = self.program.run(&given)?;
        let result =
            |at: usize| results.get(at).ok_or(Error::Internal { what: "a run gave too few results" });
        past.values = self.presents.iter().map(|&at| result(at).cloned()).collect::<Result<_, _>>()?;
        past.length += count;
        let logits = result(self.logits)?;
        // Some exports give the logits of the last token alone.
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

fn element(port: &Port) -> Result<DataType, Error> {
    match &port.ty {
        ValueType::Tensor { dtype, .. } => Ok(*dtype),
        other => Err(wrong(port, "integers", other)),
    }
}

fn wrong(port: &Port, expected: &'static str, found: &ValueType) -> Error {
    Error::Port { name: port.name.clone(), expected, found: format!("the type {found:?}") }
}

/// Returns the element type of a cache, and the extents that it has without positions.
fn cache(port: &Port) -> Result<(DataType, [usize; 4]), Error> {
    const EXPECTED: &str = "floats of `[batch, heads, positions, size]`, where heads and size are numbers";
    let ValueType::Tensor { dtype, shape: Some(shape) } = &port.ty else {
        return Err(wrong(port, EXPECTED, &port.ty));
    };
    let number = |dim: &Dim| match dim {
        Dim::Known(n) => Some(*n),
        _ => None,
    };
    match shape.as_slice() {
        [_, heads, _, size] => match (number(heads), number(size)) {
            (Some(heads), Some(size)) => Ok((*dtype, [1, heads, 0, size])),
            _ => Err(wrong(port, EXPECTED, &port.ty)),
        },
        _ => Err(wrong(port, EXPECTED, &port.ty)),
    }
}
