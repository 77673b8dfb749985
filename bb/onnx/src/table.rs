//! The operators of a crate as a sorted table, built from the rows of its topics and the versions in ONNX's schemas.

use crate::rows::Row;
use bb_core::operator::{Body, FoundOperator, Operator};
use bb_ir::infer::Rule;
use bb_ir::opset::{self, domain_name};
use std::sync::OnceLock;

/// The location of a function in a table.
#[derive(Debug, Clone, Copy)]
pub struct FunctionPlace {
    /// The topic.
    pub topic: usize,
    /// The row of the topic.
    pub row: usize,
    /// The function of the row.
    pub function: usize,
}

/// A version of an operator.
#[derive(Debug)]
struct OperatorVersion {
    operator: Operator,
    rule: Rule,
    /// The function; `None` for a version of ONNX that removed the operator.
    place: Option<FunctionPlace>,
}

/// The operators of a crate, which `operator_table!` declares.
#[derive(Debug)]
pub struct Table {
    topics: &'static [&'static [Row]],
    entries: OnceLock<Vec<OperatorVersion>>,
    served: OnceLock<Vec<&'static Operator>>,
}

impl Table {
    /// Creates a table from the rows of topics.
    pub const fn new(topics: &'static [&'static [Row]]) -> Table {
        Table { topics, entries: OnceLock::new(), served: OnceLock::new() }
    }

    /// Returns every version of every operator, ordered by domain, name and version.
    fn entries(&self) -> &[OperatorVersion] {
        self.entries.get_or_init(|| {
            let mut all = Vec::new();
            for (topic, rows) in self.topics.iter().enumerate() {
                for (row, this) in rows.iter().enumerate() {
                    for (since, there) in versions(this) {
                        let function = this.functions.iter().rposition(|(from, _)| *from <= since);
                        let Some((function, (_, class))) =
                            function.and_then(|at| Some((at, *this.functions.get(at)?)))
                        else {
                            continue;
                        };
                        let &Row { domain, name, rule, becomes, halves, ignores, .. } = this;
                        let operator = Operator { domain, name, since, class, becomes, halves, ignores };
                        all.push(OperatorVersion {
                            operator,
                            rule,
                            place: there.then_some(FunctionPlace { topic, row, function }),
                        });
                    }
                }
            }
            all.sort_by_key(|entry| (entry.operator.domain, entry.operator.name, entry.operator.since));
            all
        })
    }

    fn entry(&self, domain: &str, name: &str, opset: i64) -> Option<(&OperatorVersion, FunctionPlace)> {
        let (domain, entries) = (domain_name(domain), self.entries());
        let end = entries.partition_point(|e| {
            (e.operator.domain, e.operator.name, e.operator.since) <= (domain, name, opset)
        });
        let found = entries.get(end.checked_sub(1)?)?;
        let same = found.operator.domain == domain && found.operator.name == name;
        // There is no function if a later ONNX version removed the operator.
        Some((found, found.place?)).filter(|_| same)
    }

    /// Returns the operator for a model that imports `opset` of `domain`. Its function comes from `body`.
    ///
    /// `ai.onnx` is another name of the empty domain.
    pub fn find(
        &'static self,
        body: fn(FunctionPlace) -> Option<Body>,
        (domain, name, opset): (&str, &str, i64),
    ) -> Option<FoundOperator> {
        let (entry, place) = self.entry(domain, name, opset)?;
        Some(FoundOperator { operator: &entry.operator, rule: Some(entry.rule), body: body(place)? })
    }

    /// Lists the operator versions that have an implementation, ordered by domain, name and version.
    pub fn served(&'static self) -> &'static [&'static Operator] {
        self.served.get_or_init(|| {
            self.entries().iter().filter(|entry| entry.place.is_some()).map(|entry| &entry.operator).collect()
        })
    }

    /// Lists domain, operator and first version of each function whose first version has no schema.
    pub fn unversioned(&self) -> Vec<(&'static str, &'static str, i64)> {
        let rows = self.topics.iter().flat_map(|rows| rows.iter());
        let functions =
            rows.flat_map(|row| row.functions.iter().map(move |(from, _)| (row.domain, row.name, *from)));
        let begins = |domain, name, from| from == 0 || opset::history(domain, name).any(|v| v.since == from);
        functions.filter(|(domain, name, from)| !begins(domain, name, *from)).collect()
    }
}

/// Lists the versions of an operator, and whether each version has the operator (true) or removed it (false).
///
/// ONNX's schemas define the versions. A row may also declare versions without a schema: versions of other domains,
/// and a version that models used before ONNX defined the operator.
fn versions(row: &Row) -> Vec<(i64, bool)> {
    let mut all: Vec<(i64, bool)> =
        opset::history(row.domain, row.name).map(|v| (v.since, v.types.is_some())).collect();
    let oldest = all.first().map_or(i64::MAX, |(since, _)| *since);
    let before = row.functions.iter().map(|(from, _)| *from).filter(|from| (1..oldest).contains(from));
    all.splice(0..0, before.map(|from| (from, true)).collect::<Vec<_>>());
    if all.is_empty() {
        all.push((1, true));
    }
    all
}

/// Declares the table of an operator crate, from its topics. Each topic is a module with `ROWS` and `body`.
///
/// The macro defines `find` and `served` for the crate's [`OperatorTable`](bb_core::operator::OperatorTable).
#[doc(hidden)]
#[macro_export]
macro_rules! __operator_table {
    ($( $($topic:ident)::+, )+) => {
        static TABLE: $crate::shared::Table = $crate::shared::Table::new(&[$( $($topic)::+::ROWS ),+]);

        /// Returns a function of a row of a topic.
        fn body(at: $crate::shared::FunctionPlace) -> Option<bb_core::operator::Body> {
            let topics: &[fn(usize, usize) -> Option<bb_core::operator::Body>] = &[$( $($topic)::+::body ),+];
            topics.get(at.topic)?(at.row, at.function)
        }

        fn find(domain: &str, op_type: &str, opset: i64) -> Option<bb_core::operator::FoundOperator> {
            TABLE.find(body, (domain, op_type, opset))
        }

        fn served() -> &'static [&'static bb_core::operator::Operator] {
            TABLE.served()
        }
    };
}

pub use crate::__operator_table as operator_table;
