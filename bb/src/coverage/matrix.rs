//! A matrix of every version of every operator and every element type, with how each runs on a backend.

use super::How;
use super::samples::Samples;
use crate::Runtime;
use bb_core::plan::how_version;
use bb_ir::DataType;
use bb_ir::opset;
use std::sync::Arc;

/// One version of an operator on a backend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// The domain; empty for `ai.onnx`.
    pub domain: &'static str,
    /// The operator, as in `ReduceSum`.
    pub name: &'static str,
    /// The opset that introduced this version.
    pub since: i64,
    /// How the version runs. It is unsupported if the backend refused every element type that was tried. The number of
    /// operations of a lowered operator is counted in the call that was tried.
    pub how: How,
    /// The element types that ONNX allows and the backend supports. The list is empty if ONNX has no schema
    /// for the operator, and for operators that have maps as operands.
    pub served: Vec<DataType>,
    /// The element types that ONNX allows and that failed when tried, with the reason.
    pub refused: Vec<Refused>,
}

/// An element type that failed when tried.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Refused {
    /// The element type that was tried.
    pub dtype: DataType,
    /// The side that refused it.
    pub by: RefusedBy,
    /// The message of the refusal.
    pub reason: String,
}

/// The side that refuses an element type.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RefusedBy {
    /// An operation of the backend.
    Backend {
        /// The operation, as in `exp`; empty if the error does not name it.
        op: String,
    },
    /// The operator itself, on every backend, because its computation has no meaning for the type.
    Operator,
    /// The tried call itself: it also has an operand of another type, which the backend refuses. If that
    /// operand can have a supported type, the backend may support the type in question.
    Probe {
        /// The other type.
        needs: DataType,
    },
}

/// How every version of every operator runs on a backend.
///
/// The element types come from [`OperatorVersion::types`](bb_ir::opset::OperatorVersion::types). Trials decide
/// which of them the backend supports: for each version and type, a small call of the
/// operator runs, from the operands to the results on the host, with the backend's native operations and with
/// everything that the operator is lowered to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Matrix {
    /// The backend's name.
    pub backend: &'static str,
    /// One row per version, sorted by domain, name and version. Operators without a schema of ONNX come last.
    pub rows: Vec<Row>,
}

impl Matrix {
    /// Tries every operator on a backend.
    pub fn of(on: &Arc<Runtime>) -> Matrix {
        let natives = on.capabilities().families;
        let samples = Samples::read();
        let row = |domain, name, since| {
            let how = how_version(domain, name, since, &natives, None);
            Row { domain, name, since, how, served: Vec::new(), refused: Vec::new() }
        };
        let mut rows: Vec<Row> = opset::versions()
            .filter_map(|version| {
                let (domain, name, since) = (version.domain, version.name, version.since);
                let mut row = row(domain, name, since);
                for dtype in version.types? {
                    let Some(sample) = samples.of(domain, name, since, dtype) else { continue };
                    let answer = match row.how {
                        How::Unsupported => {
                            Err((RefusedBy::Operator, bb_core::operator::advice(domain, name, since)))
                        }
                        _ => sample.answer(on, name),
                    };
                    match answer {
                        Ok(steps) => {
                            row.served.push(dtype);
                            if let (How::Lowered(counted @ None), Some(1..)) = (&mut row.how, steps) {
                                *counted = steps;
                            }
                        }
                        Err((by, reason)) => row.refused.push(Refused { dtype, by, reason }),
                    }
                }
                let lacks = |refused: &Refused| matches!(refused.by, RefusedBy::Backend { .. });
                if row.served.is_empty() && row.refused.iter().any(lacks) {
                    row.how = How::Unsupported;
                }
                Some(row)
            })
            .collect();
        let others = bb_core::operator::operators();
        let others = others.filter(|o| !opset::versions().any(|v| v.domain == o.domain));
        rows.extend(others.map(|o| row(o.domain, o.name, o.since)));
        Matrix { backend: on.name(), rows }
    }
}
