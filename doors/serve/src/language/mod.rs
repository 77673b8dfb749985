//! The served language models. Each has an engine on its own thread, which batches all requests.

mod prepare;
mod worker;

use crate::config::{Config, ModelConfig};
use crate::error::Error;
use crate::held_bytes::Lease;
use crate::metrics::LanguageMetrics;
use crate::refusal::{Refusal, is_of_request, shown};
use bb::CancelToken;
use bb_generate::{
    CacheType, Constraint, Engine, EngineOptions, EngineStatistics, Error as GenerateError, GenerateOptions,
    Generator, Grammar, Listener, OpenOptions, Pooling,
};
use prepare::Preparing;
use std::path::Path;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use tokio::sync::oneshot;
use worker::{Command, Work};

/// Returns whether a path is a language model: a GGUF file, or a folder with a model and a tokenizer.
pub(crate) fn is_language_model(path: &Path) -> bool {
    let gguf = path.extension().is_some_and(|end| end.eq_ignore_ascii_case("gguf"));
    gguf || path.join("tokenizer.json").is_file()
}

/// A language model that is served.
pub(crate) struct Language {
    pub(crate) name: String,
    pub(crate) generator: Generator,
    /// The time when the model was loaded, in seconds since 1970.
    pub(crate) since: u64,
    /// The maximum number of tokens of a sequence.
    pub(crate) context: usize,
    pub(crate) metrics: LanguageMetrics,
    pub(crate) preparing: Preparing,
    statistics: Arc<Mutex<EngineStatistics>>,
    commands: Mutex<Option<Sender<Command>>>,
}

impl Language {
    fn open(of: &ModelConfig, config: &Config, stop: &CancelToken) -> Result<(Language, Engine), Error> {
        let model = || of.name.clone();
        let on = bb::backend(&of.backend)
            .map_err(|source| Error::Backend { model: model(), source: Box::new(source) })?;
        let mut options = OpenOptions::default();
        options.context = config.context;
        options.cache = match config.cache {
            crate::CacheType::F32 => CacheType::F32,
            crate::CacheType::F16 => CacheType::F16,
            crate::CacheType::I8 => CacheType::I8,
        };
        let generator = Generator::open(&of.path, &on, &options).map_err(|source| Error::Language {
            model: model(),
            path: of.path.clone(),
            source: Box::new(source),
        })?;
        let mut options = EngineOptions::default();
        options.sequences = config.sequences;
        options.waiting = config.queue;
        options.tokens = config.step_tokens;
        options.bytes = config.cache_bytes;
        let engine = Engine::new(&generator, options);
        let since = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
        let context = engine.context();
        let language = Language {
            name: model(),
            generator,
            since,
            context,
            metrics: LanguageMetrics::default(),
            preparing: Preparing::new(&of.name, config.queue, stop),
            statistics: Arc::default(),
            commands: Mutex::default(),
        };
        Ok((language, engine))
    }

    fn commands(&self) -> MutexGuard<'_, Option<Sender<Command>>> {
        self.commands.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the refusal for a request whose events ended without a final event.
    pub(crate) fn ended(&self) -> Refusal {
        match self.commands().is_some() {
            true => Refusal::Internal { what: "an engine ended before its answers" },
            false => Refusal::ShuttingDown,
        }
    }

