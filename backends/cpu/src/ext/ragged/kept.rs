//! Keys and values of new positions and of blocks. The elements in blocks may be of another type.

use super::super::floats;
use crate::array::Array;
use crate::kernels::half::Half;
use crate::kernels::scaled_rows;
use bb::{DataType, Tensor};

/// How elements become `f32`.
#[derive(Debug, Clone, Copy)]
enum ElementFormat<'a> {
    /// They are `f32`.
    Single,
    Half(&'static Half),
    /// They are integers, and each position and group has a scale: `[positions, groups]`, contiguous.
    Scaled(&'a Array),
}

impl<'a> ElementFormat<'a> {
    /// Returns the form of a type; `None` for types that attention is not computed with.
    fn of(dtype: DataType, scale: Option<&'a Array>) -> Option<ElementFormat<'a>> {
        match (dtype, scale) {
            (DataType::F32, None) => Some(ElementFormat::Single),
            (DataType::I8, Some(scale)) => Some(ElementFormat::Scaled(scale)),
            (_, None) => Half::of(dtype).map(ElementFormat::Half),
            _ => None,
        }
    }

    /// Returns the bytes of an element.
    fn size(self) -> usize {
        match self {
            ElementFormat::Single => 4,
            ElementFormat::Half(_) => 2,
            ElementFormat::Scaled(_) => 1,
        }
    }
}

/// Keys or values at equal distances. The elements of each are contiguous.
#[derive(Debug, Clone, Copy)]
struct CachePart<'a> {
    x: &'a Array,
    form: ElementFormat<'a>,
    /// The distances of positions and of groups, in elements.
    strides: [usize; 2],
}

/// The keys or the values of all sequences.
#[derive(Debug, Clone, Copy)]
pub(super) struct PagedCache<'a> {
    new: CachePart<'a>,
    /// Those in blocks, which are contiguous.
    past: CachePart<'a>,
    groups: usize,
}

/// Consecutive keys or values of one group.
#[derive(Debug, Clone, Copy)]
pub(super) struct CacheRows<'a> {
    form: ElementFormat<'a>,
    from: *const u8,
    /// The distance of positions, in elements.
    stride: usize,
    /// The first scale, if there are scales, and their distance.
    scale: *const f32,
    groups: usize,
}

impl<'a> PagedCache<'a> {
    /// Returns keys or values of new positions, `[n, groups, size]`, and of blocks, `[c, z, groups, size]`, with the scales of these,
    /// `[c, z, groups]`. `None` for types that attention is not computed with.
    pub(super) fn new(new: &'a Array, past: &'a Array, scale: Option<&'a Array>) -> Option<PagedCache<'a>> {
        let (&[row, group, _], &[.., groups, size]) = (&*new.strides(), past.shape()) else { return None };
        let strides = [usize::try_from(row).ok()?, usize::try_from(group).ok()?];
        let new = CachePart { x: new, form: ElementFormat::of(new.dtype(), None)?, strides };
        let past = CachePart {
            x: past,
            form: ElementFormat::of(past.dtype(), scale)?,
            strides: [groups * size, size],
        };
        Some(PagedCache { new, past, groups })
    }

    /// Returns whether some have to be converted to `f32`.
    pub(super) fn converts(&self) -> bool {
        !matches!((self.new.form, self.past.form), (ElementFormat::Single, ElementFormat::Single))
    }

    /// Returns the keys or values of a group from a position on: of all positions in blocks, or of all new ones.
    ///
    /// # Safety
    ///
    /// The position and the group exist.
    pub(super) unsafe fn rows(&self, in_blocks: bool, position: usize, group: usize) -> CacheRows<'a> {
        let CachePart { x, form, strides: [stride, by_group] } = if in_blocks { self.past } else { self.new };
        let at = position * stride + group * by_group;
        // SAFETY: this function's contract; scales have the positions and the groups of blocks.
        unsafe {
            let scale = match form {
                ElementFormat::Scaled(scale) => floats(scale).add(position * self.groups + group),
                _ => std::ptr::null(),
            };
            CacheRows { form, from: x.ptr().add(at * form.size()), stride, scale, groups: self.groups }
        }
    }
}

impl CacheRows<'_> {
    /// Returns the first element and the distance of rows, if elements are `f32`.
    pub(super) fn single(&self) -> Option<(*const f32, usize)> {
        matches!(self.form, ElementFormat::Single).then_some((self.from.cast(), self.stride))
    }

    /// Copies the first `count` rows of `size` elements, as `f32`, one behind another.
    ///
    /// # Safety
    ///
    /// The rows exist, and there is room for them.
    pub(super) unsafe fn copy(&self, count: usize, size: usize, to: *mut f32) {
        let &CacheRows { form, from, stride, scale, groups } = self;
        // SAFETY: this function's contract; each row has a scale where rows have scales.
        unsafe {
            match form {
                ElementFormat::Single => {
                    for i in 0..count {
                        to.add(i * size).copy_from_nonoverlapping(from.cast::<f32>().add(i * stride), size);
                    }
                }
                ElementFormat::Half(half) => {
                    for i in 0..count {
                        (half.widen)(to.add(i * size).cast(), [from.add(2 * i * stride)], size);
                    }
                }
                ElementFormat::Scaled(_) => {
                    scaled_rows::widen([count, size], to, (from.cast(), stride), (scale, groups));
                }
            }
        }
    }
}
