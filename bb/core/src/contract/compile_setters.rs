//! Chained setters of [`CompileOptions`], one for each public option; the setters of passes are next to the list of passes
//! (`switches.rs`).

use super::compile_options::CompileOptions;

/// Writes a setter for each option, from the option's name, its type and its documentation.
macro_rules! setters {
    ($($(#[$doc:meta])* $setter:ident: $option:ident = $ty:ty;)*) => {
        impl CompileOptions { $(
            $(#[$doc])*
            #[doc = ""]
            #[doc = concat!("Sets [`", stringify!($option), "`](Self::", stringify!($option), ").")]
            #[must_use]
            pub fn $setter(mut self, $option: $ty) -> CompileOptions {
                self.$option = $option;
                self
            }
        )* }
    };
}

setters! {
    /// Returns the same with a bound on the bytes of one value.
    with_value_bytes: value_bytes = usize;
    /// Returns the same with a bound on the iterations of a run.
    with_iterations: iterations = usize;
    /// Returns the same with a bound on the bytes that all values of a run take together.
    with_run_bytes: run_bytes = usize;
    /// Returns the same with a bound on the bytes of folded constants.
    with_fold_bytes: fold_bytes = usize;
    /// Returns the same with a bound on the bytes of kept plans.
    with_plan_bytes: plan_bytes = usize;
    /// Returns the same, refusing or allowing nodes that run on the host.
    with_refuse_host: refuse_host = bool;
    /// Returns the same, refusing or allowing nodes that are lowered.
    with_refuse_lowered: refuse_lowered = bool;
    /// Returns the same with the check of each pass on or off.
    with_check_passes: check_passes = bool;
    /// Returns the same, refusing or allowing different extents that share one name in the model.
    with_strict: strict = bool;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn setters_chain_and_change_their_option_alone() {
        let plain = CompileOptions::default();
        let set = CompileOptions::default().with_recognize(true).with_run_bytes(1 << 20).with_fuse(false);
        assert!(set.passes.recognize && !plain.passes.recognize);
        assert!(!set.passes.fuse && plain.passes.fuse);
        assert_eq!(set.run_bytes, 1 << 20);
        assert!(!set.are_like(&plain));
        assert!(set.with_recognize(false).with_run_bytes(plain.run_bytes).with_fuse(true).are_like(&plain));
    }
}
