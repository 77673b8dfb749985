//! Writes the outputs of a run: as JSON, as a table, or to files.

mod files;
mod json;
mod names;

pub(crate) use files::write;
pub(crate) use json::item as json;
pub(crate) use names::stems;

use crate::error::{Error, Result};
use bb::TensorData;
use bb::onnx::OnnxValue;

/// A value with its name in the model.
pub(crate) struct Named {
    pub(crate) name: String,
    /// Whether the model declares the value as optional. Files then contain an optional message.
    pub(crate) optional: bool,
    pub(crate) item: OnnxValue<TensorData>,
}

/// Lists the tensors of a value, each with a name, a summary and the first `most` elements. The names are `y` itself, `y[0]` for a
/// sequence, and `y.keys` for a map.
pub(crate) fn rows(
    name: &str,
    item: &OnnxValue<TensorData>,
    most: usize,
    rows: &mut Vec<[String; 3]>,
) -> Result<()> {
    let row =
        |name: String, x: &TensorData| Ok::<_, Error>([name, x.summary().to_string(), json::list(x, most)?]);
    match item {
        OnnxValue::Tensor(x) => rows.push(row(name.to_owned(), x)?),
        OnnxValue::Sequence(items) if items.is_empty() => {
            rows.push([name.to_owned(), "an empty sequence".to_owned(), String::new()])
        }
        OnnxValue::Sequence(items) => {
            for (i, item) in items.iter().enumerate() {
                self::rows(&format!("{name}[{i}]"), item, most, rows)?;
            }
        }
        OnnxValue::Absent => rows.push([name.to_owned(), "nothing".to_owned(), String::new()]),
        OnnxValue::Map { keys, values } => {
            rows.push(row(format!("{name}.keys"), keys)?);
            rows.push(row(format!("{name}.values"), values)?);
        }
    }
    Ok(())
}
