//! Sets of element types.

use crate::DataType;

/// A set of element types.
///
/// # Examples
///
/// ```
/// use bb_ir::{DataType, DataTypes};
/// let types = DataTypes::of(&[DataType::F32, DataType::I32, DataType::Bool]);
/// assert!(types.has(DataType::I32) && !types.has(DataType::I64));
/// assert_eq!(types.to_string(), "f32, i32, bool");
/// assert_eq!(types, DataType::F32 | DataType::I32 | DataType::Bool);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct DataTypes(u32);

impl DataTypes {
    /// Every element type.
    pub const ALL: DataTypes = DataTypes::of(DataType::ALL);

    /// No element type.
    pub const NONE: DataTypes = DataTypes(0);

    /// Returns the set of `types`. Duplicates are ignored.
    pub const fn of(types: &[DataType]) -> DataTypes {
        let mut bits = 0;
        let mut rest = types;
        while let [first, tail @ ..] = rest {
            bits |= 1 << *first as u32;
            rest = tail;
        }
        DataTypes(bits)
    }

    /// Returns the union of the two sets.
    #[must_use]
    pub const fn and(self, other: DataTypes) -> DataTypes {
        DataTypes(self.0 | other.0)
    }

    /// Returns whether a type is in the set.
    pub const fn has(self, dtype: DataType) -> bool {
        self.0 >> dtype as u32 & 1 == 1
    }

    /// Returns whether the set contains every element type.
    pub const fn is_all(self) -> bool {
        self.0 == DataTypes::ALL.0
    }

    /// Iterates over the types, sorted by ONNX's number.
    pub fn iter(self) -> impl Iterator<Item = DataType> {
        DataType::ALL.iter().copied().filter(move |&dtype| self.has(dtype))
    }
}

impl std::ops::BitOr<DataType> for DataType {
    type Output = DataTypes;

    fn bitor(self, other: DataType) -> DataTypes {
        DataTypes::of(&[self, other])
    }
}

impl std::ops::BitOr<DataType> for DataTypes {
    type Output = DataTypes;

    fn bitor(self, other: DataType) -> DataTypes {
        self.and(DataTypes::of(&[other]))
    }
}

impl std::ops::BitOr for DataTypes {
    type Output = DataTypes;

    fn bitor(self, other: DataTypes) -> DataTypes {
        self.and(other)
    }
}

impl FromIterator<DataType> for DataTypes {
    fn from_iter<I: IntoIterator<Item = DataType>>(types: I) -> DataTypes {
        types.into_iter().fold(DataTypes::NONE, |all, dtype| all.and(DataTypes::of(&[dtype])))
    }
}

/// The names, separated by commas.
impl std::fmt::Display for DataTypes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (position, dtype) in self.iter().enumerate() {
            let separator = if position == 0 { "" } else { ", " };
            write!(f, "{separator}{dtype}")?;
        }
        Ok(())
    }
}

impl std::fmt::Debug for DataTypes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{{{self}}}")
    }
}
