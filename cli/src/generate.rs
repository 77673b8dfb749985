//! `bb generate`: generates text with a language model.

use crate::error::{Error, Result};
use crate::{args, out, render, session};
use bb_generate::{
    CacheType, Constraint, EncoderInput, End, GenerateOptions, Generator, Grammar, Message, OpenOptions,
    Piece, Products, Statistics, TokenSequence,
};
use serde::Serialize;
use std::io::{BufRead, IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

/// The JSON output of `--json`.
#[derive(Debug, Serialize)]
struct Report {
    text: String,
    tokens: Vec<u32>,
    end: &'static str,
    prompt_tokens: usize,
    prompt_tokens_per_second: f64,
    answer_tokens: usize,
    answer_tokens_per_second: f64,
    cache_bytes: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    memory_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    log_probabilities: Vec<Vec<(u32, f64)>>,
}

pub(crate) fn generate(options: &args::Generate) -> Result<ExitCode> {
    session::threads(&options.threads)?;
    let backend = session::backend(options.common.backend.as_deref())?;
    let start = Instant::now();
    let mut opening = OpenOptions::default();
    opening.context = options.context;
    if options.floats {
        opening.products = Products::Floats;
    }
    opening.cache = match options.cache {
        args::CacheElements::F32 => CacheType::F32,
        args::CacheElements::F16 => CacheType::F16,
        args::CacheElements::I8 => CacheType::I8,
    };
    let generator = progress("opening the model", || Generator::open(&options.model, &backend, &opening))?;
    out::note(format_args!("opened in {}", render::duration(start.elapsed().as_secs_f64())));
    let grammar = grammar(&generator, &options.constraint)?;
    if generator.has_encoder() {
        return translate(&generator, &grammar, options);
    }
    let mut messages: Vec<Message> = options.system.iter().map(|text| Message::new("system", text)).collect();
    if options.from.chat {
        return chat(&generator, messages, &grammar, options);
    }
    if let Some(path) = &options.from.messages {
        let read = |source| Error::Read { path: path.clone(), source };
        let text = std::fs::read(path).map_err(read)?;
        let wrong = |source| Error::Messages { path: path.clone(), source };
        messages.extend(serde_json::from_slice::<Vec<Message>>(&text).map_err(wrong)?);
    }
    let prompt = match &options.from.prompt {
        Some(text) if options.raw || generator.template().is_none() => generator.encode(text)?,
        Some(text) => {
            messages.push(Message::new("user", text));
            generator.chat(&messages)?
        }
        None => generator.chat(&messages)?,
    };
    let mut session = generator.sequence();
    answer(&mut session, &prompt, &grammar, options)?;
    Ok(ExitCode::SUCCESS)
}

/// Answers a prompt with an encoder-decoder model, which for example translates or shortens a text.
fn translate(generator: &Generator, grammar: &Option<Grammar>, options: &args::Generate) -> Result<ExitCode> {
    use bb_generate::Error::{Lacks, Source};
    let Some(text) = &options.from.prompt else {
        return Err(Source { found: "messages", expected: "`--prompt TEXT`, which its encoder reads" }.into());
    };
    let source = generator.encode(text)?;
    let start =
        generator.start().ok_or(Lacks { what: "token that answers begin with, `decoder_start_token_id`" })?;
    let mut session =
        progress("reading the source", || generator.sequence_of(EncoderInput::Tokens(&source)))?;
    answer(&mut session, &[start], grammar, options)?;
    Ok(ExitCode::SUCCESS)
}

/// Answers each line of standard input.
fn chat(
    generator: &Generator,
    mut messages: Vec<Message>,
    grammar: &Option<Grammar>,
    options: &args::Generate,
) -> Result<ExitCode> {
    let mut session = generator.sequence();
    let asks = std::io::stdin().is_terminal();
    let mut lines = std::io::stdin().lock().lines();
    loop {
        if asks {
            shown("> ");
        }
        let Some(line) = lines.next() else { return Ok(ExitCode::SUCCESS) };
        let line = line.map_err(Error::Input)?;
        if line.trim().is_empty() {
            continue;
        }
        messages.push(Message::new("user", line));
        let prompt = generator.chat(&messages)?;
        let text = answer(&mut session, &prompt, grammar, options)?;
        messages.push(Message::new("assistant", text));
    }
}

/// Generates an answer, and prints it while it is generated. Returns the answer.
fn answer(
    session: &mut TokenSequence,
    prompt: &[u32],
    grammar: &Option<Grammar>,
    options: &args::Generate,
) -> Result<String> {
    let mut given = given(options);
    given.grammar.clone_from(grammar);
    let mut generation = progress("reading the prompt", || session.generate(prompt, &given))?;
    let mut text = String::new();
    let mut end = None;
    let mut log_probabilities = Vec::new();
    for piece in generation.by_ref() {
        let Piece { text: part, log_probabilities: own, end: ended, .. } = piece?;
        if !options.common.json {
            out::print(&part)?;
            out::flush()?;
        }
        text.push_str(&part);
        end = ended;
        log_probabilities
            .extend(own.map(|(_, top)| top.iter().map(|one| (one.token, one.log_probability)).collect()));
    }
    let (statistics, tokens) = (generation.statistics(), generation.tokens().to_vec());
    let memory = peak();
    if options.common.json {
        out::json(&Report {
            text: text.clone(),
            tokens,
            end: reason(end),
            prompt_tokens: statistics.prompt_tokens,
            prompt_tokens_per_second: statistics.prompt_speed(),
            answer_tokens: statistics.answer_tokens,
            answer_tokens_per_second: statistics.answer_speed(),
            cache_bytes: session.cache_bytes(),
            memory_bytes: memory,
            log_probabilities,
        })?;
    } else {
        out::line("")?;
        out::flush()?;
        out::note(summary(&statistics, end, session.cache_bytes(), memory));
    }
    Ok(text)
}

/// Compiles the constraint of the answers.
fn grammar(generator: &Generator, of: &args::Constrained) -> Result<Option<Grammar>> {
    let content = |path: &Path| {
        let read = |source| Error::Read { path: path.to_owned(), source };
        std::fs::read_to_string(path).map_err(read)
    };
    let constraint = match of {
        args::Constrained { json_schema: Some(path), .. } => Constraint::JsonSchema(content(path)?),
        args::Constrained { json_object: true, .. } => Constraint::JsonObject,
        args::Constrained { regex: Some(text), .. } => Constraint::Regex(text.clone()),
        args::Constrained { lark: Some(path), .. } => Constraint::Lark(content(path)?),
        _ => return Ok(None),
    };
    let compiled = progress("compiling the grammar", || generator.grammar(&constraint));
    Ok(Some(compiled?))
}

fn given(options: &args::Generate) -> GenerateOptions {
    let mut given = GenerateOptions::default();
    given.tokens = options.tokens;
    given.stop.clone_from(&options.stop);
    given.log_probabilities = options.log_probabilities;
    let (to, from) = (&mut given.sampling, &options.sampling);
    to.temperature = from.temperature;
    to.top_k = from.top_k;
    to.top_p = from.top_p;
    to.min_p = from.min_p;
    to.typical = from.typical;
    to.repetition_penalty = from.repetition_penalty;
    to.presence_penalty = from.presence_penalty;
    to.frequency_penalty = from.frequency_penalty;
    to.seed = from.seed;
    to.bias.clone_from(&from.bias);
    given
}

/// Returns a word for the reason why an answer ended.
fn reason(end: Option<End>) -> &'static str {
    match end {
        Some(End::Token) => "end",
        Some(End::Stop) => "stop",
        Some(End::Context) => "context",
        _ => "length",
    }
}

