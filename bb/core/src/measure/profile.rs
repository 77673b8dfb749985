//! A profile of runs as data, with a row for each instruction of a plan and for each activity between plans.

use super::cost::Cost;
use bb_ir::graph::Graph;
use bb_ir::{DataType, Shape};
use std::any::Any;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The kind of activity that a row of a profile measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Activity {
    /// An operation of the backend: a primitive, or one of its native operations.
    Operation,
    /// A graph that the backend ran as a whole.
    Graph,
    /// A computation on host tensors. If it is an instruction of a plan, the copies to the host and back are included.
    Host,
    /// Copies to the host or from it: values that planning must know, and the operands and results of host computations between
    /// plans.
    Transfer,
    /// Tracing, planning, and uploading constants to the backend.
    Planning,
    /// The work of a loop outside its iterations: taking slices, reading the condition, collecting results.
    Loop,
}

impl Activity {
    /// Returns the name, as in `operation`.
    pub const fn name(self) -> &'static str {
        match self {
            Activity::Operation => "operation",
            Activity::Graph => "graph",
            Activity::Host => "host",
            Activity::Transfer => "transfer",
            Activity::Planning => "planning",
            Activity::Loop => "loop",
        }
    }
}

/// The node of the model that a row comes from.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ProfiledNode {
    /// The node's name, or the name of its first output if it has none. Inside a subgraph, the name of the containing node and
    /// the attribute come first: `loop_1/body/add_3`.
    pub path: String,
    /// The operator.
    pub op: String,
    /// The domain of the operator; empty for `ai.onnx`.
    pub domain: String,
}

impl ProfiledNode {
    /// Returns the name of a node of a graph.
    pub(crate) fn of(graph: &Graph, at: usize) -> Option<ProfiledNode> {
        let node = graph.nodes.get(at)?;
        let path = crate::error::name(graph, node);
        Some(ProfiledNode { path, op: node.op_type.clone(), domain: node.domain.clone() })
    }
}

/// The measurements of one instruction, or of one activity between plans, over all runs of a profile.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ProfileRow {
    /// The kind of activity.
    pub activity: Activity,
    /// The node that the row comes from, or the first node if there are several; `None` for planning.
    pub node: Option<ProfiledNode>,
    /// The last node that the row comes from, if the row is a graph that was built from several nodes.
    pub last_node: Option<ProfiledNode>,
    /// The name of the operation, as in `matmul`; the activity's name if the row is not an operation.
    pub operation: &'static str,
    /// The operands of the latest call, `None` for an omitted one; empty if the row is not an instruction.
    pub inputs: Vec<Option<(DataType, Shape)>>,
    /// The results of the latest call.
    pub outputs: Vec<(DataType, Shape)>,
    /// The number of calls.
    pub calls: u64,
    /// The total time of all calls.
    pub time: Duration,
    /// The total cost of all calls; see [`cost`](crate::cost).
    pub cost: Cost,
}

/// The subject of a span on the time line.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Scope {
    /// One call of the row with this index.
    Row(usize),
    /// A run, from the first input to the last output.
    Run,
    /// A segment of the model: a plan, from its first instruction to its last.
    Segment {
        /// The name of the segment's first node; empty if it has none.
        from: String,
    },
    /// An iteration of a loop.
    Iteration {
        /// The loop's node.
        node: String,
        /// The index of the iteration, from 0.
        iteration: usize,
    },
}

/// An interval on the time line. Two spans are disjoint or nested.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// The subject of the span.
    pub scope: Scope,
    /// The start, relative to the start of the profile.
    pub start: Duration,
    /// The duration.
    pub time: Duration,
}

/// Time measurements of runs. [`Executable::run_profiled`](crate::Executable::run_profiled) adds measurements to a profile.
///
/// The times are measured per call. If a backend returns before it has computed the result, they do not include the whole time
/// of its kernels. After a failed run, the measurements up to the failure remain, and the run is not counted.
#[derive(Debug)]
pub struct Profile {
    pub(crate) rows: Vec<ProfileRow>,
    pub(crate) spans: Vec<Span>,
    /// The maximum number of spans to keep.
    pub(crate) limit: usize,
    pub(crate) dropped: u64,
    pub(crate) runs: u64,
    pub(crate) wall: Duration,
    pub(crate) own: Duration,
    pub(crate) recorder: Recorder,
}

impl Profile {
    /// Creates an empty profile that keeps no spans.
    pub fn new() -> Profile {
        Profile::with_spans(0)
    }

    /// Creates an empty profile that keeps the first `limit` spans.
    pub fn with_spans(limit: usize) -> Profile {
        Profile {
            rows: Vec::new(),
            spans: Vec::new(),
            limit,
            dropped: 0,
            runs: 0,
            wall: Duration::ZERO,
            own: Duration::ZERO,
            recorder: Recorder::default(),
        }
    }

    /// Returns the rows, in the order of their first calls.
    pub fn rows(&self) -> &[ProfileRow] {
        &self.rows
    }

    /// Returns the spans; nested spans come before the span that contains them.
    pub fn spans(&self) -> &[Span] {
        &self.spans
    }

    /// Returns the number of spans that were not kept.
    pub fn dropped_spans(&self) -> u64 {
        self.dropped
    }

    /// Returns the number of successful runs.
    pub fn runs(&self) -> u64 {
        self.runs
    }

