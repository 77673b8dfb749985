//! Tests that tensors in models are read in every encoding, and that malformed tensors are errors with a
//! reason.
#![expect(clippy::unwrap_used, reason = "tests")]

use bb_ir::file::FileKind;
use bb_ir::proto::{ExternalData, SparseTensorProto, StringStringEntryProto, TensorProto};
use bb_ir::{DataType, Error, Limits, TensorData, bf16, f16};
use num_complex::Complex;
use prost::Message;

fn of(dtype: DataType, dims: &[i64]) -> TensorProto {
    TensorProto {
        dims: dims.to_vec(),
        data_type: Some(dtype.to_onnx()),
        name: Some("w".into()),
        ..Default::default()
    }
}

/// Returns why a tensor was refused.
fn refusal(proto: &TensorProto) -> Error {
    match TensorData::from_proto(proto) {
        Err(Error::InTensor { name, source }) if name == proto.name() => *source,
        other => panic!("{other:?}"),
    }
}

#[test]
fn typed_fields_and_raw_bytes_say_the_same() {
    let cases = [
        (
            TensorProto { float_data: vec![1.5, -2.0], ..of(DataType::F32, &[2]) },
            TensorData::new(&[2], &[1.5f32, -2.0]),
        ),
        (TensorProto { double_data: vec![0.1], ..of(DataType::F64, &[]) }, TensorData::new(&[], &[0.1f64])),
        (
            TensorProto { int64_data: vec![-1, i64::MAX], ..of(DataType::I64, &[2, 1]) },
            TensorData::new(&[2, 1], &[-1i64, i64::MAX]),
        ),
        (
            TensorProto { uint64_data: vec![u64::MAX], ..of(DataType::U64, &[1]) },
            TensorData::new(&[1], &[u64::MAX]),
        ),
        (TensorProto { uint64_data: vec![7], ..of(DataType::U32, &[1]) }, TensorData::new(&[1], &[7u32])),
        (TensorProto { int32_data: vec![-7], ..of(DataType::I32, &[1]) }, TensorData::new(&[1], &[-7i32])),
        (
            TensorProto { int32_data: vec![-7, 255], ..of(DataType::I16, &[2]) },
            TensorData::new(&[2], &[-7i16, 255]),
        ),
        (
            TensorProto { int32_data: vec![65535], ..of(DataType::U16, &[1]) },
            TensorData::new(&[1], &[65535u16]),
        ),
        (TensorProto { int32_data: vec![-128], ..of(DataType::I8, &[1]) }, TensorData::new(&[1], &[-128i8])),
        (TensorProto { int32_data: vec![200], ..of(DataType::U8, &[1]) }, TensorData::new(&[1], &[200u8])),
        (
            TensorProto { int32_data: vec![1, 0], ..of(DataType::Bool, &[2]) },
            TensorData::bools(&[2], &[true, false]),
        ),
        (
            TensorProto { int32_data: vec![0xBC00], ..of(DataType::F16, &[1]) },
            TensorData::new(&[1], &[f16::from_f32(-1.0)]),
        ),
        (
            TensorProto { int32_data: vec![0x3F80], ..of(DataType::BF16, &[1]) },
            TensorData::new(&[1], &[bf16::ONE]),
        ),
        (
            TensorProto { int32_data: vec![0x80], ..of(DataType::F8E4M3FNUZ, &[1]) },
            TensorData::pack(DataType::F8E4M3FNUZ, &[1], &[0x80]),
        ),
        (
            TensorProto { int32_data: vec![0x21, 0x3], ..of(DataType::U4, &[3]) },
            TensorData::pack(DataType::U4, &[3], &[1, 2, 3]),
        ),
        (
            TensorProto { int32_data: vec![0x7F], ..of(DataType::F4E2M1, &[2]) },
            TensorData::pack(DataType::F4E2M1, &[2], &[15, 7]),
        ),
        (
            TensorProto { int32_data: vec![0b01_10_11_00, 1], ..of(DataType::U2, &[5]) },
            TensorData::pack(DataType::U2, &[5], &[0, 3, 2, 1, 1]),
        ),
        (
            TensorProto { int32_data: vec![63, 1], ..of(DataType::F6E3M2, &[2]) },
            TensorData::pack(DataType::F6E3M2, &[2], &[63, 1]),
        ),
        (
            TensorProto { float_data: vec![1.0, 2.0], ..of(DataType::C64, &[1]) },
            TensorData::new(&[1], &[Complex::new(1f32, 2.0)]),
        ),
        (
            TensorProto { double_data: vec![1.0, 2.0], ..of(DataType::C128, &[1]) },
            TensorData::new(&[1], &[Complex::new(1f64, 2.0)]),
        ),
        (
            TensorProto { string_data: vec!["ä".into(), "".into()], ..of(DataType::String, &[2]) },
            TensorData::strings(&[2], &["ä", ""]),
        ),
        (of(DataType::F32, &[0, 3]), TensorData::new::<f32>(&[0, 3], &[])),
    ];
    for (proto, want) in cases {
        let want = want.unwrap();
        assert_eq!(TensorData::from_proto(&proto).unwrap(), want);
        let written = want.to_proto("w");
        let again = TensorProto::decode(&*written.encode_to_vec()).unwrap();
        assert_eq!(TensorData::from_proto(&again).unwrap(), want);
    }
}

