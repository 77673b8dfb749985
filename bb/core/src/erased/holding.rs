//! Selects the storage type of an element type: the type that a backend uses for elements of a type that it lacks.

use super::range::Range;
use bb_ir::{DataType, DataTypes};

/// The element types of a backend, and whether a float type may replace another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Holding {
    /// The types that the backend has.
    pub(crate) types: DataTypes,
    /// Whether floats may be stored in another float type, which rounds them.
    pub(crate) floats: bool,
}

/// The integer types that may store elements of other types, narrower types first.
const HOLDERS: [DataType; 6] =
    [DataType::I8, DataType::U8, DataType::I16, DataType::U16, DataType::I32, DataType::U32];

/// The float types that may store elements of other types, in order of preference.
const FLOATS: [DataType; 4] = [DataType::F32, DataType::F64, DataType::BF16, DataType::F16];

impl Holding {
    /// Returns the storage type of `dtype`; `None` if only the host can store its elements.
    /// Integers are stored in the narrowest integer type that has all values of `dtype`. If there is none, they are stored in
    /// the widest integer type of the backend, and the elements of each tensor must be in its range.
    pub(crate) fn of(self, dtype: DataType) -> Option<DataType> {
        if self.types.has(dtype) {
            return Some(dtype);
        }
        if let Some(range) = Range::of(dtype) {
            let mut has = HOLDERS.into_iter().chain([DataType::I64]).filter(|&holder| self.types.has(holder));
            let whole = |holder: &DataType| Range::of(*holder).is_some_and(|all| all.contains(range));
            return has.clone().find(whole).or_else(|| {
                // Of two types of the same width, the one with the signedness of `dtype` is preferred.
                let widest = |holder: &DataType| {
                    (holder.bits(), holder.is_unsigned_integer() == dtype.is_unsigned_integer())
                };
                has.by_ref().max_by_key(widest)
            });
        }
        let floats = self.floats && dtype.is_float();
        FLOATS.into_iter().find(|&holder| floats && self.types.has(holder))
    }

    /// Returns whether elements of `dtype` are stored in another type, or on the host.
    pub(crate) fn narrows(self, dtype: DataType) -> bool {
        !self.types.has(dtype)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use DataType::{BF16, Bool, F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64};

    fn holding(types: &[DataType]) -> Holding {
        Holding { types: DataTypes::of(types), floats: false }
    }

    #[test]
    fn integers_are_held_where_all_their_values_fit_and_else_in_the_widest() {
        let few = holding(&[F32, I32, Bool]);
        for dtype in [U8, I8, U16, I16, I32, I64, U32, U64] {
            assert_eq!(few.of(dtype), Some(I32), "{dtype}");
        }
        let web = holding(&[F32, I32, U32, Bool]);
        assert_eq!([U8, U16, I64, U64, U32].map(|t| web.of(t)), [I32, I32, I32, U32, U32].map(Some));
        let bytes = holding(&[F32, U8, I16, I32, Bool]);
        assert_eq!([I8, U8, U16].map(|t| bytes.of(t)), [I16, U8, I32].map(Some));
    }

    #[test]
    fn floats_are_held_only_if_that_is_accepted() {
        let few = holding(&[F32, I32, Bool]);
        assert_eq!([F64, F16, BF16, DataType::String].map(|t| few.of(t)), [None; 4]);
        let accepted = Holding { floats: true, ..few };
        assert_eq!([F64, F16, BF16].map(|t| accepted.of(t)), [Some(F32); 3]);
        assert_eq!(accepted.of(DataType::String), None);
    }
}
