//! Builds C programs that open a model and run it, on the CPU backend and on the backend written in C.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use bb::TensorData;
use bb::ir::proto::attribute_proto::AttributeType;
use bb::ir::proto::{
    AttributeProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, StringStringEntryProto,
    TensorShapeProto, TypeProto, ValueInfoProto, tensor_shape_proto, type_proto,
};
use bb_cpu as _;
use prost::Message as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn door() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn cc(arguments: &[&str]) {
    let mut command = Command::new("cc");
    command
        .args(["-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-I"])
        .arg(door().join("include"))
        .args(arguments);
    let output = command.output();
    let output = output.expect("no compiler for C: install one (`apt-get install gcc`), so that `cc` runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Returns the folder of the library.
fn built() -> PathBuf {
    std::env::current_exe().unwrap().parent().unwrap().to_owned()
}

/// Builds the program into a file with a name for the test.
fn program(name: &str) -> PathBuf {
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let folder = built().display().to_string();
    let source = door().join("examples/host.c");
    let search = format!("-Wl,-rpath,{folder}");
    let (source, to) = (source.to_str().unwrap(), program.to_str().unwrap());
    cc(&[source, "-o", to, "-L", &folder, "-lbb_host", &search]);
    program
}

fn run(program: &Path, arguments: &[&str]) -> Output {
    Command::new(program).args(arguments).env_remove("BB_BACKEND_PATH").output().unwrap()
}

fn model() -> String {
    door().join("../../tests/data/models/surfaces_gbr/model.onnx").display().to_string()
}

#[test]
fn a_program_in_c_runs_a_model() {
    let program = program("host");
    let plain = Path::new(env!("CARGO_TARGET_TMPDIR")).join("libplain.so");
    let source = door().join("examples/plain.c");
    cc(&["-shared", "-fPIC", source.to_str().unwrap(), "-o", plain.to_str().unwrap(), "-lm"]);
    let plain = plain.to_str().unwrap();
    let model = model();

    let on_cpu = run(&program, &[&model, "cpu"]);
    assert!(on_cpu.status.success(), "{}", String::from_utf8_lossy(&on_cpu.stderr));
    let linked = bb::backend("cpu").unwrap();
    let module = bb::Module::load(&model).unwrap();
    let ready = linked.compile(module, &bb::CompileOptions::default()).unwrap();
    let input = linked.tensor(&[1, 4], &[1f32; 4]).unwrap();
    let outputs = ready.run_named(&[("input", &input)]).unwrap();
    let value = outputs["variable"].to_host(64).unwrap().as_slice::<f32>().unwrap().first().copied().unwrap();
    let expected = format!("variable: {value:.6}\n");
    assert_eq!(String::from_utf8_lossy(&on_cpu.stdout), expected);

    for backend in ["plain", "first_of(plain, cpu)", "metrics+plain"] {
        let output = run(&program, &[&model, backend, plain]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(String::from_utf8_lossy(&output.stdout), expected, "{backend}");
    }
    // The variable loads the backend, too.
    let output =
        Command::new(&program).args([&model, "plain"]).env("BB_BACKEND_PATH", plain).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
}

#[test]
fn what_is_wrong_is_said() {
    let program = program("host-errors");
    let model = model();
    for (arguments, expected) in [
        (&["absent.onnx", "cpu"][..], "absent.onnx"),
        (&[&model, "gpu"], "`gpu`"),
        (&[&model, "cpu", "absent.so"], "absent.so"),
    ] {
        let output = run(&program, arguments);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.starts_with("error "), "{said}");
        assert!(said.contains(expected), "{said}");
    }
}

/// Creates a model that negates two numbers: `y` is `-x`.
fn negating() -> ModelProto {
    let extent = tensor_shape_proto::dimension::Value::DimValue(2);
    let extent = tensor_shape_proto::Dimension { value: Some(extent), ..Default::default() };
    let tensor = type_proto::Tensor {
        elem_type: Some(bb::DataType::F32.to_onnx()),
        shape: Some(TensorShapeProto { dim: vec![extent] }),
    };
    let ty = TypeProto { value: Some(type_proto::Value::TensorType(tensor)), ..Default::default() };
    let port = |name: &str| ValueInfoProto {
        name: Some(name.into()),
        r#type: Some(ty.clone()),
        ..Default::default()
    };
    let node = NodeProto {
        op_type: Some("Neg".into()),
        input: vec!["x".into()],
        output: vec!["y".into()],
        ..Default::default()
    };
    let graph = GraphProto {
        name: Some("negating".into()),
        node: vec![node],
        input: vec![port("x")],
        output: vec![port("y")],
        ..Default::default()
    };
    ModelProto {
        ir_version: Some(8),
        opset_import: vec![OperatorSetIdProto { domain: None, version: Some(17) }],
        graph: Some(graph),
        ..Default::default()
    }
}

/// Builds the backend written in C with other text in some places, and a model that negates. Returns the paths of both.
fn changed(name: &str, changes: &[(&str, &str)]) -> (String, String) {
    let file = |file: String| Path::new(env!("CARGO_TARGET_TMPDIR")).join(file).display().to_string();
    let (model, source) = (file(format!("{name}.onnx")), file(format!("{name}.c")));
    let library = file(format!("lib{name}.so"));
    std::fs::write(&model, negating().encode_to_vec()).unwrap();
    let mut text = std::fs::read_to_string(door().join("examples/plain.c")).unwrap();
    for (old, new) in changes {
        assert!(text.contains(old), "{old}");
        text = text.replace(old, new);
    }
    std::fs::write(&source, text).unwrap();
    // A function that is not in the table any more is not used.
    cc(&["-Wno-unused", "-shared", "-fPIC", &source, "-o", &library, "-lm"]);
    (model, library)
}

#[test]
fn a_session_lists_the_nodes_of_primitives_that_are_null() {
    let program = program("host-without");
    let (model, library) = changed("without", &[("    .neg = neg,\n", "")]);
    let output = run(&program, &[&model, "plain", &library]);
    assert_eq!(
        String::from_utf8_lossy(&output.stderr),
        "error 4: 1 of the graph's nodes cannot run: `y` is `Neg` of `ai.onnx` 17: it needs `neg`, which the backend does not run; \
         open `first_of(plain, cpu)`, so that `cpu` runs what `plain` does not run\n"
    );
    let output = run(&program, &[&model, "first_of(plain, cpu, place=order)", &library]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "y: -1.000000 -1.000000\n");

    // Two nodes, and the advice once.
    let mut twice = negating();
    let graph = twice.graph.as_mut().unwrap();
    let mut second = graph.node[0].clone();
    (second.input, second.output) = (vec!["y".into()], vec!["z".into()]);
    graph.node.push(second);
    graph.output[0].name = Some("z".into());
    std::fs::write(&model, twice.encode_to_vec()).unwrap();
    let output = run(&program, &[&model, "plain", &library]);
    assert_eq!(
        String::from_utf8_lossy(&output.stderr),
        "error 4: 2 of the graph's nodes cannot run: \n  `y` is `Neg` of `ai.onnx` 17: it needs `neg`, which the backend does not run\n  \
         `z` is `Neg` of `ai.onnx` 17: it needs `neg`, which the backend does not run\n  \
         open `first_of(plain, cpu)`, so that `cpu` runs what `plain` does not run\n"
    );
}

/// The exponential of a number of 64 bits cannot be computed in the types that the backend has.
#[test]
fn a_session_lists_the_nodes_of_element_types_that_the_backend_lacks() {
    let program = program("host-types");
    let types = "1ull << BB_F32 | 1ull << BB_I32 | 1ull << BB_BOOL,";
    let (model, library) = changed("types", &[(".types = TYPES,", &format!(".types = {types}"))]);
    let mut double = negating();
    let graph = double.graph.as_mut().unwrap();
    graph.node[0].op_type = Some("Exp".into());
    for port in graph.input.iter_mut().chain(&mut graph.output) {
        let Some(type_proto::Value::TensorType(tensor)) = &mut port.r#type.as_mut().unwrap().value else {
            unreachable!("a tensor");
        };
        tensor.elem_type = Some(bb::DataType::F64.to_onnx());
    }
    std::fs::write(&model, double.encode_to_vec()).unwrap();
    let output = run(&program, &[&model, "plain", &library]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let expected = "error 4: 1 of the graph's nodes cannot run: `y` is `Exp` of `ai.onnx` 17: it needs `exp` of f64, which is refused";
    assert!(said.starts_with(expected), "{said}");
}

/// A backend that lacks a primitive is tried when a session is opened. A failure there is no lack.
#[test]
fn a_kernel_that_fails_in_its_trial_has_the_status_and_the_message_of_the_library() {
    let program = program("host-failing");
    let table = "static const bb_primitives PRIMITIVES = {\n";
    let failing = format!(
        "static int32_t failing(bb_backend *backend, const bb_tensor *x, bb_result *results, size_t count, bb_error *error) {{\n    \
         return fail(error, BB_DEVICE, \"the chip is on fire\");\n}}\n\n{table}"
    );
    let changes =
        [(table, &*failing), ("    .neg = neg,\n", "    .neg = failing,\n"), ("    .log = log_,\n", "")];
    let (model, library) = changed("failing", &changes);
    let output = run(&program, &[&model, "plain", &library]);
    assert_eq!(
        String::from_utf8_lossy(&output.stderr),
        "error 7: `y` is `Neg` of `ai.onnx` 17: `neg` of f32 failed when it was tried on one or two elements: backend `plain` failed in \
         `neg`: the chip is on fire\n"
    );
}

/// Creates a model with a loop that runs `n` times, where `n` is an input. Its intermediate value `h` is `-x`.
fn looping() -> ModelProto {
    let value = |name: &str| ValueInfoProto { name: Some(name.into()), ..Default::default() };
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<String>>();
    let node = |op: &str, from: &[&str], to: &[&str]| NodeProto {
        op_type: Some(op.into()),
        input: names(from),
        output: names(to),
        ..Default::default()
    };
    let body = GraphProto {
        name: Some("body".into()),
        node: vec![node("Identity", &["go"], &["on"]), node("Tanh", &["m"], &["next"])],
        input: ["i", "go", "m"].map(value).to_vec(),
        output: ["on", "next"].map(value).to_vec(),
        ..Default::default()
    };
    let body = AttributeProto {
        name: Some("body".into()),
        g: Some(body),
        r#type: Some(AttributeType::Graph.into()),
        ..Default::default()
    };
    let mut looped = node("Loop", &["n", "always", "h"], &["y"]);
    looped.attribute.push(body);
    let typed = |name: &str, dtype: bb::DataType| {
        let tensor = type_proto::Tensor { elem_type: Some(dtype.to_onnx()), shape: None };
        let ty = TypeProto { value: Some(type_proto::Value::TensorType(tensor)), ..Default::default() };
        ValueInfoProto { r#type: Some(ty), ..value(name) }
    };
    let graph = GraphProto {
        name: Some("looping".into()),
        node: vec![node("Neg", &["x"], &["h"]), looped],
        input: vec![typed("n", bb::DataType::I64), typed("x", bb::DataType::F32)],
        output: vec![value("y")],
        initializer: vec![TensorData::new(&[], &[true]).unwrap().to_proto("always")],
        ..Default::default()
    };
    let entry = StringStringEntryProto { key: Some("author".into()), value: Some("me".into()) };
    ModelProto {
        ir_version: Some(8),
        producer_name: Some("tests".into()),
        model_version: Some(7),
        opset_import: vec![OperatorSetIdProto { domain: None, version: Some(17) }],
        metadata_props: vec![entry],
        graph: Some(graph),
        ..Default::default()
    }
}

/// Builds a program from a file in this folder, runs it on a model, and returns its output.
fn tested(name: &str, model: &ModelProto) -> String {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (program, file) = (folder.join(name), folder.join(format!("{name}.onnx")));
    std::fs::write(&file, model.encode_to_vec()).unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/{name}.c"));
    let search = built().display().to_string();
    let rpath = format!("-Wl,-rpath,{search}");
    let (source, to) = (source.to_str().unwrap(), program.to_str().unwrap());
    cc(&["-D_DEFAULT_SOURCE", source, "-o", to, "-L", &search, "-lbb_host", "-lpthread", &rpath]);
    let output = run(&program, &[file.to_str().unwrap()]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn options_do_what_the_header_says() {
    let expected = "tests looping 7\nauthor=me\n1 outputs\n2 outputs, h is -1 -4\n";
    assert_eq!(tested("options", &looping()), expected);
}

/// Creates a model with a scalar `s`, and `u` of unknown rank: `list` is a sequence of `s`, `v` is `-u`, and `w` is `-s`. Between nodes are
/// `minus`, which is `-s`, and `apart`, which is `-u`.
fn several_kinds() -> ModelProto {
    let node = |op: &str, from: &str, to: &str| NodeProto {
        op_type: Some(op.into()),
        input: vec![from.to_owned()],
        output: vec![to.to_owned()],
        ..Default::default()
    };
    let tensor = |shape: Option<TensorShapeProto>| TypeProto {
        value: Some(type_proto::Value::TensorType(type_proto::Tensor {
            elem_type: Some(bb::DataType::F32.to_onnx()),
            shape,
        })),
        ..Default::default()
    };
    let scalar = || tensor(Some(TensorShapeProto::default()));
    let sequence = type_proto::Sequence { elem_type: Some(Box::new(scalar())) };
    let sequence =
        TypeProto { value: Some(type_proto::Value::SequenceType(Box::new(sequence))), ..Default::default() };
    let port = |name: &str, ty: TypeProto| ValueInfoProto {
        name: Some(name.into()),
        r#type: Some(ty),
        ..Default::default()
    };
    let graph = GraphProto {
        name: Some("kinds".into()),
        node: vec![
            node("SequenceConstruct", "s", "list"),
            node("Neg", "s", "minus"),
            node("Neg", "u", "apart"),
            node("Identity", "apart", "v"),
            node("Identity", "minus", "w"),
        ],
        input: vec![port("s", scalar()), port("u", tensor(None))],
        output: vec![port("list", sequence), port("v", tensor(None)), port("w", scalar())],
        ..Default::default()
    };
    ModelProto {
        ir_version: Some(8),
        opset_import: vec![OperatorSetIdProto { domain: None, version: Some(17) }],
        graph: Some(graph),
        ..Default::default()
    }
}

#[test]
fn ports_of_unknown_rank_and_sequences_are_told_from_scalars() {
    assert_eq!(tested("ports", &several_kinds()), "v has rank 1: -1 -2\nw has rank 0: -3\n");
}

/// Checks that the library has every function that the header declares for programs.
#[test]
fn the_library_has_all_functions_of_the_header() {
    let header = std::fs::read_to_string(door().join("include/bb.h")).unwrap();
    let names = header.lines().filter(|line| line.ends_with(");") && !line.starts_with(' '));
    let names: Vec<&str> = names
        .filter_map(|line| line.split_once('(')?.0.rsplit([' ', '*']).next())
        .filter(|name| name.starts_with("bb_"))
        .collect();
    assert!(names.len() >= 12, "{names:?}");
    let mut source = "#include \"bb.h\"\nvoid *all[] = {".to_owned();
    names.iter().for_each(|name| source.push_str(&format!("(void *){name}, ")));
    source.push_str("};\nint main(void) { return all[0] == 0; }\n");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (file, program) = (folder.join("functions.c"), folder.join("functions"));
    std::fs::write(&file, source).unwrap();
    let search = built().display().to_string();
    cc(&[file.to_str().unwrap(), "-o", program.to_str().unwrap(), "-L", &search, "-lbb_host"]);
}
