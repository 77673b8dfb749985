//! Finds out which element types a backend supports, by calling the backend on one or two elements. The answers are
//! cached.
//!
//! A backend does not need to declare its support: the contract requires an error for an unsupported element type, and
//! this module observes the error. Each operation is tried once per combination of element types, and only for
//! requested combinations.

use super::answers::TrialError;
use super::{Question, Runtime};
use crate::error::Refusal;
use crate::{Error, ErrorKind, RoundMode};
use bb_ir::convert::{Rounding, cast};
use bb_ir::op::{OpSpec, Param, Primitive};
use bb_ir::{DataType, Limits, TensorData};
use smallvec::SmallVec;
use std::borrow::Cow;
use std::sync::Arc;

/// Returns the primitive of a table row; `None` if the row is not a primitive.
pub(super) fn primitive_of(op: &OpSpec) -> Option<Primitive> {
    Primitive::from_index(op.index).filter(|primitive| primitive.spec() == op)
}

impl Question {
    /// Returns the question for a constant of this element type.
    pub fn constant(dtype: DataType) -> Question {
        Question {
            op: Primitive::Constant.spec(),
            operands: SmallVec::new(),
            params: SmallVec::from_slice(&[dtype]),
        }
    }

    /// Returns the question for a primitive on operands of these types; `to` is the target of a cast.
    pub fn primitive(
        op: Primitive,
        operands: impl IntoIterator<Item = DataType>,
        to: Option<DataType>,
    ) -> Question {
        let mut operands: SmallVec<[Option<DataType>; 3]> = operands.into_iter().map(Some).collect();
        if matches!(op, Primitive::Concat) {
            operands.truncate(1);
        }
        Question { op: op.spec(), operands, params: to.into_iter().collect() }
    }

    /// Returns the question for a call of any operation. Only the element types of the parameters matter.
    pub fn call(
        op: &'static OpSpec,
        operands: impl IntoIterator<Item = Option<DataType>>,
        params: &[Param<'_>],
    ) -> Question {
        let types = params.iter().filter_map(|param| match param {
            Param::Type(dtype) => Some(*dtype),
            Param::Data(data) => Some(data.dtype()),
            _ => None,
        });
        Question { op, operands: operands.into_iter().collect(), params: types.collect() }
    }

    /// Returns the refusal of the backend, either of a constant of an operand's type or of the operation itself.
    pub fn refused(&self, by: &Runtime, tried: impl FnOnce(&Question) -> Option<Tried>) -> Option<Refusal> {
        for dtype in self.operands.iter().flatten() {
            let constant = Question::constant(*dtype);
            if let Some(error) = constant.answer(by, Question::sample) {
                return Some(constant.refusal(error));
            }
        }
        Some(self.refusal(self.answer(by, tried)?))
    }

    fn refusal(&self, error: TrialError) -> Refusal {
        Refusal {
            op: self.op.method,
            operands: self.operands.iter().flatten().copied().collect(),
            params: self.params.to_vec(),
            reason: error.reason.to_string(),
            kind: error.kind,
        }
    }

    /// Returns the error of a backend that refuses the call; `None` if the backend supports the call, or if no valid
    /// call can be constructed.
    fn answer(&self, by: &Runtime, tried: impl FnOnce(&Question) -> Option<Tried>) -> Option<TrialError> {
        let known = by.answers().get(self);
        if let Some(answer) = known {
            return answer;
        }
        let Tried { operands, params, any_error } = tried(self)?;
        let refused = by.try_call(self.op, &operands, &params).err().and_then(|error| {
            if is_fault(by, &error) {
                return None;
            }
            let text = crate::error::causes(&error);
            let kind = error.kind_by(&|error| by.wrapped(error));
            let mut types = self.operands.iter().flatten().chain(&self.params);
            // Another error may be caused by the sample elements, so it only counts as a refusal if the backend says so or
            // the error names a type of the call.
            let is_refusal = any_error
                || kind == ErrorKind::Unsupported
                || types.any(|dtype| bb_ir::text::has_word(&text, dtype.name()));
            is_refusal.then(|| TrialError { reason: Arc::from(text), kind })
        });
        by.answers().insert(self.clone(), refused.clone());
        refused
    }

    /// Builds a valid call of a primitive on one or two elements.
    pub fn sample(&self) -> Option<Tried> {
        use Primitive as P;
        let op = primitive_of(self.op)?;
        let ints = |values: &[i64]| Param::Ints(Cow::Owned(values.to_vec()));
        let extents = |values: &[usize]| Param::Extents(Cow::Owned(values.to_vec()));
        let (shape, params): (&[usize], Vec<Param<'static>>) = match op {
            P::Constant => {
                let data = ones(*self.params.first()?, &[1])?;
                (&[], vec![Param::Data(Cow::Owned(data))])
            }
            P::MatMul => (&[1, 1], vec![]),
            P::ReduceSum | P::ReduceMean | P::ReduceMax | P::ReduceMin => {
                (&[1], vec![ints(&[0]), Param::Bool(true)])
            }
            P::Reshape => (&[1], vec![extents(&[1, 1])]),
            P::Transpose => (&[1, 1], vec![ints(&[1, 0])]),
            P::Concat | P::Gather => (&[1], vec![Param::Int(0)]),
            P::Slice => (&[1], vec![ints(&[0]), ints(&[1]), ints(&[0]), ints(&[1])]),
            P::Split => (&[2], vec![Param::Int(0), extents(&[1, 1])]),
            P::Squeeze => (&[1, 1], vec![ints(&[0])]),
            P::Unsqueeze => (&[1], vec![ints(&[0])]),
            P::Cast => (
                &[1],
                vec![Param::Type(*self.params.first()?), Param::Bool(true), Param::Round(RoundMode::Up)],
            ),
            _ => (&[1], vec![]),
        };
        let operand = |(at, dtype): (usize, &Option<DataType>)| match (op, at) {
            // The axis has one entry, so the only valid index is 0.
            (P::Gather, 1) => Some(TensorData::zeros((*dtype)?, shape, Limits::default().tensor_bytes).ok()),
            _ => Some(ones((*dtype)?, shape)),
        };
        let mut operands: Vec<Option<TensorData>> =
            self.operands.iter().enumerate().map(operand).collect::<Option<_>>()?;
        if op == P::Concat {
            operands.push(operands.first().cloned().flatten());
        }
        Some(Tried { operands, params, any_error: true })
    }
}

/// Returns whether an error reports a fault: a result that violates the contract, or the error of a layer (for `check` a
/// wrong result, for `fault` an injected error). This does not mean that the backend lacks the operation. So the
/// operation counts as supported, and a run fails with the error.
fn is_fault(by: &Runtime, error: &Error) -> bool {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        let own = error.downcast_ref::<Error>().or_else(|| by.wrapped(error));
        let is_layer = matches!(own, Some(Error::Layer { kind: ErrorKind::Device, .. }));
        let is_wrong =
            matches!(own, Some(Error::BrokenPromise(_) | Error::WrongResult(_) | Error::Results { .. }));
        if is_layer || is_wrong {
            return true;
        }
        cause = error.source();
    }
    false
}

