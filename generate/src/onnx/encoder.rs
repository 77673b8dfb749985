//! Encoders compute states that a decoder attends to.

use super::numbers;
use super::program::element;
use crate::Error;
use bb::{BackendHandle, CompileOptions, DataType, ErasedExecutable, Module, TensorData, Value};
use std::sync::Arc;

/// The input of an encoder.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum EncoderInput<'a> {
    /// The tokens of a text.
    Tokens(&'a [u32]),
    /// Numbers in the layout that the encoder expects, with a batch size of 1: the spectrum of a sound, `[1, bands, frames]`, or the
    /// pixels of an image, `[1, channels, height, width]`.
    Features(&'a TensorData),
}

/// The role of an encoder's input.
#[derive(Debug, Clone, Copy)]
enum Role {
    Tokens(DataType),
    Mask(DataType),
    Features(DataType),
}

/// A compiled encoder.
pub(super) struct Encoder {
    run: Arc<dyn ErasedExecutable>,
    roles: Vec<Role>,
    /// The index of the output with the states.
    states: usize,
}

impl Encoder {
    pub(super) fn new(module: Module, on: &BackendHandle) -> Result<Encoder, Error> {
        let run = on.compile(module, &CompileOptions::default())?;
        let mut roles = Vec::new();
        for port in run.inputs() {
            roles.push(match port.name.as_str() {
                "input_ids" => Role::Tokens(element(port)?),
                "attention_mask" => Role::Mask(element(port)?),
                "input_features" | "input_values" | "pixel_values" => Role::Features(element(port)?),
                name => return Err(Error::Input { name: name.to_owned() }),
            });
        }
        let states = run.outputs().iter().position(|port| port.name == "last_hidden_state");
        let states = states.ok_or(Error::Lacks { what: "output `last_hidden_state`" })?;
        Ok(Encoder { run, roles, states })
    }

    /// Computes the states of a source: `[1, positions, width]`.
    pub(super) fn states(&self, on: &BackendHandle, source: EncoderInput<'_>) -> Result<Value, Error> {
        let count = match source {
            EncoderInput::Tokens(tokens) => tokens.len(),
            EncoderInput::Features(_) => 0,
        };
        let mut inputs = Vec::with_capacity(self.roles.len());
        for role in &self.roles {
            inputs.push(match (role, source) {
                (Role::Tokens(dtype), EncoderInput::Tokens(tokens)) => {
                    let tokens: Vec<i64> = tokens.iter().map(|&token| token.into()).collect();
                    numbers(on, *dtype, &tokens)?
                }
                (Role::Mask(dtype), EncoderInput::Tokens(_)) => numbers(on, *dtype, &vec![1; count])?,
                (Role::Features(dtype), EncoderInput::Features(features)) => {
                    let features =
                        bb::ir::convert::cast(features, *dtype, bb::ir::convert::Rounding::default())?;
                    on.runtime().constant(&features)?
                }
                (Role::Features(_), EncoderInput::Tokens(_)) => {
                    return Err(Error::Source { found: "tokens", expected: "features" });
                }
                (_, EncoderInput::Features(_)) => {
                    return Err(Error::Source { found: "features", expected: "tokens" });
                }
            });
        }
        let given: Vec<Option<&Value>> = inputs.iter().map(Some).collect();
        let states = self.run.run(&given)?.into_iter().nth(self.states);
        let states = states.ok_or(Error::Internal { what: "a run gave too few results" })?;
        if states.rank() != 3 {
            return Err(Error::Port {
                name: "last_hidden_state".to_owned(),
                expected: "states of `[1, positions, width]`",
                found: format!("the shape {:?}", states.shape()),
            });
        }
        Ok(states)
    }
}
