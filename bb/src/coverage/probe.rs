//! Asks a backend on which element types its primitives succeed, by calling each on one element.

use crate::{BackendRuntime, Value};
use bb_ir::op::{Param, Primitive, RoundMode};
use bb_ir::{DataType, TensorData, infer};
use std::borrow::Cow;

/// What calls of the primitives on each element type said.
pub(super) struct Probe {
    /// A bit for each element type, by ONNX's number, for each primitive.
    taken: Vec<u32>,
    /// The same for the types that may be used everywhere.
    served: u32,
}

impl Probe {
    /// Calls every primitive on one element of every type.
    pub(super) fn of(on: &dyn BackendRuntime) -> Probe {
        let mut taken = vec![0; Primitive::ALL.len()];
        let mut served = 0;
        for &dtype in DataType::ALL {
            let mut all = true;
            for (op, bits) in Primitive::ALL.iter().zip(&mut taken) {
                if !infer::accepts(*op, value_operand(*op), dtype) {
                    continue;
                }
                match call(on, *op, dtype) {
                    Some(()) => *bits |= bit(dtype),
                    None => all = false,
                }
            }
            if all {
                served |= bit(dtype);
            }
        }
        Probe { taken, served }
    }

    /// Tells whether a call of the primitive on the type succeeded.
    pub(super) fn takes(&self, op: Primitive, dtype: DataType) -> bool {
        self.taken.get(usize::from(op.spec().index)).is_some_and(|bits| bits & bit(dtype) != 0)
    }

    /// Tells whether every primitive that may be called on the type succeeded.
    pub(super) fn serves(&self, dtype: DataType) -> bool {
        self.served & bit(dtype) != 0
    }
}

fn bit(dtype: DataType) -> u32 {
    1 << dtype as u32
}

/// The operand whose element type is asked about.
fn value_operand(op: Primitive) -> usize {
    usize::from(op == Primitive::Where)
}

/// Calls a primitive on operands of extents 1, 1; none if it fails.
fn call(on: &dyn BackendRuntime, op: Primitive, dtype: DataType) -> Option<()> {
    let element = one(dtype)?;
    let spec = op.spec();
    let mut operands: Vec<Value> = Vec::new();
    for i in 0..spec.inputs.len() {
        let operand = match (op, i) {
            (Primitive::Where, 0) => one(DataType::Bool)?,
            (Primitive::Gather, 1) => TensorData::new(&[1, 1], &[0i64]).ok()?,
            _ => element.clone(),
        };
        operands.push(on.constant(&operand).ok()?);
    }
    let params = params(op, &element);
    let refs: Vec<Option<&Value>> = operands.iter().map(Some).collect();
    let results = on.dispatch_atomic(spec, &refs, &params).ok()?;
    let first = results.first()?;
    // A device may find out late.
    on.to_host(first).ok().map(|_| ())
}

/// One element that is 1, or true, of extents 1, 1.
fn one(dtype: DataType) -> Option<TensorData> {
    if dtype == DataType::String {
        return TensorData::strings(&[1, 1], &["1"]).ok();
    }
    let one = TensorData::new(&[1, 1], &[1f32]).ok()?;
    bb_ir::convert::cast(&one, dtype, bb_ir::convert::Rounding::default()).ok()
}

/// Parameters for operands of extents 1, 1.
fn params(op: Primitive, element: &TensorData) -> Vec<Param<'static>> {
    use Primitive as P;
    let ints = |list: &'static [i64]| Param::Ints(Cow::Borrowed(list));
    let extents = |list: &'static [usize]| Param::Extents(Cow::Borrowed(list));
    match op {
        P::ReduceSum | P::ReduceMean | P::ReduceMax | P::ReduceMin => vec![ints(&[0]), Param::Bool(true)],
        P::Reshape => vec![extents(&[1])],
        P::Transpose => vec![ints(&[1, 0])],
        P::Concat | P::Gather => vec![Param::Int(0)],
        P::Slice => vec![ints(&[0]), ints(&[1]), ints(&[0]), ints(&[1])],
        P::Split => vec![Param::Int(0), extents(&[1])],
        P::Squeeze | P::Unsqueeze => vec![ints(&[0])],
        P::Cast => vec![Param::Type(DataType::F32), Param::Bool(true), Param::Round(RoundMode::Up)],
        P::Constant => vec![Param::Data(Cow::Owned(element.clone()))],
        P::Add
        | P::Sub
        | P::Mul
        | P::Div
        | P::Neg
        | P::Abs
        | P::Sqrt
        | P::Pow
        | P::Exp
        | P::Log
        | P::MatMul
        | P::Identity
        | P::Equal
        | P::Greater
        | P::Less
        | P::Where => Vec::new(),
    }
}
