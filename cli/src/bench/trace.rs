//! Writes the timeline of a profile in Chrome's trace event format, which Perfetto also reads.
//!
//! Every span is a complete event (`"ph": "X"`) on the same thread, so that viewers nest the spans by their
//! times.

use crate::error::{Error, Result};
use crate::session::Session;
use bb::profile::{Profile, ProfileRow, Scope, Span};
use serde_json::{Value, json};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::time::Duration;

/// The maximum number of events in a file, so that viewers can display it.
pub(super) const MOST: usize = 1 << 18;

/// Writes the timeline of a profile.
pub(super) fn write(path: &Path, profile: &Profile, session: &Session, backend: &str) -> Result<()> {
    let failed = |source| Error::Write { path: path.to_owned(), source };
    let mut file = BufWriter::new(File::create(path).map_err(failed)?);
    let trace = json!({
        "displayTimeUnit": "ns",
        "otherData": {
            "backend": backend, "graph": session.module.graph().name,
            "spans_left_out": profile.dropped_spans(),
        },
        "traceEvents": events(profile, backend),
    });
    serde_json::to_writer(&mut file, &trace)?;
    file.flush().map_err(failed)?;
    if profile.dropped_spans() > 0 {
        let (kept, left) = (profile.spans().len(), profile.dropped_spans());
        crate::out::note(format_args!(
            "note: the trace has the first {kept} spans; {left} more are left out"
        ));
    }
    Ok(())
}

fn events(profile: &Profile, backend: &str) -> Vec<Value> {
    let mut spans: Vec<&Span> = profile.spans().iter().collect();
    // Of spans with the same start, the longest comes first, because it contains the others.
    spans.sort_by_key(|span| (span.start, std::cmp::Reverse(span.time)));
    let name = |what: &str, name: String| json!({ "name": what, "ph": "M", "pid": 1, "tid": 1, "args": { "name": name } });
    let mut events =
        vec![name("process_name", format!("bb on {backend}")), name("thread_name", "run".into())];
    events.extend(spans.into_iter().map(|span| event(span, profile)));
    events
}

fn event(span: &Span, profile: &Profile) -> Value {
    let (name, category, details) = match &span.scope {
        Scope::Run => ("run".to_owned(), "run", json!({})),
        Scope::Segment { from } => (format!("segment from {from}"), "segment", json!({})),
        Scope::Iteration { node, iteration } => {
            (format!("iteration {iteration} of {node}"), "iteration", json!({ "iteration": iteration }))
        }
        Scope::Row(row) => match profile.rows().get(*row) {
            Some(row) => (label(row), row.activity.name(), details(row)),
            None => ("?".to_owned(), "?", json!({})),
        },
        _ => ("?".to_owned(), "?", json!({})),
    };
    json!({
        "name": name, "cat": category, "ph": "X", "pid": 1, "tid": 1,
        "ts": microseconds(span.start), "dur": microseconds(span.time), "args": details,
    })
}

fn label(row: &ProfileRow) -> String {
    match &row.node {
        Some(node) => format!("{} {}", row.operation, node.path),
        None => row.operation.to_owned(),
    }
}

fn details(row: &ProfileRow) -> Value {
    json!({
        "node": row.node.as_ref().map(|node| &node.path), "operator": row.node.as_ref().map(|node| &node.op),
        "inputs": super::profile::types(row.inputs.iter().map(Option::as_ref)),
        "outputs": super::profile::types(row.outputs.iter().map(Some)),
    })
}

/// Converts a time to microseconds, the unit of the format.
fn microseconds(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1e3
}
