//! Classifies element types by the kind of their numbers, including types that are only stored.

use bb::DataType;

/// The kind of the numbers of an element type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NumberKind {
    /// Signed integers.
    Signed,
    /// Unsigned integers.
    Unsigned,
    /// Floats.
    Float,
}

/// Returns the kind of a type's numbers, or `None` for booleans, strings and complex numbers.
pub(crate) fn of(dtype: DataType) -> Option<NumberKind> {
    use DataType as T;
    match dtype {
        T::I2 | T::I4 | T::I8 | T::I16 | T::I32 | T::I64 => Some(NumberKind::Signed),
        T::U2 | T::U4 | T::U8 | T::U16 | T::U32 | T::U64 => Some(NumberKind::Unsigned),
        T::F16 | T::BF16 | T::F32 | T::F64 => Some(NumberKind::Float),
        T::F8E4M3FN | T::F8E4M3FNUZ | T::F8E5M2 | T::F8E5M2FNUZ | T::F8E8M0 => Some(NumberKind::Float),
        T::F4E2M1 | T::F6E2M3 | T::F6E3M2 => Some(NumberKind::Float),
        _ => None,
    }
}

/// Returns whether the elements of a type are floats.
pub(crate) fn is_float(dtype: DataType) -> bool {
    of(dtype) == Some(NumberKind::Float)
}
