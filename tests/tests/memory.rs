//! Tests that a lack of memory is an error, wherever it occurs in an operator.
//!
//! A test starts this program again in an address space of 2 GiB. There, an operator runs with too little memory for its
//! first allocation, then with somewhat more, and so on until it succeeds: each allocation of the size of a tensor
//! fails once.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use bb::ir::proto::{ModelProto, OperatorSetIdProto};
use bb::{BackendHandle, CompileOptions, DataType, Error, Module, TensorData, Value};
use bb_tests::{backends, capped, model};
use prost::Message;

/// The number of elements of each operand.
const COUNT: usize = 1 << 19;

/// By how much the memory grows. It is less than any tensor of an operator, so that each allocation fails once, and it
/// leaves room for small allocations, which the standard library does not report.
const STEP: usize = 3 << 19;

/// Names the backend in the environment of the process with little memory.
const BACKEND: &str = "BB_MEMORY_BACKEND";

/// An operator, its operands, and the element type of its result.
struct Case {
    node: bb::ir::proto::NodeProto,
    inputs: Vec<TensorData>,
    output: DataType,
}

fn case(op: &str, inputs: Vec<TensorData>, output: DataType) -> Case {
    let names: Vec<String> = (0..inputs.len()).map(|i| format!("x{i}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let results: &[&str] = if op == "StringSplit" { &["y", "counts"] } else { &["y"] };
    Case { node: model::node(op, &names, results), inputs, output }
}

impl Case {
    fn ints(mut self, name: &str, values: &[i64]) -> Case {
        self.node = model::with_ints(self.node, name, values);
        self
    }

    fn int(mut self, name: &str, value: i64) -> Case {
        self.node = model::with_int(self.node, name, value);
        self
    }

    fn text(mut self, name: &str, value: &str) -> Case {
        self.node.attribute.push(bb::ir::proto::AttributeProto {
            name: Some(name.to_owned()),
            r#type: Some(bb::ir::proto::attribute_proto::AttributeType::String as i32),
            s: Some(value.as_bytes().to_vec()),
            ..Default::default()
        });
        self
    }

    fn domain(mut self, domain: &str) -> Case {
        self.node.domain = Some(domain.to_owned());
        self
    }

    fn module(&self) -> Module {
        let unknown = |x: &TensorData| vec![-1i64; x.shape().len()];
        let shapes: Vec<Vec<i64>> = self.inputs.iter().map(unknown).collect();
        let names: Vec<String> = (0..self.inputs.len()).map(|i| format!("x{i}")).collect();
        let declared: Vec<(&str, &[i64])> =
            names.iter().zip(&shapes).map(|(name, shape)| (name.as_str(), shape.as_slice())).collect();
        let mut types: Vec<(&str, DataType)> =
            names.iter().zip(&self.inputs).map(|(name, x)| (name.as_str(), x.dtype())).collect();
        types.push(("y", self.output));
        let bytes = model::model(&declared, vec![self.node.clone()], &[("y", &[-1])]);
        let mut model = ModelProto::decode(&*model::typed(bytes, &types)).unwrap();
        for (domain, version) in [("ai.onnx.ml", 3), ("com.microsoft", 1)] {
            let opset = OperatorSetIdProto { domain: Some(domain.to_owned()), version: Some(version) };
            model.opset_import.push(opset);
        }
        Module::from_bytes(model.encode_to_vec()).unwrap()
    }
}

fn cases() -> Vec<Case> {
    use DataType::{Bool, F32, F64, I32, I64, String, U32};
    let reals = || TensorData::new(&[1024, COUNT / 1024], &vec![1.5f64; COUNT]).unwrap();
    let row = || TensorData::new(&[COUNT], &vec![1.5f64; COUNT]).unwrap();
    let floats = |shape: &[usize]| TensorData::new(shape, &vec![0.5f32; shape.iter().product()]).unwrap();
    let ints =
        |shape: &[usize], value: i64| TensorData::new(shape, &vec![value; shape.iter().product()]).unwrap();
    let truths = || TensorData::bools(&[COUNT], &vec![true; COUNT]).unwrap();
    let texts = || TensorData::strings(&[COUNT / 4], &vec!["some words here"; COUNT / 4]).unwrap();
    let list = |values: &[i64]| TensorData::new(&[values.len()], values).unwrap();
    vec![
        case("Neg", vec![reals()], F64),
        case("Add", vec![reals(), reals()], F64),
        case("Sqrt", vec![reals()], F64),
        case("Pow", vec![reals(), reals()], F64),
        case("Less", vec![reals(), reals()], Bool),
        case("Where", vec![truths(), row(), row()], F64),
        case("Cast", vec![reals()], F32).int("to", 1),
        case("Concat", vec![reals(), reals()], F64).int("axis", 1),
        case("Gather", vec![row(), ints(&[COUNT], 1)], F64),
        case("Transpose", vec![reals()], F64),
        case("Reshape", vec![reals(), list(&[COUNT as i64])], F64),
        case("ReduceSum", vec![reals(), list(&[1])], F64),
        case("CumSum", vec![reals(), list(&[1]).reshaped(&[]).unwrap()], F64),
        case("MatMul", vec![floats(&[1024, 512]), floats(&[512, 1024])], F32),
        case("Expand", vec![reals(), list(&[2, 1024, 512])], F64),
        case("Tile", vec![row(), list(&[2])], F64),
        case("Pad", vec![row(), list(&[1, 1])], F64),
        case("Conv", vec![floats(&[1, 1, 512, 512]), floats(&[1, 1, 3, 3])], F32),
        case("ConvTranspose", vec![floats(&[1, 1, 256, 256]), floats(&[1, 1, 3, 3])], F32)
            .ints("strides", &[2, 2]),
        case("MaxPool", vec![floats(&[1, 1, 512, 512])], F32).ints("kernel_shape", &[3, 3]),
        case("Softmax", vec![reals()], F64),
        case("Mod", vec![row(), row()], F64).int("fmod", 1),
        case("BitwiseAnd", vec![ints(&[COUNT], 1), ints(&[COUNT], 3)], I64),
        case("BitwiseNot", vec![ints(&[COUNT], 1)], I64),
        case("ScatterElements", vec![row(), ints(&[COUNT], 1), row()], F64),
        case("ScatterND", vec![row(), ints(&[COUNT, 1], 1), row()], F64),
        case("GatherElements", vec![row(), ints(&[COUNT], 1)], F64),
        case("NonZero", vec![row()], I64),
        case("Compress", vec![row(), truths()], F64),
        case("Unique", vec![row()], F64),
        case("OneHot", vec![ints(&[1024], 1), list(&[1024]), floats(&[2])], F32),
        case("RandomNormalLike", vec![reals()], F64),
        case("Multinomial", vec![floats(&[1, COUNT])], I32).int("sample_size", COUNT as i64),
        case(
            "Resize",
            vec![
                floats(&[1024, 512]),
                TensorData::new(&[0], &[0f32; 0]).unwrap(),
                TensorData::new(&[2], &[1f32, 2.0]).unwrap(),
            ],
            F32,
        )
        .text("mode", "linear"),
        case("StringConcat", vec![texts(), texts()], String),
        case("StringNormalizer", vec![texts()], String).text("case_change_action", "UPPER"),
        case("RegexFullMatch", vec![texts()], Bool).text("pattern", ".*here"),
        case("StringSplit", vec![texts()], String),
        case("LabelEncoder", vec![ints(&[COUNT], 1)], I64)
            .domain("ai.onnx.ml")
            .ints("keys_int64s", &[1])
            .ints("values_int64s", &[2]),
        case("MurmurHash3", vec![ints(&[COUNT], 1)], U32).domain("com.microsoft"),
    ]
}

/// Returns the size of this process's address space.
fn size() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    pages.split(' ').next().unwrap().parse::<usize>().unwrap() * 4096
}

/// Takes all of the address space but `left` bytes.
fn ballast(left: usize) -> Vec<u8> {
    let mut ballast = Vec::new();
    ballast.try_reserve_exact((capped::SPACE - size()).saturating_sub(left)).unwrap();
    ballast
}

fn is_memory(error: &(dyn std::error::Error + 'static)) -> bool {
    let text = error.to_string();
    text.contains("memory") || error.source().is_some_and(is_memory)
}

/// Runs a case with ever more memory; returns how often there was too little.
fn run(handle: &BackendHandle, case: &Case) -> usize {
    let name = case.node.op_type();
    let module = case.module();
    let inputs: Vec<Value> = case.inputs.iter().map(|x| handle.runtime().constant(x).unwrap()).collect();
    let inputs: Vec<Option<&Value>> = inputs.iter().map(Some).collect();
    let plan = handle.compile(module, &CompileOptions::default()).unwrap();
    let computed = || plan.run(&inputs).and_then(|results| handle.to_host(&results[0]));
    for failures in 0..100 {
        let ballast = ballast(STEP * (failures + 1));
        let result = computed();
        drop(ballast);
        match result {
            Ok(_) => return failures,
            Err(error) => {
                assert!(is_memory(&error) && !matches!(error, Error::Panicked { .. }), "{name}: {error:?}")
            }
        }
    }
    panic!("{name} never has enough memory");
}

/// Does nothing, unless the environment says that this process has little memory.
#[test]
fn with_little_memory() {
    let Ok(backend) = std::env::var(BACKEND) else { return };
    let handle = BackendHandle::new(backends::start(&backend).unwrap());
    // Starts the threads of the backend.
    let many = TensorData::new(&[COUNT], &vec![1f32; COUNT]).unwrap();
    let many = handle.runtime().constant(&many).unwrap();
    drop(handle.neg(&many).unwrap());
    for case in cases() {
        // The last printed line shows where the process ended.
        println!("{} on {backend}", case.node.op_type());
        let (start, failures) = (std::time::Instant::now(), run(&handle, &case));
        println!("{failures} failures in {:?}", start.elapsed());
    }
    println!("all cases of {backend} ran");
}

#[test]
fn a_lack_of_memory_is_an_error_in_every_operator() {
    for backend in ["cpu", "reference", "whole-graph"] {
        let args = ["--exact", "with_little_memory", "--nocapture", "--test-threads=1"];
        // Without these, the allocator keeps memory that was freed.
        let settings =
            [("MALLOC_MMAP_THRESHOLD_", "65536"), ("MALLOC_TOP_PAD_", "262144"), (BACKEND, backend)];
        let out = capped::run(&args, &settings).unwrap_or_else(|report| panic!("{report}"));
        assert!(out.contains(&format!("all cases of {backend} ran")), "{out}");
    }
}
