//! The formats of ggml: floats, and blocks of integers with shared scales.
//!
//! A block is decoded into its integers, and a scale and an offset for each group of integers. An element is `integer * scale + offset`.
//!
//! Source: `ggml-common.h` and `ggml-quants.c` of ggml, MIT licence, which define these layouts.

use bb_ir::{bf16, f16, memory};

const OP: &str = "a tensor of a GGUF file";

/// The format of a tensor's elements, with the names of ggml.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(non_camel_case_types, reason = "the names of ggml")]
#[non_exhaustive]
pub enum TensorType {
    /// Floats of 32 bits.
    F32,
    /// Floats of 16 bits.
    F16,
    /// Floats of 16 bits with the exponent of 32 bits.
    BF16,
    /// Blocks of 32 integers of 4 bits with a scale.
    Q4_0,
    /// Blocks of 32 integers of 4 bits with a scale and a minimum.
    Q4_1,
    /// Blocks of 32 integers of 5 bits with a scale.
    Q5_0,
    /// Blocks of 32 integers of 5 bits with a scale and a minimum.
    Q5_1,
    /// Blocks of 32 integers of 8 bits with a scale.
    Q8_0,
    /// Blocks of 256 integers of 4 bits, in groups of 32 with a scale and a minimum.
    Q4_K,
    /// Blocks of 256 integers of 5 bits, in groups of 32 with a scale and a minimum.
    Q5_K,
    /// Blocks of 256 integers of 6 bits, in groups of 16 with a scale.
    Q6_K,
}

/// How matrix products store the integers of a format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Layout {
    /// The number of bits of an integer: 4 or 8.
    pub(crate) bits: usize,
    /// The number of integers that share a scale.
    pub(crate) group: usize,
    /// Whether groups have offsets.
    pub(crate) offsets: bool,
    /// The number that is added to the integers of a format without offsets, so that they are not negative. It is half of the range.
    pub(crate) middle: i16,
}

/// The scale and the offset of a group.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Group {
    pub(crate) scale: f32,
    pub(crate) offset: f32,
}

impl TensorType {
    /// Returns the format with this id in ggml.
    pub(super) fn of(number: u32) -> Option<TensorType> {
        Some(match number {
            0 => TensorType::F32,
            1 => TensorType::F16,
            2 => TensorType::Q4_0,
            3 => TensorType::Q4_1,
            6 => TensorType::Q5_0,
            7 => TensorType::Q5_1,
            8 => TensorType::Q8_0,
            12 => TensorType::Q4_K,
            13 => TensorType::Q5_K,
            14 => TensorType::Q6_K,
            30 => TensorType::BF16,
            _ => return None,
        })
    }

    /// Returns the number of elements and the number of bytes of a block.
    pub fn block(self) -> (usize, usize) {
        match self {
            TensorType::F32 => (1, 4),
            TensorType::F16 | TensorType::BF16 => (1, 2),
            TensorType::Q4_0 => (32, 18),
            TensorType::Q4_1 => (32, 20),
            TensorType::Q5_0 => (32, 22),
            TensorType::Q5_1 => (32, 24),
            TensorType::Q8_0 => (32, 34),
            TensorType::Q4_K => (256, 144),
            TensorType::Q5_K => (256, 176),
            TensorType::Q6_K => (256, 210),
        }
    }

    /// Returns how matrix products store the integers; `None` for floats.
    pub(crate) fn layout(self) -> Option<Layout> {
        let (bits, group, offsets, middle) = match self {
            TensorType::F32 | TensorType::F16 | TensorType::BF16 => return None,
            TensorType::Q4_0 => (4, 32, false, 8),
            TensorType::Q4_1 | TensorType::Q4_K => (4, 32, true, 0),
            TensorType::Q5_0 | TensorType::Q8_0 => (8, 32, false, 128),
            TensorType::Q5_1 | TensorType::Q5_K => (8, 32, true, 0),
            TensorType::Q6_K => (8, 16, false, 128),
        };
        Some(Layout { bits, group, offsets, middle })
    }
}

/// Buffers for the integers and groups of one block.
#[derive(Debug)]
pub(crate) struct Blocks {
    ty: TensorType,
    ints: Vec<i8>,
    groups: Vec<Group>,
}

