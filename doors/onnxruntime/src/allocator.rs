//! The library's own allocator, and allocators that programs pass.
#![expect(non_snake_case, reason = "the names of ONNX Runtime")]

use crate::arguments::{OutPlace, object};
use crate::error::CallError;
use crate::memory::OrtMemoryInfo;
use crate::status::{Result, functions};
use std::alloc::Layout;
use std::ffi::{CString, c_char, c_void};
use std::ptr::{NonNull, null_mut};

/// `OrtAllocator`, with the members that all its versions have. Programs may implement it, too.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct OrtAllocator {
    version: u32,
    alloc: Option<unsafe extern "system" fn(*mut OrtAllocator, usize) -> *mut c_void>,
    free: Option<unsafe extern "system" fn(*mut OrtAllocator, *mut c_void)>,
    info: Option<unsafe extern "system" fn(*const OrtAllocator) -> *const OrtMemoryInfo>,
}

/// The layout of this library's allocator, including the members of newer versions.
#[repr(C)]
struct Own {
    front: OrtAllocator,
    reserve: Option<unsafe extern "system" fn(*mut OrtAllocator, usize) -> *mut c_void>,
    /// The optional members `GetStats`, `AllocOnStream` and `Shrink`.
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

/// The size in bytes of the header before a block. It stores the size of the block, and keeps the block aligned.
const FRONT: usize = 64;

fn layout(size: usize) -> Option<Layout> {
    Layout::from_size_align(size.checked_add(FRONT)?, FRONT).ok()
}

unsafe extern "system" fn allocate(_: *mut OrtAllocator, size: usize) -> *mut c_void {
    let Some(layout) = layout(size) else { return null_mut() };
    // SAFETY: the size is not 0, because it includes the header.
    let block = unsafe { std::alloc::alloc(layout) };
    if block.is_null() {
        return null_mut();
    }
    // SAFETY: the header is within the block, and aligned for a number.
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

/// A checked pointer to an allocator of this library or of a program.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Allocator<'a>(&'a OrtAllocator);

impl<'a> Allocator<'a> {
    /// Checks the pointer to an allocator.
    ///
    /// # Errors
    ///
    /// [`CallError::Null`].
    ///
    /// # Safety
    ///
    /// The pointer is null or points to an allocator that lives for `'a`, and whose functions conform to the header.
    pub(crate) unsafe fn of(pointer: *const OrtAllocator) -> Result<Allocator<'a>> {
        // SAFETY: the caller upholds the safety contract of this function.
        unsafe { object(pointer, "an allocator") }.map(Allocator)
    }

    fn pointer(self) -> *mut OrtAllocator {
        std::ptr::from_ref(self.0).cast_mut()
    }

    /// Allocates a block.
    ///
    /// # Errors
    ///
    /// [`CallError::Memory`] if the allocator returns null.
    pub(crate) fn block(self, bytes: usize) -> Result<NonNull<u8>> {
        let alloc = self.0.alloc.ok_or(CallError::Null { what: "the function `Alloc` of an allocator" })?;
        // SAFETY: the caller of `of` guarantees that the function conforms to the header.
        let block = unsafe { alloc(self.pointer(), bytes) };
        NonNull::new(block.cast()).ok_or(CallError::Memory { bytes })
    }

    /// Frees a block.
    ///
    /// # Safety
    ///
    /// This allocator allocated the block, and the block is no longer used.
    pub(crate) unsafe fn free(self, block: *mut c_void) {
        if let Some(free) = self.0.free {
            // SAFETY: the caller upholds the safety contract of this function.
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
        // SAFETY: the block has room for the list, and allocators align for every type of C.
        unsafe { block.copy_from_nonoverlapping(NonNull::from(items).cast(), items.len()) };
        Ok(block.as_ptr())
    }

    /// Copies a string into a block, with a terminating zero.
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

    /// Returns the memory type of an allocator.
    AllocatorGetInfo(allocator: *const OrtAllocator, out: *mut *const OrtMemoryInfo) {
        let (allocator, out) = (Allocator::of(allocator)?, OutPlace::at(out, "a place for a kind of memory")?);
        let info = allocator.0.info.ok_or(CallError::Null { what: "the function `Info` of an allocator" })?;
        out.put(info(allocator.pointer()));
        Ok(())
    }

    /// Returns the allocator of this library. The program need not release it.
    GetAllocatorWithDefaultOptions(out: *mut *mut OrtAllocator) {
        OutPlace::at(out, "a place for an allocator")?.put(own());
        Ok(())
    }
}

/// Does nothing, because `CreateAllocator` returns the library's own allocator, which is never released.
pub(crate) unsafe extern "system" fn ReleaseAllocator(_: *mut OrtAllocator) {}
