//! Summarises a profile by operator, by node and by instruction.

use super::roofline::Kernel;
use crate::render;
use bb::DataType;
use bb::cost::Cost;
use bb::profile::{Activity, Profile, ProfileRow, ProfiledNode};
use bb_ir::Shape;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::time::Duration;

/// A summary of a profile. The figures are averages over the runs.
pub(super) struct Summary {
    runs: f64,
    /// The time of all runs, without the overhead of the measurement.
    wall: Duration,
    measuring: Duration,
    pub(super) outside: Duration,
    pub(super) operators: Vec<Group>,
    pub(super) nodes: Vec<Group>,
    instructions: Vec<(Group, Value)>,
}

/// The sums of rows with the same name.
pub(super) struct Group {
    /// The name of a node, of an operator, or of an activity that belongs to no node.
    pub(super) name: String,
    /// The operation.
    pub(super) what: String,
    pub(super) calls: u64,
    pub(super) time: Duration,
    pub(super) cost: Cost,
}

impl Summary {
    pub(super) fn of(profile: &Profile) -> Summary {
        Summary {
            runs: profile.runs().max(1) as f64,
            wall: profile.wall_time().saturating_sub(profile.measuring_time()),
            measuring: profile.measuring_time(),
            outside: profile.outside_time(),
            operators: grouped(profile, operator, |row| row.operation.to_owned()),
            nodes: grouped(profile, node, |row| row.operation.to_owned()),
            instructions: profile.rows().iter().map(instruction).collect(),
        }
    }

    /// Formats a table of the operators and a table of the slowest nodes.
    pub(super) fn text(&self, top: usize) -> String {
        let mut operators = render::table(["OPERATOR", "CALLS", "TIME", "SHARE", "GFLOP/s", "GB/s"]);
        for group in &self.operators {
            operators.add_row(std::iter::once(group.name.clone()).chain(self.figures(group)));
        }
        let mut nodes = render::table(["NODE", "RUNS AS", "CALLS", "TIME", "SHARE", "GFLOP/s", "GB/s"]);
        for group in self.nodes.iter().take(top) {
            nodes.add_row([group.name.clone(), group.what.clone()].into_iter().chain(self.figures(group)));
        }
        let left = self.nodes.len().saturating_sub(top);
        if left > 0 {
            let time: Duration = self.nodes.iter().skip(top).map(|group| group.time).sum();
            let (time, share) = self.time(time);
            nodes.add_row([format!("{left} more"), String::new(), String::new(), time, share]);
        }
        let (time, share) = self.time(self.outside);
        nodes.add_row(["outside of nodes".to_owned(), String::new(), String::new(), time, share]);
        let (all, _) = self.time(self.wall);
        let (measuring, _) = self.time(self.measuring);
        format!(
            "{operators}\n\n{nodes}\n\n{all} a run, {} runs; measuring took {measuring} more of each",
            self.runs
        )
    }

    /// Formats calls, time, share and rates per run.
    pub(super) fn figures(&self, group: &Group) -> [String; 5] {
        let rate = |amount: Option<u64>| amount.map_or_else(|| "-".to_owned(), |n| rate(n, group.time, 1e9));
        let (time, share) = self.time(group.time);
        let calls = group.calls as f64 / self.runs;
        [format!("{calls:.0}"), time, share, rate(group.cost.flops), rate(group.cost.bytes())]
    }

    pub(super) fn time(&self, time: Duration) -> (String, String) {
        let share = self.share(time) * 100.0;
        (render::duration(time.as_secs_f64() / self.runs), format!("{share:.1} %"))
    }

    pub(super) fn share(&self, time: Duration) -> f64 {
        if self.wall.is_zero() { 0.0 } else { time.as_secs_f64() / self.wall.as_secs_f64() }
    }

    /// Returns the summary as JSON. The names of the fields include the units.
    pub(super) fn json(&self) -> Value {
        let seconds = |time: Duration| time.as_secs_f64() / self.runs;
        let groups = |key: &str, groups: &[Group]| -> Vec<Value> {
            groups
                .iter()
                .map(|group| self.record(group, json!({ key: group.name, "runs_as": group.what })))
                .collect()
        };
        let instructions = self.instructions.iter().map(|(group, own)| self.record(group, own.clone()));
        json!({
            "runs": self.runs, "seconds_per_run": seconds(self.wall),
            "outside_seconds_per_run": seconds(self.outside), "measuring_seconds_per_run": seconds(self.measuring),
            "operators": groups("operator", &self.operators), "nodes": groups("node", &self.nodes),
            "instructions": instructions.collect::<Vec<_>>(),
        })
    }

