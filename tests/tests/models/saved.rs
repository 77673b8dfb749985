//! Tests that compiled models come back from files as they were, and that damaged and forged files are refused or harmless.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use bb::ir::proto::{GraphProto, NodeProto};
use bb::{
    BackendHandle, CompileOptions, ErasedExecutable, Error, FileAccess, Limits, Module, TensorData, Value,
};
use bb_tests::backends;
use bb_tests::model::{ints, model, node, serialized, value, with_graph};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The backends whose plans are `bb`'s.
const PLANNED: [&str; 3] = ["cpu", "reference", "whole-graph"];

/// A folder that goes when the test ends.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("bb-saved-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn file(&self) -> PathBuf {
        self.0.join("model.bb")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _gone = fs::remove_dir_all(&self.0);
    }
}

fn start(name: &str) -> BackendHandle {
    BackendHandle::new(backends::start(name).unwrap())
}

fn compile(on: &BackendHandle, module: Module) -> Result<Arc<dyn ErasedExecutable>, Error> {
    on.compile(module, &CompileOptions::default())
}

fn run(graph: &dyn ErasedExecutable, inputs: &[Value]) -> Result<Vec<TensorData>, Error> {
    let given: Vec<Option<&Value>> = inputs.iter().map(Some).collect();
    graph.run(&given)?.iter().map(|y| y.to_host(1 << 20)).collect()
}

/// `y = relu(x · w + b)` for any number of rows, with weights, and a shape that is computed from the input's.
fn layers() -> Vec<u8> {
    let constant = |name: &str, shape: &[usize], n: usize| {
        let numbers: Vec<f32> = (0..n).map(|i| (i as f32 - 5.0) / 4.0).collect();
        TensorData::new(shape, &numbers).unwrap().to_proto(name)
    };
    serialized(GraphProto {
        name: Some("layers".to_owned()),
        input: vec![value("x", 1, &["rows", "4"])],
        output: vec![value("y", 1, &["?"])],
        initializer: vec![constant("w", &[4, 3], 12), constant("b", &[3], 3)],
        node: vec![
            node("MatMul", &["x", "w"], &["p"]),
            node("Add", &["p", "b"], &["s"]),
            node("Relu", &["s"], &["r"]),
            node("Shape", &["x"], &["shape"]),
            ints("three", &[3]),
            ints("zero", &[0]),
            node("Gather", &["shape", "zero"], &["rows"]),
            node("Mul", &["rows", "three"], &["all"]),
            node("Reshape", &["r", "all"], &["y"]),
        ],
        ..GraphProto::default()
    })
}

/// A loop that cannot be unrolled, whose plans are not saved.
fn repeated() -> Vec<u8> {
    let body = vec![node("Add", &["v", "x"], &["next"]), node("Identity", &["go"], &["on"])];
    let holder = node("Loop", &["count", "", "x"], &["y"]);
    let looped = with_graph(holder, "body", &["i", "go", "v"], body, &["on", "next"]);
    let nodes = vec![
        node("ReduceMax", &["x"], &["most"]),
        with_cast("most", "whole"),
        ints("one", &[1]),
        node("Reshape", &["whole", "one"], &["count"]),
        looped,
    ];
    model(&[("x", &[2])], nodes, &[("y", &[2])])
}

fn with_cast(from: &str, to: &str) -> NodeProto {
    bb_tests::model::with_int(node("Cast", &[from], &[to]), "to", 7)
}

#[test]
fn a_compiled_model_comes_back_with_the_same_results() {
    for name in PLANNED {
        let folder = Folder::new(&format!("same-{name}"));
        let on = start(name);
        let inputs = |rows: usize| {
            let numbers: Vec<f32> = (0..rows * 4).map(|i| (i as f32 * 0.7).sin()).collect();
            vec![on.tensor(&[rows, 4], &numbers).unwrap()]
        };
        let original = compile(&on, Module::from_bytes(layers()).unwrap()).unwrap();
        let expected: Vec<Vec<TensorData>> =
            [2, 5, 1].map(|rows| run(&*original, &inputs(rows)).unwrap()).into();
        original.save(&folder.file()).unwrap();
        for access in [FileAccess::Map, FileAccess::Read] {
            let limits = Limits { file_access: access, ..Limits::default() };
            let module = Module::load_with(folder.file(), &limits).unwrap();
            let loaded = compile(&on, module).unwrap();
            assert_eq!((loaded.inputs(), loaded.outputs()), (original.inputs(), original.outputs()));
            // The last kind of inputs was not met before.
            for (rows, expected) in [2, 5, 1].into_iter().zip(&expected) {
                assert_eq!(run(&*loaded, &inputs(rows)).unwrap(), *expected, "{name}");
            }
            assert_eq!(run(&*loaded, &inputs(7)).unwrap(), run(&*original, &inputs(7)).unwrap());
            // A loaded graph can be saved again, even if none of the file's plans is in use any more.
            loaded.save(&folder.file()).unwrap();
        }
    }
}