    /// Returns the total time of all successful runs, including the time of measuring.
    pub fn wall_time(&self) -> Duration {
        self.wall
    }

    /// Returns the part of [`wall_time`](Self::wall_time) that was spent on measuring.
    pub fn measuring_time(&self) -> Duration {
        self.own
    }

    /// Returns the part of the runs' time that no row covers, for example selecting plans and moving values between slots.
    pub fn outside_time(&self) -> Duration {
        let inside: Duration = self.rows.iter().map(|row| row.time).sum();
        self.wall.saturating_sub(inside).saturating_sub(self.own)
    }
}

impl Default for Profile {
    fn default() -> Self {
        Profile::new()
    }
}

/// A plan whose type the recorder does not use.
type AnyPlan = Arc<dyn Any + Send + Sync>;

/// The indices of a profile's rows by their keys, and the iterations in progress.
#[derive(Debug)]
pub(crate) struct Recorder {
    pub(crate) begun: Instant,
    /// Maps the address of each plan to the plan and the index of its first row. The map keeps the plans alive, so that no address is
    /// reused.
    pub(crate) plans: HashMap<usize, (AnyPlan, usize)>,
    /// The indices of the rows of activities that are not instructions, by the address of the graph, the node and the activity.
    pub(crate) others: HashMap<(usize, usize, Activity), usize>,
    /// The graphs in `others`, by address. The map keeps the graphs alive, so that no address is reused.
    pub(crate) graphs: HashMap<usize, Arc<dyn Any + Send + Sync>>,
    /// For each row, if it is an instruction: its plan, its index in the plan, and the cost of its latest call.
    pub(crate) sites: Vec<Option<(AnyPlan, usize, Cost)>>,
    pub(crate) iterations: Vec<Iteration>,
}

/// An iteration in progress.
#[derive(Debug)]
pub(crate) struct Iteration {
    pub(crate) graph: usize,
    pub(crate) node: usize,
    pub(crate) path: String,
    pub(crate) iteration: usize,
    pub(crate) begun: Instant,
}

impl Default for Recorder {
    fn default() -> Self {
        Recorder {
            begun: Instant::now(),
            plans: HashMap::new(),
            others: HashMap::new(),
            graphs: HashMap::new(),
            sites: Vec::new(),
            iterations: Vec::new(),
        }
    }
}

impl Profile {
    /// Measures a run.
    pub(crate) fn measure<R, E>(&mut self, run: impl FnOnce(&mut Profile) -> Result<R, E>) -> Result<R, E> {
        self.recorder.iterations.clear();
        let begun = Instant::now();
        let result = run(self)?;
        let ended = Instant::now();
        self.runs += 1;
        self.wall += ended - begun;
        self.span(Scope::Run, begun, ended);
        Ok(result)
    }

    /// Measures a run as a single row.
    pub(crate) fn measure_whole<R, E>(&mut self, run: impl FnOnce() -> Result<R, E>) -> Result<R, E> {
        self.measure(|profile| {
            let begun = Instant::now();
            let result = run()?;
            let key = (0, 0, Activity::Graph);
            let row = profile.other(key, || None, "executable");
            profile.add(row, begun, Instant::now(), Cost::UNKNOWN);
            Ok(result)
        })
    }

    pub(crate) fn span(&mut self, scope: Scope, from: Instant, to: Instant) {
        if self.spans.len() < self.limit {
            self.spans.push(Span { scope, start: from - self.recorder.begun, time: to - from });
        } else if self.limit > 0 {
            self.dropped += 1;
        }
    }

    pub(crate) fn add(&mut self, row: usize, from: Instant, to: Instant, cost: Cost) {
        if let Some(row) = self.rows.get_mut(row) {
            row.calls += 1;
            row.time += to - from;
            row.cost = row.cost.and(cost);
        }
        self.span(Scope::Row(row), from, to);
    }

    pub(crate) fn push(
        &mut self,
        activity: Activity,
        nodes: [Option<ProfiledNode>; 2],
        operation: &'static str,
    ) -> usize {
        let [node, last_node] = nodes.map(|node| node.map(|name| self.within(name)));
        self.rows.push(ProfileRow {
            activity,
            node,
            last_node,
            operation,
            inputs: Vec::new(),
            outputs: Vec::new(),
            calls: 0,
            time: Duration::ZERO,
            cost: Cost::ZERO,
        });
        self.recorder.sites.push(None);
        self.rows.len() - 1
    }

    /// Adds the path of the loops in progress to the name of a node.
    pub(crate) fn within(&self, name: ProfiledNode) -> ProfiledNode {
        let path = self
            .recorder
            .iterations
            .last()
            .map_or_else(|| name.path.clone(), |loops| format!("{}/body/{}", loops.path, name.path));
        ProfiledNode { path, ..name }
    }

    /// Returns the index of the row of an activity that is not an instruction. Adds the row if it does not exist.
    pub(crate) fn other(
        &mut self,
        key: (usize, usize, Activity),
        node: impl FnOnce() -> Option<ProfiledNode>,
        operation: &'static str,
    ) -> usize {
        if let Some(&row) = self.recorder.others.get(&key) {
            return row;
        }
        let row = self.push(key.2, [node(), None], operation);
        self.recorder.others.insert(key, row);
        row
    }
}
