//! Tests messages that are longer than the caller's buffer.

use bb::ErrorKind;
use bb_c::abi::Failure;
use bb_c::failure::{Failed, guarded};

/// Returns the message that a caller with a buffer of this size gets.
fn written(text: &str, capacity: usize) -> String {
    let mut bytes = vec![0u8; capacity];
    let mut failure =
        Failure { size: size_of::<Failure>(), text: bytes.as_mut_ptr().cast(), capacity, length: 0 };
    // SAFETY: the structure points to a buffer with its capacity.
    let status = unsafe { guarded(&raw mut failure, || Err(Failed::new(ErrorKind::Limit, text))) };
    assert_eq!(status, 5);
    String::from_utf8(bytes[..failure.length].to_vec()).unwrap()
}

#[test]
fn a_message_that_is_cut_ends_with_a_mark() {
    assert_eq!(written("straße", 7), "straße");
    assert_eq!(written("straße", 6), "str…");
    assert_eq!(written("straßen!", 8), "stra…", "a character is not divided");
    assert_eq!(written("straße", 3), "…");
    assert_eq!(written("straße", 2), "st", "the mark has 3 bytes");
    assert_eq!(written("straße", 0), "");
}
