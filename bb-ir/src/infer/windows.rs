//! Shape rules of windows that move over images: the number of windows, and the extents of the results of transposed operators.

use super::extent::{Extent, Extents};

/// The movement of a window along one dimension.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step<E> {
    /// The number of elements of a window.
    pub kernel: E,
    /// The distance between windows, at least 1.
    pub stride: i64,
    /// The distance between the elements of a window, at least 1.
    pub dilation: i64,
    /// The padding at the start. Negative padding removes elements.
    pub before: i64,
    /// The padding at the end. Negative padding removes elements.
    pub after: i64,
}

/// The way that the padding is determined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Padding {
    /// The padding of each [`Step`].
    Given,
    /// No padding.
    None,
    /// The padding that is required for the extents of the result. If it is odd, the extra element is at the end or at the
    /// start.
    Same {
        /// Whether the extra element is at the start.
        lower: bool,
    },
}

impl Padding {
    /// Parses ONNX's `auto_pad`; returns `None` for any other string.
    pub fn of(word: &str) -> Option<Padding> {
        match word {
            "NOTSET" | "" => Some(Padding::Given),
            "VALID" => Some(Padding::None),
            "SAME_UPPER" => Some(Padding::Same { lower: false }),
            "SAME_LOWER" => Some(Padding::Same { lower: true }),
            _ => None,
        }
    }
}

impl<E: Extent> Step<E> {
    /// Returns a step for each dimension of a kernel. Empty lists mean the defaults: no padding, stride 1 and dilation 1.
    /// Returns `None` if a list has another length, or if a stride or dilation is less than 1.
    pub fn of(
        kernel: &[E],
        strides: &[i64],
        pads: &[i64],
        dilations: &[i64],
    ) -> Option<impl ExactSizeIterator<Item = Step<E>>> {
        let rank = kernel.len();
        let fits = |list: &[i64], count: usize| list.is_empty() || list.len() == count;
        let moves = strides.iter().chain(dilations).all(|&v| v >= 1);
        if !(fits(strides, rank) && fits(dilations, rank) && fits(pads, rank.checked_mul(2)?) && moves) {
            return None;
        }
        let step = move |(i, kernel): (usize, &E)| Step {
            kernel: kernel.clone(),
            stride: strides.get(i).copied().unwrap_or(1),
            dilation: dilations.get(i).copied().unwrap_or(1),
            before: pads.get(i).copied().unwrap_or(0),
            after: pads.get(rank + i).copied().unwrap_or(0),
        };
        Some(kernel.iter().enumerate().map(step))
    }

    /// Returns the number of elements from the first to the last element of a window, including the elements between them.
    #[inline]
    pub fn span(&self) -> Option<E> {
        self.kernel.shifted(-1)?.scaled(self.dilation)?.shifted(1)
    }

    /// Returns the number of windows in an extent; `None` if no window fits, or if the number cannot be determined.
    ///
    /// If `ceil` is true, the last window may extend beyond the padding, but it must begin in the operand or in the padding
    /// before it.
    ///
    /// Source: ONNX `MaxPool`, opset 22.
    pub fn count(&self, extent: &E, padding: Padding, ceil: bool) -> Option<E> {
        let (before, after) = match padding {
            Padding::Same { .. } => return extent.ceil_div(self.stride),
            Padding::None => (0, 0),
            Padding::Given => (self.before, self.after),
        };
        let span = self.span()?;
        let room = extent.shifted(before.checked_add(after)?)?.minus(&span)?;
        if room.at_least(0) == Some(false) {
            return None;
        }
        if !ceil {
            return room.floor_div(self.stride)?.shifted(1);
        }
        let begun = extent.shifted(before)?.ceil_div(self.stride)?;
        room.ceil_div(self.stride)?.shifted(1)?.min(&begun)
    }

    /// Returns the padding at the start and at the end that gives the number of windows of [`Padding::Same`].
    pub fn same_pads(&self, extent: &E, lower: bool) -> Option<(E, E)> {
        // The windows cover the elements from the start to the start of the last window plus the span.
        let needed = match extent.number() {
            Some(0) => E::of(0)?,
            _ => extent.shifted(-1)?.floor_div(self.stride)?.scaled(self.stride)?.plus(&self.span()?)?,
        };
        let total = needed.beyond(extent)?;
        let less = total.floor_div(2)?;
        let more = total.minus(&less)?;
        Some(if lower { (more, less) } else { (less, more) })
    }