#[test]
fn raw_bytes_are_shared_where_aligned() {
    let x = TensorData::new(&[4], &[1f32, 2.0, 3.0, 4.0]).unwrap();
    let again = TensorData::from_proto(&x.to_proto("x")).unwrap();
    assert_eq!(again.bytes().unwrap().as_ptr(), x.bytes().unwrap().as_ptr());
}

#[test]
fn malformed_tensors_say_what_is_wrong() {
    assert!(matches!(
        refusal(&TensorProto { data_type: Some(99), ..of(DataType::F32, &[1]) }),
        Error::UnknownDataType { number: 99 }
    ));
    assert!(matches!(
        refusal(&TensorProto { data_type: None, ..of(DataType::F32, &[1]) }),
        Error::UnknownDataType { number: 0 }
    ));
    assert!(matches!(refusal(&of(DataType::F32, &[2, -1])), Error::Extent { extent: -1 }));
    assert!(matches!(refusal(&of(DataType::F32, &[i64::MAX, i64::MAX])), Error::TooLarge { .. }));
    assert!(matches!(refusal(&of(DataType::F32, &[1 << 40])), Error::ElementCount { got: 0, .. }));
    let two =
        TensorProto { float_data: vec![1.0], raw_data: Some(vec![0; 4].into()), ..of(DataType::F32, &[1]) };
    assert!(matches!(refusal(&two), Error::TwoDataFields { first: "raw_data", second: "float_data" }));
    let wrong = TensorProto { float_data: vec![1.0], ..of(DataType::I32, &[1]) };
    assert!(matches!(refusal(&wrong), Error::DataField { field: "float_data", .. }));
    let raw = TensorProto { raw_data: Some(vec![0; 8].into()), ..of(DataType::String, &[0]) };
    assert!(matches!(refusal(&raw), Error::DataField { field: "raw_data", .. }));
    let short = TensorProto { raw_data: Some(vec![0; 7].into()), ..of(DataType::F32, &[2]) };
    assert!(matches!(refusal(&short), Error::ByteLength { expected: 8, got: 7, .. }));
    let many = TensorProto { int64_data: vec![1, 2], ..of(DataType::I64, &[]) };
    assert!(matches!(refusal(&many), Error::ElementCount { expected: 1, got: 2, .. }));
    let wide = TensorProto { int32_data: vec![256], ..of(DataType::U8, &[1]) };
    assert!(matches!(refusal(&wide), Error::DataValue { index: 0, value: 256, .. }));
    let wide = TensorProto { uint64_data: vec![1 << 32], ..of(DataType::U32, &[1]) };
    assert!(matches!(refusal(&wide), Error::DataValue { field: "uint64_data", .. }));
    let elsewhere = TensorProto { data_location: Some(2), ..of(DataType::F32, &[0]) };
    assert!(matches!(refusal(&elsewhere), Error::DataLocation { number: 2 }));
    let segment = TensorProto { segment: Some(Default::default()), ..of(DataType::F32, &[0]) };
    assert!(matches!(refusal(&segment), Error::Segment));
}

/// Writers of vocabularies store tokens that are parts of characters.
#[test]
fn strings_are_whatever_bytes_they_are() {
    let text = TensorProto { string_data: vec![vec![0xFF, b'a']], ..of(DataType::String, &[1]) };
    let tensor = TensorData::from_proto(&text).unwrap();
    assert_eq!(tensor.to_proto("").string_data, [b"\xFFa"]);
}

/// NumPy writes true as 1, C compilers as any byte, and ONNX Runtime takes each but 0 as true.
#[test]
fn truth_values_are_whatever_is_not_zero() {
    let raw = TensorProto { raw_data: Some(vec![0, 1, 7, 255].into()), ..of(DataType::Bool, &[4]) };
    let entries = TensorProto { int32_data: vec![0, 1, 256, -1], ..of(DataType::Bool, &[4]) };
    for proto in [raw, entries] {
        assert_eq!(TensorData::from_proto(&proto).unwrap().to_bools().unwrap(), [false, true, true, true]);
    }
}

