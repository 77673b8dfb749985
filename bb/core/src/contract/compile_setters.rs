//! Chained setters of [`CompileOptions`], one for each public option; the setters of passes are next to the list of passes
//! (`switches.rs`).

use super::compile_options::CompileOptions;

/// Generates a setter for each option from its name, its type and its documentation.
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
    /// Returns these options with a limit on the bytes of one value.
    with_value_bytes: value_bytes = usize;
    /// Returns these options with a limit on the iterations of a run.
    with_iterations: iterations = usize;
    /// Returns these options with a limit on the total bytes of all values of a run.
    with_run_bytes: run_bytes = usize;
    /// Returns these options with a limit on the bytes of folded constants.
    with_fold_bytes: fold_bytes = usize;
    /// Returns these options with a limit on the bytes of kept plans.
    with_plan_bytes: plan_bytes = usize;
    /// Returns these options, with nodes that run on the host refused or allowed.
    with_refuse_host: refuse_host = bool;
    /// Returns these options, with nodes that are lowered refused or allowed.
    with_refuse_lowered: refuse_lowered = bool;
    /// Returns these options with the check after each pass on or off.
    with_check_passes: check_passes = bool;
    /// Returns these options, with different extents for one symbolic name refused or allowed.
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
