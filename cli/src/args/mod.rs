//! The command line's grammar.

#[cfg(feature = "generate")]
mod generate;
#[cfg(feature = "serve")]
mod serve;
mod shared;
mod values;

#[cfg(feature = "generate")]
pub(crate) use generate::{Constrained, Generate};
#[cfg(feature = "serve")]
pub(crate) use serve::{Serve, Served};

#[cfg(any(feature = "generate", feature = "serve"))]
pub(crate) use shared::CacheElements;
pub(crate) use shared::{
    Channels, Common, ExtentArgs, Inputs, Layout, ModelArgs, Picture, Rewriting, Threads,
};
pub(crate) use values::{Amount, DimArg, Limit, Range, Shape};

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
    /// Print a model's inputs, outputs, parameters and operators, and how each operator runs; or draw the model
    #[command(
        after_help = "Examples:\n  bb inspect model.onnx\n  bb inspect model.onnx --graph model.html\n  bb bench model.onnx --profile --json > times.json && bb inspect model.onnx --graph model.svg --times times.json\n  bb inspect model.onnx --stage lir --dim batch=8"
    )]
    Inspect(Inspect),
    /// Print the operators that a backend runs, with their versions and element types
    #[command(after_help = "Examples:\n  bb coverage --backend cpu\n  bb coverage --backend cpu --json")]
    Coverage(Coverage),
    /// Find the first value that differs between two backends, also inside loops and branches; or compare a
    /// backend's outputs with saved ones
    #[command(
        after_help = "Examples:\n  bb compare model.onnx --backend reference --backend cpu\n  bb compare model.onnx --backend reference --backend cpu --inputs test_data_set_0 --per-node\n  bb compare model.onnx --backend reference --backend cpu --backend \"replay(from=gpu.recording)\"\n  bb compare model.onnx --outputs test_data_set_0",
        mut_arg("recognize", |option| option.requires("outputs"))
    )]
    Compare(Compare),
    /// Run every test case below a folder and compare the outputs with the expected ones
    #[command(
        after_help = "Examples:\n  bb conformance cases/node\n  bb conformance cases/node --filter softmax --json report.json"
    )]
    Conformance(Conformance),
    /// Run the cases that standard input names, one at a time, for `conformance`
    #[command(hide = true)]
    ConformanceWorker(Worker),
    /// Measure how long a model takes to load, prepare and run
    #[command(
        after_help = "Examples:\n  bb bench model.onnx\n  bb bench model.onnx --shape x=1,3,224,224 --threads 1 --runs 100 --json\n  bb bench model.onnx --profile --html profile.html"
    )]
    Bench(Bench),
    /// Write a model for other programs, with its functions inlined or lowered to primitives
    Export(Export),
    /// Save a model with its plans for one backend and processor, so that it loads and starts faster; every command takes the
    /// file like a model
    #[command(
        after_help = "Examples:\n  bb compile model.onnx --output model.bb\n  bb compile model.onnx --dim batch=8 -o model.bb && bb run model.bb --random"
    )]
    Compile(Compile),
    /// Generate text with a language model: a GGUF file, or a folder with a model in ONNX's format and its tokenizer
    #[cfg(feature = "generate")]
    #[command(
        after_help = "Examples:\n  bb generate model.gguf --prompt 'Which planet is the largest?'\n  bb generate model.gguf --chat --temperature 0.7 --top-p 0.9\n  bb generate folder --messages messages.json --tokens 100 --json\n  bb generate model.gguf --raw --prompt 'Once upon a time' --stop '.'"
    )]
    Generate(Generate),
    /// Answer requests for models by HTTP and gRPC (Open Inference Protocol, which is KServe's version 2)
    #[cfg(feature = "serve")]
    #[command(
        after_help = "Examples:\n  bb serve model.onnx\n  bb serve words=a.onnx sounds=b.onnx --backend sounds=reference\n  bb serve model.onnx --max-batch 16 --batch-delay 0.005 --queue 256\n  bb serve --repository models --load words --token-file token --log requests.txt"
    )]
    Serve(Serve),
    /// Print the fewest features of `bb` that models need, as lines for a Cargo.toml, and the operators that need them
    #[command(
        after_help = "Examples:\n  bb minimal model.onnx\n  bb minimal a.onnx b.onnx --backend cpu --json"
    )]
    Minimal(Minimal),
    /// Write a crate for a backend: it compiles, and its tests say what to write next
    #[command(
        after_help = "Examples:\n  bb new my-chip --bb ../bb\n  bb new my-compiler --whole-graph --git https://example.org/bb.git"
    )]
    New(bb_new::New),
    /// List the linked backends
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
    pub(crate) model: ModelArgs,
    #[command(flatten)]
    pub(crate) inputs: Inputs,
    /// Also output this value, by its name in the model
    #[arg(long, value_name = "VALUE")]
    pub(crate) fetch: Vec<String>,
    /// Also output the results of every node, except those inside loops and branches
    #[arg(long)]
    pub(crate) fetch_all: bool,
    /// Print this many values of each tensor [default: none; with --json, all]
    #[arg(long, value_name = "N")]
    pub(crate) values: Option<usize>,
    /// Write each output to its own file in this folder: .npy, or .pb if NumPy lacks the type
    #[arg(long, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) rewriting: Rewriting,
    #[command(flatten)]
    pub(crate) threads: Threads,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// The form of a printed model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Stage {
    /// As authored, with functions inlined
    Hir,
    /// Lowered to the operations that the backend runs
    Mir,
    /// As instructions on slots
    Lir,
}

