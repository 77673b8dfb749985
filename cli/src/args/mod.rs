//! The command line's grammar.

mod shared;
mod values;

pub(crate) use shared::{Common, Extents, Inputs, Model, Picture, Threads};
pub(crate) use values::{Amount, Dim, Range, Shape};

use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;

/// Runs, inspects, tests and measures ONNX models on any backend.
#[derive(Debug, Parser)]
#[command(name = "bb", version, arg_required_else_help = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a model and print its outputs
    #[command(
        after_help = "Examples:\n  bb run model.onnx --random\n  bb run model.onnx --input x=x.npy --output results\n  bb run model.onnx --image images=cat.jpg --mean 0.485,0.456,0.406 --std 0.229,0.224,0.225\n  bb run model.onnx --random --dim batch=8 --fetch hidden --json"
    )]
    Run(Run),
    /// Print what a model is made of: inputs, outputs, parameters, operators and what runs each; or draw it
    #[command(
        after_help = "Examples:\n  bb inspect model.onnx\n  bb inspect model.onnx --graph model.html\n  bb inspect model.onnx --segment lir --dim batch=8"
    )]
    Inspect(Inspect),
    /// Print which operators a backend runs, in which versions, on which element types
    #[command(after_help = "Examples:\n  bb coverage --backend cpu\n  bb coverage --backend cpu --json")]
    Coverage(Coverage),
    /// Print where the values of a model part on two backends, inside loops and branches too; or how far a backend's
    /// outputs are from those that were saved
    #[command(
        after_help = "Examples:\n  bb compare model.onnx --backend reference --backend cpu\n  bb compare model.onnx --backend reference --backend cpu --inputs test_data_set_0 --per-node\n  bb compare model.onnx --outputs test_data_set_0"
    )]
    Compare(Compare),
    /// Run every test case below a folder and compare with the expected outputs
    #[command(
        after_help = "Examples:\n  bb conformance cases/node\n  bb conformance cases/node --filter softmax --json report.json"
    )]
    Conformance(Conformance),
    /// Run the cases named on standard input, one at a time, for `conformance`
    #[command(hide = true)]
    ConformanceWorker(Worker),
    /// Measure how long a model takes to load, prepare and run
    #[command(
        after_help = "Examples:\n  bb bench model.onnx\n  bb bench model.onnx --shape x=1,3,224,224 --threads 1 --runs 100 --json"
    )]
    Bench(Bench),
    /// Write a model for other programs: its functions inlined, or lowered to primitives of an opset
    Export(Export),
    /// List the backends that are linked
    #[command(after_help = "Examples:\n  bb backends")]
    Backends(Backends),
    /// Print a script that completes commands and options in a shell
    #[command(
        after_help = "Examples:\n  bb completions bash > ~/.local/share/bash-completion/completions/bb"
    )]
    Completions(Completions),
}

#[derive(Debug, Args)]
pub(crate) struct Run {
    #[command(flatten)]
    pub(crate) model: Model,
    #[command(flatten)]
    pub(crate) inputs: Inputs,
    /// Also give this value, by the name that it has in the model
    #[arg(long, value_name = "VALUE")]
    pub(crate) fetch: Vec<String>,
    /// Also give the results of every node, but of those inside loops and branches
    #[arg(long)]
    pub(crate) fetch_all: bool,
    /// Print this many values of each tensor in JSON, with their count; all unless given
    #[arg(long, value_name = "N", requires = "json")]
    pub(crate) values: Option<usize>,
    /// Write each output to a file of its own in this folder: .npy, or .pb where NumPy has no such type
    #[arg(long, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) threads: Threads,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// How far a model is taken before it is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Segment {
    /// As authored, functions inlined
    Hir,
    /// Lowered to what the backend runs
    Mir,
    /// As instructions over slots
    Lir,
}

#[derive(Debug, Args)]
pub(crate) struct Inspect {
    #[command(flatten)]
    pub(crate) model: Model,
    /// Also print the graph at this segment
    #[arg(long, value_enum)]
    pub(crate) segment: Option<Segment>,
    /// Draw the graph, coloured by what runs each node: .svg, .html (to move about in) or .dot (for Graphviz)
    #[arg(long, value_name = "FILE")]
    pub(crate) graph: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) extents: Extents,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Debug, Args)]
