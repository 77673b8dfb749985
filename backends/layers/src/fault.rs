//! The layer `fault`, which makes operations fail on purpose.

use bb::services::{Lifecycle, ServiceError};
use bb::{
    BoxError, Erased, Error, ErrorKind, InnerBackend, LayerCall, OpenOption, OpenOptions, OptionDefault,
    Outputs, OwnOption, Tensor,
};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// The kind of failure that a [`Fault`] causes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum FaultKind {
    /// The operation fails.
    #[default]
    Error,
    /// It is delayed.
    Delay,
    /// The first result gets one more dimension.
    Shape,
    /// The operation panics.
    Panic,
    /// The device is lost: this operation and all later ones fail.
    Loss,
}

/// The names of the kinds, for error messages.
const KINDS: &str = "`error`, `delay`, `shape`, `panic` or `loss`";

impl FromStr for FaultKind {
    type Err = String;

    fn from_str(text: &str) -> Result<FaultKind, String> {
        Ok(match text {
            "error" => FaultKind::Error,
            "delay" => FaultKind::Delay,
            "shape" => FaultKind::Shape,
            "panic" => FaultKind::Panic,
            "loss" => FaultKind::Loss,
            _ => return Err(format!("`{text}` is no kind of fault: write {KINDS}")),
        })
    }
}

/// The options of a [`Fault`]: the operations that it disturbs, and how.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct FaultOptions {
    /// The kind of failure.
    pub kind: FaultKind,
    /// The fraction of operations that are disturbed, from 0 to 1.
    pub rate: f64,
    /// The sequence number of the operation that is disturbed, counted from 1.
    pub at: Option<u64>,
    /// The seed of the random choice. The same seed disturbs the same calls.
    pub seed: u64,
    /// The name of the operation that may be disturbed; `None` for all operations.
    pub op: Option<String>,
    /// The duration of a [`FaultKind::Delay`].
    pub delay: Duration,
}

impl FaultOptions {
    /// Returns options that disturb the operation with this sequence number, counted from 1.
    pub fn at(kind: FaultKind, number: u64) -> FaultOptions {
        FaultOptions { kind, at: Some(number), ..FaultOptions::default() }
    }

    /// Returns options that disturb a random fraction of the operations, chosen by a seed.
    pub fn rate(kind: FaultKind, rate: f64, seed: u64) -> FaultOptions {
        FaultOptions { kind, rate, seed, ..FaultOptions::default() }
    }

    /// Restricts the fault to one operation, by its name, for example `matmul`.
    #[must_use]
    pub fn with_op(self, op: impl Into<String>) -> FaultOptions {
        FaultOptions { op: Some(op.into()), ..self }
    }

    /// Sets the duration of a [`FaultKind::Delay`].
    #[must_use]
    pub fn with_delay(self, delay: Duration) -> FaultOptions {
        FaultOptions { delay, ..self }
    }
}

/// The error that a [`Fault`] injects.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("an injected fault: operation {number}")]
pub struct InjectedFault {
    /// The sequence number of the operation, counted from 1 among the operations that may be disturbed.
    pub number: u64,
}

/// Disturbs operations, selected by their sequence number or at random.
#[derive(bb::Backend)]
#[bb(delegate = inner, crate = bb)]
pub struct Fault<B> {
    inner: B,
    options: FaultOptions,
    calls: AtomicU64,
    injected: Arc<AtomicU64>,
    device: Device,
}

/// The device, which can be lost.
struct Device {
    lost: AtomicBool,
}

impl Lifecycle for Device {
    fn synchronize(&self) -> Result<(), ServiceError> {
        match self.lost() {
            Some(reason) => Err(ServiceError::Lost { reason }),
            None => Ok(()),
        }
    }

    fn lost(&self) -> Option<String> {
        self.lost.load(Ordering::Relaxed).then(|| "an injected loss".to_owned())
    }
}

impl<B> Fault<B> {
    /// Disturbs the operations of a backend.
    pub fn new(inner: B, options: FaultOptions) -> Fault<B> {
        let device = Device { lost: AtomicBool::new(false) };
        Fault { inner, options, calls: AtomicU64::new(0), injected: Arc::default(), device }
    }

    /// Returns the counter of disturbed operations. The layer keeps updating it.
    pub fn injected(&self) -> Arc<AtomicU64> {
        self.injected.clone()
    }

    /// Counts an operation. Returns its sequence number if it is disturbed.
    fn strikes(&self, op: &str) -> Option<u64> {
        if self.options.op.as_deref().is_some_and(|only| only != op) {
            return None;
        }
        let number = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        let share = (mixed(self.options.seed ^ number) >> 11) as f64 / (1u64 << 53) as f64;
        (self.options.at == Some(number) || share < self.options.rate).then_some(number)
    }

