//! A compiled graph of a decoder, and what each of its inputs and outputs is for.

use crate::Error;
use bb::ir::graph::{Dim, ValueType};
use bb::{BackendHandle, CompileOptions, DataType, ErasedExecutable, Module, Port};
use serde_json::Value as Json;
use std::collections::HashMap;
use std::sync::Arc;

/// The role of an input.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Role {
    Tokens(DataType),
    Mask(DataType),
    Positions(DataType),
    /// Positions without a batch.
    Places(DataType),
    /// Whether there is a past, for models that have a branch for either case.
    UsesCache,
    /// The states of an encoder.
    States,
    /// Which of the states count.
    StatesMask(DataType),
    /// A cache: its number among all, its element type and its extents; a past of no positions has 0 for the third.
    Past(usize, DataType, [usize; 4]),
}

/// A cache of a decoder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DecoderCache {
    /// The output that gives it.
    output: String,
    /// Whether it holds keys or values of an encoder's states, which do not change.
    pub(super) of_states: bool,
}

/// A compiled graph.
pub(super) struct DecoderProgram {
    pub(super) run: Arc<dyn ErasedExecutable>,
    pub(super) roles: Vec<Role>,
    /// The output with logits.
    pub(super) logits: usize,
    /// The caches that it gives, and the output of each.
    pub(super) presents: Vec<(usize, usize)>,
}

/// Returns the names that the output of a cache may have, from the name of its input.
fn presents(past: &str) -> impl Iterator<Item = String> {
    let stems =
        [("past_key_values", "present"), ("past_key_values", "present_key_values"), ("past", "present")];
    stems.into_iter().filter(|(from, _)| past.starts_with(from)).map(|(from, to)| past.replacen(from, to, 1))
}

/// Names that `genai_config.json` gives: of each cache the input and the output, with `%d` for the layer.
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

/// Returns the output of a cache by these patterns.
fn by_pattern(past: &str, patterns: &[(String, String)]) -> Option<String> {
    patterns.iter().find_map(|(input, output)| {
        let (before, after) = input.split_once("%d")?;
        let layer = past.strip_prefix(before)?.strip_suffix(after)?;
        layer.bytes().all(|c| c.is_ascii_digit()).then(|| output.replacen("%d", layer, 1))
    })
}

impl DecoderProgram {
    /// Compiles a graph, and adds the caches that it names to `kept`. `others` are outputs of a graph that runs before this one, which
    /// may give what this one takes.
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

    /// Finds the outputs that give caches.
    pub(super) fn find(&mut self, kept: &[DecoderCache]) {
        let output =
            |kept: &DecoderCache| self.run.outputs().iter().position(|port| port.name == kept.output);
        self.presents = kept.iter().enumerate().filter_map(|(i, kept)| Some((i, output(kept)?))).collect();
    }

    /// Returns whether an output gives a cache.
    pub(super) fn gives(&self, cache: usize) -> bool {
        self.presents.iter().any(|&(own, _)| own == cache)
    }

    /// The names of the outputs.
    pub(super) fn outputs(&self) -> Vec<String> {
        self.run.outputs().iter().map(|port| port.name.clone()).collect()
    }

    /// Returns whether the graph takes the states of an encoder.
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
