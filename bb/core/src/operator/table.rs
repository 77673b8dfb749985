//! Tables of operators, and the lookup of an operator in all linked tables.

use super::{Body, Halves, OptionalDomain, vendor};
use crate::error::Library;
use bb_ir::graph::{Graph, Node};
use bb_ir::infer::{Operators, Rule};
use bb_ir::op::OpSpec;

/// The kind of implementation of an operator's function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Class {
    /// The function calls primitives and extension methods.
    Primitives,
    /// The function runs on the host, because the result depends on data, or because values are not numeric.
    Host,
    /// The function runs on the host, unless a backend overrides the extension method that it calls.
    HostByDefault,
    /// The function computes nothing: sequences, optionals and maps are resolved when a plan is built.
    Items,
    /// The plan runs the operator's subgraphs.
    ControlFlow,
}

/// One version of an operator that has a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operator {
    /// The domain; empty for `ai.onnx`.
    pub domain: &'static str,
    /// The operator's name, as in `ReduceSum`.
    pub name: &'static str,
    /// The opset that introduced this version. The version is valid until the next version's opset.
    pub since: i64,
    /// The kind of implementation of the function.
    pub class: Class,
    /// The primitive or family operation that the operator directly corresponds to, if any.
    pub becomes: Option<&'static OpSpec>,
    /// How the function treats 16-bit floats.
    pub halves: Halves,
    /// Attributes that the function need not read, each with a reason.
    pub ignores: &'static [(&'static str, &'static str)],
}

/// An operator that was found in a table.
#[derive(Debug, Clone, Copy)]
pub struct FoundOperator {
    /// The version that is valid for the requested opset.
    pub operator: &'static Operator,
    /// The rule that infers the types of the results, if there is one.
    pub rule: Option<Rule>,
    /// The implementation.
    pub body: Body,
}

/// The operators of a crate.
///
/// A crate registers its table with `inventory::submit!`. Two tables may not contain the same operator, because the
/// result would depend on the link order.
#[derive(Debug)]
pub struct OperatorTable {
    /// Finds the version of an operator for a model that imports this opset of the domain.
    pub find: fn(domain: &str, name: &str, opset: i64) -> Option<FoundOperator>,
    /// Lists every version that has a function, sorted by domain, name and version.
    pub operators: fn() -> &'static [&'static Operator],
    /// Adds attributes to the nodes of a checked graph that functions read but models do not contain.
    pub prepare: fn(&mut Graph),
    /// The names of the attributes that `prepare` adds.
    pub added_attributes: &'static [&'static str],
    /// Returns the library that a node needs, if no linked crate provides it.
    pub unlinked: fn(&Node) -> Option<Library>,
    /// Returns whether a node has one result, which is a sequence with one item for each row of its first operand.
    pub splits_rows: fn(&Node) -> bool,
    /// The domains whose operators are defined in other crates, which a program may omit.
    pub optional_domains: &'static [OptionalDomain],
}

impl OperatorTable {
    /// Creates a table of operators that need no additional attributes and no libraries.
    pub const fn new(
        find: fn(&str, &str, i64) -> Option<FoundOperator>,
        operators: fn() -> &'static [&'static Operator],
    ) -> OperatorTable {
        OperatorTable {
            find,
            operators,
            prepare: |_| {},
            added_attributes: &[],
            unlinked: |_| None,
            splits_rows: |_| false,
            optional_domains: &[],
        }
    }
}

inventory::collect!(OperatorTable);

fn tables() -> impl Iterator<Item = &'static OperatorTable> {
    inventory::iter::<OperatorTable>.into_iter()
}

/// Finds the operator of a domain for a model that imports `opset`. Searches the linked tables, and then the operations
/// of vendors. `ai.onnx` is another name of the empty domain.
pub fn find(domain: &str, name: &str, opset: i64) -> Option<FoundOperator> {
    if let Some(found) = tables().find_map(|table| (table.find)(domain, name, opset)) {
        return Some(found);
    }
    let (operator, body) = vendor::lookup(domain, name, opset)?;
    Some(FoundOperator { operator, rule: None, body })
}

/// Lists the versions of operators that have functions, table by table. Each table is sorted by domain, name and
/// version.
pub fn operators() -> impl Iterator<Item = &'static Operator> {
    tables().flat_map(|table| (table.operators)().iter().copied())
}

/// Adds attributes to the nodes of a checked graph that the operators' functions read but models do not contain.
pub fn prepare(graph: &mut Graph) {
    for table in tables() {
        (table.prepare)(graph);
    }
}

/// Lists the names of the attributes that [`prepare`] adds.
pub fn added_attributes() -> impl Iterator<Item = &'static str> {
    tables().flat_map(|table| table.added_attributes.iter().copied())
}

/// Returns the library that a node needs, if no linked crate provides it.
pub fn unlinked(node: &Node) -> Option<Library> {
    tables().find_map(|table| (table.unlinked)(node))
}

/// Returns whether a node has one result, which is a sequence with one item for each row of its first operand.
pub(crate) fn splits_rows(node: &Node) -> bool {
    tables().any(|table| (table.splits_rows)(node))
}

/// Lists the domains whose operators are defined in crates that a program may omit.
pub(crate) fn optional_domains() -> impl Iterator<Item = &'static OptionalDomain> {
    tables().flat_map(|table| table.optional_domains)
}

/// The operators' inference rules, used by [`CheckOptions`](bb_ir::check::CheckOptions).
pub const OPERATORS: Operators = Operators::new(|domain, name, opset| {
    tables().find_map(|table| (table.find)(domain, name, opset)).and_then(|found| found.rule)
});
