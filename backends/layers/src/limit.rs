//! The layer `limit`, which refuses operations beyond a limit.

use crate::bytes_of;
use bb::{
    BoxError, Erased, Error, ErrorKind, InnerBackend, LayerCall, OpenOption, OpenOptions, OptionDefault,
    Outputs, OwnOption,
};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The limits of a [`Limit`]; `None` means no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Limits {
    /// The maximum number of operations.
    pub calls: Option<u64>,
    /// The maximum total duration of operations.
    pub time: Option<Duration>,
    /// The maximum size of a result in bytes.
    pub result: Option<u64>,
}

impl Limits {
    /// Limits the number of operations.
    #[must_use]
    pub fn with_calls(self, calls: u64) -> Limits {
        Limits { calls: Some(calls), ..self }
    }

    /// Limits the total duration of operations.
    #[must_use]
    pub fn with_time(self, time: Duration) -> Limits {
        Limits { time: Some(time), ..self }
    }

    /// Limits the size of each result.
    ///
    /// Units: bytes.
    #[must_use]
    pub fn with_result(self, bytes: u64) -> Limits {
        Limits { result: Some(bytes), ..self }
    }
}

/// An error of an operation that exceeds a limit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LimitError {
    /// The number of operations has reached the limit.
    #[error("the limit of {limit} operations is reached")]
    Calls {
        /// The limit.
        limit: u64,
    },
    /// The total duration of operations has reached the limit.
    #[error("operations took {took:?} together; the limit is {limit:?}")]
    Time {
        /// The limit.
        limit: Duration,
        /// The total duration of the operations.
        took: Duration,
    },
    /// A result is larger than the limit.
    #[error("a result has {got} bytes; the limit is {limit}")]
    Result {
        /// The limit, in bytes.
        limit: u64,
        /// The size of the result, in bytes.
        got: u64,
    },
}

/// Refuses operations beyond limits on their number, their total duration, and the size of a result.
///
/// Calls that only find out which element types the backend supports ([`bb::is_trial`]) are not limited and do not count.
///
/// The duration is checked before an operation starts, not while it runs. The size of a result is the size of its
/// elements on the host.
#[derive(bb::Backend)]
#[bb(delegate = inner, crate = bb)]
pub struct Limit<B> {
    inner: B,
    limits: Limits,
    calls: AtomicU64,
    nanoseconds: AtomicU64,
}

impl<B> Limit<B> {
    /// Limits the operations of a backend.
    pub fn new(inner: B, limits: Limits) -> Limit<B> {
        Limit { inner, limits, calls: AtomicU64::new(0), nanoseconds: AtomicU64::new(0) }
    }

    /// Counts an operation, and checks whether the limits allow it.
    fn begin(&self) -> Result<(), LimitError> {
        let calls = self.calls.fetch_add(1, Ordering::Relaxed);
        if let Some(limit) = self.limits.calls.filter(|limit| calls >= *limit) {
            return Err(LimitError::Calls { limit });
        }
        let took = Duration::from_nanos(self.nanoseconds.load(Ordering::Relaxed));
        match self.limits.time.filter(|limit| took >= *limit) {
            Some(limit) => Err(LimitError::Time { limit, took }),
            None => Ok(()),
        }
    }
}

#[bb::layer]
impl<B: InnerBackend> bb::Layer for Limit<B> {
    fn operation(&self, call: LayerCall<'_, Self>) -> Result<Outputs<B::Tensor>, B::Error> {
        // A refused trial would mean that the backend lacks the operation.
        if bb::is_trial() {
            return call.run();
        }
        let op = call.spec().method;
        let refused = |error: LimitError| Error::layer("limit", op, ErrorKind::Limit, error);
        self.begin().map_err(refused)?;
        let start = Instant::now();
        let results = call.run()?;
        let took = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.nanoseconds.fetch_add(took, Ordering::Relaxed);
        if let Some(limit) = self.limits.result
            && let Some(got) = results.iter().map(bytes_of).find(|bytes| *bytes > limit)
        {
            return Err(refused(LimitError::Result { limit, got }).into());
        }
        Ok(results)
    }
}

impl bb::RegisteredLayer for Limit<Erased> {
    const NAME: &'static str = "limit";
    const ABOUT: &'static str = "refuses operations beyond a limit";
    const OPTIONS: &'static [OpenOption] = &[
        OpenOption::Memory,
        OpenOption::Own(OwnOption::new("calls", OptionDefault::Count(0), "operations; 0 for no limit")),
        OpenOption::Own(OwnOption::new(
            "seconds",
            OptionDefault::float(0.0),
            "time of all operations; 0 for no limit",
        )),
        OpenOption::Own(OwnOption::new(
            "result",
            OptionDefault::Count(0),
            "bytes of one result; 0 for no limit",
        )),
    ];

    /// The option `memory` sets a limit in the backend's memory service, so the backend must have that service.
    fn on(inner: Erased, options: &OpenOptions) -> Result<Self, BoxError> {
        if let Some(bytes) = options.memory {
            let memory = bb::Backend::memory(&inner).ok_or_else(|| Error::OptionRefused {
                option: OpenOption::Memory.to_string(),
                got: bytes.to_string(),
                source: "the backend has no memory service, which would apply the limit".into(),
            })?;
            memory.set_limit(Some(bytes))?;
        }
        let given = |name: &str| Ok::<_, Error>(Some(options.own::<u64>(name)?).filter(|limit| *limit > 0));
        let seconds: f64 = options.own("seconds")?;
        let time = crate::duration("seconds", seconds)?;
        let limits = Limits {
            calls: given("calls")?,
            result: given("result")?,
            time: Some(time).filter(|t| !t.is_zero()),
        };
        Ok(Limit::new(inner, limits))
    }
}

bb::register_layer!(Limit<Erased>);
