//! The switches of passes: one list, from which the fields of [`CompileOptions`] and their setters follow, the options of the
//! command line and of Python, and what saved plans are stamped with.

use super::module::CompileOptions;

/// A switch of passes.
#[derive(Debug, Clone, Copy)]
pub struct PassSwitch {
    /// The name, as in `fold_scales`.
    pub name: &'static str,
    /// The option of commands that changes the default, as in `fold-scales` and `no-fuse`.
    pub option: &'static str,
    /// What it does while it is on, for people who read options.
    pub help: &'static str,
    /// Whether it is on unless somebody says otherwise.
    pub default: bool,
    /// Reads it.
    pub get: fn(&PassSwitches) -> bool,
    /// Sets it.
    pub set: fn(&mut PassSwitches, bool),
}

/// Expands the list: the name, the setter, whether it is on by default, the option that changes this, and a line of help.
macro_rules! switches {
    ($( $(#[$doc:meta])* $name:ident, $setter:ident, $default:literal, $option:literal, $help:literal; )*) => {
        /// Which rewritings of a model are made; part of [`CompileOptions`].
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
    /// Whether chains of element-wise functions become one operation where the backend has
    /// [`Scalar::fused`](crate::ext::Scalar::fused) natively, and join the convolution whose result they alone read where it has
    /// [`Nn::fused_conv`](crate::ext::Nn::fused_conv). The results are the same.
    fuse, with_fuse, true, "no-fuse", "make one operation of chains of element-wise functions";
    /// Whether products and convolutions between `DequantizeLinear` and `QuantizeLinear` are computed with integers, where the
    /// backend has the operations of [`Quant`](crate::ext::Quant) natively. Their sums are exact, and a result may be the
    /// neighbour of the byte that sums of floats give. Off: the nodes run as the model writes them.
    integers, with_integers, true, "no-integers", "compute products of quantised models with integers";
    /// Whether halves are `f32` between the operations of a run, where the backend has `f32`, so that what leaves the run is rounded
    /// once. The results are nearer to exact ones, and a value between operations may exceed the range of its type. Off: each operation
    /// rounds its results, but for squares below a root, which exceed the range soonest. A `Cast` of the model rounds in any case.
    widen_halves, with_widen_halves, true, "no-widen-halves",
        "keep 16-bit floats in 32 bits between operations, and round what leaves the run";
    /// Whether a layer normalisation, one by the root of the mean square, a GELU or an attention that a model spells out becomes
    /// one operation where the backend has it natively. Its error is at most that of the steps, but the last digits differ, so
    /// that it is off unless it is asked for. Normalisations of halves need not be asked for, because squares of halves overflow.
    recognize, with_recognize, false, "recognize",
        "compute a normalisation, a GELU or an attention that the model spells out as one operation, where the backend has it; the last digits differ";
    /// Whether constants that multiply the results of a convolution or of a product with constant weights multiply the weights
    /// instead, and those that are added to a convolution join its bias: batch normalisations cost nothing then. The weights are
    /// rounded once more, and a result once or twice less, so that the last digits differ.
    fold_scales, with_fold_scales, true, "no-fold-scales",
        "multiply constant weights by the constants that multiply the results of convolutions and products; the last digits differ";
    /// Whether products with weights of few bits round their left operand to 8 bits, so that they are products of integers, where the
    /// backend has [`Quant::matmul_n_bits`](crate::ext::Quant::matmul_n_bits) natively, and whatever `accuracy_level` of the model says.
    /// Off: those whose level is 4 do so.
    round_rows, with_round_rows, false, "round-rows",
        "round the left operand of products with weights of few bits to 8 bits, whatever the model asks for";
}

impl PassSwitches {
    /// Sets the switch of a name, and tells whether there is one.
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
