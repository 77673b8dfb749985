//! Tests that `.npy` files of NumPy can be read, and that written files equal NumPy's.
//!
//! `data/npy/make.py` wrote `data/npy/*.npy` with NumPy 2.4.
#![expect(clippy::unwrap_used, reason = "tests")]

use bb_ir::{DataType, Error, TensorData, f16};
use bytes::Bytes;
use num_complex::Complex;

macro_rules! file {
    ($name:literal) => {
        Bytes::from_static(include_bytes!(concat!("../data/npy/", $name, ".npy")))
    };
}

#[test]
fn files_of_numpy_are_read() {
    let of = |file| TensorData::from_npy(file).unwrap();
    let counted = |n: i64| (0..n).collect::<Vec<i64>>();
    let f32s: Vec<f32> = counted(24).iter().map(|&v| v as f32).collect();
    assert_eq!(of(file!("f32_c")), TensorData::new(&[2, 3, 4], &f32s).unwrap());
    assert_eq!(of(file!("i64_fortran")), TensorData::new(&[2, 3, 4], &counted(24)).unwrap());
    let u16s: Vec<u16> = counted(24).iter().map(|&v| v as u16).collect();
    assert_eq!(of(file!("u16_big")), TensorData::new(&[2, 3, 4], &u16s).unwrap());
    let c64s: Vec<_> = counted(12).iter().map(|&v| Complex::new(v as f32, 1.0)).collect();
    assert_eq!(of(file!("c64_big_fortran")), TensorData::new(&[3, 4], &c64s).unwrap());
    assert_eq!(of(file!("f16_scalar")), TensorData::scalar(f16::from_f32(1.5)));
    assert_eq!(of(file!("bool_1")), TensorData::bools(&[2], &[true, false]).unwrap());
    assert_eq!(of(file!("empty")), TensorData::new::<f64>(&[0, 3], &[]).unwrap());
    assert_eq!(of(file!("unicode")), TensorData::strings(&[2, 2], &["ä", "", "abc", "d"]).unwrap());
    assert_eq!(of(file!("unicode_big")), TensorData::strings(&[2], &["ä", "xy"]).unwrap());
    assert_eq!(of(file!("bytes")), TensorData::strings(&[2], &["ab", "c"]).unwrap());
    assert_eq!(of(file!("f64_v2")), TensorData::new(&[1], &[0.5f64]).unwrap());
    assert_eq!(of(file!("i8_v3")), TensorData::new(&[1], &[-1i8]).unwrap());
    assert!(matches!(TensorData::from_npy(file!("structured")), Err(Error::Npy { .. })));
}

#[test]
fn files_are_written_as_numpy_writes_them() {
    for file in [file!("f32_c"), file!("f16_scalar"), file!("bool_1"), file!("empty"), file!("unicode")] {
        let tensor = TensorData::from_npy(file.clone()).unwrap();
        assert_eq!(Bytes::from(tensor.to_npy().unwrap()), file, "{tensor:?}");
    }
    let small = TensorData::zeros(DataType::BF16, &[1], 2).unwrap();
    assert!(matches!(small.to_npy(), Err(Error::Unsupported { op: "npy", dtype: DataType::BF16 })));
}

#[test]
fn damaged_files_are_errors() {
    let whole = file!("unicode_big");
    for end in 0..whole.len() {
        assert!(TensorData::from_npy(whole.slice(..end)).is_err(), "{end}");
    }
    let header = |text: &str, elements: &[u8]| {
        let length = (text.len() as u16).to_le_bytes();
        let file = [b"\x93NUMPY\x01\x00", &length[..], text.as_bytes(), elements].concat();
        TensorData::from_npy(file.into())
    };
    assert!(header("{'shape':(1,),'fortran_order':False,'descr':'|u1'}", &[1]).is_ok());
    let huge = "{'descr': '<f4', 'fortran_order': True, 'shape': (4294967296, 4294967296, 8), }";
    assert!(matches!(header(huge, &[]), Err(Error::TooLarge { .. })));
    let long = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }";
    assert!(matches!(header(long, &[0; 12]), Err(Error::ByteLength { expected: 8, got: 12, .. })));
    let void = "{'descr': '<U0', 'fortran_order': False, 'shape': (99999999999,), }";
    assert!(matches!(header(void, &[]), Err(Error::NpyType { .. })));
    for text in
        ["", "{", "{'descr': '<f4'}", "{'shape': (-1,), 'fortran_order': False, 'descr': '<f4'}", "[]"]
    {
        assert!(matches!(header(text, &[]), Err(Error::Npy { .. })), "{text}");
    }
    let truth = "{'descr': '|b1', 'fortran_order': False, 'shape': (1,), }";
    assert!(matches!(header(truth, &[2]), Err(Error::BoolByte { .. })));
}
