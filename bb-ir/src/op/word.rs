//! Parameters that are one of a few words: enums in methods and options, text in lists of parameters and in models.

use super::param::Param;
use crate::Error;

/// Declares enums of words, and reads them from parameters. A row gives the name of the enum, the list of its words
/// for messages, and the words.
macro_rules! words {
    ($( $(#[$doc:meta])* $name:ident, $listed:literal { $( $(#[$wdoc:meta])* $word:ident = $text:literal, )+ } )+) => {
        $(
            $(#[$doc])*
            #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
            pub enum $name { $( $(#[$wdoc])* $word, )+ }

            impl $name {
                /// Every word.
                pub const ALL: &'static [$name] = &[$( $name::$word, )+];

                /// Returns the text of the word in models and in lists of parameters.
                pub const fn name(self) -> &'static str {
                    match self { $( $name::$word => $text, )+ }
                }

                /// Returns the word with this text. `op` is the operation that has the parameter.
                ///
                /// # Errors
                ///
                /// [`Error::Word`] for another text.
                pub fn of(op: &'static str, text: &str) -> Result<$name, Error> {
                    match text {
                        $( $text => Ok($name::$word), )+
                        _ => Err(Error::Word { op, expected: $listed, got: text.into() }),
                    }
                }
            }
        )+

        /// Reads a parameter as the type that a method takes for this kind.
        #[expect(non_snake_case, reason = "one function per kind, called by the kind's name in table expansions")]
        pub(crate) mod take {
            use super::*;
            $(
                /// Reads a parameter as a word of this kind.
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
    /// How losses become the result of a loss function.
    Reduction, "`mean`, `sum` or `none`" {
        /// Their mean, weighted by the weights of the labels.
        Mean = "mean",
        /// Their sum.
        Sum = "sum",
        /// The losses themselves.
        None = "none",
    }

    /// Where Adam adds ε. Adam divides by the root of an average of squares, which is too small in the first updates.
    AdamEpsilon, "`onnx` or `pytorch`" {
        /// To the root of the average without a correction: `√v + ε`. The rate is corrected for the first updates instead.
        Onnx = "onnx",
        /// To the root of the corrected average: `√(v / (1 - β₂ᵗ)) + ε`.
        PyTorch = "pytorch",
    }

    /// How an update is combined with the element at its position.
    ScatterReduction, "`none`, `add`, `mul`, `max` or `min`" {
        /// It replaces the element.
        None = "none",
        /// The sum of both.
        Add = "add",
        /// The product of both.
        Mul = "mul",
        /// The greater one.
        Max = "max",
        /// The lesser one.
        Min = "min",
    }

    /// How a value between elements is computed.
    Interpolation, "`nearest`, `linear` or `cubic`" {
        /// The nearest element; of two equally near ones, the one with the even index.
        Nearest = "nearest",
        /// Linear interpolation.
        Linear = "linear",
        /// Keys' cubic convolution with the coefficient -0.75.
        Cubic = "cubic",
    }

    /// The value of a sample outside of the tensor.
    SamplePadding, "`zeros`, `border` or `reflection`" {
        /// Zeros.
        Zeros = "zeros",
        /// The element at the border.
        Border = "border",
        /// The elements mirrored at the border.
        Reflection = "reflection",
    }

    /// The values outside of a tensor or an image.
    Border, "`constant`, `edge`, `reflect` or `wrap`" {
        /// One value; zeros outside of images.
        Constant = "constant",
        /// The outermost element.
        Edge = "edge",
        /// The image mirrored at the outermost element, which is not repeated.
        Reflect = "reflect",
        /// The image again.
        Wrap = "wrap",
    }
}
