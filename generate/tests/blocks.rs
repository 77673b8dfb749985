//! The formats of ggml, beside what the Python package `gguf` makes of the same bytes.
#![expect(clippy::unwrap_used, reason = "tests")]

mod tiny;

use bb_generate::gguf::Gguf;
use serde_json::Value;
use tiny::GgufWriter;

const CASES: &str = include_str!("data/blocks.json");

/// Each number is one product and one sum, which `gguf` may round in another order.
#[test]
fn blocks_mean_what_ggml_means() {
    let cases: Vec<Value> = serde_json::from_str(CASES).unwrap();
    assert_eq!(cases.len(), 10);
    for case in &cases {
        let list = |key: &str| case.get(key).and_then(Value::as_array).unwrap();
        let bytes: Vec<u8> = list("bytes").iter().map(|x| x.as_u64().unwrap() as u8).collect();
        let expected: Vec<f32> = list("numbers").iter().map(|x| x.as_f64().unwrap() as f32).collect();
        let mut writer = GgufWriter::default();
        let number = case.get("type").and_then(Value::as_u64).unwrap() as u32;
        writer.tensor("t", &[expected.len() as u64], number, bytes);
        let file = Gguf::read(writer.bytes().into()).unwrap();
        let got = file.tensor("t").unwrap().dequantize().unwrap();
        assert_eq!(got.len(), expected.len());
        let most = expected.iter().fold(0f32, |most, x| most.max(x.abs()));
        for (got, expected) in got.iter().zip(&expected) {
            assert!(
                (got - expected).abs() <= most * 1e-6,
                "{}: {got}, expected {expected}",
                case.get("name").unwrap()
            );
        }
    }
}
