//! Tests inference on every case of the archive whose outputs are tensors. The inferred types must agree with the
//! outputs, whatever is known of the inputs, and contain at least what ONNX's own inference finds.

use super::cases;
use bb::Module;
use bb::conformance::onnx;
use bb::ir::graph::{Dim, ValueType};
use bb::ir::proto::{
    GraphProto, ModelProto, ValueInfoProto, tensor_shape_proto::dimension::Value as Extent,
    type_proto::Value as Kind,
};
use bb::{DataType, Limits, TensorData};
use prost::Message;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The information about the inputs of a case that inference gets.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Told {
    /// Their declared types.
    Declared,
    /// Shapes with a different name for each extent.
    Names,
    /// Shapes with a name per extent, the same for equal extents.
    NamesByExtent,
    /// Their declared types, and the elements of small inputs except the first.
    Contents,
}

/// The least number of outputs whose extents are all inferred.
const INFERRED: [(Told, usize); 4] =
    [(Told::Declared, 2746), (Told::Names, 2336), (Told::NamesByExtent, 2658), (Told::Contents, 3077)];

/// Returns the model without declarations, except the declarations of its inputs, which `told` chooses. Also returns the
/// values of the names.
fn model(
    case: &Path,
    told: Told,
    given: &[TensorData],
) -> Result<(ModelProto, HashMap<String, usize>), String> {
    let bytes = std::fs::read(case.join("model.onnx")).map_err(|e| e.to_string())?;
    let mut model = ModelProto::decode(&*bytes).map_err(|e| e.to_string())?;
    let mut names = HashMap::new();
    let Some(graph) = &mut model.graph else { return Ok((model, names)) };
    graph.value_info.clear();
    graph.output.iter_mut().for_each(|output| output.r#type = None);
    // A caller may override an initializer that is also an input, so it would not be a constant.
    let constants: HashSet<String> = graph.initializer.iter().map(|t| t.name().to_owned()).collect();
    graph.input.retain(|input| !constants.contains(input.name()));
    model.ir_version = Some(10);
    match told {
        Told::Declared => {}
        Told::Names => name(graph, given, &mut names, |input, axis, _| format!("d{input}_{axis}")),
        Told::NamesByExtent => name(graph, given, &mut names, |_, _, extent| format!("s{extent}")),
        Told::Contents => fix(graph, given),
    }
    Ok((model, names))
}

fn name(
    graph: &mut GraphProto,
    given: &[TensorData],
    names: &mut HashMap<String, usize>,
    call: impl Fn(usize, usize, usize) -> String,
) {
    for (i, (input, tensor)) in graph.input.iter_mut().zip(given).enumerate() {
        let Some(Kind::TensorType(ty)) = input.r#type.as_mut().and_then(|t| t.value.as_mut()) else {
            continue;
        };
        let dims = ty.shape.iter_mut().flat_map(|s| &mut s.dim).zip(tensor.shape());
        for (j, (dim, &extent)) in dims.enumerate() {
            let name = call(i, j, extent);
            dim.value = Some(Extent::DimParam(name.clone()));
            names.insert(name, extent);
        }
    }
}

/// Turns small inputs into constants, as parameters usually are.
fn fix(graph: &mut GraphProto, given: &[TensorData]) {
    let mut first = true;
    let mut given = given.iter();
    graph.input.retain(|input| {
        let (Some(tensor), false) = (given.next(), std::mem::take(&mut first)) else { return true };
        let few = tensor.len() <= if tensor.dtype().is_float() { 16 } else { 256 };
        let name = input.name();
        if !few || tensor.dtype() == DataType::String {
            return true;
        }
        graph.initializer.push(tensor.to_proto(name));
        false
    });
}

/// Returns the extent of a dimension; `None` if it is unknown.
fn extent(dim: &Dim, names: &HashMap<String, usize>) -> Option<i64> {
    dim.formula()?.value(&|name| names.get(name).and_then(|n| i64::try_from(*n).ok()))
}

