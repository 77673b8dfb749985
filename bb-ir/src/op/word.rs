//! Parameters whose values are a few words. Methods and options take enums; lists of parameters and models contain
//! strings.

use super::param::Param;
use crate::Error;

/// Declares enums of words, and conversions from parameters. A row has the name of the enum, the list of its words for
/// messages, and the words.
macro_rules! words {
    ($( $(#[$doc:meta])* $name:ident, $listed:literal { $( $(#[$wdoc:meta])* $word:ident = $text:literal, )+ } )+) => {
        $(
            $(#[$doc])*
            #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
            pub enum $name { $( $(#[$wdoc])* $word, )+ }

            impl $name {
                /// Every word of this kind.
                pub const ALL: &'static [$name] = &[$( $name::$word, )+];

                /// Returns the string that represents the word in models and in lists of parameters.
                pub const fn name(self) -> &'static str {
                    match self { $( $name::$word => $text, )+ }
                }

                /// Parses a word. `op` is the operation that has the parameter.
                ///
                /// # Errors
                ///
                /// [`Error::Word`] for any other string.
                pub fn of(op: &'static str, text: &str) -> Result<$name, Error> {
                    match text {
                        $( $text => Ok($name::$word), )+
                        _ => Err(Error::Word { op, expected: $listed, got: text.into() }),
                    }
                }
            }
        )+

        /// Functions that convert a parameter to a word, one function per kind.
        #[expect(non_snake_case, reason = "one function per kind, called by the kind's name in table expansions")]
        pub(crate) mod take {
            use super::*;
            $(
                /// Parses a parameter as a word of this kind.
                ///
                /// # Errors
                ///
                /// [`Error::ParamKind`] and [`Error::Word`].
                #[inline]
                pub fn $name(op: &'static str, param: Option<&Param<'_>>) -> Result<super::$name, Error> {
                    super::$name::of(op, super::super::param::take::Text(op, param)?)
                }
            )+
        }
    };
}

words! {
    /// How the losses of the elements are combined into the result of a loss function.
    Reduction, "`mean`, `sum` or `none`" {
        /// The mean of the losses, weighted by the weights of the labels.
        Mean = "mean",
        /// The sum of the losses.
        Sum = "sum",
        /// No combination: the result has a loss per element.
        None = "none",
    }

    /// Where Adam adds ε to the divisor. The divisor is the root of a moving average of squares, which is too small in the
    /// first updates.
    AdamEpsilon, "`onnx` or `pytorch`" {
        /// ε is added to the uncorrected root: `√v + ε`. The learning rate is corrected for the first updates instead.
        Onnx = "onnx",
        /// ε is added to the corrected root: `√(v / (1 - β₂ᵗ)) + ε`.
        PyTorch = "pytorch",
    }

    /// How an update is combined with the element at its index.
    ScatterReduction, "`none`, `add`, `mul`, `max` or `min`" {
        /// The update replaces the element.
        None = "none",
        /// The sum of both.
        Add = "add",
        /// The product of both.
        Mul = "mul",
        /// The maximum of both.
        Max = "max",
        /// The minimum of both.
        Min = "min",
    }

    /// How a value at a position between elements is computed.
    Interpolation, "`nearest`, `linear` or `cubic`" {
        /// The nearest element; if two are equally near, the one with the even index.
        Nearest = "nearest",
        /// Linear interpolation.
        Linear = "linear",
        /// Keys' cubic convolution with the coefficient -0.75.
        Cubic = "cubic",
    }

    /// The values of samples at positions outside of the tensor.
    SamplePadding, "`zeros`, `border` or `reflection`" {
        /// Zeros.
        Zeros = "zeros",
        /// The element at the border.
        Border = "border",
        /// The elements, mirrored at the border.
        Reflection = "reflection",
    }

    /// The values of positions outside of a tensor or an image.
    Border, "`constant`, `edge`, `reflect` or `wrap`" {
        /// A constant; zeros outside of images.
        Constant = "constant",
        /// The outermost element.
        Edge = "edge",
        /// The elements, mirrored at the outermost element, which is not repeated.
        Reflect = "reflect",
        /// The elements of the opposite side: the image is repeated periodically.
        Wrap = "wrap",
    }
}
