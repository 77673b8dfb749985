//! Reads the records that `tests/drawn/draw.py` writes.

use bb::ir::proto::TensorProto;
use bb::{DataType, TensorData};
use prost::Message;
use serde_json::Value;
use std::io::Read;

/// Tensors by the paths of the values that they are parts of.
pub(crate) type Leaves = Vec<(String, TensorData)>;

/// A model, its inputs, and the answers of others.
pub(crate) struct Record {
    pub(crate) description: Value,
    pub(crate) model: Vec<u8>,
    pub(crate) inputs: Leaves,
    /// The results of ONNX's evaluator, unless it refuses the model or lacks something.
    pub(crate) evaluator: Option<Leaves>,
    /// The results of ONNX Runtime, unless it refuses the model or lacks something.
    pub(crate) ort: Option<Leaves>,
}

impl Record {
    pub(crate) fn text(&self, field: &str) -> &str {
        self.description.get(field).and_then(Value::as_str).unwrap_or_default()
    }

    /// Whether the description has a word among its tags or nodes.
    pub(crate) fn has(&self, field: &str, word: &str) -> bool {
        let list = self.description.get(field).and_then(Value::as_array);
        list.is_some_and(|list| list.iter().any(|item| item.as_str() == Some(word)))
    }

    pub(crate) fn tags(&self) -> impl Iterator<Item = &str> {
        let list = self.description.get("tags").and_then(Value::as_array);
        list.into_iter().flatten().filter_map(Value::as_str)
    }

    pub(crate) fn number(&self, field: &str) -> i64 {
        self.description.get(field).and_then(Value::as_i64).unwrap_or_default()
    }

    /// Returns the types of floats in the model.
    pub(crate) fn precisions(&self) -> impl Iterator<Item = DataType> {
        let list = self.description.get("precisions").and_then(Value::as_array);
        let names = list.into_iter().flatten().filter_map(Value::as_str);
        names.map(|name| match name {
            "float64" | "complex128" => DataType::F64,
            "float32" | "complex64" => DataType::F32,
            "float16" => DataType::F16,
            "bfloat16" => DataType::BF16,
            _ => DataType::F8E4M3FN,
        })
    }

    /// Names the model by its number, its operator and its nodes.
    pub(crate) fn name(&self) -> String {
        let nodes = self.description.get("nodes").map(ToString::to_string).unwrap_or_default();
        let (domain, operator) = (self.text("domain"), self.text("operator"));
        format!("{}: {domain} {operator} {} {nodes}", self.number("number"), self.number("since"))
    }
}

/// Reads records until their source ends.
pub(crate) struct Reader<R> {
    from: R,
}

impl<R: Read> Reader<R> {
    pub(crate) fn new(from: R) -> Self {
        Reader { from }
    }
}

impl<R: Read> Iterator for Reader<R> {
    type Item = Record;

    fn next(&mut self) -> Option<Record> {
        let mut size = [0; 4];
        self.from.read_exact(&mut size).ok()?;
        let mut data = vec![0; u32::from_le_bytes(size) as usize];
        self.from.read_exact(&mut data).unwrap();
        let mut rest = data.as_slice();
        let description: Value = serde_json::from_slice(&block(&mut rest)).unwrap();
        let model = block(&mut rest);
        let [inputs, evaluator, ort] = [0; 3].map(|_| tensors(&mut rest));
        let given = |name: &str, leaves| (description.get(name)?.as_str()? == "ok").then_some(leaves);
        let (evaluator, ort) = (given("evaluator", evaluator), given("ort", ort));
        Some(Record { evaluator, ort, model, inputs, description })
    }
}

fn count(rest: &mut &[u8]) -> usize {
    let mut number = [0; 4];
    rest.read_exact(&mut number).unwrap();
    u32::from_le_bytes(number) as usize
}

fn block(rest: &mut &[u8]) -> Vec<u8> {
    let mut data = vec![0; count(rest)];
    rest.read_exact(&mut data).unwrap();
    data
}

fn tensors(rest: &mut &[u8]) -> Leaves {
    let read = |rest: &mut &[u8]| {
        let proto = TensorProto::decode(&*block(rest)).unwrap();
        (proto.name().to_owned(), TensorData::from_proto(&proto).unwrap())
    };
    (0..count(rest)).map(|_| read(rest)).collect()
}