/// Compares an inferred type with an output. Returns whether every extent was inferred.
fn agrees(ty: &ValueType, got: &TensorData, names: &HashMap<String, usize>) -> Result<bool, String> {
    let ValueType::Tensor { dtype, shape } = ty else { return Ok(false) };
    let wrong = || format!("inferred {ty:?}, but {}{:?} came", got.dtype(), got.shape());
    // Releases of ONNX up to 1.14 wrote bfloat16 as `u16`.
    let bits = *dtype == DataType::BF16 && got.dtype() == DataType::U16;
    if *dtype != got.dtype() && !bits {
        return Err(wrong());
    }
    let Some(dims) = shape else { return Ok(false) };
    if dims.len() != got.shape().len() {
        return Err(wrong());
    }
    let mut all = true;
    for (dim, came) in dims.iter().zip(got.shape()) {
        match extent(dim, names) {
            Some(n) if usize::try_from(n) != Ok(*came) => return Err(wrong()),
            Some(_) => {}
            None => all = false,
        }
    }
    Ok(all)
}

fn inferred(model: &ModelProto, case: &Path) -> Result<Module, String> {
    let module = Module::from_bytes_in(model.encode_to_vec(), case, &Limits::default());
    module.map_err(|e| super::chain(&e))
}

/// Counts the outputs of a case whose extents are inferred.
fn count(case: &Path, told: Told) -> Result<usize, String> {
    let data = case.join("test_data_set_0");
    // Values that are not tensors have no extents.
    let (Ok(given), Ok(expected)) = (onnx::read_tensors(&data, "input"), onnx::read_tensors(&data, "output"))
    else {
        return Ok(0);
    };
    let (model, names) = model(case, told, &given)?;
    let module = inferred(&model, case)?;
    let graph = module.graph();
    let mut count = 0;
    for (value, got) in graph.outputs.iter().zip(&expected) {
        let ty = graph.values.get(value.index()).map(|v| &v.ty).ok_or("a value")?;
        count += usize::from(agrees(ty, got, &names)?);
    }
    Ok(count)
}

#[test]
fn inferred_extents_equal_those_of_the_outputs() {
    let (mut wrong, mut counts) = (Vec::new(), [0; 4]);
    for (name, case) in cases("") {
        for ((told, _), sum) in INFERRED.into_iter().zip(&mut counts) {
            match count(&case, told) {
                Ok(count) => *sum += count,
                Err(problem) => wrong.push(format!("{name} ({told:?}): {problem}")),
            }
        }
    }
    assert!(wrong.is_empty(), "{} cases:\n{}", wrong.len(), wrong.join("\n"));
    let enough = counts.iter().zip(INFERRED).all(|(got, (_, least))| *got >= least);
    assert!(enough, "{counts:?} outputs inferred; {INFERRED:?} were before");
}

/// Compares ONNX's inference with ours.
struct Beside<'a> {
    names: &'a HashMap<String, usize>,
    /// The names in the inputs' shapes; ONNX makes up other names for unknown extents.
    own: HashSet<&'a str>,
}

impl Beside<'_> {
    /// Returns an error if our type lacks or contradicts something that ONNX inferred.
    fn compare(&self, theirs: &ValueInfoProto, ours: &ValueType) -> Result<(), String> {
        let Some(Kind::TensorType(ty)) = theirs.r#type.as_ref().and_then(|t| t.value.as_ref()) else {
            return Ok(());
        };
        let Some(dtype) = DataType::from_onnx(ty.elem_type()) else { return Ok(()) };
        let problem = |what: &str| Err(format!("`{}` {what}: {ours:?}", theirs.name()));
        let ValueType::Tensor { dtype: own, shape } = ours else { return problem("has no type") };
        if *own != dtype {
            return problem(&format!("is {dtype}"));
        }
        let Some(dims) = &ty.shape else { return Ok(()) };
        let Some(shape) = shape else { return problem("has no rank") };
        if dims.dim.len() != shape.len() {
            return problem(&format!("has rank {}", dims.dim.len()));
        }
        for (axis, (theirs, ours)) in dims.dim.iter().zip(shape).enumerate() {
            let expected = match &theirs.value {
                Some(Extent::DimValue(n)) if matches!(ours, Dim::Known(_)) => *n,
                Some(Extent::DimValue(n)) => return problem(&format!("has the extent {n} at {axis}")),
                Some(Extent::DimParam(name)) if self.own.contains(name.as_str()) => {
                    self.names.get(name).and_then(|n| i64::try_from(*n).ok()).unwrap_or_default()
                }
                _ => continue,
            };
            if extent(ours, self.names) != Some(expected) {
                return problem(&format!("has the extent {expected} at {axis}"));
            }
        }
        Ok(())
    }
}

