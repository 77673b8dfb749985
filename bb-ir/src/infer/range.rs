//! The shape rule of ranges.

use super::extent::Extent;

/// Returns the number of integers from `start` to before `limit` in steps of `step`; `None` if it cannot be determined, or
/// if the step is 0.
///
/// Source: ONNX `Range`, opset 11.
pub fn range_count<E: Extent>(start: &E, limit: &E, step: i64) -> Option<E> {
    // Counting down from `start` takes the same number of steps as counting up from `limit`.
    let distance = if step < 0 { start.minus(limit)? } else { limit.minus(start)? };
    distance.ceil_div(step.checked_abs()?)?.max(&E::of(0)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::DimExpr;

    /// Expected: the lengths of Python's `range`.
    #[test]
    fn ranges_go_up_or_down() {
        let cases: [(i64, i64, i64, i64); 5] =
            [(0, 5, 2, 3), (5, 0, -2, 3), (3, 3, 1, 0), (0, -5, 1, 0), (-3, 4, 7, 1)];
        for (start, limit, step, count) in cases {
            assert_eq!(range_count(&start, &limit, step), Some(count), "{start} {limit} {step}");
        }
        assert_eq!(range_count(&0i64, &5, 0), None);
        let n = DimExpr::name("n");
        assert_eq!(range_count(&DimExpr::from(0), &n, 1), Some(n));
    }
}
