//! Positions of elements in row-major order, as offsets from the first element.

/// Returns the strides: for each dimension, the distance to the next element.
pub fn strides(shape: &[usize]) -> Vec<isize> {
    let mut strides = vec![0; shape.len()];
    let mut step = 1isize;
    for (stride, &extent) in strides.iter_mut().zip(shape).rev() {
        *stride = step;
        // If an extent is 0, the other extents may be arbitrarily large.
        step = step.saturating_mul(isize::try_from(extent).unwrap_or(isize::MAX));
    }
    strides
}

/// Returns the positions that a walk over `extents` in row-major order visits.
pub fn walk(extents: &[usize], strides: &[isize], start: isize) -> Vec<usize> {
    // If an extent is 0, the extents before it may be arbitrarily large.
    let mut positions = if extents.contains(&0) { Vec::new() } else { vec![start] };
    for (&extent, &stride) in extents.iter().zip(strides) {
        positions =
            positions.iter().flat_map(|&p| (0..extent as isize).map(move |i| p + i * stride)).collect();
    }
    positions.into_iter().map(|p| p as usize).collect()
}

/// Returns, for each element of a broadcast result, the position of the operand's element.
pub fn spread(shape: &[usize], to: &[usize]) -> Vec<usize> {
    let missing = to.len().saturating_sub(shape.len());
    let own = strides(shape);
    let dims = shape.iter().zip(&own).map(|(&d, &s)| if d == 1 { 0 } else { s });
    let strides: Vec<isize> = std::iter::repeat_n(0, missing).chain(dims).collect();
    walk(to, &strides, 0)
}
