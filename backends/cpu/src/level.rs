//! The instruction set that the kernels use. It is selected once per process.

use crate::error::CpuError;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU8, Ordering};

/// An instruction set level that kernels are compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Level {
    /// The baseline instructions that every processor of the target has.
    Portable = 1,
    /// AVX2, FMA and F16C: 32-byte vectors.
    Avx2 = 2,
    /// AVX-512 F, BW, DQ and VL: 64-byte vectors.
    Avx512 = 3,
    /// NEON, which every 64-bit ARM processor has, and the dot products of bytes.
    Dotprod = 4,
    /// The instructions of `Dotprod`, and matrix products of bytes.
    I8mm = 5,
}

impl Level {
    /// Returns the name of the level as an option value.
    fn name(self) -> &'static str {
        match self {
            Level::Portable => "portable",
            Level::Avx2 => "avx2",
            Level::Avx512 => "avx512",
            Level::Dotprod => "dotprod",
            Level::I8mm => "i8mm",
        }
    }
}

/// The instructions that kernels may use.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Instructions {
    level: Level,
    /// Whether kernels may use optional extensions of the level, for example dot products of bytes, if the processor has them.
    extras: bool,
}

impl Instructions {
    const fn plain(level: Level) -> Instructions {
        Instructions { level, extras: false }
    }

    const fn full(level: Level) -> Instructions {
        Instructions { level, extras: true }
    }

    /// Returns the option value of these instructions. Combinations without a name of their own use the name of their level.
    pub(crate) fn name(self) -> &'static str {
        NAMED.iter().find(|named| named.1 == self).map_or(self.level.name(), |named| named.0)
    }

    /// Returns the encoding for [`CHOSEN`], which is never 0.
    const fn bits(self) -> u8 {
        self.level as u8 | if self.extras { EXTRAS } else { 0 }
    }

    const fn of(bits: u8) -> Instructions {
        let level = match bits & !EXTRAS {
            2 => Level::Avx2,
            3 => Level::Avx512,
            4 => Level::Dotprod,
            5 => Level::I8mm,
            _ => Level::Portable,
        };
        Instructions { level, extras: bits & EXTRAS != 0 }
    }

    /// Returns whether this processor has these instructions.
    fn supported(self) -> bool {
        #[cfg(target_arch = "x86_64")]
        if self == Instructions::full(Level::Avx2) && !is_x86_feature_detected!("avxvnni") {
            return false;
        }
        // On other architectures, a level already includes all instructions that kernels use.
        (cfg!(target_arch = "x86_64") || !self.extras) && self.level <= widest()
    }
}

impl std::fmt::Debug for Instructions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Instructions { level, extras } = self;
        write!(f, "{}{}", level.name(), if *extras { " with all that is found" } else { "" })
    }
}

const EXTRAS: u8 = 8;

/// The instruction sets that an option can select on this architecture. Without extras, kernels use only the instructions that every
/// processor of the level has.
const NAMED: &[(&str, Instructions)] = if cfg!(target_arch = "x86_64") {
    &[
        ("portable", Instructions::plain(Level::Portable)),
        ("avx2", Instructions::plain(Level::Avx2)),
        ("avx2-vnni", Instructions::full(Level::Avx2)),
        ("avx512", Instructions::plain(Level::Avx512)),
    ]
} else if cfg!(target_arch = "aarch64") {
    &[
        ("portable", Instructions::plain(Level::Portable)),
        ("dotprod", Instructions::plain(Level::Dotprod)),
        ("i8mm", Instructions::plain(Level::I8mm)),
    ]
} else {
    &[("portable", Instructions::plain(Level::Portable))]
};

/// The [encoding](Instructions::bits) of the selected instructions; 0 until they are selected.
static CHOSEN: AtomicU8 = AtomicU8::new(0);

/// Returns the selected level; the default is the widest one that this processor supports. The level does not change afterwards.
#[inline]
pub(crate) fn level() -> Level {
    instructions().level
}

/// Returns whether kernels may use instructions that only some processors of a level have.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(crate) fn extras() -> bool {
    instructions().extras
}

/// Returns the selected instructions; the default is all that this processor has.
#[inline]
pub(crate) fn instructions() -> Instructions {
    #[cfg(test)]
    if let Some(forced) = FORCED.get() {
        return forced;
    }
    chosen()
}

#[inline]
fn chosen() -> Instructions {
    match CHOSEN.load(Ordering::Relaxed) {
        0 => settle(initial()),
        known => Instructions::of(known),
    }
}

/// Selects these instructions unless the process has already selected some. Returns the selected instructions.
fn settle(asked: Instructions) -> Instructions {
    match CHOSEN.compare_exchange(0, asked.bits(), Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => asked,
        Err(before) => Instructions::of(before),
    }
}

/// The environment variable that selects instructions.
const VARIABLE: &str = "BB_CPU_LEVEL";

/// Returns the instructions that the environment selects. Returns all that the processor has if it lacks those, or if the variable is not
/// set.
#[cold]
fn initial() -> Instructions {
    let asked = std::env::var(VARIABLE).ok().and_then(|name| named(VARIABLE, &name).ok());
    asked.filter(|asked| asked.supported()).unwrap_or_else(all)
}

