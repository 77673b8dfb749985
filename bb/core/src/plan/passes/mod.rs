//! The passes that rewrite a trace before it becomes a plan, in the order of one list.
//!
//! A pass is a file or a folder here that defines a [`Pass`], and its name is in the list below. A pass uses `Trace::uses` and
//! `Trace::edit`, and returns the number of steps that it changed. In builds with debug assertions, and with
//! [`CompileOptions::check_passes`](crate::CompileOptions::check_passes), the trace is checked after each pass.

use crate::contract::PassSwitches;
use crate::error::Internal;
use crate::ext::{NnOp, OpSet, ScalarOp};
use crate::plan::engine::Engine;
use crate::plan::segment::{Settings, Weights};
use crate::trace::Trace;
use crate::{Error, RunOptions};
use bb_ir::op::{Family, OpSpec};

/// Declares the modules of the passes, and lists the passes in execution order.
macro_rules! passes {
    ($($pass:ident),* $(,)?) => {
        $( mod $pass; )*

        /// The passes, in execution order.
        const PASSES: &[Pass] = &[$( $pass::PASS ),*];
    };
}

// Dead steps are removed before scales are folded and transposes are moved, because these passes count readers. Earlier passes
// leave dead steps behind when they replace steps.
passes![
    drop_identities,
    merge_duplicates,
    fuse_vendor,
    merge_reshapes,
    merge_transposes,
    sink_dequantised,
    integer_products,
    tabulate,
    merge_lookups,
    dynamic_products,
    round_rows,
    normalise_rows,
    recognize_gelu,
    recognize_attention,
    widen_halves,
    dead_steps,
    fold_scales,
    move_transposes,
    fold_constants,
    fuse_elementwise,
    fuse_epilogues,
];

mod extents;
mod matching;
mod pattern;
mod permutation;
mod quantised;
mod recognized;
mod vendor_forms;
mod view;

/// A rewriting of traces.
#[derive(Debug, Clone, Copy)]
struct Pass {
    /// The name, as in `bb inspect --after dead-steps`.
    name: &'static str,
    /// The engines whose traces it rewrites.
    engines: &'static [Engine],
    /// Rewrites a trace, and returns how many steps it changed.
    run: fn(&mut Trace, PassOptions<'_>) -> Result<usize, Error>,
}

/// The number of steps that a pass changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PassCount {
    /// The pass.
    pub pass: &'static str,
    /// The number of changed steps.
    pub count: usize,
}

/// The name that selects the trace before any pass, where the name of a pass is expected.
pub(super) const UNREWRITTEN: &str = "trace";

/// Returns the names that [`Module::print_mir_after`](crate::Module::print_mir_after) accepts: `trace`, then the passes in
/// execution order.
pub fn pass_names() -> Vec<&'static str> {
    std::iter::once(UNREWRITTEN).chain(PASSES.iter().map(|pass| pass.name)).collect()
}

/// The options of the passes.
#[derive(Debug, Clone, Copy)]
pub(super) struct PassOptions<'w> {
    pub(super) engine: Engine,
    /// Whether to check the trace after each pass.
    pub(super) check: bool,
    /// The maximum number of bytes of constants that are computed when a plan is built.
    pub(super) fold_bytes: usize,
    /// The enabled rewritings; `fuse` is on only if the backend runs programs of element-wise functions natively.
    pub(super) switches: PassSwitches,
    /// The native operations of the backend.
    pub(super) natives: NativeOps,
    /// The weights that the trace may read.
    pub(super) weights: Weights<'w>,
    /// The settings that the trace was recorded with, because vendor patterns are traced with the same settings. With `None` no
    /// patterns are matched.
    pub(super) settings: Option<&'w Settings>,
}

/// The native operations of a backend, in the families whose operations passes insert.
#[derive(Debug, Clone, Copy)]
pub(super) struct NativeOps([(Family, OpSet); 3]);

impl NativeOps {
    /// No operations.
    const NONE: NativeOps =
        NativeOps([(Family::Quant, OpSet::NONE), (Family::Nn, OpSet::NONE), (Family::Llm, OpSet::NONE)]);

    pub(super) fn of(natives: &[(Family, OpSet)]) -> NativeOps {
        let mut all = NativeOps::NONE;
        for (family, set) in &mut all.0 {
            *set = natives.iter().find(|(own, _)| own == family).map_or(OpSet::NONE, |(_, own)| *own);
        }
        all
    }

    /// Returns whether an operation is native.
    fn has(self, spec: &OpSpec) -> bool {
        self.0.iter().any(|(family, set)| *family == spec.family && set.contains(spec.index))
    }
}

