//! Tests that casts agree with NumPy, ml_dtypes and ONNX's tables.
//!
//! `data/cast/*.tsv` contain elements and the result of `onnx.reference.ops.op_cast.cast_to` for them (onnx
//! 1.23, NumPy 2.4, ml_dtypes 0.6), as hexadecimal little-endian bytes, one or more per element.
#![expect(clippy::unwrap_used, reason = "tests")]

use bb_ir::convert::{
    Rounding, cast, cast_into, decode_table, encode_small_float, f16_from_f64, unpacked_size,
};
use bb_ir::op::RoundMode;
use bb_ir::{DataType, Error, TensorData};
use std::borrow::Cow;

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().map(|d| (d as char).to_digit(16).unwrap() as u8).collect();
    digits.as_chunks::<2>().0.iter().map(|[high, low]| high << 4 | low).collect()
}

fn floats(hex: &str) -> Vec<f32> {
    bytes(hex).as_chunks::<4>().0.iter().map(|&b| f32::from_le_bytes(b)).collect()
}

fn dtype(name: &str) -> DataType {
    DataType::from_name(name).unwrap()
}

#[test]
fn small_floats_have_the_values_and_codes_of_ml_dtypes() {
    let mut rows = 0;
    for line in include_str!("../data/cast/small_floats.tsv").lines() {
        rows += 1;
        match *line.split('\t').collect::<Vec<_>>().as_slice() {
            [name, "decode", values] => {
                let table = decode_table(dtype(name)).unwrap();
                for (code, (&got, want)) in table.iter().zip(floats(values)).enumerate() {
                    let same = got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan();
                    assert!(same, "{name} {code:#x}: {got} for {want}");
                }
            }
            [name, "encode", values, saturated, unsaturated] => {
                for (saturate, codes) in [(true, bytes(saturated)), (false, bytes(unsaturated))] {
                    let rounding = Rounding { saturate, ..Rounding::default() };
                    for (x, want) in floats(values).into_iter().zip(codes) {
                        let got = encode_small_float(dtype(name), x.into(), rounding).unwrap();
                        assert_eq!(got, want, "{name} of {x:e} ({:#x}), saturate {saturate}", x.to_bits());
                    }
                }
            }
            _ => panic!("not a row: {line}"),
        }
    }
    assert_eq!(rows, 15, "eight types decode, seven encode");
}

#[test]
fn every_pair_of_number_types_converts_as_the_reference_does() {
    let mut pairs = 0;
    for line in include_str!("../data/cast/pairs.tsv").lines() {
        let &[from, to, src, want] = line.split('\t').collect::<Vec<_>>().as_slice() else {
            panic!("{line}")
        };
        let (from, to, src, want) = (dtype(from), dtype(to), bytes(src), bytes(want));
        // ml_dtypes does not extend the sign beyond the bits of an element.
        let src = if from.is_sub_byte() {
            TensorData::pack(from, &[src.len()], &src).unwrap().unpacked().unwrap().into_owned()
        } else {
            src
        };
        let mut got = vec![0xAA; src.len() / unpacked_size(from) * unpacked_size(to)];
        cast_into(from, &src, to, Rounding::default(), &mut got).unwrap();
        let per = unpacked_size(to);
        // The reference does not specify the bits above those of a packed element.
        let low = |b: &[u8]| b.iter().map(|v| v & ((1u16 << to.bits().min(8)) - 1) as u8).collect::<Vec<_>>();
        for (i, (g, w)) in got.chunks(per).zip(want.chunks(per)).enumerate() {
            let s = src.chunks(unpacked_size(from)).nth(i);
            assert_eq!(low(g), low(w), "{from} to {to}, element {i} {s:x?}");
        }
        pairs += 1;
    }
    assert_eq!(pairs, 27 * 26 - 21, "every pair of number types but the 21 that ml_dtypes lacks");
}

/// ONNX `Cast`, the table of special values of FLOAT8E8M0.
#[test]
fn powers_of_two_follow_the_table() {
    let up = Rounding { saturate: true, mode: RoundMode::Up };
    let nearest = Rounding { saturate: false, mode: RoundMode::Nearest };
    let rows = [
        (0.0, 0, 0xFF),
        (f64::NAN, 0xFF, 0xFF),
        (f64::INFINITY, 0xFE, 0xFF),
        (1e39, 0xFE, 0xFF),
        (1e-39, 0x00, 0xFF),
    ];
    for (x, saturated, unsaturated) in rows {
        assert_eq!(encode_small_float(DataType::F8E8M0, x, up), Some(saturated), "{x}");
        assert_eq!(encode_small_float(DataType::F8E8M0, x, nearest), Some(unsaturated), "{x}");
    }
    for (mode, x, code) in [
        (RoundMode::Up, 1.01, 128),
        (RoundMode::Down, 1.99, 127),
        (RoundMode::Nearest, 1.5, 128),
        (RoundMode::Nearest, 1.49, 127),
        (RoundMode::Up, -2.0, 128),
    ] {
        assert_eq!(
            encode_small_float(DataType::F8E8M0, x, Rounding { saturate: true, mode }),
            Some(code),
            "{x}"
        );
    }
}

