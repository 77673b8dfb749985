//! Writes the outputs of a run: as JSON, as a table, or to files.

mod files;
mod json;
mod names;

pub(crate) use files::write;
pub(crate) use json::item as json;
pub(crate) use names::stems;

use bb::TensorData;
use bb::onnx::OnnxValue;

/// A value with its name in the model.
pub(crate) struct Named {
    pub(crate) name: String,
    /// Whether the model declares that the value may be absent, because files then store an optional.
    pub(crate) optional: bool,
    pub(crate) item: OnnxValue<TensorData>,
}

/// Lists the parts of a value, each with a name and a summary: `y` itself, `y[0]` of a sequence, `y.keys` of
/// a map.
pub(crate) fn rows(name: &str, item: &OnnxValue<TensorData>, rows: &mut Vec<[String; 2]>) {
    match item {
        OnnxValue::Tensor(x) => rows.push([name.to_owned(), x.summary().to_string()]),
        OnnxValue::Sequence(items) if items.is_empty() => {
            rows.push([name.to_owned(), "an empty sequence".to_owned()])
        }
        OnnxValue::Sequence(items) => {
            items.iter().enumerate().for_each(|(i, item)| self::rows(&format!("{name}[{i}]"), item, rows));
        }
        OnnxValue::Absent => rows.push([name.to_owned(), "nothing".to_owned()]),
        OnnxValue::Map { keys, values } => {
            rows.push([format!("{name}.keys"), keys.summary().to_string()]);
            rows.push([format!("{name}.values"), values.summary().to_string()]);
        }
    }
}