    fn record(&self, group: &Group, mut own: Value) -> Value {
        let seconds = group.time.as_secs_f64();
        let per_run = |amount: Option<u64>| amount.map(|n| n as f64 / self.runs);
        let per_second = |amount: Option<u64>| amount.filter(|_| seconds > 0.0).map(|n| n as f64 / seconds);
        let figures = json!({
            "calls_per_run": group.calls as f64 / self.runs, "seconds_per_run": seconds / self.runs,
            "share": self.share(group.time),
            "flops_per_run": per_run(group.cost.flops), "flops_per_second": per_second(group.cost.flops),
            "bytes_read_per_run": per_run(group.cost.bytes_read),
            "bytes_written_per_run": per_run(group.cost.bytes_written),
            "bytes_per_second": per_second(group.cost.bytes()),
        });
        if let (Some(own), Value::Object(figures)) = (own.as_object_mut(), figures) {
            own.extend(figures);
        }
        own
    }
}

/// Returns the instructions whose numbers of operations and bytes are known, for a roofline.
pub(super) fn kernels(profile: &Profile, summary: &Summary) -> Vec<Kernel> {
    let rows = profile.rows().iter().filter(|row| row.activity == Activity::Operation && row.calls > 0);
    let kernel = |row: &ProfileRow| {
        let operands = types(row.inputs.iter().map(Option::as_ref)).into_iter().flatten().collect::<Vec<_>>();
        Some(Kernel {
            name: format!("{}: {}({})", node(row), row.operation, operands.join(", ")),
            operation: row.operation,
            flops: row.cost.flops? as f64,
            bytes: row.cost.bytes()? as f64,
            seconds: row.time.as_secs_f64(),
            share: summary.share(row.time),
        })
    };
    rows.filter_map(kernel).collect()
}

/// Groups rows by name, the slowest first. Rows that never ran are omitted.
fn grouped(
    profile: &Profile,
    name: impl Fn(&ProfileRow) -> String,
    what: impl Fn(&ProfileRow) -> String,
) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    let mut whats: Vec<Vec<String>> = Vec::new();
    for row in profile.rows().iter().filter(|row| row.calls > 0) {
        let (name, what) = (name(row), what(row));
        let place = *places.entry(name.clone()).or_insert_with(|| {
            groups.push(Group {
                name,
                what: String::new(),
                calls: 0,
                time: Duration::ZERO,
                cost: Cost::ZERO,
            });
            whats.push(Vec::new());
            groups.len() - 1
        });
        if let (Some(group), Some(whats)) = (groups.get_mut(place), whats.get_mut(place)) {
            group.calls += row.calls;
            group.time += row.time;
            group.cost = group.cost.and(row.cost);
            if !whats.contains(&what) {
                whats.push(what);
            }
        }
    }
    for (group, whats) in groups.iter_mut().zip(whats) {
        group.what = if whats.len() <= 3 { whats.join(", ") } else { format!("{} operations", whats.len()) };
    }
    groups.sort_by_key(|group| std::cmp::Reverse(group.time));
    groups
}

/// Returns the name of the operator, or the first and last operator, that a row belongs to.
fn operator(row: &ProfileRow) -> String {
    match (&row.node, &row.last_node) {
        (Some(first), Some(last)) => format!("{} … {}", of_domain(first), of_domain(last)),
        (Some(node), None) => of_domain(node),
        (None, _) => format!("({})", row.operation),
    }
}

fn of_domain(node: &ProfiledNode) -> String {
    if node.domain.is_empty() { node.op.clone() } else { format!("{}.{}", node.domain, node.op) }
}

/// Returns the name of the node, or the first and last node, that a row belongs to.
fn node(row: &ProfileRow) -> String {
    match (&row.node, &row.last_node) {
        (Some(first), Some(last)) => format!("{} … {}", first.path, last.path),
        (Some(node), None) => node.path.clone(),
        (None, _) => format!("({})", row.operation),
    }
}

fn instruction(row: &ProfileRow) -> (Group, Value) {
    let own = json!({
        "activity": row.activity.name(), "operation": row.operation,
        "node": row.node.as_ref().map(|node| &node.path),
        "last_node": row.last_node.as_ref().map(|node| &node.path),
        "operator": row.node.as_ref().map(|node| &node.op), "domain": row.node.as_ref().map(|node| &node.domain),
        "inputs": types(row.inputs.iter().map(Option::as_ref)), "outputs": types(row.outputs.iter().map(Some)),
    });
    let group = Group {
        name: String::new(),
        what: String::new(),
        calls: row.calls,
        time: row.time,
        cost: if matches!(row.activity, Activity::Planning) { Cost::UNKNOWN } else { row.cost },
    };
    (group, own)
}

/// Formats types and shapes, as in `f32[1,3]`. An absent operand becomes null.
pub(super) fn types<'a>(types: impl Iterator<Item = Option<&'a (DataType, Shape)>>) -> Vec<Option<String>> {
    let text = |(dtype, shape): &(DataType, Shape)| format!("{dtype}[{}]", render::extents(shape));
    types.map(|ty| ty.map(text)).collect()
}

/// Formats an amount per second, in multiples of `unit`.
fn rate(amount: u64, time: Duration, unit: f64) -> String {
    let seconds = time.as_secs_f64();
    if seconds == 0.0 {
        return "-".to_owned();
    }
    let rate = amount as f64 / seconds / unit;
    if rate >= 10.0 { format!("{rate:.0}") } else { format!("{rate:.2}") }
}