impl Blocks {
    /// Creates buffers for blocks of a format; `None` for floats.
    pub(crate) fn new(ty: TensorType) -> Option<Blocks> {
        let (block, group) = (ty.block().0, ty.layout()?.group);
        Some(Blocks { ty, ints: vec![0; block], groups: vec![Group::default(); block / group] })
    }

    /// Decodes a block. Returns its integers and its groups.
    pub(crate) fn decode(&mut self, block: &[u8]) -> (&[i8], &[Group]) {
        let (ints, groups) = (self.ints.as_mut_slice(), self.groups.as_mut_slice());
        let decoded = match self.ty {
            TensorType::F32 | TensorType::F16 | TensorType::BF16 => None,
            TensorType::Q4_0 => q4_0(block, ints, groups),
            TensorType::Q4_1 => q4_1(block, ints, groups),
            TensorType::Q5_0 => q5_0(block, ints, groups),
            TensorType::Q5_1 => q5_1(block, ints, groups),
            TensorType::Q8_0 => q8_0(block, ints, groups),
            TensorType::Q4_K => q4_k(block, ints, groups),
            TensorType::Q5_K => q5_k(block, ints, groups),
            TensorType::Q6_K => q6_k(block, ints, groups),
        };
        debug_assert!(decoded.is_some(), "the caller cuts blocks of this format");
        (&self.ints, &self.groups)
    }
}

/// Dequantizes blocks, and appends all elements to `all`.
pub(super) fn dequantize(ty: TensorType, bytes: &[u8], all: &mut Vec<f32>) -> Result<(), bb_ir::Error> {
    let (block, size) = ty.block();
    memory::reserve(OP, all, bytes.len() / size * block)?;
    let Some(mut blocks) = Blocks::new(ty) else {
        match ty {
            TensorType::F32 => all.extend(bytes.as_chunks().0.iter().map(|x| f32::from_le_bytes(*x))),
            TensorType::F16 => {
                all.extend(bytes.as_chunks().0.iter().map(|x| f16::from_le_bytes(*x).to_f32()));
            }
            _ => all.extend(bytes.as_chunks().0.iter().map(|x| bf16::from_le_bytes(*x).to_f32())),
        }
        return Ok(());
    };
    let group = block / blocks.groups.len();
    for bytes in bytes.chunks_exact(size) {
        let (ints, groups) = blocks.decode(bytes);
        for (ints, Group { scale, offset }) in ints.chunks_exact(group).zip(groups) {
            all.extend(ints.iter().map(|&x| f32::from(x) * scale + offset));
        }
    }
    Ok(())
}

/// Reads an `f16`. Returns its value and the remaining bytes.
fn half(bytes: &[u8]) -> Option<(f32, &[u8])> {
    let (x, rest) = bytes.split_first_chunk()?;
    Some((f16::from_le_bytes(*x).to_f32(), rest))
}

/// Unpacks two 4-bit integers per byte, and subtracts `less`. The low halves of the bytes are the first half of the integers, the high
/// halves the second.
fn halves(bytes: &[u8], ints: &mut [i8], less: i8) -> Option<()> {
    let (low, high) = ints.split_at_mut_checked(bytes.len())?;
    for ((byte, low), high) in bytes.iter().zip(low).zip(high) {
        *low = (byte & 15).cast_signed() - less;
        *high = (byte >> 4).cast_signed() - less;
    }
    Some(())
}

fn q4_0(block: &[u8], ints: &mut [i8], groups: &mut [Group]) -> Option<()> {
    let (scale, bytes) = half(block)?;
    *groups.first_mut()? = Group { scale, offset: 0.0 };
    halves(bytes, ints, 8)
}

fn q4_1(block: &[u8], ints: &mut [i8], groups: &mut [Group]) -> Option<()> {
    let (scale, rest) = half(block)?;
    let (offset, bytes) = half(rest)?;
    *groups.first_mut()? = Group { scale, offset };
    halves(bytes, ints, 0)
}

/// Adds the fifth bit of each integer, which is one bit of `bits`.
fn fifth(bits: [u8; 4], ints: &mut [i8]) {
    let bits = u32::from_le_bytes(bits);
    for (i, int) in ints.iter_mut().enumerate() {
        *int += ((bits >> i & 1) << 4) as i8;
    }
}

fn q5_0(block: &[u8], ints: &mut [i8], groups: &mut [Group]) -> Option<()> {
    let (scale, rest) = half(block)?;
    let (bits, bytes) = rest.split_first_chunk()?;
    *groups.first_mut()? = Group { scale, offset: 0.0 };
    halves(bytes, ints, 16)?;
    fifth(*bits, ints);
    Some(())
}

