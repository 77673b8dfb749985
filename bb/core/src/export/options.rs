//! Options for writing a trace as a model.

use super::Keep;
use crate::Error;
use bb_ir::DataType;
use bb_ir::opset::NEWEST;

/// The oldest opset of written models. In older opsets, some operands are still attributes.
const OLDEST: i64 = 13;

/// The default opset: the newest that every release of ONNX Runtime since 1.18 supports.
const USUAL: i64 = 21;

/// The format version (IR version) of the ONNX release that introduced each opset, from [`OLDEST`] on.
///
/// Source: `onnx/docs/Versioning.md`.
const IR_VERSIONS: [i64; 16] = [7, 7, 8, 8, 8, 8, 9, 9, 10, 10, 11, 12, 13, 13, 13, 14];

/// Options for writing a trace as a model: the opset, the operators that are kept, and the names.
///
/// # Examples
///
/// ```
/// use bb::export::{ExportOptions, Keep};
/// let options = ExportOptions::default()
///     .opset(17)
///     .keep(Keep::All)
///     .outputs(["probabilities"])
///     .symbol("x", 0, "batch");
/// ```
#[derive(Debug, Clone)]
pub struct ExportOptions {
    pub(super) opset: i64,
    pub(super) ir_version: Option<i64>,
    pub(super) keep: Keep,
    pub(super) outputs: Option<Vec<String>>,
    pub(super) symbols: Vec<(String, usize, String)>,
    pub(super) graph_name: String,
    pub(super) producer: (String, String),
    pub(super) external_above: Option<usize>,
}

impl Default for ExportOptions {
    fn default() -> ExportOptions {
        ExportOptions {
            opset: USUAL,
            ir_version: None,
            keep: Keep::default(),
            outputs: None,
            symbols: Vec::new(),
            graph_name: "traced".to_owned(),
            producer: ("bb".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
            external_above: None,
        }
    }
}

impl ExportOptions {
    /// Sets the opset of the model's operators, from 13 to [`NEWEST`](bb_ir::opset::NEWEST). The default is 21.
    #[must_use]
    pub fn opset(self, opset: i64) -> ExportOptions {
        ExportOptions { opset, ..self }
    }

    /// Sets the version of the file format. The default is the version of the ONNX release that introduced the opset.
    ///
    /// ONNX Runtime 1.31 reads versions up to 13.
    #[must_use]
    pub fn ir_version(self, version: i64) -> ExportOptions {
        ExportOptions { ir_version: Some(version), ..self }
    }

    /// Sets which operations are written as ONNX's own operators. By default, all operations are lowered to primitives.
    #[must_use]
    pub fn keep(self, keep: Keep) -> ExportOptions {
        ExportOptions { keep, ..self }
    }

    /// Sets the names of the outputs, in order. The default is a model's own names, or `output_0`, `output_1`, … for a
    /// function.
    #[must_use]
    pub fn outputs<S: Into<String>>(self, names: impl IntoIterator<Item = S>) -> ExportOptions {
        ExportOptions { outputs: Some(names.into_iter().map(Into::into).collect()), ..self }
    }

    /// Declares a dimension of an input as a symbol, so that the model accepts any extent there.
    ///
    /// The export fails if the traced function or its lowered operations queried the input's extents.
    #[must_use]
    pub fn symbol(
        mut self,
        input: impl Into<String>,
        dimension: usize,
        name: impl Into<String>,
    ) -> ExportOptions {
        self.symbols.push((input.into(), dimension, name.into()));
        self
    }

    /// Sets the name of the graph. The default is `traced`.
    #[must_use]
    pub fn graph_name(self, name: impl Into<String>) -> ExportOptions {
        ExportOptions { graph_name: name.into(), ..self }
    }

    /// Sets the name and version of the program that writes the model. The default is `bb` and its version.
    #[must_use]
    pub fn producer(self, name: impl Into<String>, version: impl Into<String>) -> ExportOptions {
        ExportOptions { producer: (name.into(), version.into()), ..self }
    }

    /// Writes the elements of larger initializers to a file next to the model.
    ///
    /// By default, this happens only if one file cannot store the model, because it exceeds 2 GiB.
    ///
    /// Units: bytes of one initializer. An initializer moves to the file if it is larger.
    #[must_use]
    pub fn external_above(self, bytes: usize) -> ExportOptions {
        ExportOptions { external_above: Some(bytes), ..self }
    }

    /// Checks the options, and returns the version of the file format.
    pub(super) fn check(&self, dtypes: impl Iterator<Item = DataType>) -> Result<i64, Error> {
        let at = self.opset.checked_sub(OLDEST).and_then(|at| usize::try_from(at).ok());
        let Some(&of_opset) = at.and_then(|at| IR_VERSIONS.get(at)) else {
            let (version, newest) = (self.opset, NEWEST);
            return Err(bb_ir::Error::Opset { domain: String::new(), version, oldest: OLDEST, newest }.into());
        };
        if let Keep::Operators(names) = &self.keep {
            let known = Keep::names();
            if let Some(name) = names.iter().find(|name| !known.contains(name.as_str())) {
                let nearest = bb_ir::nearest(name, known.iter().copied());
                return Err(Error::NotKept {
                    name: name.clone(),
                    nearest,
                    known: known.into_iter().collect(),
                });
            }
        }
        let least = least_ir_version(dtypes);
        match self.ir_version {
            None => Ok(of_opset.max(least)),
            Some(version) => check_ir_version(version, least),
        }
    }
}

/// Checks a requested version of the file format.
///
/// # Errors
///
/// [`Error::IrVersion`] if it is unknown, or older than `least`.
pub fn check_ir_version(version: i64, least: i64) -> Result<i64, Error> {
    let newest = IR_VERSIONS.last().copied().unwrap_or_default();
    if (least..=newest).contains(&version) {
        return Ok(version);
    }
    Err(Error::IrVersion { version, least, newest })
}

/// Returns the first version of the file format that has all these element types, and initializers that are not inputs.
///
/// Source: the comments of `Version` in `onnx.proto`.
pub(super) fn least_ir_version(dtypes: impl Iterator<Item = DataType>) -> i64 {
    let since = |dtype| match dtype {
        DataType::F8E4M3FN | DataType::F8E4M3FNUZ | DataType::F8E5M2 | DataType::F8E5M2FNUZ => 9,
        DataType::I4 | DataType::U4 => 10,
        DataType::F4E2M1 => 11,
        DataType::F8E8M0 => 12,
        DataType::I2 | DataType::U2 => 13,
        DataType::F6E2M3 | DataType::F6E3M2 => 14,
        _ => 4,
    };
    dtypes.map(since).max().unwrap_or(4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_opset_has_a_version_of_the_format() {
        assert_eq!(IR_VERSIONS.len() as i64, NEWEST - OLDEST + 1);
        assert!(IR_VERSIONS.is_sorted());
    }
}
