//! Converts values to JSON without loss.
//!
//! Values that JSON numbers cannot represent are strings: `"NaN"`, `"Infinity"`, `"-Infinity"`, and integers
//! beyond 2^53, which many JSON readers round. A float is written with the fewest digits that identify it. A
//! complex number is a list of two numbers.

use crate::error::Result;
use crate::number;
use bb::onnx::OnnxValue;
use bb::{DataType, TensorData};
use bb_ir::convert::{Rounding, cast};
use serde_json::{Value, json};

/// The maximum integer whose smaller integers are all exact as `f64`, too.
const EXACT: u64 = 1 << 53;

/// Converts a value. Includes at most the first `most` elements of each tensor.
pub(crate) fn item(item: &OnnxValue<TensorData>, most: usize) -> Result<Value> {
    Ok(match item {
        OnnxValue::Tensor(x) => {
            let mut record = tensor(x, most)?;
            record.insert("kind".to_owned(), "tensor".into());
            record.into()
        }
        OnnxValue::Sequence(items) => {
            let items = items.iter().map(|item| self::item(item, most)).collect::<Result<Vec<_>>>()?;
            json!({ "kind": "sequence", "items": items })
        }
        OnnxValue::Absent => json!({ "kind": "absent" }),
        OnnxValue::Map { keys, values } => {
            json!({ "kind": "map", "keys": tensor(keys, most)?, "values": tensor(values, most)? })
        }
    })
}

/// Formats the first `most` elements on one line.
pub(super) fn list(x: &TensorData, most: usize) -> Result<String> {
    let mut text = elements(x, most)?.iter().map(Value::to_string).collect::<Vec<_>>().join(", ");
    if most > 0 && most < x.len() {
        text.push_str(", …");
    }
    Ok(text)
}

fn tensor(x: &TensorData, most: usize) -> Result<serde_json::Map<String, Value>> {
    let mut record = serde_json::Map::new();
    record.insert("type".to_owned(), x.dtype().name().into());
    record.insert("shape".to_owned(), x.shape().into());
    record.insert("count".to_owned(), x.len().into());
    record.insert("values".to_owned(), elements(x, most)?.into());
    record.insert("summary".to_owned(), x.summary().to_string().into());
    Ok(record)
}

fn elements(x: &TensorData, most: usize) -> Result<Vec<Value>> {
    let narrow = |to| cast(x, to, Rounding::default());
    Ok(match x.dtype() {
        DataType::String => x.iter_str().take(most).map(Value::from).collect(),
        DataType::Bool => x.to_bools()?.into_iter().take(most).map(Value::from).collect(),
        DataType::F64 => x.as_slice::<f64>()?.iter().take(most).map(|&v| double(v)).collect(),
        DataType::C64 => {
            let parts = parts(x, DataType::F32)?;
            pairs(parts.as_slice::<f32>()?, most, single)
        }
        DataType::C128 => {
            let parts = parts(x, DataType::F64)?;
            pairs(parts.as_slice::<f64>()?, most, double)
        }
        DataType::U64 => x.as_slice::<u64>()?.iter().take(most).map(|&v| unsigned(v)).collect(),
        dtype if !number::is_float(dtype) => {
            narrow(DataType::I64)?.as_slice::<i64>()?.iter().take(most).map(|&v| signed(v)).collect()
        }
        _ => narrow(DataType::F32)?.as_slice::<f32>()?.iter().take(most).map(|&v| single(v)).collect(),
    })
}

/// Returns the real and imaginary parts of complex numbers, alternately.
fn parts(x: &TensorData, dtype: DataType) -> Result<TensorData> {
    let shape = [x.len().saturating_mul(2)];
    Ok(TensorData::adopt(dtype, &shape, x.bytes()?.clone())?)
}

fn pairs<T: Copy>(parts: &[T], most: usize, write: impl Fn(T) -> Value) -> Vec<Value> {
    parts.as_chunks().0.iter().take(most).map(|[re, im]| json!([write(*re), write(*im)])).collect()
}

fn signed(v: i64) -> Value {
    if v.unsigned_abs() <= EXACT { v.into() } else { v.to_string().into() }
}

fn unsigned(v: u64) -> Value {
    if v <= EXACT { v.into() } else { v.to_string().into() }
}

fn double(v: f64) -> Value {
    match serde_json::Number::from_f64(v) {
        Some(number) => number.into(),
        None if v.is_nan() => "NaN".into(),
        None if v > 0.0 => "Infinity".into(),
        None => "-Infinity".into(),
    }
}

/// Returns the `f64` with the same shortest decimal representation as the `f32`.
fn single(v: f32) -> Value {
    double(v.to_string().parse().unwrap_or(f64::from(v)))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn values(x: &TensorData) -> String {
        Value::from(elements(x, usize::MAX).unwrap()).to_string()
    }

    #[test]
    fn nothing_is_lost() {
        let x = TensorData::new(&[5], &[0.1f32, f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0.0]).unwrap();
        assert_eq!(values(&x), r#"[0.1,"NaN","Infinity","-Infinity",-0.0]"#);
        let x = TensorData::new(&[3], &[(1i64 << 53), (1 << 53) + 1, i64::MIN]).unwrap();
        assert_eq!(values(&x), r#"[9007199254740992,"9007199254740993","-9223372036854775808"]"#);
        let x = TensorData::new(&[1], &[u64::MAX]).unwrap();
        assert_eq!(values(&x), r#"["18446744073709551615"]"#);
        let x = TensorData::new(&[1], &[f64::MIN_POSITIVE]).unwrap();
        assert_eq!(values(&x).trim_matches(['[', ']']).parse::<f64>().unwrap(), f64::MIN_POSITIVE);
    }

    #[test]
    fn every_type_has_a_form() {
        let x = TensorData::pack(DataType::I4, &[3], &[0xF8, 7, 1]).unwrap();
        assert_eq!(values(&x), "[-8,7,1]");
        let x = TensorData::new(&[1], &[bb::bf16::from_f32(1.5)]).unwrap();
        assert_eq!(values(&x), "[1.5]");
        let x = TensorData::adopt(
            DataType::C64,
            &[1],
            TensorData::new(&[2], &[1f32, -2.0]).unwrap().bytes().unwrap().clone(),
        );
        assert_eq!(values(&x.unwrap()), "[[1.0,-2.0]]");
        assert_eq!(values(&TensorData::bools(&[2], &[true, false]).unwrap()), "[true,false]");
        assert_eq!(values(&TensorData::strings(&[1], &["a\"\n"]).unwrap()), r#"["a\"\n"]"#);
    }

    #[test]
    fn the_first_come_with_their_count() {
        let x = TensorData::new(&[3], &[1i32, 2, 3]).unwrap();
        let json = item(&OnnxValue::Tensor(x), 2).unwrap();
        assert_eq!(
            (json.pointer("/count"), json.pointer("/values")),
            (Some(&json!(3)), Some(&json!([1, 2])))
        );
    }
}
