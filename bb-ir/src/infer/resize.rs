//! Shape rules of resizing by scales or to sizes.

use super::extent::{Extent, Extents};

/// Returns the product of an extent and a scale, rounded down; `None` if it cannot be determined.
///
/// ONNX multiplies in single precision. For an extent that is not a number, the result is returned only if the scale is a
/// fraction of small integers, because rounding cannot change the result then.
///
/// Source: ONNX `Resize`, opset 19.
pub fn rescaled<E: Extent>(extent: &E, scale: f64) -> Option<E> {
    const PARTS: i64 = 64;
    if !(scale > 0.0 && scale.is_finite()) {
        return None;
    }
    if let Some(number) = extent.number() {
        return E::of((number as f32 * scale as f32).floor() as i64);
    }
    let parts = scale * PARTS as f64;
    if parts.fract() == 0.0 && scale < 1e6 { extent.scaled(parts as i64)?.floor_div(PARTS) } else { None }
}

/// The way that ONNX's `Resize` uses the requested sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Aspect {
    /// Uses the sizes unchanged.
    Stretch,
    /// Uses the maximum sizes that keep the operand's proportions and are not larger than requested.
    NotLarger,
    /// Uses the minimum sizes that keep the operand's proportions and are not smaller than requested.
    NotSmaller,
}

impl Aspect {
    /// Parses ONNX's `keep_aspect_ratio_policy`; returns `None` for any other string.
    pub fn of(word: &str) -> Option<Aspect> {
        match word {
            "stretch" => Some(Aspect::Stretch),
            "not_larger" => Some(Aspect::NotLarger),
            "not_smaller" => Some(Aspect::NotSmaller),
            _ => None,
        }
    }

    /// Returns the scale that all axes share; `None` if each axis has its own scale.
    pub fn scale(self, from: &[f64], sizes: &[f64]) -> Option<f64> {
        let scales = from.iter().zip(sizes).map(|(from, size)| size / from);
        match self {
            Aspect::Stretch => None,
            Aspect::NotLarger => scales.reduce(f64::min),
            Aspect::NotSmaller => scales.reduce(f64::max),
        }
    }
}

/// Returns an extent multiplied by the common scale of all axes, rounded to the nearest integer.
pub fn at_scale(extent: f64, scale: f64) -> Option<i64> {
    let size = (scale * extent + 0.5).floor();
    (size.is_finite() && size < 1e15).then_some(size as i64)
}

/// Returns the extents after resizing to `sizes`; `None` if `sizes` has another length than `from`, or if the extents cannot be
/// determined.
pub fn resized<E: Extent>(from: &[E], sizes: &[E], aspect: Aspect) -> Option<Extents<E>> {
    if from.len() != sizes.len() {
        return None;
    }
    if aspect == Aspect::Stretch {
        return Some(Extents::from(sizes));
    }
    let numbers = |list: &[E]| list.iter().map(|e| Some(e.number()? as f64)).collect::<Option<Vec<f64>>>();
    let (from, sizes) = (numbers(from)?, numbers(sizes)?);
    let scale = aspect.scale(&from, &sizes)?;
    from.iter().map(|&extent| E::of(at_scale(extent, scale)?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Dim;

    #[test]
    fn scales_round_down() {
        assert_eq!(
            (rescaled(&5usize, 0.6), rescaled(&7usize, 2.5), rescaled(&7usize, 0.0)),
            (Some(3), Some(17), None)
        );
        let n = Dim::Symbol("n".to_owned());
        assert_eq!(rescaled(&n, 0.5).map(|d| d.to_string()).as_deref(), Some("floor(n/2)"));
        assert_eq!(rescaled(&n, 0.1), None);
    }

    #[test]
    fn sizes_keep_proportions_if_asked() {
        // ONNX: test_resize_upsample_sizes_nearest_not_larger, of [2, 2] to at most [7, 8].
        assert_eq!(resized(&[2usize, 2], &[7, 8], Aspect::NotLarger).as_deref(), Some(&[7, 7][..]));
        assert_eq!(resized(&[2usize, 2], &[7, 8], Aspect::NotSmaller).as_deref(), Some(&[8, 8][..]));
        assert_eq!(resized(&[2usize, 2], &[7, 8], Aspect::Stretch).as_deref(), Some(&[7, 8][..]));
    }
}
