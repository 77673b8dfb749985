//! Computes strides, and merges dimensions for kernels.

use bb::Shape;
use smallvec::SmallVec;

/// The strides of a tensor, in elements.
pub(crate) type Strides = SmallVec<[isize; 6]>;

/// One dimension of a loop over `N` operands, with the stride of each operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Dim<const N: usize> {
    pub(crate) extent: usize,
    pub(crate) strides: [isize; N],
}

/// Returns the strides of elements in row-major order.
pub(crate) fn row_major(shape: &[usize]) -> Strides {
    let mut strides = Strides::from_elem(0, shape.len());
    let mut step = 1;
    for (stride, &extent) in strides.iter_mut().zip(shape).rev() {
        *stride = step;
        step *= extent.max(1) as isize;
    }
    strides
}

/// Returns whether elements with these strides are contiguous in row-major order.
pub(crate) fn is_row_major(shape: &[usize], strides: &[isize]) -> bool {
    let mut step = 1;
    for (&stride, &extent) in strides.iter().zip(shape).rev() {
        if extent != 1 && stride != step {
            return false;
        }
        step *= extent as isize;
    }
    true
}

/// Returns the strides that broadcast a tensor to a shape. A repeated dimension has stride 0.
pub(crate) fn broadcast(shape: &[usize], strides: &[isize], to: &[usize]) -> Strides {
    let mut out = Strides::from_elem(0, to.len());
    let own = shape.iter().zip(strides);
    for (stride, (&extent, &own)) in out.iter_mut().rev().zip(own.rev()) {
        *stride = if extent == 1 { 0 } else { own };
    }
    out
}

/// Returns the minimum number of dimensions that visit the elements in the same order, outermost first. Dimensions of
/// extent 1 are removed, and adjacent dimensions are merged if every operand can walk them with one stride.
pub(crate) fn collapsed<const N: usize>(shape: &[usize], strides: [&[isize]; N]) -> SmallVec<[Dim<N>; 6]> {
    let mut dims: SmallVec<[Dim<N>; 6]> = SmallVec::new();
    for (axis, &extent) in shape.iter().enumerate() {
        if extent == 1 {
            continue;
        }
        let own = strides.map(|strides| strides.get(axis).copied().unwrap_or(0));
        if let Some(last) = dims.last_mut()
            && last.strides.iter().zip(own).all(|(&outer, inner)| outer == inner * extent as isize)
        {
            *last = Dim { extent: last.extent * extent, strides: own };
        } else {
            dims.push(Dim { extent, strides: own });
        }
    }
    dims
}

/// Returns the strides for another shape with the elements in the same order; `None` if the elements must be copied.
pub(crate) fn reshaped(shape: &[usize], strides: &[isize], to: &[usize]) -> Option<Strides> {
    let dims = collapsed(shape, [strides]);
    let mut out = Strides::from_elem(0, to.len());
    let mut at = to.len();
    for dim in dims.iter().rev() {
        let (mut left, mut step) = (dim.extent, dim.strides[0]);
        while left > 1 {
            at = at.checked_sub(1)?;
            let extent = *to.get(at)?;
            if extent == 0 || left % extent != 0 {
                return None;
            }
            *out.get_mut(at)? = step;
            step *= extent as isize;
            left /= extent;
        }
    }
    // The remaining dimensions must have extent 1; their strides do not matter.
    to.get(..at)?.iter().all(|&extent| extent == 1).then_some(out)
}

/// Returns the minimum and the maximum position that a loop reaches, relative to the first element.
pub(crate) fn reach<const N: usize>(dims: &[Dim<N>], operand: usize) -> (isize, isize) {
    let mut range = (0, 0);
    for dim in dims {
        let far = dim.strides.get(operand).copied().unwrap_or(0) * (dim.extent as isize - 1);
        range = (range.0 + far.min(0), range.1 + far.max(0));
    }
    range
}

/// Divides a shape into the dimensions that the mask does not select, and those that it selects.
pub(crate) fn parted(shape: &[usize], mask: &[bool]) -> (Shape, Shape) {
    let pick = |which: bool| -> Shape {
        shape.iter().zip(mask).filter(|(_, gone)| **gone == which).map(|(&extent, _)| extent).collect()
    };
    (pick(false), pick(true))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_in_row_major_order_become_one_dimension() {
        let dims = collapsed(&[2, 1, 3, 4], [&row_major(&[2, 1, 3, 4])]);
        assert_eq!(dims[..], [Dim { extent: 24, strides: [1] }]);
        let dims = collapsed(&[2, 3], [&[1, 2], &[3, 1]]);
        assert_eq!(dims.len(), 2);
        assert!(collapsed(&[1, 1], [&[5, 7]]).is_empty());
    }

    #[test]
    fn a_broadcast_dimension_has_stride_0() {
        assert_eq!(broadcast(&[3, 1], &[1, 1], &[2, 3, 4])[..], [0, 1, 0]);
        assert_eq!(broadcast(&[], &[], &[2])[..], [0]);
    }

    #[test]
    fn a_transposed_matrix_cannot_be_flattened_in_place() {
        assert_eq!(reshaped(&[2, 3], &[1, 2], &[6]), None);
        assert_eq!(reshaped(&[2, 3], &[3, 1], &[3, 2, 1]).as_deref(), Some(&[2, 1, 1][..]));
        assert_eq!(reshaped(&[4, 3], &[1, 4], &[2, 2, 3]).as_deref(), Some(&[2, 1, 4][..]));
        assert_eq!(reshaped(&[], &[], &[1, 1]).as_deref(), Some(&[0, 0][..]));
    }
}