#[derive(Debug, Args)]
pub(crate) struct Inspect {
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    /// Also print the graph in this form
    #[arg(long, value_enum)]
    pub(crate) stage: Option<Stage>,
    /// Also print the lowered model after this pass, and how many steps each pass changed; `trace` is before all passes
    #[arg(long, value_name = "PASS", value_parser = clap::builder::PossibleValuesParser::new(bb::pass_names()))]
    pub(crate) after: Option<String>,
    /// Draw the graph, coloured by how each node runs: .svg, .html (can be moved and zoomed) or .dot (for Graphviz)
    #[arg(long, value_name = "FILE")]
    pub(crate) graph: Option<PathBuf>,
    /// Colour the drawn graph by the time that nodes take, as `bench --profile --json` printed it to this file
    #[arg(long, value_name = "FILE", requires = "graph")]
    pub(crate) times: Option<PathBuf>,
    /// Draw blocks that repeat each time, as layers of a transformer do, and not once in a frame
    #[arg(long, requires = "graph")]
    pub(crate) whole: bool,
    #[command(flatten)]
    pub(crate) extents: ExtentArgs,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Debug, Args)]
pub(crate) struct Export {
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    /// The file to write. Elements that are stored externally go to a file of this name with `.data` appended
    #[arg(short, long, value_name = "OUT.onnx")]
    pub(crate) output: PathBuf,
    /// Lower the model to primitives; inputs with a default become constants
    #[arg(long)]
    pub(crate) lowered: bool,
    /// Lower the model, but keep these operators, as in --keep Softmax,Conv; `all` keeps all operators that
    /// the opset has
    #[arg(long, value_name = "OPERATOR,…", value_delimiter = ',')]
    pub(crate) keep: Vec<String>,
    /// The opset of a lowered model [default: 21, which ONNX Runtime supports since 1.18]
    #[arg(long, value_name = "N")]
    pub(crate) opset: Option<i64>,
    /// The version of the file format [default: the version of the opset's release; if not lowered, the model's own]
    #[arg(long, value_name = "N")]
    pub(crate) ir_version: Option<i64>,
    /// Write initializers larger than this to a file next to the model, as in --external-above 1K [default: only if the model exceeds 2G]
    #[arg(long, value_name = "BYTES", value_parser = values::bytes)]
    pub(crate) external_above: Option<usize>,
    #[command(flatten)]
    pub(crate) extents: ExtentArgs,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Compile {
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    /// The file to write
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: PathBuf,
    /// The inputs to plan for; those that are not given are random. Other inputs are planned when they come
    #[command(flatten)]
    pub(crate) inputs: Inputs,
    #[command(flatten)]
    pub(crate) rewriting: Rewriting,
    #[command(flatten)]
    pub(crate) threads: Threads,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Debug, Args)]
pub(crate) struct Coverage {
    /// Print tables in Markdown, with a row for each operator
    #[arg(long, conflicts_with = "json")]
    pub(crate) markdown: bool,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Debug, Args)]
