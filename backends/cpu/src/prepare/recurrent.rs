//! Prepared recurrent layers, whose weights are packed once.

use super::CpuKernel;
use crate::array::Array;
use crate::cpu::Cpu;
use crate::error::Result;
use crate::ext::recurrent::{self, CellKind, Operands, Packed};
use crate::kernels::recurrent::Functions;
use bb::ext::{GruOptions, LstmOptions, Nn, NnOp, RnnOptions};
use bb::ir::op::Param;
use bb::{Kernel, KernelOperands, Outputs, PrepareStep};
use std::sync::Arc;

/// Prepares one direction of a layer whose weights are constants.
pub(super) fn layer(cpu: &Cpu, step: &PrepareStep<'_, Array>, op: NnOp) -> Result<Option<CpuKernel>> {
    let (first, rest) = match (op, step.params()) {
        (NnOp::Rnn, rest) => (false, rest),
        (_, [Param::Bool(first), rest @ ..]) => (*first, rest),
        _ => return Ok(None),
    };
    let [Param::Bool(backwards), Param::Ints(numbers), Param::Floats(parameters), Param::OptFloat(clip)] =
        rest
    else {
        return Ok(None);
    };
    let kind = match op {
        NnOp::Rnn => CellKind::Rnn,
        NnOp::Gru => CellKind::Gru { linear: first },
        _ => CellKind::Lstm { coupled: first },
    };
    let Some(weights) = step.constant(1) else { return Ok(None) };
    // Running the unprepared step reports invalid activation functions, so decline them here.
    let Ok(functions) = kind.functions(numbers, parameters) else { return Ok(None) };
    let [scale, zero] = match kind {
        CellKind::Lstm { .. } => [4, 5],
        // These cells have no scale and no zero point operand.
        CellKind::Rnn | CellKind::Gru { .. } => [usize::MAX; 2],
    };
    if [scale, zero].into_iter().any(|at| step.operand(at).is_some() != step.constant(at).is_some()) {
        return Ok(None);
    }
    let packed = Packed::new(cpu, kind, weights, step.constant(scale), step.constant(zero))?;
    Ok(packed.map(|packed| -> CpuKernel {
        Box::new(Layer {
            kind,
            packed: Arc::new(packed),
            functions,
            numbers: numbers.to_vec(),
            parameters: parameters.to_vec(),
            backwards: *backwards,
            clip: *clip,
        })
    }))
}

/// One direction of a layer. A run reads the weights only if the operation's body computes it.
struct Layer {
    kind: CellKind,
    packed: Arc<Packed>,
    functions: Functions,
    /// The functions in the format that the operation's body takes.
    numbers: Vec<i64>,
    parameters: Vec<f64>,
    backwards: bool,
    clip: Option<f64>,
}

impl Kernel<Cpu> for Layer {
    fn run(&self, on: &Cpu, operands: &mut KernelOperands<'_, Array>) -> Result<Outputs<Array>> {
        let &Layer { kind, functions, backwards, clip, .. } = self;
        let op = kind.operation();
        let (x, weights, hidden) =
            (operands.required(op, 0)?, operands.required(op, 1)?, operands.required(op, 2)?);
        let [mut cell, mut scale, mut zero, mut bias, mut peepholes] = [None; 5];
        let lengths = match kind {
            CellKind::Rnn => operands.get(3),
            CellKind::Gru { .. } => {
                bias = operands.get(3);
                operands.get(4)
            }
            CellKind::Lstm { .. } => {
                cell = Some(operands.required(op, 3)?);
                [scale, zero] = [operands.get(4), operands.get(5)];
                peepholes = operands.get(7);
                operands.get(6)
            }
        };
        let packed = Some(&self.packed);
        let all = Operands {
            kind,
            x,
            weights,
            scale,
            zero,
            packed,
            hidden,
            cell,
            bias,
            lengths,
            peepholes,
            functions,
            backwards,
            clip,
        };
        if let Some(results) = recurrent::run(on, all)? {
            return Ok(results.into());
        }
        let (functions, parameters) = (&self.numbers[..], &self.parameters[..]);
        let results = match (kind, cell) {
            (CellKind::Lstm { coupled }, Some(cell)) => {
                let options = LstmOptions { coupled, backwards, functions, parameters, clip };
                on.body().lstm(x, weights, hidden, cell, scale, zero, lengths, peepholes, options)?
            }
            (CellKind::Gru { linear }, _) => {
                let options = GruOptions { linear, backwards, functions, parameters, clip };
                on.body().gru(x, weights, hidden, bias, lengths, options)?
            }
            _ => {
                let options = RnnOptions { backwards, functions, parameters, clip };
                on.body().rnn(x, weights, hidden, lengths, options)?
            }
        };
        Ok(results.into())
    }

    fn bytes(&self) -> usize {
        self.packed.bytes()
    }

    fn reads(&self, _operand: usize) -> bool {
        true
    }
}