/// A call to try on a backend.
pub struct Tried {
    pub operands: Vec<Option<TensorData>>,
    pub params: Vec<Param<'static>>,
    /// Whether the call is valid for all elements, so that any error means that the call is not supported.
    pub any_error: bool,
}

/// Builds a tensor of ones, or of zeros if the type is not numeric.
pub fn ones(dtype: DataType, shape: &[usize]) -> Option<TensorData> {
    let n: usize = bb_ir::element_count(shape)?;
    let ones = TensorData::new(shape, &vec![1f32; n]).ok()?;
    match cast(&ones, dtype, Rounding::default()) {
        Ok(made) => Some(made),
        Err(_) => TensorData::zeros(dtype, shape, Limits::default().tensor_bytes).ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The calls must be valid; otherwise an error would not mean that the type is unsupported.
    #[test]
    fn every_primitive_has_a_valid_call_on_every_type_that_onnx_allows() {
        use bb_ir::infer;
        for &op in Primitive::ALL {
            for &dtype in DataType::ALL {
                let operands = match op {
                    Primitive::Constant => vec![],
                    Primitive::Where => vec![DataType::Bool, dtype, dtype],
                    Primitive::Gather => vec![dtype, DataType::I32],
                    _ => vec![dtype; op.spec().inputs.len()],
                };
                if operands.iter().enumerate().any(|(at, dtype)| !infer::accepts(op, at, *dtype)) {
                    continue;
                }
                let to = matches!(op, Primitive::Cast | Primitive::Constant).then_some(dtype);
                let tried = Question::primitive(op, operands, to).sample().expect("a call");
                let given: Vec<_> = tried.operands.iter().flatten().map(|x| (x.dtype(), x.shape())).collect();
                assert!(infer::primitive(op, &given, &tried.params).is_ok(), "{op:?} {dtype}");
            }
        }
    }
}
