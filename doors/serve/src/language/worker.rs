//! The engine thread of a language model.

use bb::CancelToken;
use bb_generate::{Engine, EngineStatistics, Error, GenerateOptions, Listener, Pooling};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::oneshot;

/// The time between two checks of an idle thread whether the server shuts down.
const LOOK: Duration = Duration::from_millis(100);

/// The work that a request requires of the engine.
pub(super) enum Work {
    /// `seed` replaces the seed of the options.
    Generate {
        prompt: Arc<Vec<u32>>,
        options: Arc<GenerateOptions>,
        seed: Option<u64>,
    },
    Embed {
        text: Vec<u32>,
        pooling: Pooling,
    },
}

/// A request that is sent to the engine.
pub(super) struct Command {
    pub(super) work: Work,
    pub(super) listener: Box<dyn Listener>,
    pub(super) taken: oneshot::Sender<Result<(), Error>>,
}

/// Runs an engine until no further request can arrive and all requests are answered, or until `stop`. After `stop`, the listeners of
/// unfinished requests get no final event.
pub(super) fn work(
    mut engine: Engine,
    commands: &Receiver<Command>,
    statistics: &Mutex<EngineStatistics>,
    stop: &CancelToken,
) {
    while !stop.is_cancelled() {
        if engine.is_idle() {
            match commands.recv_timeout(LOOK) {
                Ok(command) => take(&mut engine, command),
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
        while let Ok(command) = commands.try_recv() {
            take(&mut engine, command);
        }
        if catch_unwind(AssertUnwindSafe(|| engine.step())).is_err() {
            // A panic may have left the state inconsistent.
            engine = engine.emptied();
        }
        *statistics.lock().unwrap_or_else(PoisonError::into_inner) = engine.statistics();
    }
}

fn take(engine: &mut Engine, Command { work, listener, taken }: Command) {
    let result = match work {
        Work::Generate { prompt, mut options, seed } => {
            // Clones the options only if other answers of the request still share them.
            Arc::make_mut(&mut options).sampling.seed = seed;
            engine.add(&prompt, &options, listener)
        }
        Work::Embed { text, pooling } => engine.embed(&text, pooling, listener),
    };
    // The send fails if the client has left, which is not an error.
    let _gone = taken.send(result);
}
