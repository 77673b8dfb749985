//! The functions for tensors of strings.
#![expect(non_snake_case, reason = "the names of ONNX Runtime")]

use super::OrtValue;
use super::tensors::tensor;
use crate::arguments::{OutPlace, bytes, list};
use crate::error::CallError;
use crate::status::{Result, functions};
use std::ffi::{c_char, c_void};

/// Copies bytes to memory of the program.
///
/// # Errors
///
/// [`CallError::Room`] and [`CallError::Null`].
///
/// # Safety
///
/// The memory is null or has room for `room` bytes.
unsafe fn copy(text: &[u8], to: *mut u8, room: usize) -> Result<()> {
    if room < text.len() {
        return Err(CallError::Room { what: "the text", needed: text.len(), got: room });
    }
    if text.is_empty() {
        return Ok(());
    }
    if to.is_null() {
        return Err(CallError::Null { what: "memory for the text" });
    }
    // SAFETY: the caller upholds the safety contract of this function.
    unsafe { to.copy_from_nonoverlapping(text.as_ptr(), text.len()) };
    Ok(())
}

/// Returns an element, or an error if the index is out of range.
fn at(texts: &mut [Vec<u8>], index: usize) -> Result<&mut Vec<u8>> {
    let count = texts.len();
    texts.get_mut(index).ok_or(CallError::Index { what: "strings", index, count })
}

functions! {
    /// Replaces all strings.
    FillStringTensor(value: *mut OrtValue, texts: *const *const c_char, count: usize) {
        let mut own = tensor(value)?.strings()?;
        if own.len() != count {
            return Err(CallError::Count { what: "strings", expected: own.len(), got: count });
        }
        let texts = list(texts, count, "strings")?.iter().map(|text| Ok(bytes(*text, "a string")?.to_bytes().to_vec()));
        *own = texts.collect::<Result<_>>()?;
        Ok(())
    }

    /// Replaces one string.
    FillStringTensorElement(value: *mut OrtValue, text: *const c_char, index: usize) {
        let text = bytes(text, "a string")?.to_bytes().to_vec();
        *at(&mut tensor(value)?.strings()?, index)? = text;
        Ok(())
    }

    /// Returns the total length of all strings, in bytes.
    GetStringTensorDataLength(value: *const OrtValue, out: *mut usize) {
        let length = tensor(value)?.strings()?.iter().map(Vec::len).sum();
        OutPlace::at(out, "a place for a length")?.put(length);
        Ok(())
    }

    /// Copies all strings, concatenated, and writes the offset of each.
    GetStringTensorContent(value: *const OrtValue, to: *mut c_void, room: usize, offsets: *mut usize, count: usize) {
        let texts = tensor(value)?.strings()?;
        if count < texts.len() {
            return Err(CallError::Count { what: "places for offsets", expected: texts.len(), got: count });
        }
        if offsets.is_null() && !texts.is_empty() {
            return Err(CallError::Null { what: "places for offsets" });
        }
        copy(&texts.concat(), to.cast(), room)?;
        let mut begin = 0;
        for (index, text) in texts.iter().enumerate() {
            offsets.add(index).write(begin);
            begin += text.len();
        }
        Ok(())
    }

    /// Returns the length of a string, in bytes.
    GetStringTensorElementLength(value: *const OrtValue, index: usize, out: *mut usize) {
        let length = at(&mut tensor(value)?.strings()?, index)?.len();
        OutPlace::at(out, "a place for a length")?.put(length);
        Ok(())
    }

    /// Copies a string, without a terminating zero.
    GetStringTensorElement(value: *const OrtValue, room: usize, index: usize, to: *mut c_void) {
        copy(at(&mut tensor(value)?.strings()?, index)?, to.cast(), room)
    }

    /// Resizes a string and returns a pointer to its bytes. The program writes the bytes before it uses the tensor again.
    GetResizedStringTensorElementBuffer(value: *mut OrtValue, index: usize, length: usize, out: *mut *mut c_char) {
        let (mut texts, out) = (tensor(value)?.strings()?, OutPlace::at(out, "a place for a pointer")?);
        let text = at(&mut texts, index)?;
        text.resize(length, 0);
        out.put(text.as_mut_ptr().cast());
        Ok(())
    }
}
