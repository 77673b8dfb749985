//! Computes the SHA-1 digest of a file. The key `checksum` of external data contains this digest.
//!
//! The digest detects damage, but not attacks. Source: FIPS 180-4, section 6.1.

use std::io::{self, Read};

/// Returns the digest of all bytes of `reader`, in hexadecimal.
pub(super) fn digest(mut reader: impl Read) -> io::Result<String> {
    let mut state = [0x6745_2301, 0xEFCD_AB89, 0x98BA_DCFE, 0x1032_5476, 0xC3D2_E1F0u32];
    let mut buffer = Vec::with_capacity(1 << 16);
    let mut length = 0u64;
    loop {
        buffer.clear();
        let got = reader.by_ref().take(1 << 16).read_to_end(&mut buffer)?;
        length = length.wrapping_add(got as u64 * 8);
        let last = got < 1 << 16;
        if last {
            buffer.push(0x80);
            buffer.resize((buffer.len() + 8).next_multiple_of(64) - 8, 0);
            buffer.extend_from_slice(&length.to_be_bytes());
        }
        for block in buffer.as_chunks::<64>().0 {
            compress(&mut state, block);
        }
        if last {
            return Ok(state.iter().map(|word| format!("{word:08x}")).collect());
        }
    }
}

#[expect(clippy::indexing_slicing, reason = "`t` counts from 16 to 80 in an array of 80")]
fn compress(state: &mut [u32; 5], block: &[u8; 64]) {
    let mut w = [0u32; 80];
    for (w, bytes) in w.iter_mut().zip(block.as_chunks::<4>().0) {
        *w = u32::from_be_bytes(*bytes);
    }
    for t in 16..80 {
        w[t] = (w[t - 3] ^ w[t - 8] ^ w[t - 14] ^ w[t - 16]).rotate_left(1);
    }
    let [mut a, mut b, mut c, mut d, mut e] = *state;
    for (t, &word) in w.iter().enumerate() {
        let (f, k) = match t {
            0..20 => ((b & c) | (!b & d), 0x5A82_7999),
            20..40 => (b ^ c ^ d, 0x6ED9_EBA1),
            40..60 => ((b & c) | (b & d) | (c & d), 0x8F1B_BCDC),
            _ => (b ^ c ^ d, 0xCA62_C1D6u32),
        };
        let next = a.rotate_left(5).wrapping_add(f).wrapping_add(e).wrapping_add(k).wrapping_add(word);
        (e, d, c, b, a) = (d, c, b.rotate_left(30), a, next);
    }
    for (s, v) in state.iter_mut().zip([a, b, c, d, e]) {
        *s = s.wrapping_add(v);
    }
}

#[cfg(test)]
mod tests {
    use super::digest;

    /// Source: the examples of FIPS 180-4.
    #[test]
    fn digests_are_those_of_the_standard() {
        assert_eq!(digest(&b"abc"[..]).ok().as_deref(), Some("a9993e364706816aba3e25717850c26c9cd0d89d"));
        assert_eq!(digest(&b""[..]).ok().as_deref(), Some("da39a3ee5e6b4b0d3255bfef95601890afd80709"));
        let million = vec![b'a'; 1_000_000];
        assert_eq!(digest(&million[..]).ok().as_deref(), Some("34aa973cd4c4daa4f61eeb2bdbad27316534016f"));
    }
}