#[test]
fn plans_that_are_not_saved_are_made_again() {
    for name in PLANNED {
        let folder = Folder::new(&format!("loop-{name}"));
        let on = start(name);
        let original = compile(&on, Module::from_bytes(repeated()).unwrap()).unwrap();
        let x = vec![on.tensor(&[2], &[1f32, 3.0]).unwrap()];
        // By definition: x is added three times.
        let expected = [4.0, 12.0];
        let floats = |y: &[TensorData]| y.first().unwrap().as_slice::<f32>().unwrap().to_vec();
        assert_eq!(floats(&run(&*original, &x).unwrap()), expected);
        original.save(&folder.file()).unwrap();
        let loaded = compile(&on, Module::load(folder.file()).unwrap()).unwrap();
        assert_eq!(floats(&run(&*loaded, &x).unwrap()), expected, "{name}");
    }
}

/// The branches of `If` have values of the same names, and the condition is an input, on whose value a plan depends.
#[test]
fn plans_of_both_branches_come_back() {
    let branch = |op: &str| vec![node(op, &["x"], &["inner"]), node("Exp", &["inner"], &["result"])];
    let chosen = |holder: NodeProto| {
        let holder = with_graph(holder, "then_branch", &[], branch("Neg"), &["result"]);
        with_graph(holder, "else_branch", &[], branch("Abs"), &["result"])
    };
    let source = serialized(GraphProto {
        name: Some("choice".to_owned()),
        input: vec![value("which", 9, &[]), value("x", 1, &["2"])],
        output: vec![value("y", 1, &["2"])],
        node: vec![
            chosen(node("If", &["which"], &["first"])),
            chosen(node("If", &["which"], &["second"])),
            node("Add", &["first", "second"], &["y"]),
        ],
        ..GraphProto::default()
    });
    for name in PLANNED {
        let folder = Folder::new(&format!("branches-{name}"));
        let on = start(name);
        let inputs = |which: bool| {
            let which = on.runtime().constant(&TensorData::bools(&[], &[which]).unwrap()).unwrap();
            vec![which, on.tensor(&[2], &[1f32, -2.0]).unwrap()]
        };
        let original = compile(&on, Module::from_bytes(source.clone()).unwrap()).unwrap();
        let expected = [true, false].map(|which| run(&*original, &inputs(which)).unwrap());
        original.save(&folder.file()).unwrap();
        let loaded = compile(&on, Module::load(folder.file()).unwrap()).unwrap();
        for (which, expected) in [true, false, true].into_iter().zip(expected.iter().cycle()) {
            let got = run(&*loaded, &inputs(which)).unwrap();
            assert_eq!(got, *expected, "{name}");
            // By definition: e^-x or e^|x|, twice.
            let exponents = if which { [-1f32, 2.0] } else { [1.0, 2.0] };
            let got = got.first().unwrap().as_slice::<f32>().unwrap().to_vec();
            let near = |(y, x): (&f32, f32)| (y - 2.0 * x.exp()).abs() < 1e-5;
            assert!(got.iter().zip(exponents).all(near), "{name}: {got:?}");
        }
    }
}

/// Saves the layers with a plan, and returns the bytes.
fn saved(on: &BackendHandle, folder: &Folder) -> Vec<u8> {
    let graph = compile(on, Module::from_bytes(layers()).unwrap()).unwrap();
    run(&*graph, &[on.tensor(&[2, 4], &[0.5f32; 8]).unwrap()]).unwrap();
    graph.save(&folder.file()).unwrap();
    fs::read(folder.file()).unwrap()
}

fn innermost(error: &Error) -> String {
    let first: &dyn std::error::Error = error;
    std::iter::successors(Some(first), |error| error.source()).last().unwrap().to_string()
}

#[test]
fn a_file_for_another_backend_or_version_is_refused_with_what_differs() {
    let folder = Folder::new("other");
    let bytes = saved(&start("cpu"), &folder);
    let module = Module::load(folder.file()).unwrap();
    let refused = compile(&start("reference"), module.clone()).map(drop).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "the compiled model is for another backend: expected `reference`, got `cpu`"
    );
    assert!(compile(&start("cpu"), module.clone()).is_ok());
    // Other outputs make another graph, which any backend may compile.
    assert!(compile(&start("reference"), module.with_outputs(&["p"]).unwrap()).is_ok());
    let load = |bytes: &[u8]| {
        fs::write(folder.file(), bytes).unwrap();
        innermost(&Module::load(folder.file()).map(drop).unwrap_err())
    };
    let mut newer = bytes.clone();
    newer[8] = 2;
    assert_eq!(load(&newer), "the compiled model has version 2 of the format; expected 1");
    assert_eq!(
        load(&bytes[..bytes.len() - 1]),
        format!("the compiled model has {} bytes; expected {}", bytes.len() - 1, bytes.len())
    );
}

#[test]
fn a_backend_that_compiles_itself_saves_nothing() {
    let folder = Folder::new("device");
    let on = start("device");
    let graph = compile(&on, Module::from_bytes(layers()).unwrap()).unwrap();
    match graph.save(&folder.file()) {
        Ok(()) => assert!(compile(&on, Module::load(folder.file()).unwrap()).is_ok()),
        Err(error) => assert!(matches!(error, Error::NotSaved { .. }), "{error}"),
    }
}

