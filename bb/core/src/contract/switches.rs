//! The switches of passes. One list defines the fields of [`CompileOptions`] and their setters, the options of the command line and
//! of Python, and the switches in the settings of saved plans.

use super::compile_options::CompileOptions;

/// A switch of passes.
#[derive(Debug, Clone, Copy)]
pub struct PassSwitch {
    /// The name, as in `fold_scales`.
    pub name: &'static str,
    /// The command-line option that changes the default, as in `fold-scales` and `no-fuse`.
    pub option: &'static str,
    /// A help text: the effect of the switch while it is on.
    pub help: &'static str,
    /// The default.
    pub default: bool,
    /// Reads the switch.
    pub get: fn(&PassSwitches) -> bool,
    /// Sets the switch.
    pub set: fn(&mut PassSwitches, bool),
}

/// Expands the list: the name, the setter, the default, the option that changes the default, and a line of help.
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
    /// Whether chains of element-wise functions become one operation if the backend has
    /// [`Scalar::fused`](crate::ext::Scalar::fused) natively. If it has [`Nn::fused_conv`](crate::ext::Nn::fused_conv), a chain that is
    /// the only reader of a convolution's result is fused into the convolution. The results are the same.
    fuse, with_fuse, true, "no-fuse", "make one operation of chains of element-wise functions";
    /// Whether products and convolutions between `DequantizeLinear` and `QuantizeLinear` are computed with integers, if the backend
    /// has the operations of [`Quant`](crate::ext::Quant) natively. The integer sums are exact, so a byte of the result may differ
    /// by 1 from the byte that sums of floats give. Off: the nodes run as in the model.
    integers, with_integers, true, "no-integers", "compute products of quantised models with integers";
    /// Whether halves are `f32` between the operations of a run, if the backend has `f32`, so that only the outputs of the run are
    /// rounded. The results are closer to exact ones, and a value between operations may exceed the range of its type. Off: each
    /// operation rounds its results, except squares below a root, which exceed the range soonest. A `Cast` of the model rounds in
    /// any case.
    widen_halves, with_widen_halves, true, "no-widen-halves",
        "keep 16-bit floats in 32 bits between operations, and round what leaves the run";
    /// Whether a layer normalisation, a root-mean-square normalisation, a GELU or an attention that a model spells out becomes one
    /// operation if the backend has it natively. Its error is at most the error of the steps, but the last digits differ, so the
    /// switch is off by default. Normalisations of halves are always recognized, because squares of halves overflow.
    recognize, with_recognize, false, "recognize",
        "compute a normalisation, a GELU or an attention that the model spells out as one operation, where the backend has it; the last digits differ";
    /// Whether constants that multiply the results of a convolution or of a product with constant weights multiply the weights
    /// instead, and constants that are added to a convolution are added to its bias; batch normalisations then cost nothing. The
    /// weights are rounded once more, and a result once or twice less, so the last digits differ.
    fold_scales, with_fold_scales, true, "no-fold-scales",
        "multiply constant weights by the constants that multiply the results of convolutions and products; the last digits differ";
    /// Whether products with weights of few bits round their left operand to 8 bits, so that they become products of integers. This
    /// requires that the backend has [`Quant::matmul_n_bits`](crate::ext::Quant::matmul_n_bits) natively, and applies to any
    /// `accuracy_level` of the model. Off: only products whose level is 4 do so.
    round_rows, with_round_rows, false, "round-rows",
        "round the left operand of products with weights of few bits to 8 bits, whatever the model asks for";
}

impl PassSwitches {
    /// Sets the switch with a name, and returns whether it exists.
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
