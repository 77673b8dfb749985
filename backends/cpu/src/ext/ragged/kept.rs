//! Reads keys or values from the new positions and from the cache blocks. The elements in blocks may have another type.

use super::super::floats;
use crate::array::Array;
use crate::kernels::half::Half;
use crate::kernels::scaled_rows;
use bb::{DataType, Tensor};

/// The encoding of elements, and their conversion to `f32`.
#[derive(Debug, Clone, Copy)]
enum ElementFormat<'a> {
    /// The elements are `f32`.
    Single,
    Half(&'static Half),
    /// The elements are integers. Each position and group has a scale; the scales are contiguous, `[positions, groups]`.
    Scaled(&'a Array),
}

impl<'a> ElementFormat<'a> {
    /// Returns the encoding of an element type; `None` for types that attention does not support.
    fn of(dtype: DataType, scale: Option<&'a Array>) -> Option<ElementFormat<'a>> {
        match (dtype, scale) {
            (DataType::F32, None) => Some(ElementFormat::Single),
            (DataType::I8, Some(scale)) => Some(ElementFormat::Scaled(scale)),
            (_, None) => Half::of(dtype).map(ElementFormat::Half),
            _ => None,
        }
    }

    /// Returns the size of an element in bytes.
    fn size(self) -> usize {
        match self {
            ElementFormat::Single => 4,
            ElementFormat::Half(_) => 2,
            ElementFormat::Scaled(_) => 1,
        }
    }
}

/// Keys or values with fixed strides. The elements of each key or value are contiguous.
#[derive(Debug, Clone, Copy)]
struct CachePart<'a> {
    x: &'a Array,
    form: ElementFormat<'a>,
    /// The strides of positions and of groups, in elements.
    strides: [usize; 2],
}

/// The keys or the values of all sequences.
#[derive(Debug, Clone, Copy)]
pub(super) struct PagedCache<'a> {
    new: CachePart<'a>,
    /// The keys or values in blocks, which are contiguous.
    past: CachePart<'a>,
    groups: usize,
}

/// Consecutive keys or values of one group.
#[derive(Debug, Clone, Copy)]
pub(super) struct CacheRows<'a> {
    form: ElementFormat<'a>,
    from: *const u8,
    /// The stride of positions, in elements.
    stride: usize,
    /// A pointer to the first scale (null if there are no scales), and the stride of the scales.
    scale: *const f32,
    groups: usize,
}

impl<'a> PagedCache<'a> {
    /// Describes the keys or values of new positions, `[n, groups, size]`, and of blocks, `[c, z, groups, size]`. The scales of the
    /// blocks are `[c, z, groups]`. Returns `None` for types that attention does not support.
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

    /// Returns whether some keys or values must be converted to `f32`.
    pub(super) fn converts(&self) -> bool {
        !matches!((self.new.form, self.past.form), (ElementFormat::Single, ElementFormat::Single))
    }

    /// Returns the keys or values of a group, starting at a position: a position over all blocks if `in_blocks`, otherwise a new
    /// position.
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
    /// Returns a pointer to the first element and the stride of rows, if the elements are `f32`.
    pub(super) fn single(&self) -> Option<(*const f32, usize)> {
        matches!(self.form, ElementFormat::Single).then_some((self.from.cast(), self.stride))
    }

    /// Copies the first `count` rows of `size` elements to contiguous `f32` rows.
    ///
    /// # Safety
    ///
    /// The rows exist, and there is room for them.
    pub(super) unsafe fn copy(&self, count: usize, size: usize, to: *mut f32) {
        let &CacheRows { form, from, stride, scale, groups } = self;
        // SAFETY: this function's contract; each row has a scale if rows have scales.
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
