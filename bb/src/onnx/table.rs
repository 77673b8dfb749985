//! The table of all operators: the rows of the topics, with the versions that ONNX's schemas have, sorted.

use super::rows::Row;
use super::*;
use crate::ext::Ops;
use bb_ir::infer::{Operators, Rule};
use bb_ir::opset::{self, domain_name};
use std::sync::OnceLock;

/// What an operator's function is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Class {
    /// Primitives and extension methods.
    Primitives,
    /// The host: what it does depends on data, or on what is no number.
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
    /// What the function is made of.
    pub class: Class,
    /// What the function does with 16-bit floats.
    pub halves: Halves,
    /// Attributes that the function need not read, each with the reason.
    pub ignores: &'static [(&'static str, &'static str)],
}

/// Lists the topics: each is a module with `ROWS` and `body`.
macro_rules! topics {
    ($( $($topic:ident)::+, )+) => {
        const TOPICS: &[&[Row]] = &[$( $($topic)::+::ROWS ),+];

        /// Returns a function of a row of a topic.
        fn body<B: Ops + ?Sized>(at: Place) -> Option<Body<B>> {
            let topics: &[fn(usize, usize) -> Option<Body<B>>] = &[$( $($topic)::+::body::<B> ),+];
            topics.get(at.topic)?(at.row, at.function)
        }
    };
}

topics! {
    arithmetic,
    attention,
    bit_cast,
    control,
    cumulative,
    determinant,
    early,
    einsum,
    flex_attention,
    gradient,
    grid,
    image,
    linear_attention,
    loss,
    microsoft,
    microsoft::attention,
    microsoft::blocks,
    microsoft::channels_last,
    microsoft::crop,
    microsoft::decoding,
    microsoft::distance,
    microsoft::experts,
    microsoft::fused,
    microsoft::gates,
    microsoft::group_query,
    microsoft::hash,
    microsoft::inverse,
    microsoft::nchwc,
    microsoft::ngram_hash,
    microsoft::masked,
    microsoft::older,
    microsoft::packed_sequences,
    microsoft::quantized,
    microsoft::rotary,
    microsoft::router,
    microsoft::sparse_attention,
    microsoft::tokenizer,
    microsoft::unfold,
    microsoft::words,
    ml::ensemble,
    ml::features,
    ml::labels,
    ml::linear,
    ml::maps,
    ml::svm,
    movement,
    ngrams,
    normalize,
    picture,
    quant,
    random,
    recurrent,
    reduce,
    region,
    resize,
    scalar,
    selection,
    sequence,
    sequence_axis,
    shape,
    signal,
    sorting,
    strings,
    suppression,
    training,
    window,
}

/// Where a function is: the topic, its row, and the function of the row.
#[derive(Clone, Copy)]
struct Place {
    topic: usize,
    row: usize,
    function: usize,
}

/// A version of an operator.
struct Entry {
    operator: Operator,
    rule: Rule,
    /// The function; none for a version that took the operator away.
    place: Option<Place>,
}

/// Returns every version of every operator, by domain, name and version.
fn entries() -> &'static [Entry] {
    static ENTRIES: OnceLock<Vec<Entry>> = OnceLock::new();
    ENTRIES.get_or_init(|| {
        let mut all = Vec::new();
        for (topic, rows) in TOPICS.iter().enumerate() {
            for (row, this) in rows.iter().enumerate() {
                for (since, there) in versions(this) {
                    let function = this.functions.iter().rposition(|(from, _)| *from <= since);
                    let Some((function, (_, class))) =
                        function.and_then(|at| Some((at, *this.functions.get(at)?)))
                    else {
                        continue;
                    };
                    let &Row { domain, name, rule, halves, ignores, .. } = this;
                    let operator = Operator { domain, name, since, class, halves, ignores };
                    all.push(Entry {
                        operator,
                        rule,
                        place: there.then_some(Place { topic, row, function }),
                    });
                }
            }
        }
        all.sort_by_key(|entry| (entry.operator.domain, entry.operator.name, entry.operator.since));
        all
    })
}

