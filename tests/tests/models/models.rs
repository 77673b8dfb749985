//! Runs whole, real models on every backend.
#![expect(clippy::unwrap_used, reason = "tests")]

use bb::Module;
use bb::conformance::onnx;
use bb::ir::graph::{Dim, Graph, ValueType};
use bb::ir::proto::{ModelProto, tensor_shape_proto::dimension::Value as Extent, type_proto::Value as Kind};
use bb_tests::backends;
use prost::Message;
use std::path::PathBuf;

/// Runs a model from `tests/data/models` on every backend and compares the outputs with ONNX Runtime's.
fn passes_everywhere(model: &str) {
    let case = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("data/models").join(model);
    for name in backends::NAMES {
        let on = backends::start(name).unwrap();
        onnx::run(&case, &on).unwrap_or_else(|failure| panic!("{model} on {name}: {failure:?}"));
    }
}

#[test]
fn tiny_llama_of_primitives() {
    passes_everywhere("tiny_llama_primitives_op17");
}

#[test]
fn magika() {
    passes_everywhere("magika");
}

#[test]
fn tiny_llama_of_fused_operators() {
    passes_everywhere("tiny_llama_fused_op23");
}

#[test]
fn attacut() {
    passes_everywhere("attacut_sc");
}

#[test]
fn surfaces_gbr() {
    passes_everywhere("surfaces_gbr");
}

#[test]
fn basic_pitch() {
    passes_everywhere("basic_pitch");
}

#[test]
fn silero_vad() {
    passes_everywhere("silero_vad_op16");
}

#[test]
fn random_forest() {
    passes_everywhere("skl_random_forest");
}

#[test]
fn models_that_declare_wrong_shapes() {
    passes_everywhere("skl_pls");
    passes_everywhere("skl_ovo");
}

#[test]
fn wrong_declarations_are_reported() {
    let told = |file: &str| {
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("data").join(file);
        let module = Module::load(path).unwrap();
        module.warnings().iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let unused = "the declaration is not used";
    assert_eq!(
        told("models/skl_pls/model.onnx"),
        [format!("value `variable` is declared as f32[?, 10], but is f32[?, 1]; {unused}")]
    );
    assert_eq!(
        told("models/skl_ovo/model.onnx"),
        [format!("value `output_label` is declared as i64[?], but is i64[?, 1]; {unused}")]
    );
    assert_eq!(
        told("declarations/valinfo_wrong.onnx"),
        [format!("value `a` is declared as f32[N, 7], but is f32[N, 2]; {unused}")]
    );
    assert_eq!(told("models/skl_random_forest/model.onnx"), [""; 0]);
}

/// Returns the model without declarations, except the declarations of its inputs. Unknown extents of the inputs get names.
fn open(model: &str) -> Module {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("data/models").join(model).join("model.onnx");
    let mut model = ModelProto::decode(&*std::fs::read(path).unwrap()).unwrap();
    let graph = model.graph.as_mut().unwrap();
    graph.value_info.clear();
    graph.output.iter_mut().for_each(|output| output.r#type = None);
    let mut count = 0;
    for input in &mut graph.input {
        let Some(Kind::TensorType(ty)) = input.r#type.as_mut().and_then(|t| t.value.as_mut()) else {
            continue;
        };
        for dim in ty.shape.iter_mut().flat_map(|s| &mut s.dim).filter(|d| d.value.is_none()) {
            count += 1;
            dim.value = Some(Extent::DimParam(format!("open_{count}")));
        }
    }
    Module::from_bytes(model.encode_to_vec()).unwrap()
}

/// Returns the number of values that nodes make, and how many of them have a type whose extents are all known
/// or dim expressions.
fn inferred(graph: &Graph) -> (usize, usize) {
    let full = |ty: &ValueType| match ty {
        ValueType::Tensor { shape: Some(dims), .. } => dims.iter().all(|dim| *dim != Dim::Unknown),
        _ => false,
    };
    let made = graph.nodes.iter().flat_map(|node| node.outputs.iter().flatten());
    let types = made.filter_map(|value| graph.values.get(value.index())).map(|v| full(&v.ty));
    types.fold((0, 0), |(all, known), full| (all + 1, known + usize::from(full)))
}

#[test]
fn extents_inside_models_are_inferred_before_inputs_arrive() {
    // In each layer of the decoder, two values have the length of both the mask and the cache, which must be
    // equal but are not known to be. The branches of the voice detector return different ranks.
    let known = [
        ("attacut_sc", (23, 23)),
        ("basic_pitch", (248, 248)),
        ("magika", (95, 95)),
        ("silero_vad_op16", (6, 2)),
        ("skl_random_forest", (2, 2)),
        ("surfaces_gbr", (11, 11)),
        ("tiny_llama_fused_op23", (61, 61)),
        ("tiny_llama_primitives_op17", (156, 148)),
    ];
    for (model, expected) in known {
        assert_eq!(inferred(open(model).graph()), expected, "{model}");
    }
}

#[test]
fn every_committed_model_is_tested() {
    let cases = onnx::find(&PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("data/models")).unwrap();
    let names: Vec<_> = cases.iter().map(|case| case.file_name().unwrap().to_str().unwrap()).collect();
    assert_eq!(
        names,
        [
            "attacut_sc",
            "basic_pitch",
            "magika",
            "silero_vad_op16",
            "skl_ovo",
            "skl_pls",
            "skl_random_forest",
            "surfaces_gbr",
            "tiny_llama_fused_op23",
            "tiny_llama_primitives_op17"
        ]
    );
}
