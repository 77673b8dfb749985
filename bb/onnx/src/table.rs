//! The table of all operators: the rows of the topics, with the versions that ONNX's schemas have, sorted.

use super::rows::Row;
use super::*;
use bb_core::ext::Ops;
use bb_core::operator::{self, FoundOperator};
use bb_core::trace::Tracer;
use bb_ir::infer::Rule;
use bb_ir::opset::{self, domain_name};
use std::sync::OnceLock;

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
    shape::elements,
    signal,
    sorting,
    strings,
    suppression,
    training,
    window::conv,
    window::pool,
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
                    let &Row { domain, name, rule, becomes, halves, ignores, .. } = this;
                    let operator = Operator { domain, name, since, class, becomes, halves, ignores };
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
            let (operator, _) = operator::find_vendor(domain, op_type, opset)?;
            let function = TensorFunction::new(operator::vendor_function::<B>, operator.halves);
            Some((operator, Body::Tensors(function)))
        }
    }
}

/// What plans are told of an operator.
pub(crate) fn find_for_plan(domain: &str, op_type: &str, opset: i64) -> Option<FoundOperator> {
    let found = find(domain, op_type, opset)?;
    let body = body::<Tracer>(found.place?)?;
    Some(FoundOperator { operator: &found.operator, rule: Some(found.rule), body })
}

/// Lists the versions of operators that have functions, by domain, name and version.
pub fn operators() -> impl Iterator<Item = &'static Operator> {
    served().iter().copied()
}

/// The versions of operators that have functions, by domain, name and version.
pub(crate) fn served() -> &'static [&'static Operator] {
    static SERVED: OnceLock<Vec<&'static Operator>> = OnceLock::new();
    SERVED.get_or_init(|| {
        entries().iter().filter(|entry| entry.place.is_some()).map(|entry| &entry.operator).collect()
    })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
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

    #[test]
    fn advice_names_the_opset_a_similar_name_and_what_to_bind() {
        let say = operator::advice;
        let bind = |domain: &str, op: &str| {
            format!("bind a component to it: `.component(\"{domain}\", \"{op}\", …)`")
        };
        assert_eq!(
            say("", "Rellu", 17),
            format!(
                "`ai.onnx` has no such operator; the nearest name is `Relu`; {}",
                bind("ai.onnx", "Rellu")
            )
        );
        let text = say("", "Gelu", 17);
        assert!(text.starts_with("`ai.onnx` has it from opset 20 on; "), "{text}");
        let text = say("", "Upsample", 13);
        assert!(text.starts_with("`ai.onnx` took it away with opset 10"), "{text}");
        let text = say("com.microsoft", "FusedMatMull", 1);
        assert!(text.contains("the nearest name is `FusedMatMul`"), "{text}");
        assert_eq!(
            say("com.example", "Foo", 1),
            format!("no operator of the domain is known; {}", bind("com.example", "Foo"))
        );
    }
}