    /// Returns the statistics of the engine.
    pub(crate) fn statistics(&self) -> EngineStatistics {
        *self.statistics.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts an answer to a prompt. The answers of one request share their prompt and their options, except the seed.
    pub(crate) async fn generate(
        &self,
        prompt: Arc<Vec<u32>>,
        options: Arc<GenerateOptions>,
        seed: Option<u64>,
        listener: Box<dyn Listener>,
    ) -> Result<(), Refusal> {
        self.ask(Work::Generate { prompt, options, seed }, listener).await
    }

    /// Compiles the constraint of an answer on one of the threads for grammars.
    pub(crate) async fn grammar(
        self: &Arc<Self>,
        constraint: Constraint,
        deadline: Instant,
        lease: Arc<Lease>,
    ) -> Result<Grammar, Refusal> {
        let model = self.clone();
        let compile = move |constraint: &Constraint| {
            // Keeps the lease of the request's bytes until the work has ended.
            let _lease = lease;
            model.generator.grammar(constraint).map_err(|source| model.refused(source))
        };
        self.preparing.grammar(constraint, deadline, compile).await
    }

    /// Requests the embedding of a text.
    pub(crate) async fn embed(
        &self,
        text: Vec<u32>,
        pooling: Pooling,
        listener: Box<dyn Listener>,
    ) -> Result<(), Refusal> {
        self.ask(Work::Embed { text, pooling }, listener).await
    }

    async fn ask(&self, work: Work, listener: Box<dyn Listener>) -> Result<(), Refusal> {
        let (taken, answer) = oneshot::channel();
        let command = Command { work, listener, taken };
        let sent = self.commands().as_ref().is_some_and(|commands| commands.send(command).is_ok());
        if !sent {
            return Err(Refusal::ShuttingDown);
        }
        // The engine's thread answers each command between two steps, unless the thread ends before.
        answer
            .await
            .unwrap_or(Err(GenerateError::Internal { what: "an engine ended" }))
            .map_err(|source| self.refused(source))
    }

    /// Converts an error of the engine, a tokenizer or a template to a refusal.
    pub(crate) fn refused(&self, source: GenerateError) -> Refusal {
        let model = self.name.clone();
        match source {
            GenerateError::Busy { most } => Refusal::QueueFull { model, limit: most },
            source if is_of_request(&source) => Refusal::Prompt { model, source: Box::new(source) },
            source => Refusal::Generation { model, source: Arc::new(source) },
        }
    }
}

/// The language models that are served.
#[derive(Default)]
pub(crate) struct Languages {
    all: Vec<Arc<Language>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Languages {
    /// Opens the models and starts their threads. `stop` ends the threads.
    pub(crate) fn start(
        models: &[ModelConfig],
        config: &Config,
        stop: &CancelToken,
    ) -> Result<Languages, Error> {
        let (mut all, mut threads) = (Vec::with_capacity(models.len()), Vec::with_capacity(models.len()));
        for of in models {
            let (language, engine) = Language::open(of, config, stop)?;
            let (commands, from) = channel();
            *language.commands() = Some(commands);
            let (statistics, stop) = (language.statistics.clone(), stop.clone());
            let thread = std::thread::Builder::new().name(format!("bb-{}", of.name));
            let thread = thread.spawn(move || worker::work(engine, &from, &statistics, &stop));
            let what = "a thread for a model";
            threads.push(thread.map_err(|source| Error::System { what, source })?);
            let preparing = language.preparing.start(&of.name);
            threads.extend(preparing.map_err(|source| Error::System { what, source })?);
            all.push(Arc::new(language));
        }
        Ok(Languages { all, threads: Mutex::new(threads) })
    }

    /// Returns all language models.
    pub(crate) fn all(&self) -> &[Arc<Language>] {
        &self.all
    }

    /// Finds a model by its name.
    pub(crate) fn find(&self, name: &str) -> Result<&Arc<Language>, Refusal> {
        self.all.iter().find(|model| model.name == name).ok_or_else(|| {
            let known: Vec<String> = self.all.iter().map(|model| format!("`{}`", model.name)).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            Refusal::UnknownLanguage { name: shown(name), known }
        })
    }

    /// Stops accepting requests.
    pub(crate) fn close(&self) {
        for model in &self.all {
            model.preparing.close();
            drop(model.commands().take());
        }
    }

    /// Drops the requests that wait to be prepared.
    pub(crate) fn abort(&self) {
        self.all.iter().for_each(|model| model.preparing.abort());
    }

    /// Returns whether all threads have ended.
    pub(crate) fn is_idle(&self) -> bool {
        let threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        threads.iter().all(JoinHandle::is_finished)
    }
}
