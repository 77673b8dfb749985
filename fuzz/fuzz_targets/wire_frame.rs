//! Reads frames: unchanged, and with repaired checksums, so that the code behind the checks is reached.
#![no_main]

use bb_ir::wire;
use bytes::Bytes;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    check(data.to_vec());
    check(repaired(data.to_vec()));
});

fn check(frame: Vec<u8>) {
    let streamed = wire::read(&mut frame.as_slice(), 1 << 24);
    let Ok(tensor) = wire::decode(Bytes::from(frame)) else { return };
    assert_eq!(streamed.expect("a whole frame is one on a stream, too").as_ref(), Some(&tensor));
    let again = wire::encode(&tensor).expect("what was read can be written");
    assert_eq!(wire::decode(again.into()).expect("what was written can be read"), tensor);
    let _ = tensor.summary().to_string();
}

/// Writes the right magic number, version, padding and checksums into a frame.
fn repaired(mut frame: Vec<u8>) -> Vec<u8> {
    frame.resize(frame.len().max(24), 0);
    frame[..8].copy_from_slice(&wire::MAGIC);
    frame[8..10].copy_from_slice(&wire::VERSION.to_le_bytes());
    frame[10] &= 1;
    frame[11] = 0;
    frame[13] &= 0x3F;
    frame[14..16].fill(0);
    let length = usize::from(u16::from_le_bytes([frame[12], frame[13]]));
    let start = (24 + length).next_multiple_of(64);
    frame.resize(frame.len().max(start), 0);
    frame[24 + length..start].fill(0);
    let elements = if frame[10] == 1 { crc32fast::hash(&frame[start..]) } else { 0 };
    frame[20..24].copy_from_slice(&elements.to_le_bytes());
    let mut crc = crc32fast::Hasher::new();
    crc.update(&frame[..16]);
    crc.update(&frame[20..24]);
    crc.update(&frame[24..24 + length]);
    frame[16..20].copy_from_slice(&crc.finalize().to_le_bytes());
    frame
}
