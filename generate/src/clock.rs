//! Reads the time, if the target has a clock. WebAssembly in a browser has none, and the standard library panics there if the time is
//! requested.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Whether the target has a clock.
const HAS_CLOCK: bool = !cfg!(all(target_family = "wasm", target_os = "unknown"));

/// The function that returns the system's time, in seconds since 1970; `None` if the target has no clock.
pub(crate) const SYSTEM: Option<fn() -> u64> = if HAS_CLOCK { Some(system) } else { None };

fn system() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

/// Measures elapsed time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stopwatch(Option<Instant>);

impl Stopwatch {
    pub(crate) fn start() -> Stopwatch {
        Stopwatch(HAS_CLOCK.then(Instant::now))
    }

    /// Returns the time since the start; 0 if the target has no clock.
    pub(crate) fn elapsed(self) -> Duration {
        self.0.map_or(Duration::ZERO, |start| start.elapsed())
    }
}