pub(crate) struct Compare {
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    /// The reference backend and those to compare with it; with --outputs, only one of the latter
    #[arg(long = "backend", value_name = "NAME")]
    pub(crate) backends: Vec<String>,
    /// Compare with the outputs in this folder: output_0.pb, output_1.pb, …, or NAME.npy as `run --output`
    /// writes them; or with a test case that has test_data_set_0, … Inputs in the same folder are used,
    /// unless others are given
    #[arg(long, value_name = "DIR", conflicts_with = "per_node")]
    pub(crate) outputs: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) inputs: Inputs,
    #[command(flatten)]
    pub(crate) rewriting: Rewriting,
    #[command(flatten)]
    pub(crate) threads: Threads,
    /// Print every node, not only the first that differs
    #[arg(long)]
    pub(crate) per_node: bool,
    /// The relative tolerance [default: between backends, a tolerance for the element type; else the tolerance in the case's data.json, or
    /// ONNX's, 1e-3]
    #[arg(long, value_name = "NUMBER", value_parser = values::tolerance)]
    pub(crate) rtol: Option<f64>,
    /// The absolute tolerance [default: between backends, a tolerance for the element type and the greatest value of the tensor; else the
    /// tolerance in the case's data.json, or ONNX's, 1e-7]
    #[arg(long, value_name = "NUMBER", value_parser = values::tolerance)]
    pub(crate) atol: Option<f64>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct Conformance {
    /// The folder; every folder below it that has a model.onnx is a case
    #[arg(required_unless_present = "primitives")]
    pub(crate) dir: Option<PathBuf>,
    /// Run the tests of the primitives in this process, instead of cases; --filter chooses tests by their name
    #[arg(long, conflicts_with_all = ["dir", "exclude", "support", "perf", "jobs", "timeout"])]
    pub(crate) primitives: bool,
    /// The name of the backend [default: cpu, if it is linked]
    #[arg(long, value_name = "NAME")]
    pub(crate) backend: Option<String>,
    /// Run the cases on a provider of ONNX Runtime, which this library has, and on nothing else; then a table says by operator what
    /// it took, declined and got wrong. Needs the feature `ort`
    #[arg(long, value_name = "FILE", conflicts_with = "backend")]
    pub(crate) library: Option<PathBuf>,
    /// The device of that provider, counted from 0
    #[arg(
        long,
        value_name = "N",
        requires = "library",
        conflicts_with = "backend",
        default_value_t = 0,
        allow_negative_numbers = true
    )]
    pub(crate) device: u64,
    /// Run only the cases whose path contains this text
    #[arg(long, value_name = "TEXT")]
    pub(crate) filter: Option<String>,
    /// Skip the cases that this file names, one per line
    #[arg(long, value_name = "FILE")]
    pub(crate) exclude: Option<PathBuf>,
    /// Give up on a case after this time
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=31_536_000))]
    pub(crate) timeout: u64,
    /// Fail if fewer cases pass [default: 1, unless all are excluded]
    #[arg(long, value_name = "N")]
    pub(crate) require: Option<usize>,
    /// Write one record per case to this file; `-` is standard output
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Compare with an earlier run of the same folder, whose --json wrote this file: list the cases that passed then and do not pass
    /// now, and failing cases that are not in the file, and fail only because of these
    #[arg(long, value_name = "FILE")]
    pub(crate) baseline: Option<PathBuf>,
    /// Write comma-separated values to this file: for each version of an operator and the element types of the inputs, how many cases
    /// passed, were declined, failed and were skipped; cases of several operators are left out
    #[arg(long, value_name = "FILE")]
    pub(crate) support: Option<PathBuf>,
    /// Also measure the cases that passed on this and on another backend, in turns in this process; a table, and the file of --support,
    /// then have the time of a run on both by operator: the geometric means of the cases, in microseconds
    #[arg(long, value_name = "BACKEND")]
    pub(crate) perf: Option<String>,
    /// How many cases to run at once [default: the number of processors]
    #[arg(long, value_name = "N", value_parser = values::threads)]
    pub(crate) jobs: Option<usize>,
    /// Run the cases one by one in this process, where a process cannot start itself, as under an emulator. A case that
    /// takes too long then ends between two operations, or inside one that looks at the time
    #[arg(long, conflicts_with = "jobs")]
    pub(crate) in_process: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Worker {
    #[arg(long)]
    pub(crate) backend: String,
}

#[derive(Debug, Args)]
pub(crate) struct Bench {
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    #[command(flatten)]
    pub(crate) inputs: Inputs,
    #[command(flatten)]
    pub(crate) rewriting: Rewriting,
    #[command(flatten)]
    pub(crate) threads: Threads,
    /// How many runs to time
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) runs: u32,
    /// Time runs for this long, instead of a number of runs
    #[arg(long, value_name = "S", value_parser = values::seconds, conflicts_with = "runs")]
    pub(crate) seconds: Option<f64>,
    /// How many runs, or how many seconds of runs, precede the timed ones
    #[arg(long, value_name = "N|Ss", default_value = "3", value_parser = Amount::parse)]
    pub(crate) warmup: Amount,
    /// Also print where the time goes, by operator and by node; with --json, also by instruction
    #[arg(long)]
    pub(crate) profile: bool,
    /// Also write a page that shows where the time goes: by operator, by node, relative to the backend's peak rates (a roofline), and in
    /// the graph
    #[arg(long, value_name = "FILE", requires = "profile")]
    pub(crate) html: Option<PathBuf>,
    /// How many nodes --profile prints, the slowest first
    #[arg(long, value_name = "N", default_value_t = 20, requires = "profile")]
    pub(crate) top: usize,
    /// Write a time line for trace viewers such as Perfetto to this file (Chrome's trace event format)
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Debug, Args)]
pub(crate) struct Minimal {
    /// The models: .onnx files, or what `bb compile` wrote
    #[arg(required = true, value_name = "MODEL")]
    pub(crate) models: Vec<PathBuf>,
    /// Change a limit, as in --limit nodes=5000000 or --limit tensor_bytes=32G; an unknown name lists all
    /// limits
    #[arg(long = "limit", value_name = "NAME=VALUE", value_parser = Limit::parse)]
    pub(crate) limits: Vec<Limit>,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Debug, Args)]
pub(crate) struct Backends {
    /// Load the library of a backend, and list it too; `BB_BACKEND_PATH` does so for every command
    #[cfg(feature = "loaded")]
    #[arg(long, value_name = "FILE")]
    pub(crate) load: Vec<PathBuf>,
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
