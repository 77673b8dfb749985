//! The instruction set that the kernels use, detected once.

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

/// An instruction set level for which kernels are compiled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Level {
    /// The instructions that every processor of the target has.
    Portable = 1,
    /// AVX2, FMA and F16C: 32-byte vectors.
    Avx2 = 2,
    /// AVX-512 F, BW, DQ and VL: 64-byte vectors.
    Avx512 = 3,
}

impl Level {
    /// Returns the name, as people call it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Level::Portable => "portable",
            Level::Avx2 => "avx2",
            Level::Avx512 => "avx512",
        }
    }
}

/// Returns the widest level that this processor supports, or the one that tests ask for.
#[inline]
pub(crate) fn level() -> Level {
    static DETECTED: AtomicU8 = AtomicU8::new(0);
    #[cfg(test)]
    if let Some(forced) = FORCED.get() {
        return forced;
    }
    match DETECTED.load(Ordering::Relaxed) {
        1 => Level::Portable,
        2 => Level::Avx2,
        3 => Level::Avx512,
        _ => {
            let found = detect();
            DETECTED.store(found as u8, Ordering::Relaxed);
            found
        }
    }
}

/// Returns the level that tests ask for by the environment variable `BB_CPU_LEVEL`: `portable`, `avx2` or `avx512`. Only builds
/// with debug assertions read it.
fn asked() -> Option<Level> {
    if !cfg!(debug_assertions) {
        return None;
    }
    match std::env::var("BB_CPU_LEVEL").as_deref() {
        Ok("portable") => Some(Level::Portable),
        Ok("avx2") => Some(Level::Avx2),
        Ok("avx512") => Some(Level::Avx512),
        _ => None,
    }
}

/// Tells whether kernels may use instructions that only some processors of a level have. If tests ask for a level, they test the
/// kernels of processors that have nothing else.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(crate) fn extras() -> bool {
    static ALLOWED: OnceLock<bool> = OnceLock::new();
    !cfg!(debug_assertions) || *ALLOWED.get_or_init(|| asked().is_none())
}

fn detect() -> Level {
    let found = supported();
    asked().map_or(found, |asked| asked.min(found))
}

#[cold]
fn supported() -> Level {
    #[cfg(target_arch = "x86_64")]
    {
        let avx2 = is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("f16c")
            && is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("bmi2")
            && is_x86_feature_detected!("lzcnt")
            && is_x86_feature_detected!("popcnt");
        if avx2
            && is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl")
        {
            return Level::Avx512;
        }
        if avx2 {
            return Level::Avx2;
        }
    }
    Level::Portable
}

#[cfg(test)]
thread_local! {
    static FORCED: std::cell::Cell<Option<Level>> = const { std::cell::Cell::new(None) };
}

/// Runs `f`. On this thread, kernels use `level` meanwhile.
#[cfg(test)]
pub(crate) fn at<R>(level: Level, f: impl FnOnce() -> R) -> R {
    let before = FORCED.replace(Some(level));
    let result = f();
    FORCED.set(before);
    result
}

/// The level that a test forces on a thread, if it does. Threads that take part in the work of this thread must use the same
/// level, because the layout of what they read depends on it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Forced(#[cfg(test)] Option<Level>);

impl Forced {
    /// Returns the level that is forced on this thread.
    pub(crate) fn here() -> Forced {
        Forced(
            #[cfg(test)]
            FORCED.get(),
        )
    }

    /// Runs `f`. On this thread, kernels use the forced level meanwhile.
    pub(crate) fn within<R>(self, f: impl FnOnce() -> R) -> R {
        #[cfg(test)]
        if let Some(level) = self.0 {
            return at(level, f);
        }
        f()
    }
}

/// Lists the levels that this processor can run.
#[cfg(test)]
pub(crate) fn levels() -> Vec<Level> {
    [Level::Portable, Level::Avx2, Level::Avx512].into_iter().filter(|&l| l <= detect()).collect()
}
