//! Allocates and frees the memory of blocks.
//!
//! Large blocks are mapped pages, so that freeing a block returns its memory to the system. The C library's allocator often keeps
//! freed memory that no later allocation uses, because a thread's heap can only shrink at its end.

use super::{ALIGNMENT, Header};
use crate::sync::AtomicUsize;
use memmap2::MmapMut;
use std::alloc::{Layout, alloc, dealloc};
use std::ptr::NonNull;

/// The minimum size in bytes of blocks that are mapped from the system. For a smaller block, the system call costs more than its
/// first use.
const PAGES: usize = 1 << 16;

/// The size in bytes of a huge page, if the system has them. A block then needs few pages, so first accesses and address
/// translation cost little.
const LARGE_PAGE: usize = if cfg!(target_os = "linux") { 2 << 20 } else { usize::MAX };

/// Allocates a block of `size` bytes with a header that refers to no pool yet. Returns `None` if the system has no memory.
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

/// Maps pages for a header and `size` bytes, and returns them with the address of the header. If huge pages are used, the header is
/// at the start of one.
fn pages(size: usize) -> Option<(NonNull<Header>, MmapMut)> {
    let large = size >= LARGE_PAGE;
    let room = size.checked_add(ALIGNMENT)?.checked_add(if large { LARGE_PAGE } else { 0 })?;
    let mut pages = MmapMut::map_anon(room).ok()?;
    let before = if large { pages.as_ptr().align_offset(LARGE_PAGE) } else { 0 };
    #[cfg(target_os = "linux")]
    if large {
        // The system may refuse this advice, for example if it has no huge pages. The block works without them, so ignore the
        // error.
        let _ = pages.advise_range(memmap2::Advice::HugePage, before, size - size % LARGE_PAGE);
    }
    let place = pages.get_mut(before..)?.as_mut_ptr();
    Some((NonNull::new(place)?.cast(), pages))
}

/// Frees a block of `size` bytes.
///
/// # Safety
///
/// The block is from [`allocate`] with this size, and there are no references to it.
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