/// Lists the versions of an operator, and for each whether there is an operator or it was taken away.
///
/// ONNX's schemas say which versions there are. A row may serve versions that no schema tells of: those of other domains,
/// and one that models had before ONNX did.
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

fn find(domain: &str, op_type: &str, opset: i64) -> Option<&'static Entry> {
    let (domain, entries) = (domain_name(domain), entries());
    let end = entries.partition_point(|e| {
        (e.operator.domain, e.operator.name, e.operator.since) <= (domain, op_type, opset)
    });
    let found = entries.get(end.checked_sub(1)?)?;
    // ONNX may have taken it away since.
    Some(found).filter(|e| e.operator.domain == domain && e.operator.name == op_type && e.place.is_some())
}

/// Returns the operator and its function for a model that imports `opset` of `domain`.
///
/// `ai.onnx` is another name of the empty domain. The operations of linked vendors are found, too.
pub fn lookup<B: Ops + ?Sized>(
    domain: &str,
    op_type: &str,
    opset: i64,
) -> Option<(&'static Operator, Body<B>)> {
    match find(domain, op_type, opset) {
        Some(found) => Some((&found.operator, body::<B>(found.place?)?)),
        None => {
            let (operator, _) = vendor::find(domain, op_type, opset)?;
            Some((operator, Body::Tensors(TensorFunction::new(vendor::function::<B>, operator.halves))))
        }
    }
}

/// Lists the versions of operators that have functions, by domain, name and version.
pub fn operators() -> impl Iterator<Item = &'static Operator> {
    entries().iter().filter(|entry| entry.place.is_some()).map(|entry| &entry.operator)
}

/// What checking and inference are told of operators; part of [`CheckOptions`](bb_ir::check::CheckOptions).
pub const OPERATORS: Operators =
    Operators::new(|domain, op_type, opset| Some(find(domain, op_type, opset)?.rule));

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::trace::Tracer;
    use std::collections::BTreeSet;

    #[test]
    fn each_version_has_one_row() {
        let keys: Vec<_> = operators().map(|o| (o.domain, o.name, o.since)).collect();
        assert!(keys.windows(2).all(|w| w.first() < w.last()), "{keys:?}");
    }

    #[test]
    fn rows_begin_where_versions_do() {
        let rows = TOPICS.iter().flat_map(|rows| rows.iter());
        let functions =
            rows.flat_map(|row| row.functions.iter().map(move |(from, _)| (row.domain, row.name, *from)));
        let begins = |domain, name, from| from == 0 || opset::history(domain, name).any(|v| v.since == from);
        let others: BTreeSet<_> = functions
            .filter(|(domain, name, from)| !begins(domain, name, *from))
            .map(|f| (f.1, f.2))
            .collect();
        // Caffe2 and early exporters wrote them before ONNX had them.
        assert_eq!(others, [("MeanVarianceNormalization", 1), ("ThresholdedRelu", 1)].into());
    }

    #[test]
    fn every_version_of_the_schemas_is_served() {
        let served: BTreeSet<_> = operators().map(|o| (o.domain, o.name, o.since)).collect();
        let there = opset::versions().filter(|v| v.types.is_some()).map(|v| (v.domain, v.name, v.since));
        assert_eq!(there.filter(|version| !served.contains(version)).collect::<Vec<_>>(), []);
    }

    #[test]
    fn the_greatest_version_that_is_not_newer_serves_an_opset() {
        let since = |opset| lookup::<Tracer>("", "Add", opset).map(|(o, _)| o.since);
        assert_eq!(since(0), None);
        assert_eq!(since(6), Some(6));
        assert_eq!(since(12), Some(7));
        assert_eq!(since(99), Some(14));
        assert_eq!(lookup::<Tracer>("ai.onnx", "Add", 14).unwrap().0.name, "Add");
        assert!(lookup::<Tracer>("", "Ad", 14).is_none());
        assert!(lookup::<Tracer>("other", "Add", 14).is_none());
        assert!(
            lookup::<Tracer>("", "Upsample", 9).is_some() && lookup::<Tracer>("", "Upsample", 10).is_none()
        );
    }
}
