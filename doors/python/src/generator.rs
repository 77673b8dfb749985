//! Language models, with the feature `generate`. The classes that users see are in `bb/_generate.py`.

use crate::failure::{Phase, raise, raise_other};
use crate::interrupt;
use bb::OpenOptions;
use bb_generate::{
    CacheType, Constraint, End, Error, GenerateOptions, Message, Piece, Products, TokenSequence,
};
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Mutex;

/// A language model on a backend. Threads may share it: each generation has a sequence of its own.
#[pyclass(frozen, module = "bb", name = "_Generator")]
pub(crate) struct Generator(bb_generate::Generator);

#[pymethods]
impl Generator {
    /// Opens a GGUF file, or a folder with a model in ONNX's format.
    #[new]
    #[expect(clippy::too_many_arguments, reason = "the arguments of the class in Python")]
    #[pyo3(signature = (path, backend="cpu", *, threads=None, memory=None, context=None, floats=false, cache="f32"))]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        backend: &str,
        threads: Option<usize>,
        memory: Option<u64>,
        context: Option<usize>,
        floats: bool,
        cache: &str,
    ) -> PyResult<Generator> {
        let mut open = OpenOptions::default();
        if let Some(threads) = threads {
            let threads = NonZeroUsize::new(threads);
            open = open
                .with_threads(threads.ok_or_else(|| PyValueError::new_err("`threads` must be at least 1"))?);
        }
        if let Some(memory) = memory {
            open = open.with_memory(memory);
        }
        let mut options = bb_generate::OpenOptions::default();
        options.context = context;
        if floats {
            options.products = Products::Floats;
        }
        options.cache = CacheType::from_name(cache).ok_or_else(|| {
            let names = CacheType::ALL.map(|cache| format!("`{}`", cache.name())).join(", ");
            PyValueError::new_err(format!("`cache` is `{cache}`, expected one of {names}"))
        })?;
        let on = interrupt::detached(py, None, || bb::backend_with(backend, &open))?;
        let on = on.map_err(|error| raise(py, Phase::Open, &error, None))?;
        let opened = interrupt::detached(py, None, || bb_generate::Generator::open(&path, &on, &options))?;
        opened.map(Generator).map_err(|error| failed(py, Phase::Load, &error))
    }

    /// Returns the tokens of a text.
    fn encode(&self, py: Python<'_>, text: &str) -> PyResult<Vec<u32>> {
        let tokens = interrupt::detached(py, None, || self.0.encode(text))?;
        tokens.map_err(|error| failed(py, Phase::Convert, &error))
    }

    /// Returns the text of tokens.
    fn decode(&self, py: Python<'_>, tokens: Vec<u32>) -> PyResult<String> {
        self.0.tokens().decode(&tokens).map_err(|error| failed(py, Phase::Convert, &error))
    }

    /// The maximum number of tokens of a sequence.
    #[getter]
    fn context(&self) -> usize {
        self.0.context()
    }

    /// The size of the model's vocabulary.
    #[getter]
    fn vocabulary(&self) -> usize {
        self.0.vocabulary()
    }

    /// Whether the model has a chat template.
    #[getter]
    fn chats(&self) -> bool {
        self.0.template().is_some()
    }

    /// Runs a prompt, and returns an iterator over the generated text.
    #[pyo3(signature = (prompt, *, raw=false, **options))]
    fn generate(
        &self,
        py: Python<'_>,
        prompt: &Bound<'_, PyAny>,
        raw: bool,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Generation> {
        let (mut given, constraint) = given(options)?;
        let prompt = self.prompt(py, prompt, raw)?;
        let sequence = self.0.sequence();
        let begun = interrupt::detached(py, None, || {
            given.grammar = constraint.map(|constraint| self.0.grammar(&constraint)).transpose()?;
            sequence.into_generation(&prompt, &given)
        })?;
        let running = begun.map_err(|error| failed(py, Phase::Convert, &error))?;
        Ok(Generation(Mutex::new(GenerationState { running, end: None })))
    }
}