    fn count(&self) {
        self.injected.fetch_add(1, Ordering::Relaxed);
    }
}

/// Mixes the bits of an integer.
///
/// Source: Steele, Lea and Flood, "Fast splittable pseudorandom number generators", the finalizer of SplitMix64.
fn mixed(seed: u64) -> u64 {
    let z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[bb::layer]
impl<B: InnerBackend> bb::Layer for Fault<B> {
    fn operation(&self, call: LayerCall<'_, Self>) -> Result<Outputs<B::Tensor>, B::Error> {
        let op = call.spec().method;
        let failed = |number| Error::layer("fault", op, ErrorKind::Device, InjectedFault { number });
        if self.device.lost.load(Ordering::Relaxed) {
            return Err(failed(self.calls.load(Ordering::Relaxed)).into());
        }
        let Some(number) = self.strikes(op) else { return call.run() };
        // A fault of kind `Shape` is counted only when there is a result that it changes.
        if self.options.kind != FaultKind::Shape {
            self.count();
        }
        match self.options.kind {
            FaultKind::Error => Err(failed(number).into()),
            FaultKind::Loss => {
                self.device.lost.store(true, Ordering::Relaxed);
                Err(failed(number).into())
            }
            FaultKind::Delay => {
                std::thread::sleep(self.options.delay);
                call.run()
            }
            FaultKind::Panic => panic!("an injected panic: operation {number}, `{op}`"),
            FaultKind::Shape => {
                let mut results = call.run()?;
                if let Some(first) = results.first_mut() {
                    let shape: Vec<usize> = std::iter::once(1).chain(first.shape().iter().copied()).collect();
                    *first = self.inner.reshape(first, &shape)?;
                    self.count();
                }
                Ok(results)
            }
        }
    }

    fn lifecycle(&self) -> Option<&dyn Lifecycle> {
        match self.options.kind {
            FaultKind::Loss => Some(&self.device),
            _ => self.inner.lifecycle(),
        }
    }
}

impl bb::RegisteredLayer for Fault<Erased> {
    const NAME: &'static str = "fault";
    const ABOUT: &'static str = "injects errors, delays, wrong extents, panics and the loss of the device";
    const OPTIONS: &'static [OpenOption] = &[
        OpenOption::Own(OwnOption::new("kind", OptionDefault::Text("error"), KINDS)),
        OpenOption::Own(OwnOption::new(
            "rate",
            OptionDefault::float(0.0),
            "the share of operations, from 0 to 1",
        )),
        OpenOption::Own(OwnOption::new(
            "at",
            OptionDefault::Count(0),
            "the number of the operation, from 1; 0 for none",
        )),
        OpenOption::Own(OwnOption::new("seed", OptionDefault::Count(0), "the seed of the random choice")),
        OpenOption::Own(OwnOption::new("op", OptionDefault::Text(""), "the operation; all without it")),
        OpenOption::Own(OwnOption::new("seconds", OptionDefault::float(0.1), "how long a delay takes")),
    ];

    fn on(inner: Erased, options: &OpenOptions) -> Result<Self, BoxError> {
        let rate: f64 = options.own("rate")?;
        let wrong = |option: &str, expected, got: String| Error::OptionValue {
            option: option.to_owned(),
            expected,
            got,
        };
        if !(0.0..=1.0).contains(&rate) {
            return Err(wrong("rate", "a number from 0 to 1", rate.to_string()).into());
        }
        let at = Some(options.own::<u64>("at")?).filter(|at| *at > 0);
        if at.is_none() && rate == 0.0 {
            let expected = "a number above 0, as in `fault(rate=0.1)`, or the number of an operation in `at`, as in `fault(at=3)`: \
                            without both, `fault` disturbs no operation";
            return Err(wrong("rate", expected, rate.to_string()).into());
        }
        if let Some(at) = at
            && rate > 0.0
        {
            let expected = "one of `at` and `rate`, not both: `fault(at=3)` for one operation, `fault(rate=0.1)` for a share of all";
            return Err(wrong("at", expected, at.to_string()).into());
        }
        let (kind, op): (String, String) = (options.own("kind")?, options.own("op")?);
        if !op.is_empty() {
            bb::operation(&op)?;
        }
        let options = FaultOptions {
            kind: kind.parse().map_err(|_| wrong("kind", KINDS, kind))?,
            rate,
            at,
            seed: options.own("seed")?,
            op: Some(op).filter(|op| !op.is_empty()),
            delay: crate::duration("seconds", options.own("seconds")?)?,
        };
        Ok(Fault::new(inner, options))
    }
}

bb::register_layer!(Fault<Erased>);
