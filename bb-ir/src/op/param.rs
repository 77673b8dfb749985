//! Decoded parameters of an operation. In a row of an op table, they follow the `;`.

use crate::{DataType, Error, TensorData};
use std::borrow::Cow;

/// How a cast to `f8e8m0` rounds.
///
/// Source: ONNX `Cast`, opset 24, attribute `round_mode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum RoundMode {
    /// Away from zero, to the next power of two.
    #[default]
    Up,
    /// Towards zero, to the previous power of two.
    Down,
    /// To the nearest power of two, ties away from zero.
    Nearest,
}

impl RoundMode {
    /// Returns ONNX's word for the mode.
    pub const fn name(self) -> &'static str {
        match self {
            RoundMode::Up => "up",
            RoundMode::Down => "down",
            RoundMode::Nearest => "nearest",
        }
    }

    /// Returns the mode that ONNX calls `name`.
    pub fn from_name(name: &str) -> Option<RoundMode> {
        [RoundMode::Up, RoundMode::Down, RoundMode::Nearest].into_iter().find(|m| m.name() == name)
    }
}

/// Declares [`ParamKind`], [`Param`] and typed access to parameters. A row has the kind, the type that is stored, the type that
/// methods take, and the conversion.
macro_rules! params {
    ($( $(#[$doc:meta])* $kind:ident($held:ty) as $taken:ty, |$v:ident| $give:expr, $name:literal; )*) => {
        /// The kind of a parameter in a row of an op table.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum ParamKind { $( $(#[$doc])* $kind, )* }

        /// The value of a parameter: borrowed for a call, or owned by a plan.
        #[derive(Debug, Clone, PartialEq)]
        #[non_exhaustive]
        pub enum Param<'a> { $( $(#[$doc])* $kind($held), )* }

        impl Param<'_> {
            /// Returns the kind of the parameter.
            pub fn kind(&self) -> ParamKind {
                match self { $( Param::$kind(_) => ParamKind::$kind, )* }
            }
        }

        impl ParamKind {
            /// Returns a description of the kind for messages.
            pub const fn name(self) -> &'static str {
                match self { $( ParamKind::$kind => $name, )* }
            }
        }

        /// Functions that convert a parameter to the type that methods take for its kind, one function per kind.
        #[doc(hidden)]
        pub mod take {
            #![expect(non_snake_case, reason = "one function per kind, called by the kind's name in table expansions")]
            #![expect(clippy::needless_lifetimes, reason = "only the kinds that borrow need it")]
            use super::*;
            pub use crate::op::word::take::*;
            $(
                #[inline]
                pub fn $kind<'p>(op: &'static str, param: Option<&'p Param<'_>>) -> Result<$taken, Error> {
                    match param {
                        Some(Param::$kind($v)) => Ok($give),
                        other => Err(Error::ParamKind { op, expected: ParamKind::$kind.name(), got: other.map_or("nothing", |p| p.kind().name()) }),
                    }
                }
            )*
        }
    };
}

