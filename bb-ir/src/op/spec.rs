//! The rows of the op tables, as data.

use super::param::{Param, ParamKind};

/// The family that an operation belongs to: the primitives, an extension trait of `bb::ext`, or a vendor's domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Family {
    /// The operations that every backend implements.
    Primitive,
    /// Neural-network operations.
    Nn,
    /// Language-model operations.
    Llm,
    /// Images and signals.
    Image,
    /// Functions of single elements.
    Scalar,
    /// Constants, ranges and random tensors.
    Create,
    /// Sorting, and writing of elements at indices.
    Index,
    /// Operations on the bits of integers.
    Bits,
    /// Classical machine-learning models.
    Ml,
    /// Operations on quantised tensors.
    Quant,
    /// Losses and optimizers.
    Train,
    /// Operations that the author of a backend adds. The string is their domain in models.
    Vendor(&'static str),
}

impl Family {
    /// Returns whether two families are the same; usable in constants.
    pub const fn is(self, other: Family) -> bool {
        same(self.name(), other.name())
    }

    /// Returns the name of the family's trait, or the domain of a vendor's operations. Only a domain contains a dot, so it differs
    /// from the names of all other families.
    pub const fn name(self) -> &'static str {
        match self {
            Family::Primitive => "Backend",
            Family::Nn => "Nn",
            Family::Llm => "Llm",
            Family::Image => "Image",
            Family::Scalar => "Scalar",
            Family::Create => "Create",
            Family::Index => "Index",
            Family::Bits => "Bits",
            Family::Ml => "Ml",
            Family::Quant => "Quant",
            Family::Train => "Train",
            Family::Vendor(domain) => domain,
        }
    }
}

/// The number of tensors that an operand or a result consists of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Arity {
    /// Exactly one.
    Tensor,
    /// One or none.
    Optional,
    /// Any number; only the last operand may have this arity.
    Tensors,
}

/// The kind of function that an operation computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Class {
    /// All operands broadcast to the shape of the only result. Each element of the result is a function of the operands' elements at
    /// the same index and of the parameters, which do not refer to dimensions. So permuting the dimensions of all operands before the
    /// operation gives exactly the same elements as permuting the dimensions of the result.
    Elementwise,
    /// Moves or selects elements, but computes no new ones.
    Moves,
    /// Creates a tensor from parameters; operands only determine an element type or a shape.
    Creates,
    /// Combines the elements along some dimensions into one element.
    Reduces,
    /// Sums products of elements over a dimension of both operands.
    Contracts,
    /// Any other function.
    Other,
}

/// Metadata of an operation's parameter.
#[derive(Debug)]
pub struct ParamSpec {
    /// The name, which is also the name of the ONNX attribute.
    pub name: &'static str,
    /// The kind of the value.
    pub kind: ParamKind,
    /// A function that creates the default value; `None` if the parameter is required.
    pub default: Option<fn() -> Param<'static>>,
}

/// A row of an op table: the metadata of an operation.
#[derive(Debug)]
pub struct OpSpec {
    /// The family whose table contains the row.
    pub family: Family,
    /// The index of the row in the family's table.
    pub index: u16,
    /// The name that ONNX or the extension's trait gives the operation, as in `ReduceSum`.
    pub name: &'static str,
    /// The name of the Rust method, as in `reduce_sum`.
    pub method: &'static str,
    /// The ONNX opset whose semantics the operation has.
    pub since: i64,
    /// The operands, in order.
    pub inputs: &'static [(&'static str, Arity)],
    /// The parameters, in order.
    pub params: &'static [ParamSpec],
    /// The result.
    pub output: Arity,
    /// The class of function that the operation computes.
    pub class: Class,
}

impl PartialEq for OpSpec {
    fn eq(&self, other: &OpSpec) -> bool {
        (self.family, self.index) == (other.family, other.index)
    }
}

impl Eq for OpSpec {}

impl std::hash::Hash for OpSpec {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        (self.family, self.index).hash(state);
    }
}