impl Generator {
    /// Returns the tokens of a prompt, which is a text, a list of messages, or a list of tokens.
    fn prompt(&self, py: Python<'_>, prompt: &Bound<'_, PyAny>, raw: bool) -> PyResult<Vec<u32>> {
        let convert = |error: Error| failed(py, Phase::Convert, &error);
        if let Ok(text) = prompt.extract::<String>() {
            return if raw || self.0.template().is_none() {
                self.0.encode(&text).map_err(convert)
            } else {
                self.0.chat(&[Message::new("user", text)]).map_err(convert)
            };
        }
        if let Ok(tokens) = prompt.extract::<Vec<u32>>() {
            return Ok(tokens);
        }
        let wrong = || {
            PyTypeError::new_err(
                "a prompt is a `str`, a list of tokens, or a list of messages, dicts with `role` and `content`",
            )
        };
        let mut messages = Vec::new();
        for message in prompt.try_iter().map_err(|_| wrong())? {
            let message = message?;
            let text = |key: &str| -> PyResult<String> {
                message.get_item(key).and_then(|text| text.extract()).map_err(|_| wrong())
            };
            messages.push(Message::new(text("role")?, text("content")?));
        }
        self.0.chat(&messages).map_err(convert)
    }
}

/// Parses the options of a generation by name.
fn given(options: Option<&Bound<'_, PyDict>>) -> PyResult<(GenerateOptions, Option<Constraint>)> {
    let mut given = GenerateOptions::default();
    let mut constraint = None;
    let mut constrain = |by: Option<Constraint>| match by.is_some() && constraint.is_some() {
        true => Err(PyTypeError::new_err("give one of `json_schema`, `json_object`, `regex` and `lark`")),
        false => {
            constraint = constraint.take().or(by);
            Ok(())
        }
    };
    let sampling = &mut given.sampling;
    for (name, value) in options.into_iter().flatten() {
        match name.extract::<String>()?.as_str() {
            "max_tokens" => given.tokens = value.extract()?,
            "stop" => {
                given.stop = match value.extract::<String>() {
                    Ok(one) => vec![one],
                    Err(_) => value.extract()?,
                };
            }
            "ignore_end" => given.ignore_end = value.extract()?,
            "chunk" => given.chunk = value.extract()?,
            "temperature" => sampling.temperature = value.extract()?,
            "top_k" => sampling.top_k = value.extract()?,
            "top_p" => sampling.top_p = value.extract()?,
            "min_p" => sampling.min_p = value.extract()?,
            "typical" => sampling.typical = value.extract()?,
            "repetition_penalty" => sampling.repetition_penalty = value.extract()?,
            "presence_penalty" => sampling.presence_penalty = value.extract()?,
            "frequency_penalty" => sampling.frequency_penalty = value.extract()?,
            "penalty_last" => sampling.penalty_last = value.extract()?,
            "json_schema" => {
                constrain(value.extract::<Option<String>>()?.map(Constraint::JsonSchema))?;
            }
            "json_object" => constrain(value.extract::<bool>()?.then_some(Constraint::JsonObject))?,
            "regex" => constrain(value.extract::<Option<String>>()?.map(Constraint::Regex))?,
            "lark" => constrain(value.extract::<Option<String>>()?.map(Constraint::Lark))?,
            "seed" => sampling.seed = value.extract()?,
            "bias" => {
                let bias = value.cast::<PyDict>().map_err(|_| {
                    PyTypeError::new_err("`bias` must be a dict of tokens and what is added to their logits")
                })?;
                for (token, by) in bias {
                    sampling.bias.push((token.extract()?, by.extract()?));
                }
            }
            other => {
                let message = format!("generate() got an unexpected keyword argument '{other}'");
                return Err(PyTypeError::new_err(message));
            }
        }
    }
    Ok((given, constraint))
}