/// Returns whether a backend with these native operations runs programs of element-wise functions.
pub(super) fn fuses(natives: &[(Family, OpSet)]) -> bool {
    natives.iter().any(|(family, set)| *family == Family::Scalar && set.contains(ScalarOp::Fused as u16))
}

/// Returns the native operations of a backend that a trace keeps as they are. If `fuse-elementwise` runs, a batch normalisation
/// is lowered: its body is a product and a sum with one number per channel, which become lines of the adjacent program.
pub(super) fn kept(mut natives: Vec<(Family, OpSet)>, fuse: bool) -> Vec<(Family, OpSet)> {
    if fuse {
        for (_, set) in natives.iter_mut().filter(|(family, _)| *family == Family::Nn) {
            *set = set.without(NnOp::BatchNormalization as u16);
        }
    }
    natives
}

impl PassOptions<'static> {
    /// The options for a trace that is only inspected: the passes for a backend with kernels, with a check after each pass.
    pub(super) const INTERPRETED: PassOptions<'static> = PassOptions {
        engine: Engine::Interpreter,
        check: true,
        fold_bytes: usize::MAX,
        switches: PassSwitches { fuse: false, ..PassSwitches::ON },
        natives: NativeOps::NONE,
        weights: Weights::NONE,
        settings: None,
    };
}

impl PassOptions<'_> {
    /// Returns the options for a trace that reads no weights.
    fn of_constants(&self) -> PassOptions<'static> {
        PassOptions { weights: Weights::NONE, settings: None, ..*self }
    }
}

/// Runs the passes on a trace, and returns the number of steps that each pass changed.
///
/// # Errors
///
/// [`Error::Internal`] if a pass leaves an invalid trace.
pub(super) fn rewrite(trace: &mut Trace, options: PassOptions<'_>) -> Result<Vec<PassCount>, Error> {
    rewrite_until(trace, options, |_| false)
}

/// Runs the passes up to and including the one with this name.
///
/// # Errors
///
/// [`Error::UnknownPass`] if no pass has the name; [`Error::Internal`] if a pass leaves an invalid trace.
pub(super) fn rewrite_to(
    trace: &mut Trace,
    options: PassOptions<'_>,
    last: &str,
) -> Result<Vec<PassCount>, Error> {
    if !pass_names().contains(&last) {
        return Err(Error::UnknownPass { name: last.to_owned(), expected: pass_names() });
    }
    if last == UNREWRITTEN {
        return Ok(Vec::new());
    }
    rewrite_until(trace, options, |pass| pass.name == last)
}

fn rewrite_until(
    trace: &mut Trace,
    options: PassOptions<'_>,
    is_last: impl Fn(&Pass) -> bool,
) -> Result<Vec<PassCount>, Error> {
    let mut counts = Vec::with_capacity(PASSES.len());
    check(trace, options, UNREWRITTEN)?;
    for pass in PASSES {
        if pass.engines.contains(&options.engine) {
            RunOptions::check_current()?;
            let count = RunOptions::paced(|| (pass.run)(trace, options))??;
            counts.push(PassCount { pass: pass.name, count });
            check(trace, options, pass.name)?;
        }
        if is_last(pass) {
            break;
        }
    }
    Ok(counts)
}

fn check(trace: &Trace, options: PassOptions<'_>, after: &'static str) -> Result<(), Error> {
    if !options.check {
        return Ok(());
    }
    trace.check().map_err(|error| match error {
        Error::Internal(fault) => {
            Error::Internal(Internal::AfterPass { pass: after, fault: Box::new(fault) })
        }
        other => other,
    })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod samples;

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn the_names_of_passes_are_those_of_files_and_differ() {
        let mut names = pass_names();
        let expected = [
            "trace",
            "drop-identities",
            "merge-duplicates",
            "fuse-vendor",
            "merge-reshapes",
            "merge-transposes",
            "sink-dequantised",
            "integer-products",
            "tabulate",
            "merge-lookups",
            "dynamic-products",
            "round-rows",
            "normalise-rows",
            "recognize-gelu",
            "recognize-attention",
            "widen-halves",
            "dead-steps",
            "fold-scales",
            "move-transposes",
            "fold-constants",
            "fuse-elementwise",
            "fuse-epilogues",
        ];
        assert_eq!(names, expected);
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), 1 + PASSES.len());
    }

    #[test]
    fn a_pass_that_breaks_a_trace_is_named() {
        let mut trace = Trace::default();
        trace.outputs.push(crate::trace::TableIndex::at(0));
        let options = PassOptions::INTERPRETED;
        let error = check(&trace, options, "dead-steps").unwrap_err();
        assert_eq!(
            error.to_string(),
            "internal error: after `dead-steps`: there is no value of the trace 0 among 0; this is a mistake in bb"
        );
        assert!(check(&trace, PassOptions { check: false, ..options }, "dead-steps").is_ok());
    }
}