params! {
    /// An integer.
    Int(i64) as i64, |v| *v, "an integer";
    /// An integer, or nothing.
    OptInt(Option<i64>) as Option<i64>, |v| *v, "an integer or nothing";
    /// A float.
    Float(f64) as f64, |v| *v, "a float";
    /// A float, or nothing.
    OptFloat(Option<f64>) as Option<f64>, |v| *v, "a float or nothing";
    /// A boolean.
    Bool(bool) as bool, |v| *v, "a truth value";
    /// A list of integers.
    Ints(Cow<'a, [i64]>) as &'p [i64], |v| v, "integers";
    /// A list of floats.
    Floats(Cow<'a, [f64]>) as &'p [f64], |v| v, "floats";
    /// A list of extents or sizes.
    Extents(Cow<'a, [usize]>) as &'p [usize], |v| v, "extents";
    /// An element type.
    Type(DataType) as DataType, |v| *v, "an element type";
    /// An element type, or nothing.
    OptType(Option<DataType>) as Option<DataType>, |v| *v, "an element type or nothing";
    /// A rounding mode.
    Round(RoundMode) as RoundMode, |v| *v, "a rounding mode";
    /// A string.
    Text(Cow<'a, str>) as &'p str, |v| v, "text";
    /// A host tensor.
    Data(Cow<'a, TensorData>) as &'p TensorData, |v| v, "a host tensor";
}

impl Param<'_> {
    /// Returns whether two parameters have the same value. Floats are compared bit by bit: 0 and -0 differ, because a division
    /// by them differs, and a NaN equals itself.
    pub fn is_same(&self, other: &Param<'_>) -> bool {
        let same = |a: f64, b: f64| a.to_bits() == b.to_bits();
        match (self, other) {
            (Param::Float(a), Param::Float(b)) => same(*a, *b),
            (Param::OptFloat(Some(a)), Param::OptFloat(Some(b))) => same(*a, *b),
            (Param::Floats(a), Param::Floats(b)) => {
                a.len() == b.len() && a.iter().zip(b.iter()).all(|(a, b)| same(*a, *b))
            }
            (Param::Data(a), Param::Data(b)) => {
                a.dtype() == b.dtype() && a.shape() == b.shape() && a.bytes().ok() == b.bytes().ok()
            }
            (a, b) => a == b,
        }
    }

    /// Copies borrowed data, so that the parameter owns all its data.
    pub fn into_owned(self) -> Param<'static> {
        match self {
            Param::Int(v) => Param::Int(v),
            Param::OptInt(v) => Param::OptInt(v),
            Param::Float(v) => Param::Float(v),
            Param::OptFloat(v) => Param::OptFloat(v),
            Param::Bool(v) => Param::Bool(v),
            Param::Ints(v) => Param::Ints(Cow::Owned(v.into_owned())),
            Param::Floats(v) => Param::Floats(Cow::Owned(v.into_owned())),
            Param::Extents(v) => Param::Extents(Cow::Owned(v.into_owned())),
            Param::Type(v) => Param::Type(v),
            Param::OptType(v) => Param::OptType(v),
            Param::Round(v) => Param::Round(v),
            Param::Text(v) => Param::Text(Cow::Owned(v.into_owned())),
            Param::Data(v) => Param::Data(Cow::Owned(v.into_owned())),
        }
    }
}

/// Expands to the Rust type that a method takes for a parameter of this kind. If the type borrows, a lifetime may follow the
/// kind.
#[doc(hidden)]
#[macro_export]
macro_rules! param_type {
    (Int $($life:lifetime)?) => { i64 };
    (OptInt $($life:lifetime)?) => { ::core::option::Option<i64> };
    (Float $($life:lifetime)?) => { f64 };
    (OptFloat $($life:lifetime)?) => { ::core::option::Option<f64> };
    (Bool $($life:lifetime)?) => { bool };
    (Ints $($life:lifetime)?) => { &$($life)? [i64] };
    (Floats $($life:lifetime)?) => { &$($life)? [f64] };
    (Extents $($life:lifetime)?) => { &$($life)? [usize] };
    (Type $($life:lifetime)?) => { $crate::DataType };
    (OptType $($life:lifetime)?) => { ::core::option::Option<$crate::DataType> };
    (Round $($life:lifetime)?) => { $crate::op::RoundMode };
    (Text $($life:lifetime)?) => { &$($life)? str };
    (Data $($life:lifetime)?) => { &$($life)? $crate::TensorData };
    // An enum of `op::word`, whose values are a few words.
    ($word:ident $($life:lifetime)?) => { $crate::op::$word };
}

/// Expands to the kind of a row's parameter. Enums of words have the kind `Text`.
#[doc(hidden)]
#[macro_export]
macro_rules! param_kind {
    (Reduction) => {
        $crate::op::ParamKind::Text
    };
    (AdamEpsilon) => {
        $crate::op::ParamKind::Text
    };
    (Border) => {
        $crate::op::ParamKind::Text
    };
    (ScatterReduction) => {
        $crate::op::ParamKind::Text
    };
    (Interpolation) => {
        $crate::op::ParamKind::Text
    };
    (SamplePadding) => {
        $crate::op::ParamKind::Text
    };
    ($kind:ident) => {
        $crate::op::ParamKind::$kind
    };
}

/// Expands to a [`Param`] that borrows a value of the type that [`param_type!`] names.
#[doc(hidden)]
#[macro_export]
macro_rules! param_value {
    (Ints, $v:expr) => {
        $crate::op::Param::Ints(::std::borrow::Cow::Borrowed($v))
    };
    (Floats, $v:expr) => {
        $crate::op::Param::Floats(::std::borrow::Cow::Borrowed($v))
    };
    (Extents, $v:expr) => {
        $crate::op::Param::Extents(::std::borrow::Cow::Borrowed($v))
    };
    (Text, $v:expr) => {
        $crate::op::Param::Text(::std::borrow::Cow::Borrowed($v))
    };
    (Data, $v:expr) => {
        $crate::op::Param::Data(::std::borrow::Cow::Borrowed($v))
    };
    (Reduction, $v:expr) => {
        $crate::op::Param::Text(::std::borrow::Cow::Borrowed($crate::op::Reduction::name($v)))
    };
    (AdamEpsilon, $v:expr) => {
        $crate::op::Param::Text(::std::borrow::Cow::Borrowed($crate::op::AdamEpsilon::name($v)))
    };
    (Border, $v:expr) => {
        $crate::op::Param::Text(::std::borrow::Cow::Borrowed($crate::op::Border::name($v)))
    };
    (ScatterReduction, $v:expr) => {
        $crate::op::Param::Text(::std::borrow::Cow::Borrowed($crate::op::ScatterReduction::name($v)))
    };
    (Interpolation, $v:expr) => {
        $crate::op::Param::Text(::std::borrow::Cow::Borrowed($crate::op::Interpolation::name($v)))
    };
    (SamplePadding, $v:expr) => {
        $crate::op::Param::Text(::std::borrow::Cow::Borrowed($crate::op::SamplePadding::name($v)))
    };
    ($kind:ident, $v:expr) => {
        $crate::op::Param::$kind($v)
    };
}
