//! Computes strides, and merges dimensions for loops.

use smallvec::SmallVec;

/// The stride of each dimension, in elements.
pub(crate) type Strides = SmallVec<[isize; 6]>;

/// One dimension of a loop over `N` operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Dim<const N: usize> {
    pub(crate) extent: usize,
    /// The stride of each operand, in elements.
    pub(crate) strides: [isize; N],
}

/// The dimensions of a loop, outermost first.
pub(crate) type Dims<const N: usize> = SmallVec<[Dim<N>; 6]>;

/// Splits off the innermost dimension.
pub(crate) fn innermost<const N: usize>(dims: &[Dim<N>]) -> (&[Dim<N>], Dim<N>) {
    match dims {
        [outer @ .., row] => (outer, *row),
        [] => (&[], Dim { extent: 1, strides: [0; N] }),
    }
}

/// Returns the strides of contiguous row-major elements.
pub(crate) fn dense_strides(shape: &[usize]) -> Strides {
    let mut strides = Strides::from_elem(0, shape.len());
    let mut step = 1isize;
    for (stride, &extent) in strides.iter_mut().zip(shape).rev() {
        *stride = step;
        step = step.wrapping_mul(extent.cast_signed());
    }
    strides
}

/// Returns whether elements with these strides are contiguous in row-major order.
pub(crate) fn is_dense(shape: &[usize], strides: &[isize]) -> bool {
    let mut step = 1isize;
    for (&stride, &extent) in strides.iter().zip(shape).rev() {
        if extent == 0 {
            return true;
        }
        if extent != 1 {
            if stride != step {
                return false;
            }
            step = step.wrapping_mul(extent.cast_signed());
        }
    }
    true
}

/// Returns the strides that broadcast `shape` to `out`. A repeated dimension has stride 0.
pub(crate) fn broadcast_strides(shape: &[usize], strides: &[isize], out: &[usize]) -> Strides {
    let missing = out.len() - shape.len().min(out.len());
    let own = shape.iter().zip(strides).map(|(&d, &s)| if d == 1 { 0 } else { s });
    std::iter::repeat_n(0, missing).chain(own).collect()
}

/// Drops dimensions of extent 1, and merges neighbouring dimensions that every operand can walk with one stride.
pub(crate) fn collapse<const N: usize>(dims: impl Iterator<Item = Dim<N>>) -> Dims<N> {
    let mut out = Dims::<N>::new();
    for dim in dims {
        if dim.extent == 1 {
            continue;
        }
        if let Some(outer) = out.last_mut()
            && outer
                .strides
                .iter()
                .zip(dim.strides)
                .all(|(&o, i)| o == i.wrapping_mul(dim.extent.cast_signed()))
        {
            outer.extent *= dim.extent;
            outer.strides = dim.strides;
            continue;
        }
        out.push(dim);
    }
    out
}

/// Calls `f` for every index of `dims`, with the offset in elements of each operand's element from its first element.
///
/// The loop is compiled once for each number of operands and calls `f` through a function pointer. To amortize that
/// call, `f` should process more than one element.
pub(crate) fn for_each_index<const N: usize>(dims: &[Dim<N>], mut f: impl FnMut([isize; N])) {
    visit(dims, &mut f);
}

fn visit<const N: usize>(dims: &[Dim<N>], f: &mut dyn FnMut([isize; N])) {
    if dims.is_empty() {
        return f([0; N]);
    }
    if dims.iter().any(|d| d.extent == 0) {
        return;
    }
    let (outer, inner) = innermost(dims);
    let mut first = [0isize; N];
    let mut index: SmallVec<[usize; 6]> = SmallVec::from_elem(0, outer.len());
    loop {
        let mut at = first;
        for _ in 0..inner.extent {
            f(at);
            step(&mut at, inner.strides, 1);
        }
        let mut carried = true;
        for (i, dim) in index.iter_mut().zip(outer).rev() {
            *i += 1;
            if *i < dim.extent {
                step(&mut first, dim.strides, 1);
                carried = false;
                break;
            }
            step(&mut first, dim.strides, 1 - dim.extent.cast_signed());
            *i = 0;
        }
        if carried {
            return;
        }
    }
}

fn step<const N: usize>(at: &mut [isize; N], strides: [isize; N], times: isize) {
    for (at, stride) in at.iter_mut().zip(strides) {
        *at += stride * times;
    }
}

/// Returns strides that describe the elements with the shape `to` without a copy; `None` if that is impossible.
///
/// Source: the method of NumPy's `reshape`. It matches groups of dimensions with equal numbers of elements; each group
/// must have a single stride.
pub(crate) fn reshape_strides(shape: &[usize], strides: &[isize], to: &[usize]) -> Option<Strides> {
    let groups =
        collapse(shape.iter().zip(strides).map(|(&extent, &stride)| Dim { extent, strides: [stride] }));
    let mut out = Strides::from_elem(0, to.len());
    let mut groups = groups.iter().rev();
    let mut left = 1usize;
    let mut next = 1isize;
    for (stride, &extent) in out.iter_mut().zip(to).rev() {
        if extent == 1 {
            *stride = next;
            continue;
        }
        if left == 1 {
            let group = groups.next()?;
            left = group.extent;
            [next] = group.strides;
        }
        if extent == 0 || !left.is_multiple_of(extent) {
            return None;
        }
        left /= extent;
        *stride = next;
        next *= extent.cast_signed();
    }
    (left == 1).then_some(out)
}

#[cfg(test)]
#[expect(clippy::indexing_slicing, reason = "tests")]
mod tests {
    use super::*;

    fn dim<const N: usize>(extent: usize, strides: [isize; N]) -> Dim<N> {
        Dim { extent, strides }
    }

    #[test]
    fn neighbours_merge_only_if_every_operand_allows() {
        let dims = [dim(2, [12, 0]), dim(3, [4, 4]), dim(1, [9, 9]), dim(4, [1, 1])];
        assert_eq!(collapse(dims.into_iter())[..], [dim(2, [12, 0]), dim(12, [1, 1])]);
    }

    #[test]
    fn reshape_keeps_elements_where_dimensions_are_even() {
        assert_eq!(reshape_strides(&[2, 6], &[12, 2], &[2, 2, 3]).expect("even")[..], [12, 6, 2]);
        assert_eq!(reshape_strides(&[3, 2], &[1, 3], &[6]), None);
        assert_eq!(reshape_strides(&[3, 2], &[1, 3], &[1, 3, 1, 2]).expect("kept")[1], 1);
        assert_eq!(reshape_strides(&[4], &[-1], &[2, 2]).expect("even")[..], [-2, -1]);
        assert_eq!(reshape_strides(&[], &[], &[1, 1]).expect("one element").len(), 2);
    }

    #[test]
    fn indices_come_in_row_major_order() {
        let mut seen = Vec::new();
        for_each_index(&[dim(2, [1, 10]), dim(2, [-5, 100])], |at| seen.push(at));
        assert_eq!(seen, [[0, 0], [-5, 100], [1, 10], [-4, 110]]);
    }
}
