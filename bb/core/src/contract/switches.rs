//! The switches of passes. One list defines the fields of [`CompileOptions`] and their setters, the options of the command line
//! and of the Python package, and the switches in the settings of saved plans.

use super::compile_options::CompileOptions;

/// A switch of passes.
#[derive(Debug, Clone, Copy)]
pub struct PassSwitch {
    /// The name, as in `fold_scales`.
    pub name: &'static str,
    /// The command-line option that inverts the default, as in `fold-scales` and `no-fuse`.
    pub option: &'static str,
    /// A help text that describes the effect of the switch when it is on.
    pub help: &'static str,
    /// The default.
    pub default: bool,
    /// Reads the switch.
    pub get: fn(&PassSwitches) -> bool,
    /// Sets the switch.
    pub set: fn(&mut PassSwitches, bool),
}

/// Expands the list. Each entry has the name, the setter, the default, the option that inverts the default, and a line of help.
macro_rules! switches {
    ($( $(#[$doc:meta])* $name:ident, $setter:ident, $default:literal, $option:literal, $help:literal; )*) => {
        /// Enabled rewrites of a model; part of [`CompileOptions`].
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct PassSwitches { $(
            $(#[$doc])*
            pub $name: bool,
        )* }

        impl PassSwitches {
            /// Every switch on.
            pub(crate) const ON: PassSwitches = PassSwitches { $( $name: true ),* };

            /// All switches.
            pub const ALL: &'static [PassSwitch] = &[$( PassSwitch {
                name: stringify!($name),
                option: $option,
                help: $help,
                default: $default,
                get: |switches| switches.$name,
                set: |switches, on| switches.$name = on,
            } ),*];
        }

        impl Default for PassSwitches {
            fn default() -> PassSwitches {
                PassSwitches { $( $name: $default ),* }
            }
        }

        bb_ir::__compact!(struct PassSwitches { $($name),* });

        impl CompileOptions { $(
            #[doc = concat!("Returns the same with [`PassSwitches::", stringify!($name), "`] on or off.")]
            #[must_use]
            pub fn $setter(mut self, on: bool) -> CompileOptions {
                self.passes.$name = on;
                self
            }
        )* }
    };
}

switches! {
    /// Whether chains of element-wise functions become one operation if [`Scalar::fused`](crate::ext::Scalar::fused) is native
    /// to the backend. If [`Nn::fused_conv`](crate::ext::Nn::fused_conv) is native, a chain that is the only reader of a
    /// convolution's result is fused into the convolution. The results are the same.
    fuse, with_fuse, true, "no-fuse", "make one operation of chains of element-wise functions";
    /// Whether products and convolutions between `DequantizeLinear` and `QuantizeLinear` are computed in integers, if the
    /// operations of [`Quant`](crate::ext::Quant) are native to the backend. Integer sums are exact, so a byte of the result
    /// may differ by 1 from the byte that sums of floats give. If off, the nodes run as in the model.
    integers, with_integers, true, "no-integers", "compute products of quantised models with integers";
    /// Whether half floats (`f16` and `bf16`) are kept in `f32` between the operations of a run, if the backend has `f32`, so
    /// that only the outputs of the run are rounded. The results are closer to the exact ones, and a value between operations
    /// may exceed the range of its type. If off, each operation rounds its results, except squares below a root, which overflow
    /// first. A `Cast` of the model rounds in any case.
    widen_halves, with_widen_halves, true, "no-widen-halves",
        "keep 16-bit floats in 32 bits between operations, and round what leaves the run";
    /// Whether the steps of a layer normalisation, a root-mean-square normalisation, a GELU or an attention become one
    /// operation if the operation is native to the backend. Its error is at most the error of the steps, but the last digits
    /// differ, so the switch is off by default. Normalisations of half floats are always recognized, because squares of half
    /// floats overflow.
    recognize, with_recognize, false, "recognize",
        "compute a normalisation, a GELU or an attention that the model spells out as one operation, where the backend has it; the last digits differ";
    /// Whether constant factors of the results of convolutions and products are folded into their constant weights, and
    /// constants that are added to a convolution are folded into its bias; batch normalisations then cost nothing. The weights
    /// are rounded once more, and the results once or twice less, so the last digits differ.
    fold_scales, with_fold_scales, true, "no-fold-scales",
        "multiply constant weights by the constants that multiply the results of convolutions and products; the last digits differ";
    /// Whether products with weights of few bits round their left operand to 8 bits, so that they become integer products. This
    /// requires that [`Quant::matmul_n_bits`](crate::ext::Quant::matmul_n_bits) is native to the backend, and applies to any
    /// `accuracy_level` of the model. If off, only products with level 4 do so.
    round_rows, with_round_rows, false, "round-rows",
        "round the left operand of products with weights of few bits to 8 bits, whatever the model asks for";
}

impl PassSwitches {
    /// Sets the switch with this name, and returns whether it exists.
    pub fn set(&mut self, name: &str, on: bool) -> bool {
        let found = PassSwitches::ALL.iter().find(|switch| switch.name == name);
        if let Some(switch) = found {
            (switch.set)(self, on);
        }
        found.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_switch_is_set_by_its_name_alone() {
        for switch in PassSwitches::ALL {
            let mut switches = PassSwitches::default();
            assert!(switches.set(switch.name, !switch.default));
            let differ: Vec<&str> = PassSwitches::ALL
                .iter()
                .filter(|other| (other.get)(&switches) != other.default)
                .map(|other| other.name)
                .collect();
            assert_eq!(differ, [switch.name]);
        }
        assert!(!PassSwitches::default().set("fuse ", true));
    }
}