    /// Returns the extent of a transposed convolution's result, if the operand has this extent; `more` elements are added at
    /// the end.
    ///
    /// Source: ONNX `ConvTranspose`, opset 22.
    pub fn grown(&self, extent: &E, padding: Padding, more: i64) -> Option<E> {
        let pads = match padding {
            Padding::Same { .. } => return extent.scaled(self.stride),
            Padding::None => 0,
            Padding::Given => self.before.checked_add(self.after)?,
        };
        let by = more.checked_sub(pads)?.checked_sub(self.stride)?;
        extent.scaled(self.stride)?.plus(&self.span()?)?.shifted(by)
    }
}

/// Returns the number of windows along each dimension; `None` if `steps` has another length than `extents`, or if no window
/// fits in one of the dimensions.
pub fn windows<E: Extent>(
    extents: &[E],
    steps: &[Step<E>],
    padding: Padding,
    ceil: bool,
) -> Option<Extents<E>> {
    let count = |(extent, step): (&E, &Step<E>)| step.count(extent, padding, ceil).or_else(E::unknown);
    if extents.len() != steps.len() {
        return None;
    }
    extents.iter().zip(steps).map(count).collect()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::graph::Dim;

    fn step(kernel: usize, stride: i64, before: i64, after: i64) -> Step<usize> {
        Step { kernel, stride, dilation: 1, before, after }
    }

    /// Counts the windows that begin before the end of the operand and fit into it, from ONNX's definition.
    fn counted(extent: i64, s: &Step<usize>, ceil: bool) -> i64 {
        let padded = extent + s.before + s.after;
        let span = s.span().unwrap() as i64;
        let starts = (0..).map(|i| i * s.stride);
        let whole = starts.clone().take_while(|at| at + span <= padded).count() as i64;
        let more = whole * s.stride;
        // An incomplete window is omitted if it begins in the padding at the end.
        let partly = padded > more + span - s.stride && more < extent + s.before;
        whole + i64::from(ceil && partly && (padded - span) % s.stride != 0)
    }

    #[test]
    fn windows_are_counted_as_the_definition_says() {
        for extent in 1..12usize {
            for (kernel, stride, before, after) in
                [(1, 1, 0, 0), (2, 2, 0, 1), (3, 2, 1, 1), (3, 3, 1, 2), (2, 3, 1, 0)]
            {
                let s = step(kernel, stride, before, after);
                for ceil in [false, true] {
                    let want = counted(extent as i64, &s, ceil);
                    let got = s.count(&extent, Padding::Given, ceil);
                    if extent as i64 + before + after >= kernel as i64 {
                        assert_eq!(got, Some(want as usize), "{extent} {s:?} {ceil}");
                    } else {
                        assert_eq!(got, None, "{extent} {s:?} {ceil}");
                    }
                }
            }
        }
    }

    #[test]
    fn same_padding_makes_one_window_for_each_stride() {
        for extent in 0..10usize {
            for (kernel, stride) in [(1, 1), (3, 1), (3, 2), (2, 3), (5, 4)] {
                let s = step(kernel, stride, 0, 0);
                let (before, after) = s.same_pads(&extent, false).unwrap();
                assert!(after == before || after == before + 1);
                let given = step(kernel, stride, before as i64, after as i64);
                let want = s.count(&extent, Padding::Same { lower: false }, false);
                if extent > 0 {
                    assert_eq!(given.count(&extent, Padding::Given, false), want, "{extent} {s:?}");
                }
            }
        }
    }

    #[test]
    fn what_is_transposed_has_the_extent_that_was_convolved() {
        let s = step(3, 2, 1, 1);
        for extent in (5..15).step_by(2) {
            let out = s.count(&extent, Padding::Given, false).unwrap();
            assert_eq!(s.grown(&out, Padding::Given, 0), Some(extent));
        }
        let h = Dim::Symbol("h".to_owned());
        let s = Step { kernel: Dim::Known(3), stride: 2, dilation: 1, before: 1, after: 1 };
        assert_eq!(s.grown(&h, Padding::Given, 1).unwrap().to_string(), "2*h");
        assert_eq!(s.count(&h, Padding::Given, false).unwrap().to_string(), "floor((h + 1)/2)");
    }

    #[test]
    fn lists_that_do_not_fit_are_none() {
        assert!(Step::of(&[3usize, 3], &[1], &[], &[]).is_none());
        assert!(Step::of(&[3usize], &[0], &[], &[]).is_none());
        assert!(Step::of(&[3usize], &[], &[], &[]).unwrap().eq([step(3, 1, 0, 0)]));
    }
}