pub(crate) struct Export {
    #[command(flatten)]
    pub(crate) model: Model,
    /// The file to write. Elements that go to another file go to one with `.data` after the name
    #[arg(short, long, value_name = "OUT.onnx")]
    pub(crate) output: PathBuf,
    /// Lower the model to primitives; inputs with a default become constants
    #[arg(long)]
    pub(crate) lowered: bool,
    /// Lower the model, but keep these as ONNX's own operators, as in --keep Softmax,Conv; `all` keeps what the opset has
    #[arg(long, value_name = "OPERATOR,…", value_delimiter = ',')]
    pub(crate) keep: Vec<String>,
    /// The opset of a lowered model; 21 unless given, which ONNX Runtime takes since 1.18
    #[arg(long, value_name = "N")]
    pub(crate) opset: Option<i64>,
    /// The version of the file format; unless given, that of the opset's release, or the model's own if not lowered
    #[arg(long, value_name = "N")]
    pub(crate) ir_version: Option<i64>,
    /// Write the elements of initializers larger than this to a file beside the model, as in --external-above 1K; unless
    /// given, that happens beyond 2G
    #[arg(long, value_name = "BYTES", value_parser = values::bytes)]
    pub(crate) external_above: Option<usize>,
    #[command(flatten)]
    pub(crate) extents: Extents,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Coverage {
    /// Print tables in Markdown, an operator in each row
    #[arg(long, conflicts_with = "json")]
    pub(crate) markdown: bool,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Debug, Args)]
pub(crate) struct Compare {
    #[command(flatten)]
    pub(crate) model: Model,
    /// The backends: the one that is right, and the one that is tried; with --outputs, the one that is tried
    #[arg(long = "backend", value_name = "NAME")]
    pub(crate) backends: Vec<String>,
    /// Compare with the outputs in this folder: output_0.pb, output_1.pb, …, or NAME.npy for each, as `run --output`
    /// writes them; or a test case with test_data_set_0, … Inputs beside the outputs are taken, unless others are given
    #[arg(long, value_name = "DIR", conflicts_with = "per_node")]
    pub(crate) outputs: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) inputs: Inputs,
    #[command(flatten)]
    pub(crate) threads: Threads,
    /// Print every node, not only the first that differs
    #[arg(long)]
    pub(crate) per_node: bool,
    /// The relative tolerance; that of the case's data.json, or ONNX's (1e-3), unless given
    #[arg(long, value_name = "NUMBER", value_parser = values::tolerance)]
    pub(crate) rtol: Option<f64>,
    /// The absolute tolerance; that of the case's data.json, or ONNX's (1e-7), unless given
    #[arg(long, value_name = "NUMBER", value_parser = values::tolerance)]
    pub(crate) atol: Option<f64>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Conformance {
    /// The folder; every folder below it with a model.onnx is a case
    pub(crate) dir: PathBuf,
    /// The backend, by name; `cpu` unless given, where it is linked
    #[arg(long, value_name = "NAME")]
    pub(crate) backend: Option<String>,
    /// Run the cases whose path contains this text only
    #[arg(long, value_name = "TEXT")]
    pub(crate) filter: Option<String>,
    /// Skip the cases named in this file, one a line
    #[arg(long, value_name = "FILE")]
    pub(crate) exclude: Option<PathBuf>,
    /// Give up on a case after this long
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=31_536_000))]
    pub(crate) timeout: u64,
    /// Write one record per case to this file; `-` is standard output
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// How many cases to run at once; as many as there are processors unless given
    #[arg(long, value_name = "N", value_parser = values::threads)]
    pub(crate) jobs: Option<usize>,
}

#[derive(Debug, Args)]
pub(crate) struct Worker {
    #[arg(long)]
    pub(crate) backend: String,
}

#[derive(Debug, Args)]
pub(crate) struct Bench {
    #[command(flatten)]
    pub(crate) model: Model,
    #[command(flatten)]
    pub(crate) inputs: Inputs,
    #[command(flatten)]
    pub(crate) threads: Threads,
    /// How many runs to time
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) runs: u32,
    /// Time runs for this long, instead of so many
    #[arg(long, value_name = "S", value_parser = values::seconds, conflicts_with = "runs")]
    pub(crate) seconds: Option<f64>,
    /// How many runs, or how many seconds of them, come before those that are timed
    #[arg(long, value_name = "N|Ss", default_value = "3", value_parser = Amount::parse)]
    pub(crate) warmup: Amount,
    /// Also print what the time is spent on: by operator and by node; with --json, by instruction too
    #[arg(long)]
    pub(crate) profile: bool,
    /// How many nodes --profile prints, those that take longest
    #[arg(long, value_name = "N", default_value_t = 20, requires = "profile")]
    pub(crate) top: usize,
    /// Write a time line for trace viewers, such as Perfetto, to this file (Chrome's trace event format)
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Debug, Args)]
pub(crate) struct Backends {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// The shell
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
}