/// Expands rows of an op table to an enum of the operations, and the specification of each operation.
///
/// `op_family!{ [$(#[$doc:meta])* Enum, family] rows }`, where `family` is an expression of type [`Family`]. Rows of families of
/// `bb::ext` may have options, which follow the row's other parameters.
#[doc(hidden)]
#[macro_export]
macro_rules! op_family {
    ( [$(#[$edoc:meta])* $enum:ident, $family:expr] $( $(#[$doc:meta])*
       $name:ident $since:literal = $method:ident
       ( $($input:ident : $kind:ident),* $(; $($param:ident : $pkind:ident $(= $default:expr)?),+)? )
       $(with $options:ident : $struct:ident $(<$life:lifetime>)?
         { $( $(#[$odoc:meta])* $option:ident : $okind:ident = $odefault:expr ),+ $(,)? })?
       -> $output:ident $({ $($fact:tt)* })?; )* ) => {
        $(#[$edoc])*
        #[derive(
            ::core::fmt::Debug, ::core::clone::Clone, ::core::marker::Copy, ::core::cmp::PartialEq, ::core::cmp::Eq,
            ::core::hash::Hash, ::core::cmp::PartialOrd, ::core::cmp::Ord,
        )]
        #[repr(u16)]
        pub enum $enum { $(
            #[doc = ::core::concat!("The operation `", ::core::stringify!($method), "`.")]
            $name,
        )* }

        impl $enum {
            /// Every operation of the family, in the order of its table.
            pub const ALL: &'static [$enum] = &[$( $enum::$name, )*];

            /// Returns the operation at `index` in the family's table.
            pub const fn from_index(index: u16) -> ::core::option::Option<$enum> {
                $( if index == $enum::$name as u16 { return ::core::option::Option::Some($enum::$name); } )*
                ::core::option::Option::None
            }

            /// Returns the operation called `name` (as in `ReduceSum`).
            pub fn from_name(name: &str) -> ::core::option::Option<$enum> {
                match name { $( ::core::stringify!($name) => ::core::option::Option::Some($enum::$name), )* _ => ::core::option::Option::None }
            }

            /// Returns the operation whose method is `method` (as in `reduce_sum`).
            pub const fn from_method(method: &str) -> ::core::option::Option<$enum> {
                $( if $crate::op::same($crate::op::method_name(::core::stringify!($method)), method) {
                    return ::core::option::Option::Some($enum::$name);
                } )*
                ::core::option::Option::None
            }

            /// Returns the operation whose method an `impl` of the family's trait defines.
            ///
            /// For a name that is not a method of the family, it returns an arbitrary operation, because rustc already reports the
            /// wrong name.
            #[doc(hidden)]
            pub const fn written(method: &str) -> $enum {
                match ($enum::from_method(method), $enum::ALL) {
                    (::core::option::Option::Some(operation), _) => operation,
                    (::core::option::Option::None, [first, ..]) => *first,
                    (::core::option::Option::None, []) => ::core::panic!("the family is empty"),
                }
            }

            /// Returns the operation's row of the op table.
            pub const fn spec(self) -> &'static $crate::op::OpSpec {
                match self { $( $enum::$name => {
                    const SPEC: &$crate::op::OpSpec = &$crate::op::OpSpec {
                        family: $family,
                        index: $enum::$name as u16,
                        name: ::core::stringify!($name),
                        method: $crate::op::method_name(::core::stringify!($method)),
                        since: $since,
                        inputs: &[$( (::core::stringify!($input), $crate::op::Arity::$kind) ),*],
                        params: &[
                            $($( $crate::op::ParamSpec {
                                name: ::core::stringify!($param),
                                kind: $crate::param_kind!($pkind),
                                default: $crate::param_default!($pkind $(, $default)?),
                            }, )+)?
                            $($( $crate::op::ParamSpec {
                                name: ::core::stringify!($option),
                                kind: $crate::param_kind!($okind),
                                default: $crate::param_default!($okind, $odefault),
                            }, )+)?
                        ],
                        output: $crate::op::Arity::$output,
                        class: $crate::op_class!($($($fact)*)?),
                    };
                    SPEC
                } )* }
            }
        }
    };
}

/// Expands to the class of a row, which is the first of the row's facts. Rows of vendors have no facts.
#[doc(hidden)]
#[macro_export]
macro_rules! op_class {
    () => {
        $crate::op::Class::Other
    };
    ($class:ident $($fact:tt)*) => {
        $crate::op::Class::$class
    };
}

/// Expands to the default value of a row's parameter, as a function that creates the value.
#[doc(hidden)]
#[macro_export]
macro_rules! param_default {
    ($kind:ident) => {
        ::core::option::Option::None
    };
    ($kind:ident, $default:expr) => {
        ::core::option::Option::Some(|| $crate::param_value!($kind, $default))
    };
}

/// Removes the `r#` of a raw identifier.
#[doc(hidden)]
pub const fn method_name(ident: &'static str) -> &'static str {
    match ident.as_bytes() {
        [b'r', b'#', ..] => ident.split_at(2).1,
        _ => ident,
    }
}

/// Returns whether two names are equal; usable in constants.
#[doc(hidden)]
pub const fn same(a: &str, b: &str) -> bool {
    let (mut a, mut b) = (a.as_bytes(), b.as_bytes());
    loop {
        match (a, b) {
            ([], []) => return true,
            ([x, rest_a @ ..], [y, rest_b @ ..]) if *x == *y => (a, b) = (rest_a, rest_b),
            _ => return false,
        }
    }
}