/// The continuation of a prompt: an iterator over pieces of text. Dropping it ends the generation.
#[pyclass(frozen, module = "bb", name = "_Generation")]
pub(crate) struct Generation(Mutex<GenerationState>);

struct GenerationState {
    running: bb_generate::Generation<TokenSequence>,
    end: Option<End>,
}

#[pymethods]
impl Generation {
    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    /// Returns the next piece of text.
    fn __next__(&self, py: Python<'_>) -> PyResult<Option<String>> {
        loop {
            let piece = self.with(py, |state| {
                let piece = state.running.next();
                if let Some(Ok(Piece { end, .. })) = &piece {
                    state.end = *end;
                }
                piece
            })?;
            match piece {
                None => return Ok(None),
                Some(Err(error)) => return Err(failed(py, Phase::Convert, &error)),
                Some(Ok(piece)) if !piece.text.is_empty() => return Ok(Some(piece.text)),
                Some(Ok(_)) => {}
            }
        }
    }

    /// The tokens that were generated.
    #[getter]
    fn tokens(&self, py: Python<'_>) -> PyResult<Vec<u32>> {
        self.with(py, |state| state.running.tokens().to_vec())
    }

    /// The reason why the generation ended: `end`, `stop`, `length` or `context`. `None` before.
    #[getter]
    fn end(&self, py: Python<'_>) -> PyResult<Option<&'static str>> {
        Ok(self.with(py, |state| state.end)?.map(|end| match end {
            End::Token => "end",
            End::Stop => "stop",
            End::Context => "context",
            _ => "length",
        }))
    }

    /// The number of tokens so far, and the rate per second.
    #[getter]
    fn statistics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let all = self.with(py, |state| state.running.statistics())?;
        let dict = PyDict::new(py);
        dict.set_item("prompt_tokens", all.prompt_tokens)?;
        dict.set_item("prompt_seconds", all.prompt_time.as_secs_f64())?;
        dict.set_item("prompt_tokens_per_second", all.prompt_speed())?;
        dict.set_item("answer_tokens", all.answer_tokens)?;
        dict.set_item("answer_seconds", all.answer_time.as_secs_f64())?;
        dict.set_item("answer_tokens_per_second", all.answer_speed())?;
        Ok(dict)
    }
}

impl Generation {
    /// Calls `f` on the state with the interpreter's lock released.
    ///
    /// # Errors
    ///
    /// `RuntimeError` if another thread or a signal handler calls this while a token is being computed.
    fn with<T: Send>(&self, py: Python<'_>, f: impl FnOnce(&mut GenerationState) -> T + Send) -> PyResult<T> {
        let called = interrupt::detached(py, None, || match self.0.try_lock() {
            Ok(mut state) => Some(f(&mut state)),
            Err(std::sync::TryLockError::Poisoned(state)) => Some(f(&mut state.into_inner())),
            Err(std::sync::TryLockError::WouldBlock) => None,
        })?;
        called.ok_or_else(|| PyRuntimeError::new_err("another thread uses this generation"))
    }
}

/// Creates the exception for an error.
fn failed(py: Python<'_>, phase: Phase<'_>, error: &Error) -> PyErr {
    match error {
        Error::Model { source } => raise(py, phase, source, None),
        other => raise_other(py, class(phase, other), other.kind(), other),
    }
}

/// Returns the name of the class of an exception.
fn class(phase: Phase<'_>, error: &Error) -> &'static str {
    match error.kind() {
        bb::ErrorKind::Configuration => "FileError",
        bb::ErrorKind::Internal => "InternalError",
        bb::ErrorKind::Unsupported => "UnsupportedError",
        bb::ErrorKind::Limit => "LimitError",
        bb::ErrorKind::WrongInput => "InputError",
        // Logits that are not finite occur only while the model runs.
        _ if matches!(error, Error::Logit { .. } | Error::NoneLeft) => "RunError",
        _ if matches!(phase, Phase::Load) => "ModelError",
        _ => "RunError",
    }
}
