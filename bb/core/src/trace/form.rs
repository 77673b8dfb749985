//! Describes operations as nodes of an opset, and checks the element types that the opset supports.

use super::proto::attribute;
use crate::Error;
use bb_ir::DataType;
use bb_ir::op::Param;
use bb_ir::opset::{OperatorVersion, history};
use bb_ir::proto::AttributeProto;
use smallvec::SmallVec;

/// The part of a family operation's call that determines its ONNX node.
#[derive(Debug, Clone, Copy)]
pub(super) struct Call<'a> {
    pub(super) opset: i64,
    /// The element types and ranks of the operands; `None` for an omitted operand.
    pub(super) operands: &'a [Option<(DataType, usize)>],
    pub(super) params: &'a [Param<'a>],
}

impl Call<'_> {
    /// Returns the element type and the rank of an operand; `None` if it is omitted.
    pub(super) fn operand(&self, index: usize) -> Option<(DataType, usize)> {
        self.operands.get(index).copied().flatten()
    }

    /// Returns the element type that decides whether an opset has the operator: the type of the first operand, or the
    /// type that a parameter names.
    pub(super) fn subject(&self) -> Option<DataType> {
        let named = |p: &Param<'_>| if let Param::Type(dtype) = p { Some(*dtype) } else { None };
        self.operand(0).map(|(dtype, _)| dtype).or_else(|| self.params.iter().find_map(named))
    }

    /// Returns whether all operands have the same element type.
    pub(super) fn of_one_type(&self) -> bool {
        let first = self.operand(0).map(|(dtype, _)| dtype);
        self.operands.iter().flatten().all(|(dtype, _)| Some(*dtype) == first)
    }

    /// Returns whether the opset's version of ONNX's operator supports the element type.
    pub(super) fn takes(&self, op: &str, dtype: DataType) -> bool {
        takes(op, self.opset, dtype)
    }

    /// Returns whether an `f32` attribute has the same effect as the parameter, on operands of this call's type.
    pub(super) fn exact(&self, param: &Param<'_>) -> bool {
        let exact = |v: f64| f64::from(v as f32) == v || v.is_nan();
        self.subject() != Some(DataType::F64)
            || match param {
                Param::Float(v) | Param::OptFloat(Some(v)) => exact(*v),
                Param::Floats(v) => v.iter().all(|&v| exact(v)),
                _ => true,
            }
    }
}

/// An input of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Operand {
    /// The operation's operand with this index.
    Given(usize),
    /// An omitted input.
    Absent,
    /// A parameter that the operator takes as a vector input.
    Ints(Vec<i64>),
    /// A parameter that the operator takes as a scalar input.
    Scalar(i64),
}

/// An ONNX node.
#[derive(Debug, Clone)]
pub(super) struct Form {
    /// The operator.
    pub(super) op: &'static str,
    pub(super) inputs: SmallVec<[Operand; 4]>,
    pub(super) attributes: Vec<AttributeProto>,
    /// The element type that the opset's operator must support.
    pub(super) subject: Option<DataType>,
}

impl Form {
    /// Returns a node with the operands of the call as inputs.
    pub(super) fn new(op: &'static str, call: &Call<'_>) -> Form {
        let operand = |(i, x): (usize, &Option<_>)| x.map_or(Operand::Absent, |_| Operand::Given(i));
        let inputs = call.operands.iter().enumerate().map(operand).collect();
        Form { op, inputs, attributes: Vec::new(), subject: call.subject() }
    }

    /// Sets the inputs.
    pub(super) fn inputs(self, inputs: impl IntoIterator<Item = Operand>) -> Form {
        Form { inputs: inputs.into_iter().collect(), ..self }
    }

    /// Adds an attribute, unless an absent attribute has the same meaning.
    pub(super) fn attribute(mut self, name: &str, param: &Param<'_>) -> Form {
        self.attributes.extend(attribute(name, param));
        self
    }

    /// Adds a string attribute.
    pub(super) fn text(self, name: &str, word: &str) -> Form {
        self.attribute(name, &Param::Text(word.into()))
    }

    /// Adds the parameters of the call under these names. Returns `None` if an attribute cannot express a parameter.
    pub(super) fn attributes(self, call: &Call<'_>, names: &[&str]) -> Option<Form> {
        let exact = call.params.iter().all(|p| call.exact(p));
        let all = || names.iter().zip(call.params).fold(self, |form, (name, p)| form.attribute(name, p));
        exact.then(all)
    }
}

/// Returns whether an opset's version of ONNX's operator supports an element type.
fn takes(op: &str, opset: i64, dtype: DataType) -> bool {
    history("", op).filter(|v| v.since <= opset).last().is_some_and(|version| has(&version, dtype))
}

fn has(version: &OperatorVersion, dtype: DataType) -> bool {
    version.types.as_ref().is_some_and(|types| types.contains(&dtype))
}

/// Checks that an opset's version of an operator supports an element type.
///
/// # Errors
///
/// [`Error::ElementTypeOfOpset`] with the first opset that supports it.
pub(super) fn check_type(node: &str, op: &'static str, opset: i64, dtype: DataType) -> Result<(), Error> {
    if takes(op, opset, dtype) {
        return Ok(());
    }
    let since = history("", op).find(|v| v.since > opset && has(v, dtype)).map(|v| v.since);
    Err(Error::ElementTypeOfOpset { node: node.to_owned(), op, dtype, opset, since })
}
