//! Reads members of `.npz` archives, as they come and with mended sizes and checksums, and the `.npy` files in them.
#![no_main]

use bb_fuzz::zip::{MEMBER, mended};
use bb_fuzz::{memory, tensor};
use bb_ir::TensorData;
use bytes::Bytes;
use libfuzzer_sys::fuzz_target;

// The reader is a module of the command line, which has no interface for others.
#[path = "../../cli/src/npz.rs"]
mod npz;

/// The functions that the reader uses from the command line's module of this name.
mod render {
    pub(crate) fn names<S: AsRef<str>>(names: &[S]) -> String {
        names.iter().take(8).map(|name| name.as_ref()).collect()
    }

    pub(crate) fn suggestion(nearest: &Option<String>) -> String {
        nearest.clone().unwrap_or_default()
    }
}

/// Memory limit in bytes for reading a member, in addition to the archive: the member, its tensor, and the directory.
const MEMORY: usize = 8 * MEMBER;

fuzz_target!(|data: &[u8]| {
    for archive in [Bytes::copy_from_slice(data), mended(data).into()] {
        for (name, asked) in [("x", false), ("x", true), ("arr_0", true), ("y.npy", true)] {
            let most = MEMORY + 16 * archive.len();
            let (read, peak) = memory::watched(|| npz::member(&archive, name, asked, MEMBER));
            assert!(peak <= most, "{peak} bytes");
            let bytes = match read {
                Ok(bytes) => bytes,
                Err(error) => {
                    let _ = error.to_string();
                    continue;
                }
            };
            assert!(bytes.len() <= MEMBER, "{} bytes", bytes.len());
            let (read, peak) = memory::watched(|| TensorData::from_npy(bytes));
            assert!(peak <= most, "{peak} bytes");
            if let Ok(tensor) = read {
                tensor::check(&tensor);
            }
        }
    }
});
