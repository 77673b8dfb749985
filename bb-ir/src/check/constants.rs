//! Replaces constants of a model before the model is checked.

use crate::proto::ModelProto;
use crate::{DataType, Error, TensorData};

/// Replaces constants of the model's graph by name, including constants with external data. Returns the names that
/// match no constant.
///
/// # Errors
///
/// [`Error::OtherConstant`] if a tensor has another type or shape than its constant.
pub fn replace_constants<'a>(
    model: &mut ModelProto,
    tensors: &'a [(String, TensorData)],
) -> Result<Vec<&'a str>, Error> {
    let mut unknown = Vec::new();
    for (name, data) in tensors {
        let constants = model.graph.iter_mut().flat_map(|graph| &mut graph.initializer);
        let Some(constant) = constants.into_iter().find(|constant| constant.name() == name) else {
            unknown.push(name.as_str());
            continue;
        };
        let dims: Vec<i64> =
            data.shape().iter().map(|&extent| i64::try_from(extent).unwrap_or(i64::MAX)).collect();
        if (constant.data_type(), &constant.dims) != (data.dtype().to_onnx(), &dims) {
            return Err(Error::OtherConstant {
                name: name.clone(),
                dtype: DataType::from_onnx(constant.data_type()),
                dims: constant.dims.clone(),
                got: data.dtype(),
                shape: data.shape().into(),
            });
        }
        *constant = data.try_to_proto(name)?;
    }
    Ok(unknown)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::proto::GraphProto;

    fn model() -> ModelProto {
        let w = TensorData::new(&[2], &[1f32, 2.0]).unwrap().to_proto("w");
        let graph = GraphProto { initializer: vec![w], ..GraphProto::default() };
        ModelProto { graph: Some(graph), ..ModelProto::default() }
    }

    #[test]
    fn a_tensor_takes_the_place_of_its_constant() {
        let (mut model, new) = (model(), TensorData::new(&[2], &[5f32, 6.0]).unwrap());
        let given = [("w".to_owned(), new.clone()), ("v".to_owned(), new.clone())];
        assert_eq!(replace_constants(&mut model, &given).unwrap(), ["v"]);
        let graph = model.graph.unwrap();
        assert_eq!(graph.initializer, [new.to_proto("w")]);
    }

    #[test]
    fn another_type_or_shape_is_refused() {
        for wrong in [TensorData::new(&[2], &[5f64, 6.0]).unwrap(), TensorData::new(&[1], &[5f32]).unwrap()] {
            let error = replace_constants(&mut model(), &[("w".to_owned(), wrong)]).unwrap_err();
            let text = error.to_string();
            assert!(text.starts_with("constant `w` is f32[2]; the tensor for it is f"), "{text}");
        }
    }
}
