//! The parameters of requests and tensors that both protocols support.
//!
//! The protocol lets a server ignore unknown parameters, and clients written for other servers send many: MLServer's `content_type`,
//! Triton's `priority`. So only the parameters that extensions of the protocol define are checked. The parameters of the schedule policy
//! and of sequences have no effect, because requests are answered in their order and no model here has a state.

use crate::refusal::{Refusal, shown};
use std::time::Duration;

/// The value of a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Parameter {
    Bool(bool),
    Unsigned(u64),
    Text,
    /// A number that is not an unsigned integer, or null.
    Other,
}

/// The parameters of a request that change how the request is answered.
#[derive(Debug, Default)]
pub(crate) struct OfRequest {
    pub(crate) timeout: Option<Duration>,
    /// Whether outputs without a parameter of their own are binary. Only HTTP uses this.
    pub(crate) binary_outputs: bool,
}

impl OfRequest {
    pub(crate) fn read(&mut self, name: &str, value: Parameter) -> Result<(), Refusal> {
        let what = || "the request".to_owned();
        let expected = match (name, value) {
            // 0 is Triton's default, which means that there is no timeout.
            ("timeout", Parameter::Unsigned(time)) => {
                self.timeout = (time != 0).then(|| Duration::from_micros(time));
                return Ok(());
            }
            ("binary_data_output", Parameter::Bool(binary)) => {
                self.binary_outputs = binary;
                return Ok(());
            }
            ("priority", Parameter::Unsigned(_))
            | ("sequence_id", Parameter::Unsigned(_) | Parameter::Text)
            | ("sequence_start" | "sequence_end", Parameter::Bool(_)) => return Ok(()),
            ("timeout", _) => "a number of microseconds",
            ("priority", _) => "a number that is not negative",
            ("sequence_id", _) => "a number that is not negative, or a text",
            ("binary_data_output" | "sequence_start" | "sequence_end", _) => "true or false",
            _ => return Ok(()),
        };
        Err(wrong(what(), name, expected))
    }
}

/// The parameters of a requested output.
#[derive(Debug, Default)]
pub(crate) struct OfOutput {
    pub(crate) binary: Option<bool>,
    /// The number of classes to answer. `None` for the output itself.
    pub(crate) classes: Option<usize>,
}

impl OfOutput {
    pub(crate) fn read(&mut self, output: &str, name: &str, value: Parameter) -> Result<(), Refusal> {
        let what = || format!("output `{}`", shown(output));
        match (name, value) {
            ("binary_data", Parameter::Bool(binary)) => self.binary = Some(binary),
            ("binary_data", _) => return Err(wrong(what(), name, "true or false")),
            ("classification", Parameter::Unsigned(most)) => {
                self.classes = usize::try_from(most).ok().filter(|most| *most > 0);
            }
            ("classification", _) => return Err(wrong(what(), name, "a number of classes")),
            _ => return not_shared(what, name),
        }
        Ok(())
    }
}

/// Checks a parameter of an input that the current protocol gives no meaning.
pub(crate) fn of_input(input: &str, name: &str) -> Result<(), Refusal> {
    not_shared(|| format!("input `{}`", shown(input)), name)
}

/// Refuses elements in shared memory. If the server ignored their location, it would answer a different request.
fn not_shared(what: impl FnOnce() -> String, name: &str) -> Result<(), Refusal> {
    match name.starts_with("shared_memory_") {
        true => Err(Refusal::SharedMemory { what: what() }),
        false => Ok(()),
    }
}

pub(crate) fn wrong(what: String, name: &str, expected: &'static str) -> Refusal {
    Refusal::ParameterValue { what, name: shown(name), expected }
}
