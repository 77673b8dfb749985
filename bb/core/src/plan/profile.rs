//! What runs spent their time on, as data: a row for each instruction of a plan, and for what runs between plans.

use crate::cost::Cost;
use bb_ir::{DataType, Shape};
use std::time::Duration;

/// What a row of a profile is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Activity {
    /// An operation of the backend: a primitive, or one of its native operations.
    Operation,
    /// A graph that the backend ran whole.
    Graph,
    /// A computation on host tensors. Where it is an instruction of a plan, the copies to the host and back are part of it.
    Host,
    /// Copies to the host or from it: what a plan must know, and the operands and results of host computations between plans.
    Transfer,
    /// Tracing, planning, and putting constants on the backend.
    Planning,
    /// What a loop does around its iterations: it takes slices, reads the condition, collects results.
    Loop,
}

impl Activity {
    /// Returns the word for it, as in `operation`.
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
    /// The node's name, or its first output's where it has none. Inside a subgraph it follows the node that holds the
    /// subgraph, and the attribute: `loop_1/body/add_3`.
    pub path: String,
    /// The operator.
    pub op: String,
    /// Its domain; empty for `ai.onnx`.
    pub domain: String,
}

/// One instruction, or one thing done between plans, over all runs of a profile.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ProfileRow {
    /// What it is.
    pub activity: Activity,
    /// The node that it comes from, the first if there are several; `None` for planning.
    pub node: Option<ProfiledNode>,
    /// The last of the nodes, if a graph was made of several.
    pub last_node: Option<ProfiledNode>,
    /// What was called, as in `matmul`; the activity's name where it is no operation.
    pub operation: &'static str,
    /// The operands of the latest call, `None` where one was left out; empty if it is no instruction.
    pub inputs: Vec<Option<(DataType, Shape)>>,
    /// The results of the latest call.
    pub outputs: Vec<(DataType, Shape)>,
    /// How often it was called.
    pub calls: u64,
    /// How long all calls took.
    pub time: Duration,
    /// What all calls cost together; see [`cost`](crate::cost).
    pub cost: Cost,
}

/// What a span on the time line stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Scope {
    /// One call of the row with this number.
    Row(usize),
    /// A run, from the first input to the last output.
    Run,
    /// A segment of the model: a plan, from its first instruction to its last.
    Segment {
        /// The node at which it begins; empty if it has none.
        from: String,
    },
    /// An iteration of a loop.
    Iteration {
        /// The loop's node.
        node: String,
        /// Which iteration, from 0 on.
        iteration: usize,
    },
}

/// Something that took time, on the time line. Spans lie beside one another or inside one another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// What it was.
    pub scope: Scope,
    /// When it began, counted from the beginning of the profile.
    pub start: Duration,
    /// How long it took.
    pub time: Duration,
}

/// What runs spent their time on; [`Executable::run_profiled`](crate::Executable::run_profiled) adds to it.
///
/// The times are those of calls: of a backend that answers before it has computed, they are not those of its kernels. After a
/// run that failed, what was measured until then remains, and the run does not count.
#[derive(Debug)]
pub struct Profile {
    pub(super) rows: Vec<ProfileRow>,
    pub(super) spans: Vec<Span>,
    /// The most spans to keep.
    pub(super) limit: usize,
    pub(super) dropped: u64,
    pub(super) runs: u64,
    pub(super) wall: Duration,
    pub(super) own: Duration,
    pub(super) recorder: super::watch::Recorder,
}

impl Profile {
    /// Makes an empty profile that keeps no spans.
    pub fn new() -> Profile {
        Profile::with_spans(0)
    }

    /// Makes an empty profile that keeps the first `limit` spans.
    pub fn with_spans(limit: usize) -> Profile {
        Profile {
            rows: Vec::new(),
            spans: Vec::new(),
            limit,
            dropped: 0,
            runs: 0,
            wall: Duration::ZERO,
            own: Duration::ZERO,
            recorder: super::watch::Recorder::default(),
        }
    }

    /// Returns the rows, in the order in which they first ran.
    pub fn rows(&self) -> &[ProfileRow] {
        &self.rows
    }

    /// Returns the spans, each after those inside it.
    pub fn spans(&self) -> &[Span] {
        &self.spans
    }

    /// Returns how many spans were not kept.
    pub fn dropped_spans(&self) -> u64 {
        self.dropped
    }

    /// Returns how many runs ended well.
    pub fn runs(&self) -> u64 {
        self.runs
    }

    /// Returns how long these runs took, measuring included.
    pub fn wall_time(&self) -> Duration {
        self.wall
    }

    /// Returns how much of that was spent on measuring.
    pub fn measuring_time(&self) -> Duration {
        self.own
    }

    /// Returns how much of the runs' time no row explains: choosing plans, moving values between slots.
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
