//! Tests which paths are read, and that files which are not models are recognized.

#![expect(clippy::unwrap_used, reason = "tests")]

use bb_ir::check::{CheckOptions, CheckedModel, check, load_model, parse_model};
use bb_ir::file::{FileKind, Format};
use bb_ir::proto::{
    AttributeProto, ExternalData, FunctionProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto,
    SparseTensorProto, StringStringEntryProto, TensorProto, ValueInfoProto,
};
use bb_ir::{Error, FileAccess, Limits, TensorData};
use prost::Message;
use std::path::{Path, PathBuf};

/// A folder for a test; it is removed at the end of the test.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("bb-ir-files-{test}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path.canonicalize().unwrap())
    }

    fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, bytes).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _gone = std::fs::remove_dir_all(&self.0);
    }
}

fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

/// Declares a tensor of floats that is stored in a file.
fn external(name: &str, dims: &[i64], entries: &[(&str, &str)]) -> TensorProto {
    let entry =
        |&(k, v): &(&str, &str)| StringStringEntryProto { key: Some(k.into()), value: Some(v.into()) };
    TensorProto {
        name: Some(name.into()),
        dims: dims.to_vec(),
        data_type: Some(1),
        data_location: Some(1),
        external_data: entries.iter().map(entry).collect(),
        ..TensorProto::default()
    }
}

fn value(name: &str) -> ValueInfoProto {
    ValueInfoProto { name: Some(name.into()), ..ValueInfoProto::default() }
}

fn model(graph: GraphProto) -> ModelProto {
    let opset = OperatorSetIdProto { domain: None, version: Some(21) };
    ModelProto { ir_version: Some(9), opset_import: vec![opset], graph: Some(graph), ..ModelProto::default() }
}

/// A model that returns its only tensor, `w`.
fn returns(w: TensorProto) -> ModelProto {
    model(GraphProto { initializer: vec![w], output: vec![value("w")], ..GraphProto::default() })
}

fn load(path: &Path, limits: &Limits) -> Result<CheckedModel, Error> {
    let model = load_model(path, limits)?;
    let data = ExternalData::of_model(path, limits);
    check(
        &model,
        &CheckOptions { limits: limits.clone(), external_data: Some(&data), ..CheckOptions::default() },
    )
}

fn weight(path: &Path, limits: &Limits) -> Result<Vec<f32>, Error> {
    let checked = load(path, limits)?;
    let (_, data) = checked.graph.constants.first().unwrap();
    Ok(data.as_slice::<f32>()?.to_vec())
}

/// Returns the innermost cause of an error; the others only say where it occurred.
fn cause(error: Error) -> Error {
    match error {
        Error::InTensor { source, .. }
        | Error::Value { source, .. }
        | Error::Node { source, .. }
        | Error::InFile { source, .. } => cause(*source),
        error => error,
    }
}

#[test]
fn external_data_comes_from_memory() {
    let limits = Limits::default();
    let model = returns(external("w", &[2], &[("location", "parts/../w.bin")]));
    let checked = |files: &[(&str, &[u8])]| {
        let files = files.iter().map(|(name, bytes)| ((*name).to_owned(), bytes.to_vec().into()));
        let data = ExternalData::in_memory(files);
        check(
            &model,
            &CheckOptions { limits: limits.clone(), external_data: Some(&data), ..CheckOptions::default() },
        )
    };
    let bytes = bytes(&[1.0, 2.5]);
    for name in ["w.bin", "./w.bin", "other/../w.bin"] {
        let checked = checked(&[("v.bin", &[]), (name, &bytes)]).unwrap();
        let (_, data) = checked.graph.constants.first().unwrap();
        assert_eq!(data.as_slice::<f32>().unwrap(), [1.0, 2.5]);
    }
    let absent = cause(checked(&[("v.bin", &bytes)]).unwrap_err());
    assert_eq!(
        absent.to_string(),
        "external data `parts/../w.bin` does not exist in what was given as external data"
    );
    let short = cause(checked(&[("w.bin", bytes.get(1..).unwrap())]).unwrap_err());
    assert!(matches!(short, Error::ExternalRange { file: 7, needed: 8, .. }), "{short}");
}

