//! Runs a hot path a number of times, so that its instructions can be counted: `instructions NAME RUNS`.
//!
//! `bash tests/instructions` counts them with Valgrind, which has AVX2 and nothing wider, and compares the numbers with those in
//! `bounds.txt`. Without arguments, the program lists the paths; it fails if the processor lacks AVX2, because other kernels
//! would run.
//!
//! `instructions products` lists products, which run in the same way: `bash tests/instructions aarch64` counts them under QEMU.
//! `instructions save NAME FILE` writes the model of a product for other engines.
#![expect(clippy::unwrap_used, reason = "a test that is a program")]

mod products;

use bb::conformance::onnx::read_inputs;
use bb::ir::graph::{Dim, ValueType};
use bb::ir::proto::NodeProto;
use bb::onnx::OnnxValue;
use bb::{CompileOptions, DataType, Module, Port, Runtime, TensorData, Value};
use bb_tests::model::{model, node, typed, with_int, with_ints};
use products::PRODUCTS;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

/// A running backend.
type On = Arc<Runtime>;

/// Runs a path once.
type Run = Box<dyn FnMut()>;

/// A name, and the function that prepares the path.
type HotPath = (&'static str, fn(&On) -> Run);

/// The paths. Kernels are measured with single operators, so that each number has a clear origin.
const PATHS: [HotPath; 15] = [
    ("call", call),
    ("chain of 100 nodes", chain),
    ("compile", compile),
    ("decoder", |on| saved(on, "tiny_llama_fused_op23")),
    ("speech", |on| saved(on, "silero_vad_op16")),
    ("add", |on| operator(on, &[&[64, 1024], &[64, 1024]], node("Add", &["x0", "x1"], &["y"]))),
    ("exp", |on| operator(on, &[&[1 << 14]], node("Exp", &["x0"], &["y"]))),
    ("cast", |on| operator(on, &[&[1 << 14]], with_int(node("Cast", &["x0"], &["y"]), "to", 6))),
    ("softmax", |on| operator(on, &[&[64, 256]], node("Softmax", &["x0"], &["y"]))),
    ("layer norm", |on| {
        operator(on, &[&[64, 256], &[256]], node("LayerNormalization", &["x0", "x1"], &["y"]))
    }),
    ("sum of all", |on| operator(on, &[&[64, 1024]], node("ReduceSum", &["x0"], &["y"]))),
    ("transpose", |on| operator(on, &[&[128, 128]], node("Transpose", &["x0"], &["y"]))),
    ("matmul", |on| operator(on, &[&[128, 128], &[128, 128]], node("MatMul", &["x0", "x1"], &["y"]))),
    ("matmul of bytes", bytes),
    ("conv", |on| {
        let conv = with_ints(node("Conv", &["x0", "x1"], &["y"]), "pads", &[1, 1, 1, 1]);
        operator(on, &[&[1, 16, 28, 28], &[16, 16, 3, 3]], conv)
    }),
];

fn main() -> ExitCode {
    #[cfg(target_arch = "x86_64")]
    if !(is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("fma")
        && is_x86_feature_detected!("f16c"))
    {
        eprintln!("this processor, or Valgrind on it, has no AVX2");
        return ExitCode::FAILURE;
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match *arguments {
        [] => PATHS.iter().for_each(|(name, _)| println!("{name}")),
        ["products"] => PRODUCTS.iter().for_each(|(name, _)| println!("{name}")),
        ["save", name, file] => {
            let (_, model) = PRODUCTS.iter().find(|(product, _)| *product == name).unwrap();
            std::fs::write(file, model()).unwrap();
        }
        [name, runs] => {
            let on = bb_tests::backends::start("cpu").unwrap();
            let path = PATHS.iter().find(|(path, _)| *path == name).map(|(_, make)| make(&on));
            let product = || PRODUCTS.iter().find(|(product, _)| *product == name);
            let Some(mut run) = path.or_else(|| product().map(|(_, model)| product_on(&on, model()))) else {
                eprintln!("there is no path and no product `{name}`");
                return ExitCode::FAILURE;
            };
            (0..runs.parse().unwrap()).for_each(|_| run());
        }
        _ => {
            eprintln!("`NAME RUNS`, `products` or `save NAME FILE`");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

/// A model of one product, on inputs of the types that it declares.
fn product_on(on: &On, model: Vec<u8>) -> Run {
    let module = Module::from_bytes(model).unwrap();
    let plan = on.clone().compile(module.clone(), &CompileOptions::default()).unwrap();
    let input = |port: &Port| {
        let ValueType::Tensor { dtype, shape: Some(shape) } = &port.ty else {
            panic!("a tensor of known shape")
        };
        let shape: Vec<usize> = shape
            .iter()
            .map(|dim| match dim {
                Dim::Known(extent) => *extent,
                other => panic!("an extent that is known, and not {other:?}"),
            })
            .collect();
        let count: usize = shape.iter().product();
        match dtype {
            DataType::U8 => TensorData::new(&shape, &(0..count).map(|i| (i % 251) as u8).collect::<Vec<_>>()),
            DataType::I8 => TensorData::new(&shape, &(0..count).map(|i| (i % 127) as i8).collect::<Vec<_>>()),
            _ => Ok(floats(&shape)),
        }
    };
    let inputs = plan.inputs().iter().map(|port| input(port).unwrap()).collect();
    compiled(on, module, inputs)
}

/// An addition of two elements, as components call it.
fn call(_: &On) -> Run {
    let backends = bb::Backends::new([bb::backend("cpu").unwrap()]);
    let x = backends.constant(&floats(&[2])).unwrap();
    Box::new(move || drop(black_box(backends.add(&x, &x).unwrap())))
}

/// A plan of many small nodes, which cannot be fused because each value is an output.
fn chain(on: &On) -> Run {
    let names: Vec<String> = (0..=100).map(|i| format!("v{i}")).collect();
    let pairs = names.iter().zip(names.iter().skip(1));
    let nodes = pairs.map(|(from, to)| node("Neg", &[from], &[to])).collect();
    let outputs: Vec<(&str, &[i64])> = names.iter().skip(1).map(|name| (name.as_str(), &[4][..])).collect();
    compiled(on, Module::from_bytes(model(&[("v0", &[4])], nodes, &outputs)).unwrap(), vec![floats(&[4])])
}

/// Reading, checking and compiling a model, without a run.
fn compile(on: &On) -> Run {
    let (on, path) = (on.clone(), folder("tiny_llama_primitives_op17").join("model.onnx"));
    let read = std::fs::read(path).unwrap();
    Box::new(move || {
        let module = Module::from_bytes(read.clone()).unwrap();
        drop(black_box(on.clone().compile(module, &CompileOptions::default()).unwrap()));
    })
}

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data/models").join(name)
}

/// A model of the tests, on its inputs.
fn saved(on: &On, name: &str) -> Run {
    let folder = folder(name);
    let module = Module::load(folder.join("model.onnx")).unwrap();
    let plan = on.clone().compile(module, &CompileOptions::default()).unwrap();
    let read = read_inputs(&folder.join("test_data_set_0"), plan.inputs()).unwrap();
    let upload = |x: OnnxValue<TensorData>| x.try_map(&mut |x: &TensorData| on.constant(x)).unwrap();
    let inputs: Vec<Option<OnnxValue<Value>>> = read.into_iter().map(|x| x.map(upload)).collect();
    Box::new(move || drop(black_box(plan.run_items(&inputs).unwrap())))
}

/// A model of one operator on `f32` tensors `x0`, `x1`, …
fn operator(on: &On, shapes: &[&[usize]], node: NodeProto) -> Run {
    let names: Vec<String> = (0..shapes.len()).map(|i| format!("x{i}")).collect();
    let extents: Vec<Vec<i64>> =
        shapes.iter().map(|shape| shape.iter().map(|&extent| extent as i64).collect()).collect();
    let inputs: Vec<(&str, &[i64])> =
        names.iter().zip(&extents).map(|(name, extents)| (name.as_str(), extents.as_slice())).collect();
    let bytes = untyped(model(&inputs, vec![node], &[("y", &[])]));
    compiled(on, Module::from_bytes(bytes).unwrap(), shapes.iter().map(|shape| floats(shape)).collect())
}

/// Removes the declared type of the output, which follows from the operator.
fn untyped(bytes: Vec<u8>) -> Vec<u8> {
    let mut model: bb::ir::proto::ModelProto = prost::Message::decode(&*bytes).unwrap();
    model.graph.iter_mut().flat_map(|graph| &mut graph.output).for_each(|output| output.r#type = None);
    prost::Message::encode_to_vec(&model)
}

/// A product of unsigned and signed bytes.
fn bytes(on: &On) -> Run {
    let nodes = vec![node("MatMulInteger", &["x", "w"], &["y"])];
    let bytes = model(&[("x", &[128, 128]), ("w", &[128, 128])], nodes, &[("y", &[128, 128])]);
    let bytes = typed(bytes, &[("x", DataType::U8), ("w", DataType::I8), ("y", DataType::I32)]);
    let x: Vec<u8> = (0..128 * 128).map(|i| (i % 251) as u8).collect();
    let w: Vec<i8> = (0..128 * 128).map(|i| (i % 127) as i8).collect();
    let inputs = vec![TensorData::new(&[128, 128], &x).unwrap(), TensorData::new(&[128, 128], &w).unwrap()];
    compiled(on, Module::from_bytes(bytes).unwrap(), inputs)
}

fn floats(shape: &[usize]) -> TensorData {
    let count: usize = shape.iter().product();
    let elements: Vec<f32> = (0..count).map(|i| (i % 23) as f32 / 23.0 - 0.4).collect();
    TensorData::new(shape, &elements).unwrap()
}

fn compiled(on: &On, module: Module, inputs: Vec<TensorData>) -> Run {
    let plan = on.clone().compile(module, &CompileOptions::default()).unwrap();
    let inputs: Vec<Value> = inputs.iter().map(|x| on.constant(x).unwrap()).collect();
    Box::new(move || {
        let inputs: Vec<Option<&Value>> = inputs.iter().map(Some).collect();
        drop(black_box(plan.run(&inputs).unwrap()));
    })
}
