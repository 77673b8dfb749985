//! Shapes of tensors, and axes that refer to their dimensions.

use smallvec::SmallVec;

/// The extents of a tensor, outermost first; a scalar has none.
///
/// Up to six extents are stored without an allocation.
pub type Shape = SmallVec<[usize; 6]>;

/// The index of a dimension of a tensor whose rank is known; always in range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Axis(usize);

impl Axis {
    /// Resolves an ONNX axis, which counts from the end if negative.
    ///
    /// # Errors
    ///
    /// [`Error::Axis`](crate::Error::Axis) unless `-rank <= axis < rank`.
    pub fn new(axis: i64, rank: usize) -> Result<Axis, crate::Error> {
        let signed = rank as i64;
        if axis < -signed || axis >= signed {
            return Err(crate::Error::Axis { axis, rank });
        }
        Ok(Axis(if axis < 0 { axis + signed } else { axis } as usize))
    }

    /// Returns the index of the dimension, counted from 0.
    pub const fn get(self) -> usize {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::Axis;

    #[test]
    fn negative_axes_count_from_the_end() {
        assert_eq!(Axis::new(-1, 3).map(Axis::get).ok(), Some(2));
        assert_eq!(Axis::new(-3, 3).map(Axis::get).ok(), Some(0));
        assert!(Axis::new(3, 3).is_err());
        assert!(Axis::new(-4, 3).is_err());
        assert!(Axis::new(0, 0).is_err());
    }

    #[test]
    fn an_axis_out_of_range_names_the_axes_that_there_are() {
        let text = |axis, rank| Axis::new(axis, rank).map_err(|error| error.to_string());
        assert_eq!(text(5, 2), Err("axis 5 is out of range for rank 2; expected -2 to 1".to_owned()));
        assert_eq!(text(1, 1), Err("axis 1 is out of range for rank 1; expected -1 to 0".to_owned()));
        assert_eq!(text(0, 0), Err("axis 0 is out of range for rank 0, which has no axes".to_owned()));
    }
}
