//! Tables of operators, and finding an operator in those that are linked.

use super::{Body, Halves, OptionalDomain, vendor};
use crate::error::Library;
use bb_ir::graph::{Graph, Node};
use bb_ir::infer::{Operators, Rule};
use bb_ir::op::OpSpec;

/// The implementation of an operator's function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Class {
    /// Primitives and extension methods.
    Primitives,
    /// The host, because the result depends on data, or because values are not numeric.
    Host,
    /// The host, unless a backend overrides the extension method it calls.
    HostByDefault,
    /// Nothing that computes: sequences, optionals and maps are taken apart when a plan is made.
    Items,
    /// Subgraphs, which the plan runs.
    ControlFlow,
}

/// One version of an operator that a function serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operator {
    /// The domain; empty for `ai.onnx`.
    pub domain: &'static str,
    /// The operator, as in `ReduceSum`.
    pub name: &'static str,
    /// The opset that brought this version; it holds until the next version's.
    pub since: i64,
    /// The implementation of the function.
    pub class: Class,
    /// The primitive, or the operation of a family, that the operator becomes, if it becomes one.
    pub becomes: Option<&'static OpSpec>,
    /// How the function treats 16-bit floats.
    pub halves: Halves,
    /// Attributes that the function need not read, each with the reason.
    pub ignores: &'static [(&'static str, &'static str)],
}

/// An operator of a table, for planning.
#[derive(Debug, Clone, Copy)]
pub struct FoundOperator {
    /// The version that serves the opset.
    pub operator: &'static Operator,
    /// The rule that infers the types of the results, if there is one.
    pub rule: Option<Rule>,
    /// The function, on the tracer.
    pub body: Body,
}

/// A crate's operators.
///
/// A crate registers its table with `inventory::submit!`. Tables may not share an operator: the one that is linked first would
/// answer.
#[derive(Debug)]
pub struct OperatorTable {
    /// Finds the version that serves a domain's operator for a model that imports the opset.
    pub find: fn(domain: &str, name: &str, opset: i64) -> Option<FoundOperator>,
    /// Lists every version that has a function, by domain, name and version.
    pub operators: fn() -> &'static [&'static Operator],
    /// Adds attributes to nodes of a checked graph, which their functions read and models do not have.
    pub prepare: fn(&mut Graph),
    /// The names of these attributes.
    pub added_attributes: &'static [&'static str],
    /// Returns the library that a node needs and no linked crate offers.
    pub unlinked: fn(&Node) -> Option<Library>,
    /// Returns whether the only result of a node is a sequence with one item for each row of its first operand.
    pub splits_rows: fn(&Node) -> bool,
    /// The domains whose operators are in other crates, which a program may leave out.
    pub optional_domains: &'static [OptionalDomain],
}

impl OperatorTable {
    /// Makes a table of operators that need no attributes and no libraries.
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

/// Finds the operator of a domain for a model that imports `opset`, in the tables that are linked and among the operations of
/// vendors. `ai.onnx` is another name of the empty domain.
pub fn find(domain: &str, name: &str, opset: i64) -> Option<FoundOperator> {
    if let Some(found) = tables().find_map(|table| (table.find)(domain, name, opset)) {
        return Some(found);
    }
    let (operator, body) = vendor::lookup(domain, name, opset)?;
    Some(FoundOperator { operator, rule: None, body })
}

/// Lists the versions of operators that have functions, table by table. Each table is ordered by domain, name and
/// version.
pub fn operators() -> impl Iterator<Item = &'static Operator> {
    tables().flat_map(|table| (table.operators)().iter().copied())
}

/// Adds attributes to the nodes of a checked graph: those that the operators' functions read and that models do not have.
pub fn prepare(graph: &mut Graph) {
    for table in tables() {
        (table.prepare)(graph);
    }
}

/// Lists the names of the attributes that [`prepare`] adds.
pub fn added_attributes() -> impl Iterator<Item = &'static str> {
    tables().flat_map(|table| table.added_attributes.iter().copied())
}

/// Returns the library that a node needs and no linked crate offers.
pub fn unlinked(node: &Node) -> Option<Library> {
    tables().find_map(|table| (table.unlinked)(node))
}

/// Returns whether the only result of a node is a sequence with one item for each row of its first operand.
pub(crate) fn splits_rows(node: &Node) -> bool {
    tables().any(|table| (table.splits_rows)(node))
}

/// Lists the domains whose operators are in crates that a program may leave out.
pub(crate) fn optional_domains() -> impl Iterator<Item = &'static OptionalDomain> {
    tables().flat_map(|table| table.optional_domains)
}

/// The operators' inference rules, for checking and inference; part of [`CheckOptions`](bb_ir::check::CheckOptions).
pub const OPERATORS: Operators = Operators::new(|domain, name, opset| {
    tables().find_map(|table| (table.find)(domain, name, opset)).and_then(|found| found.rule)
});
