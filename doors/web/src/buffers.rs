//! Buffers that JavaScript fills and reads. JavaScript identifies a buffer by a number.

use bytes::Bytes;
use std::cell::RefCell;
use std::collections::HashMap;

/// Contents of a buffer.
#[derive(Debug)]
enum Buffer {
    /// Bytes that JavaScript may write.
    Open(Vec<u8>),
    /// Bytes that do not change.
    Shared(Bytes),
}

#[derive(Debug, Default)]
struct Buffers {
    last: u32,
    held: HashMap<u32, Buffer>,
}

thread_local! {
    static BUFFERS: RefCell<Buffers> = RefCell::default();
}

impl Buffers {
    fn keep(&mut self, buffer: Buffer) -> u32 {
        // Skips 0, which means that there is no buffer.
        loop {
            self.last = self.last.wrapping_add(1);
            if self.last != 0 && !self.held.contains_key(&self.last) {
                break;
            }
        }
        self.held.insert(self.last, buffer);
        self.last
    }
}

/// Creates a buffer of zeros. Returns 0 if there is not enough memory.
pub(crate) fn open(length: usize) -> u32 {
    let mut bytes = Vec::new();
    if bytes.try_reserve_exact(length).is_err() {
        return 0;
    }
    bytes.resize(length, 0);
    BUFFERS.with_borrow_mut(|buffers| buffers.keep(Buffer::Open(bytes)))
}

/// Stores bytes in a buffer until JavaScript drops it.
pub(crate) fn keep(bytes: Bytes) -> u32 {
    BUFFERS.with_borrow_mut(|buffers| buffers.keep(Buffer::Shared(bytes)))
}

/// Returns the address and the length of a buffer, or zeros if no buffer has this number.
pub(crate) fn place(number: u32) -> (usize, usize) {
    BUFFERS.with_borrow(|buffers| match buffers.held.get(&number) {
        Some(Buffer::Open(bytes)) => (bytes.as_ptr().addr(), bytes.len()),
        Some(Buffer::Shared(bytes)) => (bytes.as_ptr().addr(), bytes.len()),
        None => (0, 0),
    })
}

/// Removes a buffer and returns its bytes. They are empty if no buffer has this number.
pub(crate) fn take(number: u32) -> Bytes {
    match BUFFERS.with_borrow_mut(|buffers| buffers.held.remove(&number)) {
        Some(Buffer::Open(bytes)) => bytes.into(),
        Some(Buffer::Shared(bytes)) => bytes,
        None => Bytes::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_name_buffers_until_they_are_taken() {
        let (first, second) = (open(3), keep(Bytes::from_static(b"abcd")));
        assert_ne!(first, second);
        assert_eq!((place(first).1, place(second).1), (3, 4));
        assert_eq!(take(second), b"abcd".as_slice());
        assert_eq!((place(second), take(second)), ((0, 0), Bytes::new()));
        assert_eq!(take(first), [0; 3].as_slice());
    }

    #[test]
    fn too_much_memory_is_no_buffer() {
        assert_eq!(open(usize::MAX), 0);
    }
}
