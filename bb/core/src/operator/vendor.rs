//! Exposes the operations of vendors as operators. A node's attributes become the parameters of the
//! operation.

use super::{Body, Call, Class, Halves, OpResult, Operator, TensorFunction};
use crate::Error;
use crate::ext::vendor::{self, VendorOperation};
use crate::ext::{Ops, vendor_families};
use crate::trace::{TracedTensor, Tracer};
use bb_ir::op::{Arity, Param, ParamKind, ParamSpec, RoundMode};
use smallvec::SmallVec;
use std::borrow::Cow;
use std::sync::OnceLock;

/// An operation of a vendor, with its description as an operator.
struct VendorOperator {
    operator: Operator,
    operation: &'static VendorOperation,
}

fn entries() -> &'static [VendorOperator] {
    static ENTRIES: OnceLock<Vec<VendorOperator>> = OnceLock::new();
    ENTRIES.get_or_init(|| {
        let families = vendor_families().filter(|family| vendor::family(family.domain()).is_some());
        let operations = families.flat_map(|family| family.operations().iter().map(move |op| (family, op)));
        let mut all: Vec<VendorOperator> = operations
            .map(|(family, operation)| VendorOperator {
                operator: Operator {
                    domain: family.domain(),
                    name: operation.spec().name,
                    since: operation.spec().since,
                    class: Class::Primitives,
                    becomes: Some(operation.spec()),
                    halves: Halves::Once,
                    ignores: &[],
                },
                operation,
            })
            .collect();
        all.sort_by_key(|entry| (entry.operator.domain, entry.operator.name));
        all
    })
}

/// Finds the operator that a node names, and the vendor's operation.
pub fn find(domain: &str, name: &str, opset: i64) -> Option<(&'static Operator, &'static VendorOperation)> {
    let at =
        entries().binary_search_by_key(&(domain, name), |e| (e.operator.domain, e.operator.name)).ok()?;
    let entry = entries().get(at).filter(|entry| entry.operator.since <= opset)?;
    Some((&entry.operator, entry.operation))
}

/// Finds the operator that a node names, and its implementation.
pub(super) fn lookup(domain: &str, name: &str, opset: i64) -> Option<(&'static Operator, Body)> {
    let (operator, _) = find(domain, name, opset)?;
    Some((operator, Body::Tensors(TensorFunction::new(function, operator.halves))))
}

/// Lists the names of the operators of a domain.
pub(super) fn names(domain: &str) -> impl Iterator<Item = &'static str> {
    entries().iter().map(|entry| &entry.operator).filter(move |o| o.domain == domain).map(|o| o.name)
}

/// Calls the vendor's operation that a node names.
fn function(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    let operation = vendor::find(call.domain(), call.op_type());
    let spec = operation.ok_or_else(|| Error::excluded("an operation of a vendor"))?.spec();
    let many = spec.inputs.last().is_some_and(|(_, arity)| *arity == Arity::Tensors);
    if call.len() > spec.inputs.len() && !many {
        let (expected, got) = (spec.inputs.len(), call.len());
        return Err(call.wrong("inputs", format!("are {got}; the operation takes {expected}")).into());
    }
    let is_parameter = |name: &&str| spec.params.iter().any(|param| param.name == *name);
    if let Some(unknown) = call.attribute_names().find(|name| !is_parameter(name)) {
        let names: Vec<String> = spec.params.iter().map(|param| format!("`{}`", param.name)).collect();
        let has = if names.is_empty() { "has none".to_owned() } else { format!("has {}", names.join(", ")) };
        return Err(call.wrong(unknown, format!("is no parameter of the operation, which {has}")).into());
    }
    let inputs: SmallVec<[Option<&TracedTensor>; 4]> = (0..call.len()).map(|i| call.optional(i)).collect();
    let params: Vec<Param<'_>> =
        spec.params.iter().map(|param| parameter(call, param)).collect::<Result<_, _>>()?;
    Ok(on.vendor(spec, &inputs, &params)?.into_iter().map(Some).collect())
}

/// Reads a parameter from the attribute with the same name.
fn parameter<'a, T>(call: &Call<'a, T>, spec: &ParamSpec) -> Result<Param<'a>, Error> {
    let name = spec.name;
    let given = match spec.kind {
        ParamKind::Int => call.int_if_given(name)?.map(Param::Int),
        ParamKind::OptInt => call.int_if_given(name)?.map(|v| Param::OptInt(Some(v))),
        ParamKind::Float => call.float_if_given(name)?.map(|v| Param::Float(v.into())),
        ParamKind::OptFloat => call.float_if_given(name)?.map(|v| Param::OptFloat(Some(v.into()))),
        ParamKind::Bool => match call.int_if_given(name)? {
            None => None,
            Some(0) => Some(Param::Bool(false)),
            Some(1) => Some(Param::Bool(true)),
            Some(other) => return Err(call.wrong(name, format!("is {other}; it is 0 or 1"))),
        },
        ParamKind::Ints => call.ints(name)?.map(|v| Param::Ints(Cow::Borrowed(v))),
        ParamKind::Floats => {
            let floats = call.floats(name)?;
            floats.map(|v| Param::Floats(v.iter().map(|&v| f64::from(v)).collect()))
        }
        ParamKind::Extents => match call.ints(name)? {
            None => None,
            Some(list) => {
                let extent = |&v: &i64| {
                    usize::try_from(v).map_err(|_| call.wrong(name, format!("has {v}, which is no extent")))
                };
                Some(Param::Extents(list.iter().map(extent).collect::<Result<_, _>>()?))
            }
        },
        ParamKind::Type => call.dtype(name)?.map(Param::Type),
        ParamKind::OptType => call.dtype(name)?.map(|v| Param::OptType(Some(v))),
        ParamKind::Round => match call.text(name)? {
            None => None,
            Some(text) => match RoundMode::from_name(text) {
                Some(mode) => Some(Param::Round(mode)),
                None => return Err(call.wrong(name, format!("is `{text}`; it is `up`, `down` or `nearest`"))),
            },
        },
        ParamKind::Text => call.text(name)?.map(|v| Param::Text(Cow::Borrowed(v))),
        ParamKind::Data => call.tensor_attribute(name)?.map(|v| Param::Data(Cow::Borrowed(v))),
        other => return Err(call.wrong(name, format!("is to be {}, which no attribute is", other.name()))),
    };
    match (given, spec.default) {
        (Some(given), _) => Ok(given),
        (None, Some(default)) => Ok(default()),
        (None, None) => Err(call.wrong(name, "is missing; the operation needs it")),
    }
}