/// The names of [`NAMED`] as a list for error messages.
static LISTED: LazyLock<String> = LazyLock::new(|| {
    let names: Vec<String> = NAMED.iter().map(|(name, _)| format!("`{name}`")).collect();
    match names.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} or {last}", others.join(", ")),
        None => String::new(),
    }
});

/// Returns all instructions that this processor has.
fn all() -> Instructions {
    let full = Instructions::full(widest());
    if full.supported() { full } else { Instructions::plain(full.level) }
}

/// Returns the instructions called `name`. `option` is the option for an error message.
fn named(option: &str, name: &str) -> Result<Instructions, bb::Error> {
    let found = NAMED.iter().find(|named| named.0 == name);
    let unknown =
        || bb::Error::OptionValue { option: option.to_owned(), expected: &LISTED, got: name.to_owned() };
    found.map(|named| named.1).ok_or_else(unknown)
}

/// Selects the instructions of the process. They can be selected only once, because operands packed for one level cannot be read by
/// kernels of another level. If the name is empty, the environment variable decides.
///
/// # Errors
///
/// [`bb::Error::OptionValue`] if the name or the environment variable is not in [`NAMED`]; [`bb::Error::OptionRefused`] if the processor
/// lacks the instructions, or if the process already uses instructions of another name.
pub(crate) fn choose(name: &str) -> Result<(), bb::Error> {
    if name.is_empty() {
        if let Ok(name) = std::env::var(VARIABLE) {
            named(VARIABLE, &name)?;
        }
        return Ok(());
    }
    let asked = named("level", name)?;
    let refused = |found: Instructions, why| {
        let source = Box::new(CpuError::Level { found: found.name(), why });
        Err(bb::Error::OptionRefused { option: "level".to_owned(), got: asked.name().to_owned(), source })
    };
    if !asked.supported() {
        return refused(all(), "because the processor has no others");
    }
    match settle(asked) {
        now if now.name() == asked.name() => Ok(()),
        now => refused(
            now,
            "because the process has used them already: choose the level when the process opens its first CPU backend",
        ),
    }
}

/// Returns the widest level that this processor supports.
#[cold]
fn widest() -> Level {
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
    static FORCED: std::cell::Cell<Option<Instructions>> = const { std::cell::Cell::new(None) };
}

/// Runs `f` while kernels on this thread use `instructions`.
#[cfg(test)]
pub(crate) fn at<R>(instructions: Instructions, f: impl FnOnce() -> R) -> R {
    let before = FORCED.replace(Some(instructions));
    let result = f();
    FORCED.set(before);
    result
}

/// The instructions that a test forces on a thread, if any. Threads that share the work of this thread must use the same instructions,
/// because the layout of packed operands depends on them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Forced(#[cfg(test)] Option<Instructions>);

impl Forced {
    /// Returns the instructions that are forced on this thread.
    pub(crate) fn here() -> Forced {
        Forced(
            #[cfg(test)]
            FORCED.get(),
        )
    }

    /// Runs `f` while kernels on this thread use the forced instructions.
    pub(crate) fn within<R>(self, f: impl FnOnce() -> R) -> R {
        #[cfg(test)]
        if let Some(instructions) = self.0 {
            return at(instructions, f);
        }
        f()
    }
}

/// Lists the instructions that kernels may use on this processor: each level up to the selected one without extras, and also with extras
/// if the selection has them.
#[cfg(test)]
pub(crate) fn levels() -> Vec<Instructions> {
    let most = chosen();
    possible()
        .filter(|one| one.supported() && one.level <= most.level && (most.extras || !one.extras))
        .collect()
}

/// Lists each level of this architecture, without extras and with them.
#[cfg(test)]
fn possible() -> impl Iterator<Item = Instructions> {
    let levels = NAMED.iter().filter(|named| !named.1.extras).map(|named| named.1.level);
    levels.flat_map(|level| [Instructions::plain(level), Instructions::full(level)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_level_is_chosen_once() {
        let now = chosen();
        for &(name, asked) in NAMED {
            let chosen_again = choose(name);
            assert_eq!(chosen_again.is_ok(), now.name() == name, "{asked:?}");
            if let Err(error) = chosen_again {
                assert_eq!(error.to_string(), format!("the option `level` cannot be `{name}`"));
                assert_eq!(error.kind(), bb::ErrorKind::Configuration);
            }
            assert_eq!(chosen(), now);
        }
        let unknown = choose("avx1024").map_err(|error| error.to_string());
        let expected = match std::env::consts::ARCH {
            "x86_64" => "`portable`, `avx2`, `avx2-vnni` or `avx512`",
            "aarch64" => "`portable`, `dotprod` or `i8mm`",
            _ => "`portable`",
        };
        assert_eq!(unknown, Err(format!("the option `level` is `avx1024`; expected {expected}")));
    }

    #[test]
    fn the_bits_are_those_of_the_instructions() {
        for one in possible() {
            assert_eq!(Instructions::of(one.bits()), one);
            assert_ne!(one.bits(), 0);
        }
    }
}
