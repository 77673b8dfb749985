//! Every operator, in every version, on every element type: what runs it on a backend.

use super::probe::Probe;
use super::{How, how_version};
use crate::BackendRuntime;
use crate::ext::OpSet;
use bb_ir::DataType;
use bb_ir::op::{Family, Primitive};
use bb_ir::opset;

/// One version of an operator on a backend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// The domain; empty for `ai.onnx`.
    pub domain: &'static str,
    /// The operator, as in `ReduceSum`.
    pub name: &'static str,
    /// The opset that brought this version.
    pub since: i64,
    /// What runs it.
    pub how: How,
    /// The element types that ONNX allows and the backend serves; empty where ONNX has no schema.
    pub served: Vec<DataType>,
    /// The element types that ONNX allows and the backend does not serve.
    pub refused: Vec<DataType>,
}

/// What runs every version of every operator on a backend.
///
/// Element types are those of [`OperatorVersion::types`](bb_ir::opset::OperatorVersion::types). The backend's own answer decides which it
/// serves: a primitive is served on the types on which a call of it succeeds; what is made of primitives on the types
/// on which every primitive that takes the type succeeds, and on the storage types that it can hold, move and cast.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Matrix {
    /// The backend's name.
    pub backend: &'static str,
    /// A row per version, by domain, name and version; what ONNX has no schema for comes last.
    pub rows: Vec<Row>,
}

impl Matrix {
    /// Asks a backend.
    pub fn of(on: &dyn BackendRuntime) -> Matrix {
        let natives = on.capabilities().families;
        let probe = Probe::of(on);
        let mut rows: Vec<Row> = opset::versions()
            .filter_map(|version| {
                let allowed = version.types?;
                let how = how(version.domain, version.name, version.since, &natives);
                let primitive = Primitive::from_name(version.name).filter(|_| version.domain.is_empty());
                let serves = |dtype: &DataType| match (how, primitive) {
                    (How::Unsupported, _) => false,
                    (_, Some(op)) => probe.takes(op, *dtype),
                    (_, None) => probe.serves(*dtype),
                };
                let (served, refused) = allowed.into_iter().partition(serves);
                let (domain, name, since) = (version.domain, version.name, version.since);
                Some(Row { domain, name, since, how, served, refused })
            })
            .collect();
        rows.extend(
            crate::onnx::operators().filter(|o| !opset::versions().any(|v| v.domain == o.domain)).map(|o| {
                Row {
                    domain: o.domain,
                    name: o.name,
                    since: o.since,
                    how: how(o.domain, o.name, o.since, &natives),
                    served: Vec::new(),
                    refused: Vec::new(),
                }
            }),
        );
        Matrix { backend: on.name(), rows }
    }
}

fn how(domain: &str, name: &str, since: i64, natives: &[(Family, OpSet)]) -> How {
    if domain.is_empty() && matches!(name, "If" | "Loop" | "Scan" | "SequenceMap") {
        return How::Lowered(None);
    }
    how_version(domain, name, since, natives, None)
}
