//! The times of a model's nodes.

use crate::error::{Error, Result};
use crate::render;
use bb::profile::Profile;
use serde_json::Value;
use std::collections::HashMap;
use std::path::Path;

/// The time of a run in seconds, and the times of its nodes.
pub(crate) struct Times {
    run: f64,
    rows: Vec<NodeTime>,
}

/// The time of one node, or of several consecutive nodes.
struct NodeTime {
    first: String,
    last: Option<String>,
    seconds: f64,
}

impl Times {
    /// Returns the times in a profile.
    pub(crate) fn of(profile: &Profile) -> Times {
        let runs = profile.runs().max(1) as f64;
        let rows = profile.rows().iter().filter_map(|row| {
            let first = row.node.as_ref()?.path.clone();
            let last = row.last_node.as_ref().map(|node| node.path.clone());
            Some(NodeTime { first, last, seconds: row.time.as_secs_f64() / runs })
        });
        let run = profile.wall_time().saturating_sub(profile.measuring_time()).as_secs_f64() / runs;
        Times { run, rows: rows.collect() }
    }

    /// Reads the output of `bb bench --profile --json`.
    pub(crate) fn read(path: &Path) -> Result<Times> {
        let bytes = std::fs::read(path).map_err(|source| Error::Read { path: path.to_owned(), source })?;
        let record: Value = serde_json::from_slice(&bytes)
            .map_err(|source| Error::Times { path: path.to_owned(), source: Some(source) })?;
        Times::from_json(&record).ok_or_else(|| Error::Times { path: path.to_owned(), source: None })
    }

    fn from_json(record: &Value) -> Option<Times> {
        let profile = record.get("profile")?;
        let seconds = |of: &Value| of.get("seconds_per_run")?.as_f64().filter(|seconds| *seconds >= 0.0);
        let rows = profile.get("instructions")?.as_array()?.iter().filter_map(|row| {
            let first = row.get("node")?.as_str()?.to_owned();
            let last = row.get("last_node").and_then(Value::as_str).map(str::to_owned);
            Some(NodeTime { first, last, seconds: seconds(row)? })
        });
        Some(Times { run: seconds(profile)?, rows: rows.collect() })
    }

    /// Returns the time of a run in seconds.
    pub(crate) fn run(&self) -> f64 {
        self.run
    }

    /// Returns the time of each node of a graph in seconds, by the nodes' names. The time inside a loop or branch counts for the node with
    /// the subgraph. The time of several nodes together is divided evenly.
    pub(super) fn of_nodes(&self, names: &[&str]) -> Vec<f64> {
        let places: HashMap<&str, usize> =
            names.iter().enumerate().map(|(place, name)| (*name, place)).collect();
        // Names may contain slashes, so the longest matching prefix is the node.
        let place = |path: &str| {
            let ends = path.match_indices('/').map(|(end, _)| end).chain([path.len()]);
            ends.filter_map(|end| places.get(path.get(..end)?)).next_back().copied()
        };
        let mut seconds = vec![0.0; names.len()];
        for row in &self.rows {
            let Some(first) = place(&row.first) else { continue };
            let last = row.last.as_deref().and_then(place).unwrap_or(first).max(first);
            let each = row.seconds / (last - first + 1) as f64;
            seconds.iter_mut().take(last + 1).skip(first).for_each(|of| *of += each);
        }
        seconds
    }
}

/// Returns the fraction `seconds / run`, at most 1. Returns 0 if the run took no time.
pub(super) fn share(seconds: f64, run: f64) -> f64 {
    if run > 0.0 { (seconds / run).clamp(0.0, 1.0) } else { 0.0 }
}

/// Formats a time and its percentage of a run.
pub(super) fn shown(seconds: f64, run: f64) -> String {
    format!("{}, {:.1} % of a run", render::duration(seconds), 100.0 * share(seconds, run))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn times_belong_to_the_nodes_that_hold_them() {
        let record = serde_json::json!({ "profile": { "seconds_per_run": 10.0, "instructions": [
            { "node": "a/b", "last_node": null, "seconds_per_run": 1.0 },
            { "node": "a/b/body/c", "last_node": null, "seconds_per_run": 2.0 },
            { "node": "a", "last_node": "d", "seconds_per_run": 3.0 },
            { "node": null, "last_node": null, "seconds_per_run": 1.0 },
            { "node": "elsewhere", "last_node": null, "seconds_per_run": 1.0 },
        ] } });
        let times = Times::from_json(&record).unwrap();
        assert_eq!(times.of_nodes(&["a", "a/b", "d"]), [1.0, 4.0, 1.0]);
        assert_eq!(times.run(), 10.0);
        assert!(Times::from_json(&serde_json::json!({ "profile": null })).is_none());
    }
}