#[test]
fn other_formats_are_recognized() {
    let tar = [vec![b'a'; 257], b"ustar\x0000".to_vec(), vec![0; 300]].concat();
    let zip = |name: &str| [b"PK\x03\x04".as_slice(), &[0; 26], name.as_bytes()].concat();
    let cases: &[(&[u8], Format)] = &[
        (b"", Format::Empty),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n", Format::GitLfs),
        (b"../../../blobs/aaa", Format::Link("../../../blobs/aaa".into())),
        (b"\x1c\0\0\0TFL3\x14\0\x20\0", Format::TfLite),
        (b"\x20\0\0\0ORTM\0\0", Format::Ort),
        (&zip("archive/data.pkl"), Format::PyTorch),
        (&zip("readme.txt"), Format::Archive("zip")),
        (b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9", Format::PyTorch),
        (b"\x80\x04\x95\x00\x00\x00\x00\x00\x00\x00\x00", Format::Pickle),
        (b"\x40\0\0\0\0\0\0\0{\"w\":{\"dtype\":\"F32\"}}", Format::SafeTensors),
        (b"GGUF\x03\0\0\0", Format::Gguf),
        (b"\x08\x01\x12\xff\x04\x0a\x07\x12\x05serve\x12\x00", Format::SavedModel),
        (b"\x89HDF\r\n\x1a\n\0\0", Format::Hdf5),
        (b"\x93NUMPY\x01\0", Format::Npy),
        (b"\x89PNG\r\n\x1a\n\0\0", Format::Picture("PNG")),
        (b"\xff\xd8\xff\xe0\0\x10JFIF", Format::Picture("JPEG")),
        (b"\x1f\x8b\x08\0\0\0", Format::Archive("gzip")),
        (&tar, Format::Archive("tar")),
        (b"<!DOCTYPE html>\n<html><body>404</body></html>", Format::Html),
        (b"\n <HTML><head>", Format::Html),
        (b"<?xml version=\"1.0\"?><net name=\"m\"/>", Format::Xml),
        (b"{\"irVersion\": \"8\", \"graph\": {\"node\": []}}", Format::OnnxJson),
        (b"{\"error\": \"not found\"}", Format::Json),
        (b"ir_version: 8\nproducer_name: \"x\"\ngraph {\n}\n", Format::OnnxText),
        (
            b"<\n  ir_version: 8,\n  opset_import: [\"\" : 18]\n>\nagraph (float[N] x) => (float[N] y) {}",
            Format::OnnxText,
        ),
        (b"Entry not found\n", Format::Text),
    ];
    let folder = Folder::new("formats");
    for (content, expected) in cases {
        let error = load(&folder.write("model.onnx", content), &Limits::default()).unwrap_err();
        let text = error.to_string();
        match cause(error) {
            Error::Format { format } => {
                assert_eq!(format, *expected, "{:?}", content.escape_ascii().to_string())
            }
            other => panic!("{expected:?}: {text}: {other}"),
        }
    }
    let pointer = parse_model(cases.get(1).unwrap().0.to_vec().into(), &Limits::default()).unwrap_err();
    assert!(pointer.to_string().contains("git lfs pull"), "{pointer}");
}

#[test]
fn models_of_any_producer_are_not_taken_for_other_formats() {
    for producer in ["TFL3", "GGUF", "PK\x03\x04", "serve", "../x", "{", "<html>"] {
        let mut w = returns(TensorProto {
            data_location: None,
            raw_data: Some(bytes(&[1.0]).into()),
            ..external("w", &[1], &[])
        });
        w.producer_name = Some(producer.to_owned());
        for ir_version in [None, Some(1), Some(9)] {
            w.ir_version = ir_version;
            parse_model(w.encode_to_vec().into(), &Limits::default()).unwrap();
        }
    }
}

#[test]
fn folders_pipes_and_devices_are_refused_by_their_kind() {
    let folder = Folder::new("kinds");
    let limits = Limits::default();
    let file = folder.write("onnx/model.onnx", &returns(external("w", &[0], &[])).encode_to_vec());
    match load_model(&folder.0.join("onnx"), &limits).unwrap_err() {
        Error::NotFile { kind: FileKind::Folder, candidates, .. } => {
            assert_eq!(*candidates, *std::slice::from_ref(&file))
        }
        other => panic!("{other}"),
    }
    // A model in a subfolder may be a stranger's, as in `/tmp`.
    let above = load_model(&folder.0, &limits).unwrap_err().to_string();
    assert!(above.ends_with("` is a folder; expected a file"), "{above}");
    match load_model(&folder.0.join("absent/deep/model.onnx"), &limits).unwrap_err() {
        Error::NoFile { missing, .. } => assert_eq!(missing, folder.0.join("absent")),
        other => panic!("{other}"),
    }
    assert!(matches!(load_model(&file.join("model.onnx"), &limits), Err(Error::NoFile { .. })));
    let small = Limits { model_bytes: 3, ..Limits::default() };
    let error = cause(load_model(&file, &small).unwrap_err());
    assert!(matches!(error, Error::Limit { name: Some("model_bytes"), limit: 3, .. }), "{error}");
    assert!(error.to_string().contains("the limit `model_bytes`"), "{error}");
    #[cfg(unix)]
    {
        assert!(matches!(
            load_model(Path::new("/dev/zero"), &limits),
            Err(Error::NotFile { kind: FileKind::Device, .. })
        ));
        let pipe = folder.0.join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
        assert!(made.success());
        assert!(matches!(load_model(&pipe, &limits), Err(Error::NotFile { kind: FileKind::Pipe, .. })));
        let model = returns(external("w", &[1], &[("location", "pipe")]));
        let path = folder.write("model.onnx", &model.encode_to_vec());
        let error = cause(weight(&path, &limits).unwrap_err());
        assert!(matches!(error, Error::ExternalKind { kind: FileKind::Pipe, .. }), "{error}");
    }
}

#[cfg(unix)]
#[test]
fn data_may_be_beside_the_file_that_the_models_path_leads_to() {
    use std::os::unix::fs::symlink;
    let folder = Folder::new("links");
    let limits = Limits::default();
    // The model and its data are links to files with other names, as in a cache of Hugging Face.
    let content = returns(external("w", &[2], &[("location", "model.onnx.data")])).encode_to_vec();
    folder.write("blobs/aaa", &content);
    folder.write("blobs/bbb", &bytes(&[1.5, 2.5]));
    std::fs::create_dir_all(folder.0.join("snapshots/abc/onnx")).unwrap();
    let snapshot = folder.0.join("snapshots/abc/onnx/model.onnx");
    symlink("../../../blobs/aaa", &snapshot).unwrap();
    symlink("../../../blobs/bbb", folder.0.join("snapshots/abc/onnx/model.onnx.data")).unwrap();
    assert_eq!(weight(&snapshot, &limits).unwrap(), [1.5, 2.5]);
    // The data is beside the file that the link leads to, and nothing is beside the link.
    folder.write("store/model.onnx", &content);
    folder.write("store/model.onnx.data", &bytes(&[3.5, 4.5]));
    symlink("store/model.onnx", folder.0.join("link.onnx")).unwrap();
    assert_eq!(weight(&folder.0.join("link.onnx"), &limits).unwrap(), [3.5, 4.5]);
    // A folder on the path is a link.
    symlink("store", folder.0.join("folder")).unwrap();
    assert_eq!(weight(&folder.0.join("folder/model.onnx"), &limits).unwrap(), [3.5, 4.5]);

    // A model that is not a link may not use a link that leads out of its folder, unless the limits allow it.
    folder.write("secret/bytes", &bytes(&[9.0, 9.0]));
    symlink("../secret/bytes", folder.0.join("store/leak")).unwrap();
    symlink("../secret", folder.0.join("store/leaks")).unwrap();
    for location in ["leak", "leaks/bytes"] {
        let model = returns(external("w", &[2], &[("location", location)]));
        let path = folder.write("store/leaking.onnx", &model.encode_to_vec());
        match cause(weight(&path, &limits).unwrap_err()) {
            Error::ExternalPath { resolved, allowed, .. } => {
                assert_eq!(resolved, folder.0.join("secret/bytes"));
                assert!(allowed.contains(&folder.0.join("store")), "{allowed:?}");
            }
            other => panic!("{other}"),
        }
        let wider = Limits { external_folders: vec![folder.0.join("secret")], ..Limits::default() };
        assert_eq!(weight(&path, &wider).unwrap(), [9.0, 9.0]);
    }
    // A folder whose name has the same beginning is a different folder.
    folder.write("store2/w", &bytes(&[9.0, 9.0]));
    let model = returns(external("w", &[2], &[("location", "../store2/w")]));
    let path = folder.write("store/leaking.onnx", &model.encode_to_vec());
    assert!(matches!(cause(weight(&path, &limits).unwrap_err()), Error::ExternalPath { .. }));
    // An absolute location is treated like others: it must lead into an allowed folder.
    for (location, allowed) in [("store/model.onnx.data", true), ("secret/bytes", false)] {
        let absolute = folder.0.join(location);
        let entries = [("location", absolute.to_str().unwrap())];
        let path =
            folder.write("store/absolute.onnx", &returns(external("w", &[2], &entries)).encode_to_vec());
        assert_eq!(weight(&path, &limits).is_ok(), allowed, "{location}");
    }
}

#[cfg(unix)]
#[test]
fn a_path_need_not_be_text() {
    use std::os::unix::ffi::OsStrExt;
    let folder = Folder::new("names");
    let inner = folder.0.join(std::ffi::OsStr::from_bytes(b"\xff\xfe"));
    std::fs::create_dir_all(&inner).unwrap();
    std::fs::write(inner.join("w.bin"), bytes(&[1.0])).unwrap();
    let model = returns(external("w", &[1], &[("location", "w.bin")])).encode_to_vec();
    let path = inner.join(std::ffi::OsStr::from_bytes(b"\xfc.onnx"));
    std::fs::write(&path, model).unwrap();
    assert_eq!(weight(&path, &Limits::default()).unwrap(), [1.0]);
}

#[test]
fn mapped_and_read_files_have_the_same_content() {
    let folder = Folder::new("access");
    folder.write("w.bin", &bytes(&[0.0, 1.0, 2.0, 3.0]));
    let entries = [("location", "w.bin"), ("offset", "4"), ("length", "8")];
    let path = folder.write("model.onnx", &returns(external("w", &[2], &entries)).encode_to_vec());
    for file_access in [FileAccess::Map, FileAccess::Read] {
        let limits = Limits { file_access, ..Limits::default() };
        assert_eq!(weight(&path, &limits).unwrap(), [1.0, 2.0], "{file_access:?}");
    }
    // Elements at odd offsets are not aligned, so they must be copied.
    let odd: Vec<u8> = [vec![7], bytes(&[5.0, 6.0])].concat();
    folder.write("odd.bin", &odd);
    let entries = [("location", "odd.bin"), ("offset", "1")];
    let path = folder.write("model.onnx", &returns(external("w", &[2], &entries)).encode_to_vec());
    for file_access in [FileAccess::Map, FileAccess::Read] {
        let limits = Limits { file_access, ..Limits::default() };
        assert_eq!(weight(&path, &limits).unwrap(), [5.0, 6.0], "{file_access:?}");
    }
}

#[test]
fn what_is_forgotten_is_read_again() {
    let folder = Folder::new("forgotten");
    let numbers: Vec<f32> = (0..1 << 16).map(|i| i as f32).collect();
    // At an aligned offset and at an odd one, beside bytes of others.
    for before in [64usize, 61] {
        folder.write("w.bin", &[vec![7; before], bytes(&numbers), vec![9; 100]].concat());
        let (offset, length) = (before.to_string(), (4 * numbers.len()).to_string());
        let entries = [("location", "w.bin"), ("offset", offset.as_str()), ("length", length.as_str())];
        let external = external("w", &[numbers.len() as i64], &entries);
        let path = folder.write("model.onnx", &returns(external).encode_to_vec());
        for file_access in [FileAccess::Map, FileAccess::Read] {
            let checked = load(&path, &Limits { file_access, ..Limits::default() }).unwrap();
            let (_, data) = checked.graph.constants.first().unwrap();
            for _ in 0..2 {
                let aligned = data.aligned().unwrap();
                assert_eq!(aligned.as_slice::<f32>().unwrap(), numbers);
                data.forget();
                aligned.forget();
                assert_eq!(aligned.as_slice::<f32>().unwrap(), numbers);
                assert_eq!(data.as_slice::<f32>().unwrap(), numbers);
            }
        }
    }
}

#[test]
fn ranges_that_are_not_in_the_file_are_refused() {
    let folder = Folder::new("ranges");
    folder.write("w.bin", &bytes(&[0.0, 1.0, 2.0]));
    folder.write("empty.bin", &[]);
    let at = ("location", "w.bin");
    let cases: &[&[(&str, &str)]] = &[
        &[at, ("offset", "8")],
        &[at, ("offset", "12")],
        &[at, ("offset", "13"), ("length", "0")],
        &[at, ("length", "7")],
        &[at, ("length", "12")],
        &[at, ("offset", "18446744073709551615"), ("length", "8")],
        &[("location", "empty.bin")],
    ];
    for entries in cases {
        let path = folder.write("model.onnx", &returns(external("w", &[2], entries)).encode_to_vec());
        let error = cause(weight(&path, &Limits::default()).unwrap_err());
        assert!(matches!(error, Error::ExternalRange { .. }), "{entries:?}: {error}");
    }
    // Overlapping ranges are two views of the same memory.
    let [a, b] = ["0", "4"].map(|offset| external("w", &[2], &[at, ("offset", offset)]));
    let b = TensorProto { name: Some("v".into()), ..b };
    let graph =
        GraphProto { initializer: vec![a, b], output: vec![value("w"), value("v")], ..Default::default() };
    let checked =
        load(&folder.write("model.onnx", &model(graph).encode_to_vec()), &Limits::default()).unwrap();
    let values: Vec<_> = checked.graph.constants.iter().map(|(_, d)| d.as_slice::<f32>().unwrap()).collect();
    assert_eq!(values, [[0.0, 1.0], [1.0, 2.0]]);
}

#[test]
fn a_digest_is_compared_before_the_elements_are_used() {
    let folder = Folder::new("digest");
    folder.write("w.bin", b"abcd");
    let with = |digest| returns(external("w", &[1], &[("location", "w.bin"), ("checksum", digest)]));
    for file_access in [FileAccess::Map, FileAccess::Read] {
        let limits = Limits { file_access, ..Limits::default() };
        // Source: the output of `sha1sum` for `abcd`.
        let right = "81fe8bfe87576c3ecb22426f8e57847382917acf";
        let path = folder.write("model.onnx", &with(right).encode_to_vec());
        assert!(weight(&path, &limits).is_ok());
        let path = folder.write("model.onnx", &with("00").encode_to_vec());
        let error = cause(weight(&path, &limits).unwrap_err());
        assert!(matches!(error, Error::ExternalChecksum { .. }), "{error}");
    }
}

#[test]
fn external_data_works_wherever_a_tensor_may_be() {
    let folder = Folder::new("places");
    folder.write("w.bin", &bytes(&[1.0, 2.0]));
    folder.write("i.bin", &[1i64.to_le_bytes(), 3i64.to_le_bytes()].concat());
    let at = [("location", "w.bin")];
    let constant = |output: &str| NodeProto {
        op_type: Some("Constant".into()),
        output: vec![output.into()],
        attribute: vec![AttributeProto {
            name: Some("value".into()),
            r#type: Some(4),
            t: Some(external("", &[2], &at)),
            ..AttributeProto::default()
        }],
        ..NodeProto::default()
    };
    let branch = |inner: GraphProto, name: &str| AttributeProto {
        name: Some(name.into()),
        r#type: Some(5),
        g: Some(inner),
        ..AttributeProto::default()
    };
    let inner = |name: &str| GraphProto {
        name: Some(name.into()),
        initializer: vec![external(name, &[2], &at)],
        output: vec![value(name)],
        ..GraphProto::default()
    };
    let condition = TensorProto {
        name: Some("c".into()),
        data_type: Some(9),
        raw_data: Some(vec![1].into()),
        ..TensorProto::default()
    };
    let sparse = SparseTensorProto {
        values: Some(external("s", &[2], &at)),
        indices: Some(TensorProto { data_type: Some(7), ..external("", &[2], &[("location", "i.bin")]) }),
        dims: vec![4],
    };
    let graph = GraphProto {
        initializer: vec![condition],
        sparse_initializer: vec![sparse],
        node: vec![
            constant("k"),
            NodeProto {
                op_type: Some("If".into()),
                input: vec!["c".into()],
                output: vec!["y".into()],
                attribute: vec![branch(inner("a"), "then_branch"), branch(inner("b"), "else_branch")],
                ..NodeProto::default()
            },
            NodeProto {
                op_type: Some("F".into()),
                domain: Some("own".into()),
                output: vec!["f".into()],
                ..NodeProto::default()
            },
        ],
        output: ["k", "y", "f", "s"].map(value).to_vec(),
        ..GraphProto::default()
    };
    let onnx = OperatorSetIdProto { domain: None, version: Some(21) };
    let own = OperatorSetIdProto { domain: Some("own".into()), version: Some(1) };
    let function = FunctionProto {
        name: Some("F".into()),
        domain: Some("own".into()),
        output: vec!["o".into()],
        node: vec![constant("o")],
        opset_import: vec![onnx.clone()],
        ..FunctionProto::default()
    };
    let model = ModelProto { opset_import: vec![onnx, own], functions: vec![function], ..model(graph) };
    let path = folder.write("model.onnx", &model.encode_to_vec());
    let checked = load(&path, &Limits::default()).unwrap();
    let dense = checked.graph.constants.iter().find(|(_, data)| data.shape() == [4]).unwrap();
    assert_eq!(dense.1.as_slice::<f32>().unwrap(), [0.0, 1.0, 0.0, 2.0]);
}

#[test]
fn unaligned_elements_inside_a_model_are_not_copied_before_they_are_used() {
    let store = bytes::Bytes::from([vec![0], bytes(&[1.0, 2.0, 3.0])].concat());
    let base = store.as_ptr() as usize;
    let odd = if (base + 1).is_multiple_of(4) { store.slice(0..8) } else { store.slice(1..9) };
    let x = TensorData::adopt(bb_ir::DataType::F32, &[2], odd.clone()).unwrap();
    assert_eq!(x.unaligned_bytes().unwrap().as_ptr(), odd.as_ptr());
    let clone = x.clone();
    x.prepare().unwrap();
    assert_eq!(x.bytes().unwrap(), &odd);
    assert_eq!(x.bytes().unwrap().as_ptr(), clone.bytes().unwrap().as_ptr());
    assert_eq!(x.bytes().unwrap().as_ptr().align_offset(4), 0);
}
