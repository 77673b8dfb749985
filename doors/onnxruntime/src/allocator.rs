//! Allocators: the library's own, and the programs' own.
#![expect(non_snake_case, reason = "the names of ONNX Runtime")]

use crate::arguments::{OutPlace, object};
use crate::error::CallError;
use crate::memory::OrtMemoryInfo;
use crate::status::{Result, functions};
use std::alloc::Layout;
use std::ffi::{CString, c_char, c_void};
use std::ptr::{NonNull, null_mut};

/// `OrtAllocator`, as far as every version of it goes. A program makes one, too.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct OrtAllocator {
    version: u32,
    alloc: Option<unsafe extern "system" fn(*mut OrtAllocator, usize) -> *mut c_void>,
    free: Option<unsafe extern "system" fn(*mut OrtAllocator, *mut c_void)>,
    info: Option<unsafe extern "system" fn(*const OrtAllocator) -> *const OrtMemoryInfo>,
}

/// The allocator of this library, with the members that newer versions have.
#[repr(C)]
struct Own {
    front: OrtAllocator,
    reserve: Option<unsafe extern "system" fn(*mut OrtAllocator, usize) -> *mut c_void>,
    /// `GetStats`, `AllocOnStream` and `Shrink`, all of them optional.
    optional: [Option<unsafe extern "system" fn()>; 3],
}

static OWN: Own = Own {
    front: OrtAllocator {
        version: crate::API_VERSION,
        alloc: Some(allocate),
        free: Some(free),
        info: Some(host),
    },
    reserve: Some(allocate),
    optional: [None; 3],
};

/// The size of the header before a block, which holds the size of the block. It keeps the block aligned.
const FRONT: usize = 64;

fn layout(size: usize) -> Option<Layout> {
    Layout::from_size_align(size.checked_add(FRONT)?, FRONT).ok()
}

unsafe extern "system" fn allocate(_: *mut OrtAllocator, size: usize) -> *mut c_void {
    let Some(layout) = layout(size) else { return null_mut() };
    // SAFETY: the size is not 0, because of the front.
    let block = unsafe { std::alloc::alloc(layout) };
    if block.is_null() {
        return null_mut();
    }
    // SAFETY: the front is within the block, and aligned for a number.
    unsafe {
        block.cast::<usize>().write(size);
        block.add(FRONT).cast()
    }
}

unsafe extern "system" fn free(_: *mut OrtAllocator, block: *mut c_void) {
    if block.is_null() {
        return;
    }
    // SAFETY: `allocate` returned the pointer, and wrote the size before it.
    unsafe {
        let block = block.cast::<u8>().sub(FRONT);
        if let Some(layout) = layout(block.cast::<usize>().read()) {
            std::alloc::dealloc(block, layout);
        }
    }
}

unsafe extern "system" fn host(_: *const OrtAllocator) -> *const OrtMemoryInfo {
    OrtMemoryInfo::host()
}

/// Returns the allocator of this library.
pub(crate) fn own() -> *mut OrtAllocator {
    // The allocator has no state, so the pointer is never written through.
    std::ptr::from_ref(&OWN).cast_mut().cast()
}

/// An allocator that may be one of a program.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Allocator<'a>(&'a OrtAllocator);

impl<'a> Allocator<'a> {
    /// Takes an allocator.
    ///
    /// # Errors
    ///
    /// [`CallError::Null`].
    ///
    /// # Safety
    ///
    /// The pointer is null or to an allocator that lives for `'a`, and whose functions conform to the header.
    pub(crate) unsafe fn of(pointer: *const OrtAllocator) -> Result<Allocator<'a>> {
        // SAFETY: the caller says so.
        unsafe { object(pointer, "an allocator") }.map(Allocator)
    }

    fn pointer(self) -> *mut OrtAllocator {
        std::ptr::from_ref(self.0).cast_mut()
    }

    /// Allocates a block.
    ///
    /// # Errors
    ///
    /// [`CallError::Memory`] if the allocator gives none.
    pub(crate) fn block(self, bytes: usize) -> Result<NonNull<u8>> {
        let alloc = self.0.alloc.ok_or(CallError::Null { what: "the function `Alloc` of an allocator" })?;
        // SAFETY: `of` was promised that the function does what the header says.
        let block = unsafe { alloc(self.pointer(), bytes) };
        NonNull::new(block.cast()).ok_or(CallError::Memory { bytes })
    }

    /// Frees a block.
    ///
    /// # Safety
    ///
    /// The allocator made the block, and the block is not used any more.
    pub(crate) unsafe fn free(self, block: *mut c_void) {
        if let Some(free) = self.0.free {
            // SAFETY: the caller says so.
            unsafe { free(self.pointer(), block) };
        }
    }

    /// Copies a list into a block.
    ///
    /// # Errors
    ///
    /// As [`block`](Self::block).
    pub(crate) fn list<T: Copy>(self, items: &[T]) -> Result<*mut T> {
        let block = self.block(size_of_val(items))?.cast::<T>();
        // SAFETY: the block has as many bytes, and allocators align for every type of C.
        unsafe { block.copy_from_nonoverlapping(NonNull::from(items).cast(), items.len()) };
        Ok(block.as_ptr())
    }

    /// Copies a text into a block, with a terminating zero.
    ///
    /// # Errors
    ///
    /// As [`block`](Self::block).
    pub(crate) fn text(self, text: &str) -> Result<*mut c_char> {
        let text = CString::new(text.replace('\0', " ")).unwrap_or_default();
        self.list(text.as_bytes_with_nul()).map(<*mut u8>::cast)
    }
}

functions! {
    /// Allocates a block.
    AllocatorAlloc(allocator: *mut OrtAllocator, size: usize, out: *mut *mut c_void) {
        let (allocator, out) = (Allocator::of(allocator)?, OutPlace::at(out, "a place for a block")?);
        out.put(allocator.block(size)?.as_ptr().cast());
        Ok(())
    }

    /// Frees a block.
    AllocatorFree(allocator: *mut OrtAllocator, block: *mut c_void) {
        Allocator::of(allocator)?.free(block);
        Ok(())
    }

    /// Returns the kind of an allocator's memory.
    AllocatorGetInfo(allocator: *const OrtAllocator, out: *mut *const OrtMemoryInfo) {
        let (allocator, out) = (Allocator::of(allocator)?, OutPlace::at(out, "a place for a kind of memory")?);
        let info = allocator.0.info.ok_or(CallError::Null { what: "the function `Info` of an allocator" })?;
        out.put(info(allocator.pointer()));
        Ok(())
    }

    /// Returns the allocator of this library, which is not released.
    GetAllocatorWithDefaultOptions(out: *mut *mut OrtAllocator) {
        OutPlace::at(out, "a place for an allocator")?.put(own());
        Ok(())
    }
}

/// Releases an allocator that `CreateAllocator` returned. This is the library's own allocator, which stays.
pub(crate) unsafe extern "system" fn ReleaseAllocator(_: *mut OrtAllocator) {}