fn sparse(values: TensorData, indices: &[i64], shape: &[usize], dims: &[i64]) -> Result<TensorData, Error> {
    let indices = TensorData::new(shape, indices).unwrap().to_proto("");
    let proto =
        SparseTensorProto { values: Some(values.to_proto("s")), indices: Some(indices), dims: dims.to_vec() };
    TensorData::from_sparse_proto(&proto, 1 << 20)
}

#[test]
fn sparse_tensors_become_dense() {
    let values = || TensorData::new(&[2], &[5f32, 6.0]).unwrap();
    let dense = TensorData::new(&[2, 3], &[0f32, 5.0, 0.0, 0.0, 0.0, 6.0]).unwrap();
    assert_eq!(sparse(values(), &[1, 5], &[2], &[2, 3]).unwrap(), dense);
    assert_eq!(sparse(values(), &[0, 1, 1, 2], &[2, 2], &[2, 3]).unwrap(), dense);
    let texts = sparse(TensorData::strings(&[1], &["x"]).unwrap(), &[1], &[1], &[2]).unwrap();
    assert_eq!(texts.iter_str().collect::<Vec<_>>(), ["", "x"]);

    let why = |r: Result<TensorData, Error>| match r {
        Err(Error::InTensor { source, .. }) => *source,
        other => panic!("{other:?}"),
    };
    assert!(matches!(why(sparse(values(), &[5, 1], &[2], &[2, 3])), Error::SparseIndex { position: 1 }));
    assert!(matches!(why(sparse(values(), &[1, 1], &[2], &[2, 3])), Error::SparseIndex { position: 1 }));
    assert!(matches!(why(sparse(values(), &[1, 6], &[2], &[2, 3])), Error::SparseIndex { position: 1 }));
    assert!(matches!(
        why(sparse(values(), &[0, 3, 1, 0], &[2, 2], &[2, 3])),
        Error::SparseIndex { position: 0 }
    ));
    assert!(matches!(why(sparse(values(), &[1], &[1], &[2, 3])), Error::SparseShapes { .. }));
    assert!(matches!(why(sparse(values(), &[1, 2], &[2], &[1 << 40])), Error::TooLarge { .. }));
}

fn external(entries: &[(&str, &str)], dims: &[i64]) -> TensorProto {
    let entry =
        |&(k, v): &(&str, &str)| StringStringEntryProto { key: Some(k.into()), value: Some(v.into()) };
    TensorProto {
        data_location: Some(1),
        external_data: entries.iter().map(entry).collect(),
        ..of(DataType::F32, dims)
    }
}

