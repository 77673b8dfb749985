//! A compiled graph of a decoder, and the roles of its inputs and outputs.

use crate::Error;
use bb::ir::graph::{Dim, ValueType};
use bb::{BackendHandle, CompileOptions, DataType, ErasedExecutable, Module, Port};
use serde_json::Value as Json;
use std::collections::HashMap;
use std::sync::Arc;

/// The role of a decoder's input.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Role {
    Tokens(DataType),
    Mask(DataType),
    Positions(DataType),
    /// Positions without a batch dimension.
    Places(DataType),
    /// Whether there is a past, for models that have a separate branch for each case.
    UsesCache,
    /// The states of an encoder.
    States,
    /// A mask of the encoder's states.
    StatesMask(DataType),
    /// A cache: its index among all caches, its element type, and its shape. Without a past, the third extent is 0.
    Past(usize, DataType, [usize; 4]),
}

/// A cache of a decoder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DecoderCache {
    /// The name of the output that returns the cache.
    output: String,
    /// Whether it contains keys or values of an encoder's states, which do not change.
    pub(super) of_states: bool,
}

/// A compiled graph.
pub(super) struct DecoderProgram {
    pub(super) run: Arc<dyn ErasedExecutable>,
    pub(super) roles: Vec<Role>,
    /// The index of the output with logits.
    pub(super) logits: usize,
    /// The caches that the graph returns, each with the index of its output.
    pub(super) presents: Vec<(usize, usize)>,
}

/// Returns the possible names of a cache's output, derived from the name of its input.
fn presents(past: &str) -> impl Iterator<Item = String> {
    let stems =
        [("past_key_values", "present"), ("past_key_values", "present_key_values"), ("past", "present")];
    stems.into_iter().filter(|(from, _)| past.starts_with(from)).map(|(from, to)| past.replacen(from, to, 1))
}

/// Returns the names in `genai_config.json`: for each kind of cache, the names of the input and the output, where `%d` is the layer.
pub(super) fn renamed(config: Option<&Json>) -> Vec<(String, String)> {
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

/// Returns the name of a cache's output according to these patterns.
fn by_pattern(past: &str, patterns: &[(String, String)]) -> Option<String> {
    patterns.iter().find_map(|(input, output)| {
        let (before, after) = input.split_once("%d")?;
        let layer = past.strip_prefix(before)?.strip_suffix(after)?;
        layer.bytes().all(|c| c.is_ascii_digit()).then(|| output.replacen("%d", layer, 1))
    })
}

impl DecoderProgram {
    /// Compiles a graph, and adds the caches among its inputs to `kept`. `others` are the outputs of a graph that runs before this
    /// graph, which may return inputs of this graph.
    pub(super) fn new(
        module: Module,
        on: &BackendHandle,
        patterns: &[(String, String)],
        others: &[String],
        kept: &mut Vec<DecoderCache>,
    ) -> Result<DecoderProgram, Error> {
        let run = on.compile(module, &CompileOptions::default())?;
        let outputs: HashMap<&str, usize> =
            run.outputs().iter().enumerate().map(|(i, port)| (port.name.as_str(), i)).collect();
        let mut roles = Vec::new();
        for port in run.inputs() {
            roles.push(match port.name.as_str() {
                "input_ids" => Role::Tokens(element(port)?),
                "attention_mask" => Role::Mask(element(port)?),
                "position_ids" => Role::Positions(element(port)?),
                "cache_position" => Role::Places(element(port)?),
                "use_cache_branch" => Role::UsesCache,
                "encoder_hidden_states" => Role::States,
                "encoder_attention_mask" => Role::StatesMask(element(port)?),
                name => {
                    let mut candidates = by_pattern(name, patterns).into_iter().chain(presents(name));
                    let output = candidates
                        .find(|name| outputs.contains_key(name.as_str()) || others.contains(name))
                        .ok_or_else(|| Error::Input { name: name.to_owned() })?;
                    let (dtype, extents) = cache(port)?;
                    let at = kept.iter().position(|kept| kept.output == output).unwrap_or(kept.len());
                    if at == kept.len() {
                        let of_states = output.contains(".encoder.");
                        kept.push(DecoderCache { output, of_states });
                    }
                    Role::Past(at, dtype, extents)
                }
            });
        }
        if !roles.iter().any(|role| matches!(role, Role::Tokens(_))) {
            return Err(Error::Lacks { what: "input `input_ids`" });
        }
        let logits = *outputs.get("logits").ok_or(Error::Lacks { what: "output `logits`" })?;
        Ok(DecoderProgram { run, roles, logits, presents: Vec::new() })
    }

    /// Finds the outputs that return caches.
    pub(super) fn find(&mut self, kept: &[DecoderCache]) {
        let output =
            |kept: &DecoderCache| self.run.outputs().iter().position(|port| port.name == kept.output);
        self.presents = kept.iter().enumerate().filter_map(|(i, kept)| Some((i, output(kept)?))).collect();
    }

    /// Returns whether an output returns a cache.
    pub(super) fn gives(&self, cache: usize) -> bool {
        self.presents.iter().any(|&(own, _)| own == cache)
    }

    /// Returns the names of the outputs.
    pub(super) fn outputs(&self) -> Vec<String> {
        self.run.outputs().iter().map(|port| port.name.clone()).collect()
    }

    /// Returns whether the graph has the states of an encoder as an input.
    pub(super) fn takes_states(&self) -> bool {
        self.roles.contains(&Role::States)
    }
}

/// Returns the element type of an input.
pub(super) fn element(port: &Port) -> Result<DataType, Error> {
    match &port.ty {
        ValueType::Tensor { dtype, .. } => Ok(*dtype),
        other => Err(wrong(port, "integers", other)),
    }
}

fn wrong(port: &Port, expected: &'static str, found: &ValueType) -> Error {
    Error::Port { name: port.name.clone(), expected, found: format!("the type {found:?}") }
}

/// Returns the element type of a cache, and its shape without positions.
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
