//! The errors of commands.

use crate::render;
use bb_ir::text::{sentence, shown};
use std::path::PathBuf;

/// An error of a command.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum Error {
    #[error(transparent)]
    Bb(#[from] bb::Error),

    #[error("cannot run on `{backend}`: {missing}{}", on_a_line(.advice), backend = shown(.backend))]
    Missing {
        backend: &'static str,
        missing: bb::coverage::MissingList,
        advice: Option<String>,
        /// The error of the first node that failed; `None` if it is in the list.
        #[source]
        source: Option<Box<Error>>,
    },

    #[error(transparent)]
    Case(#[from] bb_conformance::onnx::Failure),

    #[cfg(feature = "loaded")]
    #[error(transparent)]
    Load(#[from] bb_c::LoadError),

    #[cfg(feature = "loaded")]
    #[error("a library in `BB_BACKEND_PATH` is not loaded")]
    BackendPath(#[source] bb_c::LoadError),

    #[cfg(not(feature = "loaded"))]
    #[error(
        "BB_BACKEND_PATH is set, but this build loads no libraries: unset it, or build with `--features loaded`"
    )]
    LoadsNothing,

    #[cfg(feature = "generate")]
    #[error(transparent)]
    Generate(#[from] bb_generate::Error),

    #[cfg(feature = "generate")]
    #[error("`{}` is no list of messages, expected JSON such as [{{\"role\": \"user\", \"content\": \"Hello\"}}]", sentence(.path.display()))]
    Messages {
        path: PathBuf,
        #[source]
        source: serde_json::Error,
    },

    #[cfg(feature = "generate")]
    #[error("standard input cannot be read")]
    Input(#[source] std::io::Error),

    #[cfg(feature = "serve")]
    #[error(transparent)]
    Serve(#[from] bb_serve::Error),

    #[cfg(feature = "serve")]
    #[error("--backend is for the model `{name}`, which is not served; the models are {}", render::names(.models), name = shown(.name))]
    UnknownServed { name: String, models: Vec<String> },

    #[error("cannot read `{}`", sentence(.path.display()))]
    Read {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },

    #[error("cannot write `{}`", sentence(.path.display()))]
    Write {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },

    #[error(transparent)]
    New(#[from] bb_new::Error),

    #[error("`{}` holds no tensor", sentence(.path.display()))]
    Tensor {
        path: PathBuf,
        #[source]
        source: bb_ir::BoxError,
    },

    #[error("`{}` has no array for the input", sentence(.path.display()))]
    Npz {
        path: PathBuf,
        #[source]
        source: crate::npz::NpzError,
    },

    #[error("`{}` is a picture; give it with --image {name}={}", sentence(.path.display()), sentence(.path.display()), name = shown(.name))]
    IsPicture { path: PathBuf, name: String },

    #[error("`{}` cannot be read as a picture", sentence(.path.display()))]
    Picture {
        path: PathBuf,
        #[source]
        source: image::ImageError,
    },

    #[error("input `{name}`, {ty}, cannot be a picture: {problem}", name = shown(.name), ty = sentence(.ty))]
    NoPicture { name: String, ty: String, problem: &'static str },

    #[error("{option} has {got} numbers; expected 1, or {channels} for as many channels")]
    PerChannel { option: &'static str, channels: usize, got: usize },

    #[error("`{}` is a file; expected a folder with cases: unpack an archive of cases first, and run a model with `bb run`", sentence(.path.display()))]
    CasesInFile { path: PathBuf },

    #[error("{0}")]
    CallLimit(String),

    #[error("no test of the primitives has `{filter}` in its name", filter = shown(.filter))]
    NoTest { filter: String },

    #[error("expected at least {required} {} to pass, got {passed}; the lines above say why the others were skipped, and `--require 0` allows it", if *.required == 1 { "case" } else { "cases" })]
    TooFewPassed { passed: usize, required: usize },

    #[error("`{}` is no list of cases that `bb conformance --json` wrote", sentence(.path.display()))]
    Baseline {
        path: PathBuf,
        #[source]
        source: serde_json::Error,
    },

    #[error("this build has no backend `{name}`: build with `--features {feature}`")]
    NoFeature { name: String, feature: &'static str },

    #[error("no provider of ONNX Runtime can be used from `{}`", sentence(.path.display()))]
    Provider {
        path: PathBuf,
        #[source]
        source: bb::BoxError,
    },

    #[error("no case below `{}` has `{filter}` in its path", sentence(.dir.display()), filter = shown(.filter))]
    NoMatch { dir: PathBuf, filter: String },

    #[error("`{text}` is not of the form {expected}", text = sentence(.text))]
    Form { text: String, expected: &'static str },

    #[error("the model has no input `{name}`; its inputs are {}{}", render::names(.expected), render::suggestion(.nearest), name = shown(.name))]
    UnknownInput { name: String, nearest: Option<String>, expected: Vec<String> },

    #[error("no input has an extent called `{name}`; {}{}", names(.known), render::suggestion(.nearest), name = shown(.name))]
    UnknownDim { name: String, nearest: Option<String>, known: Vec<String> },

    #[error("{option} is given twice for `{name}`", name = shown(.name))]
    Twice { option: &'static str, name: String },

    #[error("input `{input}` is declared as {declared}, which cannot have the extents {got:?} of {said}", input = shown(.input), declared = sentence(.declared), said = sentence(.said))]
    Shape { input: String, declared: String, got: Vec<usize>, said: String },

    #[error("the model is faulty, and `--strict` refuses that: {}", sentence(.warnings.join("; ")))]
    Claims { warnings: Vec<String> },

    #[error("the extent `{name}` is {first} and {second}", name = shown(.name), first = shown(.first), second = shown(.second))]
    Contradiction { name: String, first: String, second: String },

    #[error(
        "several backends are linked, and none is called `cpu`: choose one of {linked} with --backend NAME", linked = sentence(.linked)
    )]
    WhichBackend { linked: String },

    #[error("cannot start {threads} threads")]
    Threads {
        threads: usize,
        #[source]
        source: rayon::ThreadPoolBuildError,
    },

    #[error(
        "{what} needs a lowered model: --lowered, or --keep OPERATOR,…; --keep all keeps what the opset has", what = sentence(.what)
    )]
    NeedsLowering { what: String },

    #[error(
        "the model's functions are of other opsets than the model, so that only a lowered model can do without them: --lowered or --keep all"
    )]
    Inlining(#[source] Box<bb::Error>),

    #[error(
        "extents that are open were taken to be 1: {open}; give them with --dim NAME=N or --shape INPUT=N,N,…", open = sentence(.open)
    )]
    OpenExtents {
        open: String,
        #[source]
        source: Box<bb::Error>,
    },

    #[error("`{}` belongs to the model that is read; write to another file", sentence(.path.display()))]
    OverInput { path: PathBuf },

    #[error("cannot print to standard output")]
    Print(#[source] std::io::Error),

    #[error("the model needs {needed}\ngive each with --input NAME=FILE, or all with --random", needed = sentence(.needed))]
    InputsNeeded { needed: String },

    #[error("`{name}`: --random makes tensors, sequences, optionals and maps, not {ty}", name = shown(.name), ty = sentence(.ty))]
    NotRandom { name: String, ty: String },

    #[error("`{name}`: no memory for random elements of the extents {shape:?}", name = shown(.name))]
    TooLarge { name: String, shape: Vec<usize> },

    #[error("`{name}` is of {dtype}, which has no number from {low} up to {high}, or not all of them", name = shown(.name))]
    Range { name: String, dtype: bb::DataType, low: f64, high: f64 },

    #[error("input `{name}` of {dtype} cannot be put on `{backend}`", name = shown(.name))]
    Upload {
        name: String,
        dtype: bb::DataType,
        backend: &'static str,
        #[source]
        source: Box<bb::Error>,
    },

    #[error(
        "no extents were found with which the model runs, in {tried} choices for {}; \
         give them with --dim NAME=N or --shape INPUT=N,N,…",
        render::names(.open)
    )]
    NoExtents {
        open: Vec<String>,
        tried: usize,
        /// The error of the first choice of extents.
        #[source]
        source: Option<Box<Error>>,
    },

    #[error(
        "providers of ONNX Runtime need the feature `ort`: cargo run -p bb-cli --features ort -- conformance …"
    )]
    NoOrt,

    #[error("`{}`: expected a path without commas and parentheses", sentence(.path.display()))]
    LibraryName { path: PathBuf },

    #[error("`{}` holds no case: no folder below it has a model.onnx", sentence(.dir.display()))]
    NoCases { dir: PathBuf },

    #[error("expected two backends or more, each by --backend NAME; got {got}")]
    SeveralBackends { got: usize },

    #[error("`{}`: the graph is drawn to a file that ends in .svg, .html or .dot", sentence(.path.display()))]
    PictureForm { path: PathBuf },

    #[error("`{}` has no times of nodes; `bb bench MODEL --profile --json` prints them", sentence(.path.display()))]
    Times {
        path: PathBuf,
        #[source]
        source: Option<serde_json::Error>,
    },

    #[error("expected one backend beside --outputs, got {got}")]
    OneBackend { got: usize },

    #[error("`{}` holds no outputs: neither output_0.pb nor NAME.npy for an output of the model", sentence(.folder.display()))]
    NoOutputs { folder: PathBuf },

    #[error("`{}` has {sets} data sets, each with inputs of its own; name one of them to give others", sentence(.folder.display()))]
    SeveralSets { folder: PathBuf, sets: usize },

    #[error("the worker process could not be started or did not answer")]
    Worker(#[source] std::io::Error),

    #[error("cannot print JSON")]
    Json(#[from] serde_json::Error),
}

impl Error {
    /// Returns the error of `bb` that this error is or contains.
    pub(crate) fn of_bb(&self) -> Option<&bb::Error> {
        match self {
            Error::Bb(error) => Some(error),
            Error::Upload { source, .. } => Some(source),
            Error::NoExtents { source, .. } => source.as_ref()?.of_bb(),
            _ => None,
        }
    }
}

pub(crate) type Result<T> = std::result::Result<T, Error>;

impl From<bb_ir::Error> for Error {
    fn from(error: bb_ir::Error) -> Error {
        Error::Bb(error.into())
    }
}

/// Lists the possible names.
fn names(known: &[String]) -> String {
    if known.is_empty() {
        "none of them has a name".to_owned()
    } else {
        format!("the names are {}", render::names(known))
    }
}

/// Returns advice on a line of its own.
fn on_a_line(advice: &Option<String>) -> String {
    advice.as_ref().map_or_else(String::new, |advice| format!("\n{advice}"))
}
