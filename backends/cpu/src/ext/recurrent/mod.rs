//! Recurrent cells in `f32` and `f64`. One call computes all steps of a direction. 16-bit floats are widened to `f32`, so
//! states are rounded only once, after the last step.

mod layer;
mod packed;

use super::computed;
use crate::array::Array;
use crate::cpu::Cpu;
use crate::error::Result;
use crate::kernels::recurrent::Functions;
use bb::ext::Activation;
use bb::{DataType, Tensor};
use layer::layer;
pub(crate) use packed::Packed;
use std::sync::Arc;

/// The kind of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CellKind {
    Rnn,
    /// Whether the reset gate scales the product with the state rather than the state.
    Gru {
        linear: bool,
    },
    /// Whether the forget gate is one minus the input gate.
    Lstm {
        coupled: bool,
    },
}

impl CellKind {
    const fn gates(self) -> usize {
        match self {
            CellKind::Rnn => 1,
            CellKind::Gru { .. } => 3,
            CellKind::Lstm { .. } => 4,
        }
    }

    /// Returns the name of the operation.
    pub(crate) const fn operation(self) -> &'static str {
        match self {
            CellKind::Rnn => "rnn",
            CellKind::Gru { .. } => "gru",
            CellKind::Lstm { .. } => "lstm",
        }
    }

    /// Parses the activation functions from the options of the operation.
    ///
    /// # Errors
    ///
    /// [`bb::Error::Operator`] if a cell of this kind does not allow these lists.
    pub(crate) fn functions(self, numbers: &[i64], parameters: &[f64]) -> Result<Functions> {
        let usual = Functions::USUAL;
        if numbers.is_empty() {
            return Ok(usual);
        }
        let defaults: &[&str] = match self {
            CellKind::Rnn => &["Tanh"],
            CellKind::Gru { .. } => &["Sigmoid", "Tanh"],
            CellKind::Lstm { .. } => &["Sigmoid", "Tanh", "Tanh"],
        };
        let functions = Activation::decode(self.operation(), defaults, numbers, parameters)?;
        Ok(match functions[..] {
            [candidate] => Functions { candidate, ..usual },
            [gate, candidate] => Functions { gate, candidate, ..usual },
            [gate, candidate, state] => Functions { gate, candidate, state },
            _ => usual,
        })
    }
}

/// The operands of one direction.
#[derive(Clone, Copy)]
pub(crate) struct Operands<'a> {
    pub(crate) kind: CellKind,
    pub(crate) x: &'a Array,
    pub(crate) weights: &'a Array,
    /// The scale and the zero point of integer weights.
    pub(crate) scale: Option<&'a Array>,
    pub(crate) zero: Option<&'a Array>,
    /// The packed weights, if they are already packed.
    pub(crate) packed: Option<&'a Arc<Packed>>,
    pub(crate) hidden: &'a Array,
    pub(crate) cell: Option<&'a Array>,
    pub(crate) bias: Option<&'a Array>,
    pub(crate) lengths: Option<&'a Array>,
    /// The weights from the cell state to the gates, concatenated by gate.
    pub(crate) peepholes: Option<&'a Array>,
    pub(crate) functions: Functions,
    pub(crate) backwards: bool,
    pub(crate) clip: Option<f64>,
}

/// Computes the states of all steps, and the last states. Returns `None` for operands that the operation's body handles:
/// unsupported types, extents that do not fit, and empty operands.
pub(crate) fn run(cpu: &Cpu, operands: Operands<'_>) -> Result<Option<Vec<Array>>> {
    if operands.x.dtype() == DataType::F64 {
        return layer::<f64>(cpu, operands);
    }
    if computed(operands.x) { layer::<f32>(cpu, operands) } else { Ok(None) }
}