fn texts(x: &TensorData) -> Vec<String> {
    let strings = cast(x, DataType::String, Rounding::default()).unwrap();
    strings.iter_str().map(Cow::into_owned).collect()
}

/// The strings are `str` of NumPy's `float64`; below 1e16, also of its `float32` before NumPy 2.3.
#[test]
fn numbers_are_written_with_the_fewest_digits() {
    let x = [0.9767611026763916, 0.1, 1e6, 1e-4, 9.9e-5, 1e16, 1e100, -0.0, f64::INFINITY, f64::NAN];
    let want = [
        "0.9767611026763916",
        "0.1",
        "1000000.0",
        "0.0001",
        "9.9e-05",
        "1e+16",
        "1e+100",
        "-0.0",
        "inf",
        "nan",
    ];
    assert_eq!(texts(&TensorData::new(&[10], &x).unwrap()), want);
    let x = [0.976_761_1_f32, 3e38, -1.5e-7];
    assert_eq!(texts(&TensorData::new(&[3], &x).unwrap()), ["0.9767611", "3e+38", "-1.5e-07"]);
    let x = [0.1, 65504.0, 6e-8].map(f16_from_f64);
    assert_eq!(texts(&TensorData::new(&[3], &x).unwrap()), ["0.1", "65500.0", "6e-08"]);
    assert_eq!(texts(&TensorData::new(&[2], &[u64::MAX, 0]).unwrap()), ["18446744073709551615", "0"]);
    assert_eq!(texts(&TensorData::bools(&[2], &[true, false]).unwrap()), ["True", "False"]);
    assert_eq!(texts(&TensorData::pack(DataType::I4, &[2], &[0xF8, 7]).unwrap()), ["-8", "7"]);
}

#[test]
fn strings_are_read_as_numbers() {
    let to = |to, texts: &[&str]| {
        cast(&TensorData::strings(&[texts.len()], texts).unwrap(), to, Rounding::default())
    };
    let x = to(DataType::F32, &["0.47892547", "1e-5", "1E8", "INF", "+INF", "-inf", " 12 ", "NaN"]).unwrap();
    let got = x.as_slice::<f32>().unwrap();
    let (nan, numbers) = got.split_last().unwrap();
    assert_eq!(numbers, [0.478_925_47, 1e-5, 1e8, f32::INFINITY, f32::INFINITY, f32::NEG_INFINITY, 12.0]);
    assert!(nan.is_nan());
    let x = to(DataType::I64, &["-9223372036854775808", "100.5", "+7"]).unwrap();
    assert_eq!(x.as_slice::<i64>().unwrap(), [i64::MIN, 100, 7]);
    assert_eq!(to(DataType::I4, &["-8", "7"]).unwrap().bytes().unwrap()[..], [0x78]);
    assert_eq!(to(DataType::Bool, &["", "0"]).unwrap().to_bools().unwrap(), [false, true]);
    for (dtype, text) in
        [(DataType::F32, "Hello World!"), (DataType::U8, "256"), (DataType::I32, "inf"), (DataType::F64, "")]
    {
        assert!(matches!(to(dtype, &[text]), Err(Error::CastText { .. })), "{dtype} {text}");
    }
    assert!(matches!(to(DataType::C64, &["1"]), Err(Error::Unsupported { .. })));
}

/// The table at [`bb_ir::convert`]: a value that does not fit the intermediate type becomes that type's least
/// value.
#[test]
fn floats_out_of_range_of_an_integer_type_are_defined() {
    let x = TensorData::new(&[5], &[300.7f32, 5e9, -1e19, f32::NAN, f32::INFINITY]).unwrap();
    let to = |dtype| cast(&x, dtype, Rounding::default()).unwrap();
    assert_eq!(to(DataType::U8).as_slice::<u8>().unwrap(), [44, 0, 0, 0, 0]);
    assert_eq!(to(DataType::I32).as_slice::<i32>().unwrap(), [300, i32::MIN, i32::MIN, i32::MIN, i32::MIN]);
    assert_eq!(to(DataType::U32).as_slice::<u32>().unwrap(), [300, 705_032_704, 0, 0, 0]);
    assert_eq!(
        to(DataType::I64).as_slice::<i64>().unwrap(),
        [300, 5_000_000_000, i64::MIN, i64::MIN, i64::MIN]
    );
    assert_eq!(to(DataType::U64).as_slice::<u64>().unwrap(), [300, 5_000_000_000, 1 << 63, 1 << 63, 0]);
    assert_eq!(to(DataType::Bool).to_bools().unwrap(), [true; 5]);
}
