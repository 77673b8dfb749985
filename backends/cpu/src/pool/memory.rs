//! Where blocks come from.
//!
//! Large blocks are pages of the system, so that a freed block is memory that the process no longer has. The allocator of the
//! C library would keep it, often without use: the heap of each thread ends at its last block.

use super::{ALIGNMENT, Header};
use crate::sync::AtomicUsize;
use memmap2::MmapMut;
use std::alloc::{Layout, alloc, dealloc};
use std::ptr::NonNull;

/// Blocks of this size in bytes, and larger ones, are pages of the system. For a smaller block, the system call costs more than
/// its first use.
const PAGES: usize = 1 << 16;

/// The size in bytes of the pages for large blocks, if the system has large pages. A block needs few of them, so first accesses and
/// address translation cost little.
const LARGE_PAGE: usize = if cfg!(target_os = "linux") { 2 << 20 } else { usize::MAX };

/// Allocates a block of `size` bytes, with a header that refers to no pool yet. Returns `None` if the system has no memory.
pub(super) fn allocate(size: usize, class: usize) -> Option<NonNull<Header>> {
    let header = |pages| Header { owners: AtomicUsize::new(0), class, pages, home: None };
    if size >= PAGES
        && let Some((place, pages)) = pages(size)
    {
        // SAFETY: the pages have room for a header there, and belong to this block alone.
        unsafe { place.write(header(Some(pages))) };
        return Some(place);
    }
    // SAFETY: the layout has at least the size of a header, which is not zero.
    let place = NonNull::new(unsafe { alloc(layout(size)?) })?.cast::<Header>();
    // SAFETY: the memory is aligned for a header and has no other owner.
    unsafe { place.write(header(None)) };
    Some(place)
}

fn layout(size: usize) -> Option<Layout> {
    Layout::from_size_align(size.checked_add(ALIGNMENT)?, ALIGNMENT).ok()
}

/// Returns pages for a header and `size` bytes, and where the header is. A block of large pages begins with one.
fn pages(size: usize) -> Option<(NonNull<Header>, MmapMut)> {
    let large = size >= LARGE_PAGE;
    let room = size.checked_add(ALIGNMENT)?.checked_add(if large { LARGE_PAGE } else { 0 })?;
    let mut pages = MmapMut::map_anon(room).ok()?;
    let before = if large { pages.as_ptr().align_offset(LARGE_PAGE) } else { 0 };
    #[cfg(target_os = "linux")]
    if large {
        // A system without large pages refuses the advice, which is harmless.
        let _ = pages.advise_range(memmap2::Advice::HugePage, before, size - size % LARGE_PAGE);
    }
    let place = pages.get_mut(before..)?.as_mut_ptr();
    Some((NonNull::new(place)?.cast(), pages))
}

/// Frees a block of `size` bytes.
///
/// # Safety
///
/// [`allocate`] made the block for this size, and there are no references to it.
pub(super) unsafe fn free(mut header: NonNull<Header>, size: usize) {
    // SAFETY: the block has a header, and there are no other references to it.
    match unsafe { header.as_mut() }.pages.take() {
        Some(pages) => drop(pages),
        None => {
            if let Some(layout) = layout(size) {
                // SAFETY: the block is from the allocator, with this layout.
                unsafe { dealloc(header.as_ptr().cast(), layout) }
            }
        }
    }
}
