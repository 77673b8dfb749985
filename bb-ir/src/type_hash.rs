//! Stable names of the types that frames (messages of the wire format) can contain, and hashes of these
//! names.
//!
//! A name is declared, never derived from a Rust path, so that renaming or moving a type does not change it.
//! The hash is FNV-1a with 64 bits.

use crate::DataType;

const OFFSET: u64 = 0xCBF2_9CE4_8422_2325;
const PRIME: u64 = 0x0000_0100_0000_01B3;

const fn continued(mut hash: u64, name: &str) -> u64 {
    let mut rest = name.as_bytes();
    while let [first, tail @ ..] = rest {
        hash = (hash ^ *first as u64).wrapping_mul(PRIME);
        rest = tail;
    }
    hash
}

/// Returns the hash of a declared name.
pub const fn hash_name(name: &str) -> u64 {
    continued(OFFSET, name)
}

/// Returns the name of the layout that frames use for elements of this type.
const fn layout(dtype: DataType) -> &'static str {
    match dtype {
        DataType::String => "offsets-le",
        _ if dtype.is_sub_byte() => "packed-le",
        _ => "dense-le",
    }
}

/// Returns the stable name of the type "tensor with elements of type `dtype`", as in
/// `bb.tensor/1;f32;dense-le`.
pub fn type_name(dtype: DataType) -> String {
    format!("bb.tensor/1;{};{}", dtype.name(), layout(dtype))
}

/// Returns the hash of [`type_name`], which is the *type hash* of a frame.
pub const fn type_hash(dtype: DataType) -> u64 {
    let hash = continued(hash_name("bb.tensor/1;"), dtype.name());
    continued(continued(hash, ";"), layout(dtype))
}

/// The hash of each element type, in the order of [`DataType::ALL`].
static HASHES: [u64; DataType::ALL.len()] = {
    let mut hashes = [0; DataType::ALL.len()];
    let mut i = 0;
    while i < hashes.len() {
        #[expect(clippy::indexing_slicing, reason = "both have `hashes.len()` items")]
        {
            hashes[i] = type_hash(DataType::ALL[i]);
        }
        i += 1;
    }
    hashes
};

/// Returns the element type whose tensors have this type hash, if there is one.
pub fn element_type(hash: u64) -> Option<DataType> {
    let index = HASHES.iter().position(|&h| h == hash)?;
    DataType::ALL.get(index).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Source: the test vectors of the FNV reference for the empty string, `a` and `foobar`.
    #[test]
    fn hashes_are_fnv_1a() {
        assert_eq!(hash_name(""), 0xCBF2_9CE4_8422_2325);
        assert_eq!(hash_name("a"), 0xAF63_DC4C_8601_EC8C);
        assert_eq!(hash_name("foobar"), 0x8594_4171_F739_67E8);
    }

    #[test]
    fn every_element_type_has_a_hash_of_its_own() {
        for &dtype in DataType::ALL {
            assert_eq!(hash_name(&type_name(dtype)), type_hash(dtype));
            assert_eq!(element_type(type_hash(dtype)), Some(dtype));
        }
        assert_eq!(type_name(DataType::F32), "bb.tensor/1;f32;dense-le");
    }
}