fn summary(statistics: &Statistics, end: Option<End>, cache: usize, memory: Option<u64>) -> String {
    let &Statistics { prompt_tokens, reused_tokens, answer_tokens, .. } = statistics;
    let reused = if reused_tokens > 0 { format!(", {reused_tokens} of them kept") } else { String::new() };
    let memory =
        memory.map_or_else(String::new, |bytes| format!(", {} of memory at most", render::bytes(bytes)));
    let ended = match end {
        Some(End::Token | End::Stop) => "",
        Some(End::Context) => "; the conversation is as long as the model takes",
        _ => "; there would be more: see `--tokens`",
    };
    format!(
        "prompt: {prompt_tokens} tokens{reused}, {:.1} tokens per second; answer: {answer_tokens} tokens, {:.1} tokens per second; \
         {} of caches{memory}{ended}",
        statistics.prompt_speed(),
        statistics.answer_speed(),
        render::bytes(cache as u64),
    )
}

/// Runs `work`. Shows `what` on a terminal until `work` ends.
fn progress<T>(what: &str, work: impl FnOnce() -> T) -> T {
    let terminal = std::io::stderr().is_terminal();
    if terminal {
        shown(&format!("{what} …"));
    }
    let result = work();
    if terminal {
        shown("\r\u{1b}[K");
    }
    result
}

/// Prints a part of a line to standard error. A failure is ignored, because there is no other place to report it.
fn shown(text: &str) {
    let mut to = std::io::stderr().lock();
    let _closed = to.write_all(text.as_bytes()).and_then(|()| to.flush());
}

/// Returns the peak memory of this process in bytes, or `None` if the system does not report it.
fn peak() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}
