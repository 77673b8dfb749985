//! Options that several commands share.

use super::values::{DimArg, Limit, Range, Shape};
use bb::PassSwitches;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use std::ffi::OsString;
use std::path::PathBuf;

/// A model and its limits.
#[derive(Debug, Args)]
pub(crate) struct ModelArgs {
    /// The model: an .onnx file, or what `bb compile` wrote
    pub(crate) model: PathBuf,
    /// Change a limit, as in --limit nodes=5000000 or --limit tensor_bytes=32G; an unknown name lists all
    /// limits
    #[arg(long = "limit", value_name = "NAME=VALUE", value_parser = Limit::parse)]
    pub(crate) limits: Vec<Limit>,
    /// Refuse a model that claims false types of values or imports operators twice or not at all, and inputs with different
    /// extents for one name of the model; otherwise they are warnings
    #[arg(long)]
    pub(crate) strict: bool,
}

/// The backend and the output format.
#[derive(Debug, Args)]
pub(crate) struct Common {
    /// The name of the backend [default: cpu, if it is linked], with options in parentheses, as in --backend 'chip(tile=64)'; `bb
    /// backends` lists all
    #[arg(long, value_name = "NAME")]
    pub(crate) backend: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// The number of threads.
#[derive(Debug, Args)]
pub(crate) struct Threads {
    /// How many threads a backend may use [default: the number of processors]
    #[arg(long, value_name = "N", value_parser = super::values::threads)]
    pub(crate) threads: Option<usize>,
}

/// Rewritings of the model: an option for each switch of passes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Rewriting(pub(crate) PassSwitches);

impl Args for Rewriting {
    fn augment_args(command: Command) -> Command {
        PassSwitches::ALL.iter().fold(command, |command, switch| {
            let help = match switch.default {
                true => format!("Do not {}", switch.help),
                false => {
                    let mut letters = switch.help.chars();
                    letters.next().into_iter().flat_map(char::to_uppercase).chain(letters).collect()
                }
            };
            command.arg(Arg::new(switch.option).long(switch.option).help(help).action(ArgAction::SetTrue))
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Rewriting::augment_args(command)
    }
}

impl FromArgMatches for Rewriting {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Rewriting, clap::Error> {
        let mut rewriting = Rewriting::default();
        rewriting.update_from_arg_matches(matches)?;
        Ok(rewriting)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        for switch in PassSwitches::ALL.iter().filter(|switch| matches.get_flag(switch.option)) {
            (switch.set)(&mut self.0, !switch.default);
        }
        Ok(())
    }
}

/// Extents that the model leaves open.
#[derive(Debug, Default, Args)]
pub(crate) struct ExtentArgs {
    /// The extent of a symbolic dimension, as in --dim batch=8
    #[arg(long = "dim", value_name = "NAME=N", value_parser = DimArg::parse)]
    pub(crate) dims: Vec<DimArg>,
    /// The shape of an input, as in --shape x=1,3,224,224; `x=` is rank 0
    #[arg(long = "shape", value_name = "INPUT=N,N,…", value_parser = Shape::parse)]
    pub(crate) shapes: Vec<Shape>,
}

/// The inputs of a run.
#[derive(Debug, Default, Args)]
pub(crate) struct Inputs {
    /// An input from a file: .npy, a member of an .npz (NAME=FILE.npz:MEMBER; by default the member with the
    /// input's name), or a serialized TensorProto, SequenceProto, OptionalProto or MapProto (.pb). `-` is
    /// standard input
    #[arg(long = "input", value_name = "NAME=FILE")]
    pub(crate) inputs: Vec<OsString>,
    /// A folder with inputs in the order of the model: input_0.pb, input_1.pb, …
    #[arg(long = "inputs", value_name = "DIR", conflicts_with = "inputs")]
    pub(crate) folder: Option<PathBuf>,
    /// Fill the inputs that are not given with random elements that fit the model; equal seeds give equal
    /// elements
    #[arg(long, value_name = "SEED", num_args = 0..=1, default_missing_value = "1")]
    pub(crate) random: Option<u64>,
    /// Draw random numbers from LO up to but not including HI, for all inputs or for one (INPUT=LO..HI)
    #[arg(
        long = "range",
        value_name = "[INPUT=]LO..HI",
        value_parser = Range::parse,
        allow_hyphen_values = true
    )]
    pub(crate) ranges: Vec<Range>,
    #[command(flatten)]
    pub(crate) extents: ExtentArgs,
    #[command(flatten)]
    pub(crate) picture: Picture,
}

/// Pictures as inputs, whose pixels become (pixel × scale − mean) / deviation.
#[derive(Debug, Default, Args)]
pub(crate) struct Picture {
    /// An input from a picture (PNG, JPEG, WebP, BMP, TIFF, PNM), resized and laid out as the model declares
    #[arg(long = "image", value_name = "NAME=FILE")]
    pub(crate) images: Vec<OsString>,
    /// Multiply the pixels, which are from 0 to 255, by this [default: 1/255 for floats, 1 for integers]
    #[arg(long, value_name = "NUMBER", value_parser = super::values::finite, requires = "images")]
    pub(crate) scale: Option<f64>,
    /// Then subtract this: one number, or one for each channel in the input's order
    #[arg(
        long,
        value_name = "NUMBER,…",
        value_delimiter = ',',
        value_parser = super::values::finite,
        allow_hyphen_values = true,
        requires = "images"
    )]
    pub(crate) mean: Vec<f64>,
    /// Then divide by this: one number, or one for each channel in the input's order
    #[arg(
        long,
        value_name = "NUMBER,…",
        value_delimiter = ',',
        value_parser = super::values::deviation,
        requires = "images"
    )]
    pub(crate) std: Vec<f64>,
    /// The order of the colours
    #[arg(long, value_enum, default_value_t, requires = "images")]
    pub(crate) channels: Channels,
    /// The order of the axes, if the declared shape does not determine it
    #[arg(long, value_enum, requires = "images")]
    pub(crate) layout: Option<Layout>,
}

/// The order of the axes of a picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Layout {
    /// Channels, rows, columns
    Nchw,
    /// Rows, columns, channels
    Nhwc,
}

/// The order of the colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(crate) enum Channels {
    /// Red, green, blue
    #[default]
    Rgb,
    /// Blue, green, red
    Bgr,
}

/// How keys and values of language models are kept.
#[cfg(any(feature = "generate", feature = "serve"))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(crate) enum CacheElements {
    /// As they are computed
    #[default]
    F32,
    /// As halves, in half of the memory
    F16,
    /// As integers of 8 bits with a scale for each head, in little more than a quarter of the memory
    I8,
}
