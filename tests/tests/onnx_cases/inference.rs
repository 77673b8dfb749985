//! What inference says of a model before it runs is what comes out: over every case of the archive whose outputs are
//! tensors, with the extents of the inputs as declared, and again with a name for each of them.

use bb::Module;
use bb::conformance::onnx;
use bb::ir::graph::{Dim, ValueType};
use bb::ir::proto::{ModelProto, tensor_shape_proto::dimension::Value as Extent, type_proto::Value as Kind};
use bb::{DataType, TensorData, ir};
use prost::Message;
use std::collections::HashMap;
use std::path::Path;

/// How many outputs have all extents inferred, at least: with the inputs' extents known, and named.
const INFERRED: [usize; 2] = [2350, 1640];

/// Takes away what the model says of everything but its inputs.
fn stripped(model: &ModelProto) -> ModelProto {
    let mut model = model.clone();
    if let Some(graph) = &mut model.graph {
        graph.value_info.clear();
        graph.output.iter_mut().for_each(|output| output.r#type = None);
    }
    model
}

/// Names every extent of the inputs; returns what each name stands for.
fn named(model: &mut ModelProto, given: &[TensorData]) -> HashMap<String, usize> {
    let mut names = HashMap::new();
    let Some(graph) = &mut model.graph else { return names };
    for (i, (input, tensor)) in graph.input.iter_mut().zip(given).enumerate() {
        let Some(Kind::TensorType(ty)) = input.r#type.as_mut().and_then(|t| t.value.as_mut()) else {
            continue;
        };
        for (j, (dim, extent)) in ty.shape.iter_mut().flat_map(|s| &mut s.dim).zip(tensor.shape()).enumerate()
        {
            let name = format!("d{i}_{j}");
            dim.value = Some(Extent::DimParam(name.clone()));
            names.insert(name, *extent);
        }
    }
    names
}

/// Compares an inferred type with what came out; tells whether every extent was inferred.
fn agrees(ty: &ValueType, got: &TensorData, names: &HashMap<String, usize>) -> Result<bool, String> {
    let ValueType::Tensor { dtype, shape } = ty else { return Ok(false) };
    let wrong = || format!("inferred {ty:?}, but {}{:?} came", got.dtype(), got.shape());
    // Releases of ONNX up to 1.14 wrote bfloat16 as the bits.
    let bits = *dtype == DataType::BF16 && got.dtype() == DataType::U16;
    if *dtype != got.dtype() && !bits {
        return Err(wrong());
    }
    let Some(dims) = shape else { return Ok(false) };
    if dims.len() != got.shape().len() {
        return Err(wrong());
    }
    let mut all = true;
    for (dim, extent) in dims.iter().zip(got.shape()) {
        let told = match dim {
            Dim::Known(n) => Some(n),
            Dim::Symbol(name) => names.get(name),
            Dim::Unknown => None,
        };
        match told {
            Some(n) if n != extent => return Err(wrong()),
            Some(_) => {}
            None => all = false,
        }
    }
    Ok(all)
}

fn check(case: &Path) -> Result<[usize; 2], String> {
    let bytes = std::fs::read(case.join("model.onnx")).map_err(|e| e.to_string())?;
    let model = ModelProto::decode(&*bytes).map_err(|e| e.to_string())?;
    let data = case.join("test_data_set_0");
    // What is no tensor has no extents.
    let (Ok(given), Ok(expected)) = (onnx::read_tensors(&data, "input"), onnx::read_tensors(&data, "output"))
    else {
        return Ok([0, 0]);
    };
    let plain = stripped(&model);
    let mut open = plain.clone();
    let names = named(&mut open, &given);
    let mut inferred = [0, 0];
    for ((model, names), count) in [(plain, HashMap::new()), (open, names)].into_iter().zip(&mut inferred) {
        let module = Module::from_bytes(model.encode_to_vec().into(), &ir::Limits::default(), Some(case));
        let module = module.map_err(|e| super::chain(&e))?;
        let graph = module.graph();
        for (value, got) in graph.outputs.iter().zip(&expected) {
            let ty = graph.values.get(value.index()).map(|v| &v.ty).ok_or("a value")?;
            *count += usize::from(agrees(ty, got, &names)?);
        }
    }
    Ok(inferred)
}

#[test]
fn inferred_extents_are_those_that_come() {
    let (mut wrong, mut inferred) = (Vec::new(), [0, 0]);
    for (name, case) in super::cases("") {
        match check(&case) {
            Ok(counts) => inferred.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count),
            Err(problem) => wrong.push(format!("{name}: {problem}")),
        }
    }
    assert!(wrong.is_empty(), "{} cases:\n{}", wrong.len(), wrong.join("\n"));
    let enough = inferred.iter().zip(INFERRED).all(|(got, least)| *got >= least);
    assert!(enough, "{inferred:?} outputs inferred; {INFERRED:?} were before");
}
