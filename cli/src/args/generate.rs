//! The options of `bb generate`.

use super::{CacheElements, Common, Threads};
use clap::Args;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(crate) struct Generate {
    /// A GGUF file, or a folder with `model.onnx` and `tokenizer.json`
    pub(crate) model: PathBuf,
    #[command(flatten)]
    pub(crate) from: Continued,
    /// The system message, which comes before all messages
    #[arg(long, value_name = "TEXT", conflicts_with = "raw")]
    pub(crate) system: Option<String>,
    /// Continue the prompt as it is, instead of answering it as a message
    #[arg(long, requires = "prompt")]
    pub(crate) raw: bool,
    /// The greatest number of tokens of an answer
    #[arg(long, value_name = "N", default_value_t = 512)]
    pub(crate) tokens: usize,
    /// The greatest number of tokens of a conversation [default: 8192, at most the model's context length]
    #[arg(long, value_name = "N")]
    pub(crate) context: Option<usize>,
    #[command(flatten)]
    pub(crate) sampling: Sampling,
    /// End an answer before this text; may be given several times
    #[arg(long, value_name = "TEXT")]
    pub(crate) stop: Vec<String>,
    #[command(flatten)]
    pub(crate) constraint: Constrained,
    /// Multiply weights of few bits as floats, even where integers would be faster
    #[arg(long)]
    pub(crate) floats: bool,
    /// How keys and values are kept
    #[arg(long, value_enum, default_value_t)]
    pub(crate) cache: CacheElements,
    /// Print the logarithms of the probabilities of this many tokens at each place, with --json
    #[arg(long, value_name = "N", requires = "json")]
    pub(crate) log_probabilities: Option<usize>,
    #[command(flatten)]
    pub(crate) threads: Threads,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// The source of the prompt.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct Continued {
    /// A text; a model with a template for messages answers it
    #[arg(long, value_name = "TEXT")]
    pub(crate) prompt: Option<String>,
    /// Answer each line of standard input, with all before it in mind
    #[arg(long, conflicts_with = "json")]
    pub(crate) chat: bool,
    /// A JSON file with a list of messages in the format of OpenAI
    #[arg(long, value_name = "FILE")]
    pub(crate) messages: Option<PathBuf>,
}

/// The constraint of an answer.
#[derive(Debug, Args)]
#[group(multiple = false)]
pub(crate) struct Constrained {
    /// Answer with JSON that matches the JSON schema in this file
    #[arg(long, value_name = "FILE")]
    pub(crate) json_schema: Option<PathBuf>,
    /// Answer with a JSON object
    #[arg(long)]
    pub(crate) json_object: bool,
    /// Answer with a text that this regular expression matches as a whole
    #[arg(long, value_name = "REGEX", allow_hyphen_values = true)]
    pub(crate) regex: Option<String>,
    /// Answer with a text that matches the Lark grammar in this file
    #[arg(long, value_name = "FILE")]
    pub(crate) lark: Option<PathBuf>,
}

/// How tokens are chosen.
#[derive(Debug, Args)]
pub(crate) struct Sampling {
    /// Divide logits by this before a token is sampled; 0 selects the most probable token
    #[arg(long, value_name = "T", default_value_t = 0.0)]
    pub(crate) temperature: f64,
    /// Draw one of this many most probable tokens; 0 for all
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) top_k: usize,
    /// Draw one of the most probable tokens that reach this probability together
    #[arg(long, value_name = "P", default_value_t = 1.0)]
    pub(crate) top_p: f64,
    /// Draw no token whose probability is less than this share of the greatest probability
    #[arg(long, value_name = "P", default_value_t = 0.0)]
    pub(crate) min_p: f64,
    /// Draw one of the tokens of usual surprise that reach this probability together
    #[arg(long, value_name = "P", default_value_t = 1.0)]
    pub(crate) typical: f64,
    /// Divide positive logits of tokens that occurred already by this, and multiply the others
    #[arg(long, value_name = "X", default_value_t = 1.0)]
    pub(crate) repetition_penalty: f64,
    /// Subtract this from the logits of tokens that were generated
    #[arg(long, value_name = "X", default_value_t = 0.0, allow_negative_numbers = true)]
    pub(crate) presence_penalty: f64,
    /// Subtract this from the logit of a token for each time that it was generated
    #[arg(long, value_name = "X", default_value_t = 0.0, allow_negative_numbers = true)]
    pub(crate) frequency_penalty: f64,
    /// The seed; equal seeds draw equal tokens
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// Add this to the logit of a token, by its number; may be given several times
    #[arg(long, value_name = "TOKEN=X", value_parser = bias, allow_hyphen_values = true)]
    pub(crate) bias: Vec<(u32, f64)>,
}

/// Parses a token and its bias.
fn bias(text: &str) -> Result<(u32, f64), String> {
    let wrong = || format!("expected a token and a number, as in 42=-1.5, not `{text}`");
    let (token, number) = text.split_once('=').ok_or_else(wrong)?;
    Ok((token.parse().map_err(|_| wrong())?, number.parse().map_err(|_| wrong())?))
}