fn q5_1(block: &[u8], ints: &mut [i8], groups: &mut [Group]) -> Option<()> {
    let (scale, rest) = half(block)?;
    let (offset, rest) = half(rest)?;
    let (bits, bytes) = rest.split_first_chunk()?;
    *groups.first_mut()? = Group { scale, offset };
    halves(bytes, ints, 0)?;
    fifth(*bits, ints);
    Some(())
}

fn q8_0(block: &[u8], ints: &mut [i8], groups: &mut [Group]) -> Option<()> {
    let (scale, bytes) = half(block)?;
    *groups.first_mut()? = Group { scale, offset: 0.0 };
    for (int, byte) in ints.iter_mut().zip(bytes) {
        *int = byte.cast_signed();
    }
    Some(())
}

/// Reads the scales and minima of eight groups, with six bits each. For the first four groups, they are the low bits of the first eight
/// bytes. For the other groups, their low bits are the halves of the last four bytes, and their high bits are the upper two bits of the
/// first eight bytes.
fn six_bits(packed: &[u8; 12], scale: f32, minimum: f32, groups: &mut [Group]) {
    let [a0, a1, a2, a3, b0, b1, b2, b3, c @ ..] = *packed;
    let (a, b) = ([a0, a1, a2, a3], [b0, b1, b2, b3]);
    let first = a.iter().zip(&b).map(|(a, b)| (a & 63, b & 63));
    let second =
        a.iter().zip(&b).zip(&c).map(|((a, b), c)| ((c & 15) | (a >> 6 << 4), (c >> 4) | (b >> 6 << 4)));
    for (group, (s, m)) in groups.iter_mut().zip(first.chain(second)) {
        *group = Group { scale: scale * f32::from(s), offset: -(minimum * f32::from(m)) };
    }
}

fn q4_k(block: &[u8], ints: &mut [i8], groups: &mut [Group]) -> Option<()> {
    let (scale, rest) = half(block)?;
    let (minimum, rest) = half(rest)?;
    let (packed, bytes) = rest.split_first_chunk()?;
    six_bits(packed, scale, minimum, groups);
    bytes.chunks_exact(32).zip(ints.chunks_exact_mut(64)).try_for_each(|(bytes, ints)| halves(bytes, ints, 0))
}

fn q5_k(block: &[u8], ints: &mut [i8], groups: &mut [Group]) -> Option<()> {
    let (scale, rest) = half(block)?;
    let (minimum, rest) = half(rest)?;
    let (packed, rest) = rest.split_first_chunk()?;
    let (bits, bytes) = rest.split_first_chunk::<32>()?;
    six_bits(packed, scale, minimum, groups);
    for (i, (bytes, ints)) in bytes.chunks_exact(32).zip(ints.chunks_exact_mut(64)).enumerate() {
        halves(bytes, ints, 0)?;
        for (half, ints) in ints.chunks_exact_mut(32).enumerate() {
            for (int, bits) in ints.iter_mut().zip(bits) {
                *int += ((bits >> (2 * i + half) & 1) << 4).cast_signed();
            }
        }
    }
    Some(())
}

fn q6_k(block: &[u8], ints: &mut [i8], groups: &mut [Group]) -> Option<()> {
    let (low, rest) = block.split_first_chunk::<128>()?;
    let (high, rest) = rest.split_first_chunk::<64>()?;
    let (scales, rest) = rest.split_first_chunk::<16>()?;
    let (scale, _) = half(rest)?;
    for (group, own) in groups.iter_mut().zip(scales) {
        *group = Group { scale: scale * f32::from(own.cast_signed()), offset: 0.0 };
    }
    let parts = low.chunks_exact(64).zip(high.chunks_exact(32)).zip(ints.chunks_exact_mut(128));
    for ((low, high), ints) in parts {
        // The low four bits of the integers: first the low halves of 64 bytes, then their high halves.
        halves(low, ints, 0)?;
        for (quarter, ints) in ints.chunks_exact_mut(32).enumerate() {
            for (int, high) in ints.iter_mut().zip(high) {
                *int = (int.cast_unsigned() | (high >> (2 * quarter) & 3) << 4).cast_signed() - 32;
            }
        }
    }
    Some(())
}