#[test]
fn external_data_comes_from_the_folder_and_nowhere_else() {
    let base = std::env::temp_dir().join(format!("bb-ir-external-{}", std::process::id()));
    let folder = base.join("model");
    std::fs::create_dir_all(folder.join("sub")).unwrap();
    std::fs::write(base.join("secret"), [0u8; 8]).unwrap();
    let elements: Vec<u8> = [0f32, 1.5, 2.5].iter().flat_map(|v| v.to_le_bytes()).collect();
    std::fs::write(folder.join("sub/data.bin"), &elements).unwrap();
    let data = ExternalData::in_folder(&folder, &Limits::default());
    let read = |entries: &[(&str, &str)], dims: &[i64]| match TensorData::from_proto_in(
        &external(entries, dims),
        &data,
    ) {
        Ok(t) => t.as_slice::<f32>().map(<[f32]>::to_vec),
        Err(Error::InTensor { source, .. }) => Err(*source),
        Err(other) => panic!("{other:?}"),
    };

    let at = ("location", "sub/data.bin");
    assert_eq!(read(&[at, ("offset", "4"), ("length", "8")], &[2]).unwrap(), [1.5, 2.5]);
    assert_eq!(read(&[at], &[3]).unwrap(), [0.0, 1.5, 2.5]);
    assert_eq!(read(&[at], &[0]).unwrap(), [0f32; 0]);

    assert!(matches!(read(&[at, ("offset", "8")], &[2]), Err(Error::ExternalRange { file: 12, .. })));
    assert!(matches!(
        read(&[at, ("offset", "18446744073709551615")], &[2]),
        Err(Error::ExternalRange { .. })
    ));
    assert!(matches!(read(&[at, ("length", "4")], &[2]), Err(Error::ExternalRange { needed: 8, .. })));
    assert!(matches!(read(&[at], &[1 << 40]), Err(Error::ExternalRange { .. })));
    assert!(matches!(read(&[at, ("offset", "-1")], &[2]), Err(Error::ExternalKey { .. })));
    assert!(matches!(read(&[at, at], &[2]), Err(Error::ExternalKey { .. })));
    let digest = "c6b44d0d54ed1bd0e1f3ef2aabd2f3d7d30a7bb2";
    assert!(matches!(read(&[at, ("checksum", digest)], &[3]), Err(Error::ExternalChecksum { .. })));
    for outside in ["../secret", "/etc/passwd", "sub/../../secret", "absent/../../secret"] {
        let refused = read(&[("location", outside)], &[2]);
        assert!(matches!(refused, Err(Error::ExternalPath { .. })), "{outside}: {refused:?}");
    }
    for inside in ["sub/../sub/data.bin", "absent/../sub/data.bin", "./sub//data.bin"] {
        assert_eq!(read(&[("location", inside)], &[3]).unwrap(), [0.0, 1.5, 2.5], "{inside}");
    }
    for no_file in ["", "sub", "."] {
        let refused = read(&[("location", no_file)], &[2]);
        assert!(matches!(refused, Err(Error::ExternalKind { kind: FileKind::Folder, .. })), "{no_file}");
    }
    assert!(matches!(
        read(&[("location", "absent")], &[2]),
        Err(Error::ExternalMissing { similar: None, .. })
    ));
    match read(&[("location", "sub/Data.BIN")], &[2]) {
        Err(Error::ExternalMissing { similar: Some(name), .. }) => assert_eq!(&*name, "data.bin"),
        // Some file systems do not distinguish upper and lower case.
        other => assert_eq!(other.unwrap(), [0.0, 1.5]),
    }
    let long = "x".repeat(1 << 20);
    let refused = read(&[("location", &long)], &[2]).unwrap_err();
    assert!(refused.to_string().len() < 1000);
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink(base.join("secret"), folder.join("link")).unwrap();
        assert!(matches!(read(&[("location", "link")], &[2]), Err(Error::ExternalPath { .. })));
        std::os::unix::fs::symlink("sub/data.bin", folder.join("inner")).unwrap();
        assert_eq!(read(&[("location", "inner")], &[3]).unwrap(), [0.0, 1.5, 2.5]);
    }
    assert!(matches!(refusal(&external(&[at], &[3])), Error::NoExternalFolder { .. }));
    std::fs::remove_dir_all(&base).unwrap();
}

/// `onnx.proto`: `data_location` says where the elements are. ONNX Runtime 1.32 reads the same of each of these tensors.
#[test]
fn the_location_decides_where_elements_are_read() {
    let base = std::env::temp_dir().join(format!("bb-ir-location-{}", std::process::id()));
    std::fs::create_dir_all(&base).unwrap();
    std::fs::write(base.join("w"), [0f32, 1.0].map(f32::to_le_bytes).concat()).unwrap();
    let data = ExternalData::in_folder(&base, &Limits::default());
    let outside = || external(&[("location", "w")], &[2]);
    let raw = Some([9f32, 9.0].map(f32::to_le_bytes).concat().into());
    for beside in [
        TensorProto { raw_data: raw.clone(), ..outside() },
        TensorProto { raw_data: Some(vec![7; 9].into()), ..outside() },
        TensorProto { float_data: vec![9.0; 2], ..outside() },
        TensorProto { float_data: vec![9.0; 5], ..outside() },
        TensorProto { double_data: vec![9.0; 2], ..outside() },
        TensorProto { int32_data: vec![9; 2], ..outside() },
        TensorProto { int64_data: vec![9; 2], ..outside() },
        TensorProto { uint64_data: vec![9; 2], ..outside() },
        TensorProto { string_data: vec![b"9".to_vec()], ..outside() },
        TensorProto { raw_data: raw.clone(), float_data: vec![8.0; 2], ..outside() },
    ] {
        let read = TensorData::from_proto_in(&beside, &data).unwrap();
        assert_eq!(read.as_slice::<f32>().unwrap(), [0.0, 1.0], "{beside:?}");
        assert!(matches!(refusal(&beside), Error::NoExternalFolder { .. }));
    }
    let inside = || TensorProto { data_location: Some(0), ..external(&[("location", "absent")], &[2]) };
    for inside in [
        TensorProto { raw_data: raw, ..inside() },
        TensorProto { float_data: vec![9.0; 2], ..inside() },
        TensorProto { float_data: vec![9.0; 2], data_location: None, ..inside() },
    ] {
        let read = TensorData::from_proto_in(&inside, &data).unwrap();
        assert_eq!(read.as_slice::<f32>().unwrap(), [9.0, 9.0], "{inside:?}");
    }
    assert!(matches!(refusal(&inside()), Error::ElementCount { expected: 2, got: 0, .. }));
    std::fs::remove_dir_all(&base).unwrap();
}