/// Loads, compiles and runs a file; returns the results.
fn use_file(on: &BackendHandle, path: &Path) -> Result<Vec<TensorData>, Error> {
    let graph = compile(on, Module::load(path)?)?;
    run(&*graph, &[on.tensor(&[2, 4], &[0.5f32; 8])?])
}

#[test]
fn damage_is_found_wherever_it_is() {
    let folder = Folder::new("damaged");
    let on = start("cpu");
    let bytes = saved(&on, &folder);
    let expected = use_file(&on, &folder.file()).unwrap();
    let other = folder.0.join("damaged.bb");
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << (at % 8);
        fs::write(&other, &damaged).unwrap();
        // The padding before the elements of a tensor says nothing, and neither does a tensor that no plan reads.
        if let Ok(found) = use_file(&on, &other) {
            assert_eq!(found, expected, "byte {at} of {}", bytes.len());
        }
    }
    for length in (0..bytes.len()).step_by(7).chain([bytes.len() - 1]) {
        fs::write(&other, &bytes[..length]).unwrap();
        assert!(use_file(&on, &other).is_err(), "{length} bytes");
    }
    let longer = [&bytes[..], &[0]].concat();
    fs::write(&other, longer).unwrap();
    assert!(use_file(&on, &other).is_err());
}

/// CRC-32 as of IEEE 802.3, bit by bit.
fn crc32(parts: &[&[u8]]) -> u32 {
    let mut crc = u32::MAX;
    for byte in parts.iter().copied().flatten() {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0xedb8_8320 } else { crc >> 1 };
        }
    }
    !crc
}

/// Writes the matching checksum into a forged file.
fn seal(bytes: &mut [u8]) {
    let body = u64::from_le_bytes(bytes[16..24].try_into().unwrap()) as usize;
    let crc = crc32(&[&bytes[..12], &bytes[16..32 + body]]);
    bytes[12..16].copy_from_slice(&crc.to_le_bytes());
}

/// An untrusted file may be refused or run, but it neither panics nor exceeds the limits.
#[test]
fn forged_files_are_refused_or_harmless() {
    let folder = Folder::new("forged");
    let other = folder.0.join("forged.bb");
    for (name, values) in [("cpu", &[1u8, 0x7f, 0xff][..]), ("whole-graph", &[1])] {
        let on = start(name);
        let bytes = saved(&on, &folder);
        let body = u64::from_le_bytes(bytes[16..24].try_into().unwrap()) as usize;
        let x = vec![on.tensor(&[2, 4], &[0.5f32; 8]).unwrap()];
        let (mut refused, mut caught, mut ran) = (0, 0, 0);
        for at in 32..32 + body {
            for &by in values {
                let mut copy = bytes.clone();
                copy[at] = copy[at].wrapping_add(by);
                seal(&mut copy);
                fs::write(&other, &copy).unwrap();
                let Ok(graph) = Module::load(&other).and_then(|module| compile(&on, module)) else {
                    refused += 1;
                    continue;
                };
                match run(&*graph, &x) {
                    Ok(_) => ran += 1,
                    Err(Error::Panicked { message, .. }) => panic!("byte {at} and {by}: {message}"),
                    Err(error) if is_faulty_plan(&error) => caught += 1,
                    Err(_) => refused += 1,
                }
            }
        }
        assert!(refused > ran, "{name}: {refused} refused, {caught} caught, {ran} ran");
    }
}

/// The plan of the file runs, and its results are compared with its claims. Here, the claim is about one native operation, whose rule
/// is not checked when the file is loaded.
#[test]
fn results_that_a_plan_does_not_claim_end_the_run() {
    let folder = Folder::new("claims");
    let on = start("cpu");
    let nodes = vec![node("Neg", &["x"], &["minus"]), node("Exp", &["minus"], &["y"])];
    let original = compile(&on, Module::from_bytes(model(&[("x", &[2])], nodes, &[("y", &[2])])).unwrap());
    let x = vec![on.tensor(&[2], &[0.5f32, 1.0]).unwrap()];
    run(&*original.as_ref().unwrap().clone(), &x).unwrap();
    original.unwrap().save(&folder.file()).unwrap();
    let bytes = fs::read(folder.file()).unwrap();
    let body = u64::from_le_bytes(bytes[16..24].try_into().unwrap()) as usize;
    let mut caught = 0;
    for at in 32..32 + body {
        let mut copy = bytes.clone();
        copy[at] = copy[at].wrapping_add(1);
        seal(&mut copy);
        fs::write(folder.file(), &copy).unwrap();
        if let Ok(graph) = Module::load(folder.file()).and_then(|module| compile(&on, module)) {
            caught += usize::from(run(&*graph, &x).is_err_and(|error| is_faulty_plan(&error)));
        }
    }
    assert!(caught > 0);
}

/// Returns whether a result differed from the claims of a saved plan.
fn is_faulty_plan(error: &Error) -> bool {
    let first: &dyn std::error::Error = error;
    let mut chain = std::iter::successors(Some(first), |error| error.source());
    chain.any(|error| error.to_string().starts_with("a plan of the compiled model is faulty"))
}
