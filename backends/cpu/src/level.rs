//! The instruction set that the kernels use, chosen once.

use crate::error::CpuError;
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
    /// NEON, which every 64-bit processor of ARM has, and dot products of bytes.
    Dotprod = 4,
    /// The same, and products of matrices of bytes.
    I8mm = 5,
}

/// All levels of this kind of processor, each with the instructions of those before it.
pub(crate) const LEVELS: &[Level] = if cfg!(target_arch = "x86_64") {
    &[Level::Portable, Level::Avx2, Level::Avx512]
} else if cfg!(target_arch = "aarch64") {
    &[Level::Portable, Level::Dotprod, Level::I8mm]
} else {
    &[Level::Portable]
};

impl Level {
    /// Returns the name, as people call it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Level::Portable => "portable",
            Level::Avx2 => "avx2",
            Level::Avx512 => "avx512",
            Level::Dotprod => "dotprod",
            Level::I8mm => "i8mm",
        }
    }
}

/// The level, plus [`PLAIN`] if somebody asked for it; 0 until it is known.
static CHOSEN: AtomicU8 = AtomicU8::new(0);

/// Kernels use no instructions that only some processors of the level have.
const PLAIN: u8 = 8;

/// Returns the widest level that this processor supports, or the one that was asked for. It does not change any more.
#[inline]
pub(crate) fn level() -> Level {
    #[cfg(test)]
    if let Some(forced) = FORCED.get() {
        return forced;
    }
    of(chosen())
}

#[inline]
fn chosen() -> u8 {
    match CHOSEN.load(Ordering::Relaxed) {
        0 => settle(initial()),
        known => known,
    }
}

#[inline]
fn of(chosen: u8) -> Level {
    match chosen & !PLAIN {
        2 => Level::Avx2,
        3 => Level::Avx512,
        4 => Level::Dotprod,
        5 => Level::I8mm,
        _ => Level::Portable,
    }
}

/// Sets the level unless it is set, and returns the one that is.
fn settle(level: u8) -> u8 {
    match CHOSEN.compare_exchange(0, level, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => level,
        Err(before) => before,
    }
}

/// The environment variable that asks for a level.
const VARIABLE: &str = "BB_CPU_LEVEL";

/// Returns what the environment asks for, but no more than the processor has.
#[cold]
fn initial() -> u8 {
    let found = supported();
    let asked = std::env::var(VARIABLE).ok().and_then(|name| named(&name).ok());
    asked.map_or(found as u8, |asked| asked.min(found) as u8 | PLAIN)
}

fn named(name: &str) -> Result<Level, CpuError> {
    let found = LEVELS.iter().find(|level| level.name() == name);
    found.copied().ok_or_else(|| CpuError::UnknownLevel { name: name.to_owned(), levels: listed() })
}

/// Lists the names of all levels.
fn listed() -> String {
    let names: Vec<String> = LEVELS.iter().map(|level| format!("`{}`", level.name())).collect();
    match names.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} or {last}", others.join(", ")),
        None => String::new(),
    }
}

/// Chooses the level of the process, which is chosen once: what kernels packed for one level, those of another cannot read. An empty
/// name leaves the choice to the environment.
///
/// # Errors
///
/// [`CpuError::UnknownLevel`] for another name than one of [`LEVELS`], also in the environment; [`CpuError::Level`] if the processor lacks
/// the instructions, or if the process computes with others already.
pub(crate) fn choose(name: &str) -> Result<(), CpuError> {
    if name.is_empty() {
        return std::env::var(VARIABLE).map_or(Ok(()), |name| named(&name).map(drop));
    }
    let asked = named(name)?;
    let found = supported();
    let refused = |found: Level, why| Err(CpuError::Level { asked: asked.name(), found: found.name(), why });
    if asked > found {
        return refused(found, "which is all that the processor has");
    }
    let now = settle(asked as u8 | PLAIN);
    match (of(now) == asked, now & PLAIN) {
        (true, PLAIN) => Ok(()),
        (true, _) => refused(of(now), "and what else the processor has, with which this process began"),
        (false, _) => refused(of(now), "with which this process began"),
    }
}

/// Tells whether kernels may use instructions that only some processors of a level have. Where a level is asked for, they may not: its
/// kernels are those of processors that have nothing else.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(crate) fn extras() -> bool {
    chosen() & PLAIN == 0
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
    #[cfg(target_arch = "aarch64")]
    if std::arch::is_aarch64_feature_detected!("dotprod") {
        let has_matrices = std::arch::is_aarch64_feature_detected!("i8mm");
        return if has_matrices { Level::I8mm } else { Level::Dotprod };
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
    LEVELS.iter().copied().filter(|&l| l <= of(chosen())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_level_is_chosen_once() {
        let now = chosen();
        for &asked in LEVELS {
            let allowed = choose(asked.name()).is_ok();
            assert_eq!(allowed, now == asked as u8 | PLAIN, "{asked:?}");
            assert_eq!(chosen(), now);
        }
        let unknown = choose("avx1024").map_err(|error| error.to_string());
        let expected = match std::env::consts::ARCH {
            "x86_64" => "`portable`, `avx2` or `avx512`",
            "aarch64" => "`portable`, `dotprod` or `i8mm`",
            _ => "`portable`",
        };
        assert_eq!(unknown, Err(format!("there is no level of instructions `avx1024`; expected {expected}")));
    }
}