/// Types that ONNX infers wrongly or without proof, by case and by the given facts about the inputs, with the
/// reason.
const ONNX_ALONE: &[(&str, Told, &str)] = &[
    (
        "test_attention_",
        Told::NamesByExtent,
        "ONNX takes 0 for what is computed from extents that have names",
    ),
    (
        "test_stft",
        Told::Contents,
        "ONNX counts the bins of both sides where `onesided` is left out, whose default is 1",
    ),
    ("test_scan9_", Told::NamesByExtent, BODIES),
    ("test_loop11", Told::Declared, BODIES),
    ("test_loop11", Told::NamesByExtent, BODIES),
    ("test_loop11", Told::Contents, BODIES),
];

/// Reason why ONNX infers more about the results of control flow.
const BODIES: &str = "ONNX takes what a body declares for the truth; here it is a claim, which may be wrong";

#[test]
fn inference_is_as_strong_as_that_of_onnx() {
    let python = std::env::var("BB_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let there = Command::new(&python).args(["-c", "import onnx"]).output();
    if !there.is_ok_and(|o| o.status.success()) {
        println!("skipped: {python} has no package `onnx`, whose inference would be compared");
        return;
    }
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("inferred");
    // Files of an earlier run must not be mistaken for files of this one.
    let _absent = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    let mut written = Vec::new();
    for (name, case) in cases("") {
        let Ok(given) = onnx::read_tensors(&case.join("test_data_set_0"), "input") else { continue };
        for told in [Told::Declared, Told::NamesByExtent, Told::Contents] {
            let Ok((model, names)) = model(&case, told, &given) else { continue };
            let file = folder.join(format!("{}.onnx", written.len()));
            std::fs::write(&file, model.encode_to_vec()).unwrap();
            written.push((
                format!("{name} ({told:?})"),
                told,
                case.clone(),
                model,
                names,
                file.with_extension("inferred"),
            ));
        }
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/conformance/onnx_cases/infer.py");
    let output = Command::new(&python).arg(script).arg(&folder).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let (mut compared, mut less) = (0, Vec::new());
    for (name, told, case, model, names, file) in &written {
        let Ok(bytes) = std::fs::read(file) else { continue };
        let theirs = ModelProto::decode(&*bytes).unwrap().graph.unwrap_or_default();
        let module = match inferred(model, case) {
            Ok(module) => module,
            Err(problem) => {
                less.push(format!("{name}: refused: {problem}"));
                continue;
            }
        };
        let graph = module.graph();
        let ours: HashMap<&str, &ValueType> = graph.values.iter().map(|v| (v.name.as_str(), &v.ty)).collect();
        let beside = Beside { names, own: names.keys().map(String::as_str).collect() };
        for value in theirs.value_info.iter().chain(&theirs.output) {
            let Some(ty) = ours.get(value.name()) else { continue };
            compared += 1;
            if let Err(problem) = beside.compare(value, ty)
                && !ONNX_ALONE.iter().any(|(case, when, _)| name.contains(case) && when == told)
            {
                less.push(format!("{name}: {problem}"));
            }
        }
    }
    println!("{}{compared} values compared", String::from_utf8_lossy(&output.stdout));
    assert!(less.is_empty(), "{} values:\n{}", less.len(), less.join("\n"));
}
