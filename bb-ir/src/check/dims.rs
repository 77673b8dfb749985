//! Sets symbolic dimensions to extents that a caller passes, before the model is checked.

use crate::proto::tensor_shape_proto::dimension;
use crate::proto::{ModelProto, TypeProto, ValueInfoProto, type_proto};
use crate::{Error, Limits};
use std::collections::BTreeSet;

/// Replaces symbolic dimensions of the inputs by extents. Dimensions of the same names in claims about other values
/// are replaced too.
///
/// # Errors
///
/// [`Error::UnknownDim`] if no input has a dimension of a name in `dims`.
pub fn fix_dims(model: &mut ModelProto, dims: &[(String, usize)]) -> Result<(), Error> {
    let Some(graph) = model.graph.as_mut() else { return Ok(()) };
    let mut known = BTreeSet::new();
    let set = |value: &mut ValueInfoProto, names: &mut BTreeSet<String>| {
        if let Some(ty) = value.r#type.as_mut() {
            fix_type(ty, dims, names);
        }
    };
    graph.input.iter_mut().for_each(|value| set(value, &mut known));
    for (name, _) in dims {
        if !known.contains(name) {
            return Err(Error::UnknownDim { name: name.clone(), known: known.into_iter().collect() });
        }
    }
    let others = graph.output.iter_mut().chain(&mut graph.value_info);
    others.for_each(|value| set(value, &mut BTreeSet::new()));
    Ok(())
}

fn fix_type(ty: &mut TypeProto, dims: &[(String, usize)], known: &mut BTreeSet<String>) {
    let mut ty = Some(ty);
    // The types of sequences and optionals contain other types. The check reports types that exceed the nesting limit.
    for _ in 0..Limits::MAX_NESTING {
        let shape = match ty.and_then(|ty| ty.value.as_mut()) {
            Some(type_proto::Value::TensorType(tensor)) => tensor.shape.as_mut(),
            Some(type_proto::Value::SparseTensorType(tensor)) => tensor.shape.as_mut(),
            Some(type_proto::Value::SequenceType(of)) => {
                ty = of.elem_type.as_deref_mut();
                continue;
            }
            Some(type_proto::Value::OptionalType(of)) => {
                ty = of.elem_type.as_deref_mut();
                continue;
            }
            _ => return,
        };
        for dim in shape.into_iter().flat_map(|shape| &mut shape.dim) {
            let Some(dimension::Value::DimParam(name)) = &dim.value else { continue };
            known.insert(name.clone());
            if let Some((_, extent)) = dims.iter().find(|(known, _)| known == name) {
                dim.value = Some(dimension::Value::DimValue(i64::try_from(*extent).unwrap_or(i64::MAX)));
            }
        }
        return;
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::proto::{GraphProto, TensorShapeProto};

    fn value(dims: Vec<dimension::Value>) -> ValueInfoProto {
        let dim = dims.into_iter().map(|value| crate::proto::tensor_shape_proto::Dimension {
            value: Some(value),
            ..Default::default()
        });
        let shape = Some(TensorShapeProto { dim: dim.collect() });
        let tensor = type_proto::Tensor { shape, ..Default::default() };
        let value = Some(type_proto::Value::TensorType(tensor));
        ValueInfoProto { r#type: Some(TypeProto { value, ..Default::default() }), ..Default::default() }
    }

    #[test]
    fn a_name_is_fixed_wherever_it_is() {
        use dimension::Value::{DimParam, DimValue};
        let graph = GraphProto {
            input: vec![value(vec![DimParam("n".to_owned()), DimParam("m".to_owned()), DimValue(3)])],
            output: vec![value(vec![DimParam("n".to_owned())])],
            ..Default::default()
        };
        let mut model = ModelProto { graph: Some(graph), ..Default::default() };
        fix_dims(&mut model, &[("n".to_owned(), 7)]).unwrap();
        let graph = model.graph.as_ref().unwrap();
        assert_eq!(graph.input, [value(vec![DimValue(7), DimParam("m".to_owned()), DimValue(3)])]);
        assert_eq!(graph.output, [value(vec![DimValue(7)])]);
        let wrong = fix_dims(&mut model, &[("k".to_owned(), 7)]).unwrap_err();
        assert_eq!(wrong.to_string(), "no input has a symbolic dimension `k`; those that there are: [\"m\"]");
    }
}
