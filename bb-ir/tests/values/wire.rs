//! Tests that golden frames are read and written byte by byte, and that damaged frames are refused.
//!
//! `data/wire/make.py` wrote `data/wire/*.frame` from the description of the format.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use bb_ir::wire::{self, Checksum, decode, encode, encode_into};
use bb_ir::{ALIGNMENT, DataType, Error, TensorData};
use bytes::Bytes;

fn golden() -> [(&'static [u8], TensorData, Checksum); 5] {
    let f32s = TensorData::new(&[2, 2], &[1f32, -2.5, f32::INFINITY, 0.0]).unwrap();
    let i4s = TensorData::pack(DataType::I4, &[3], &[0xFF, 7, 0xF8]).unwrap();
    [
        (include_bytes!("../data/wire/f32_2x2.frame"), f32s, Checksum::All),
        (include_bytes!("../data/wire/i64_scalar.frame"), TensorData::scalar(-1i64), Checksum::Header),
        (include_bytes!("../data/wire/i4_3.frame"), i4s, Checksum::All),
        (
            include_bytes!("../data/wire/bool_0x2.frame"),
            TensorData::bools(&[0, 2], &[]).unwrap(),
            Checksum::All,
        ),
        (
            include_bytes!("../data/wire/string_2.frame"),
            TensorData::strings(&[2], &["aä", "bc"]).unwrap(),
            Checksum::All,
        ),
    ]
}

#[test]
fn golden_frames_are_read_and_written_to_the_byte() {
    for (frame, tensor, checksum) in golden() {
        assert_eq!(decode(Bytes::from_static(frame)).unwrap(), tensor);
        let mut written = Vec::new();
        encode_into(&tensor, checksum, &mut written).unwrap();
        assert_eq!(written, frame, "{tensor:?}");
        assert_eq!(
            wire::decode_as(wire::type_hash(tensor.dtype()), Bytes::from_static(frame)).unwrap(),
            tensor
        );
    }
}

#[test]
fn every_element_type_travels() {
    for &dtype in DataType::ALL {
        for shape in [&[][..], &[0, 3], &[3, 1, 5]] {
            let tensor = TensorData::zeros(dtype, shape, 4096).unwrap();
            assert_eq!(decode(encode(&tensor).unwrap().into()).unwrap(), tensor);
        }
    }
}

#[test]
fn aligned_elements_are_shared_and_others_copied() {
    let x = TensorData::new(&[1000], &[1.5f64; 1000]).unwrap();
    let frame = encode(&x).unwrap();
    assert_eq!(frame.capacity(), frame.len());
    let store = Bytes::from([vec![0; ALIGNMENT], frame.clone(), vec![0; ALIGNMENT]].concat());
    let origin = store.as_ptr().align_offset(ALIGNMENT);
    for (shift, shared) in [(0, true), (8, true), (4, false)] {
        let mut moved = vec![0; store.len() + ALIGNMENT];
        let start = moved.as_ptr().align_offset(ALIGNMENT) + shift;
        moved[start..start + frame.len()].copy_from_slice(&frame);
        let bytes = Bytes::from(moved).slice(start..start + frame.len());
        let end = bytes.as_ptr_range().end;
        let y = decode(bytes).unwrap();
        assert_eq!(y.bytes().unwrap().as_ptr_range().end == end, shared, "shift {shift} from {origin}");
        assert_eq!(y, x);
    }
}

#[test]
fn every_truncation_and_every_extension_is_refused() {
    for (frame, ..) in golden() {
        for length in 0..frame.len() {
            assert!(decode(Bytes::copy_from_slice(&frame[..length])).is_err(), "{length}");
        }
        let longer = [frame, &[0]].concat();
        assert!(matches!(decode(longer.into()), Err(Error::FrameLength { .. })));
    }
}

#[test]
fn every_flipped_bit_is_detected() {
    for (frame, _, checksum) in golden() {
        // Without a checksum of the elements, only the bytes before them are protected.
        let end = if checksum == Checksum::All { frame.len() } else { frame.len() - 8 };
        for bit in 0..end * 8 {
            let mut damaged = frame.to_vec();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(decode(damaged.into()).is_err(), "bit {bit}");
        }
    }
}

#[test]
fn errors_name_the_wrong_part() {
    let (frame, ..) = golden()[0].clone();
    let with = |at: usize, byte: u8| {
        let mut bytes = frame.to_vec();
        bytes[at] = byte;
        decode(bytes.into()).unwrap_err()
    };
    assert!(matches!(with(0, b'b'), Error::FrameMagic));
    assert!(matches!(with(8, 2), Error::FrameVersion { expected: 1, got: 2 }));
    assert!(matches!(with(10, 3), Error::FrameFlags { got: 3 }));
    assert!(matches!(with(15, 1), Error::FrameHeaderLength { .. }));
    assert!(matches!(with(30, 1), Error::FrameChecksum { part: "header", .. }));
    assert!(matches!(with(frame.len() - 1, 1), Error::FrameChecksum { part: "elements", .. }));
    assert!(matches!(decode(Bytes::from_static(b"\x93bb")), Err(Error::FrameEnd { got: 3, .. })));
    let other = wire::decode_as(wire::type_hash(DataType::F64), Bytes::from_static(frame));
    assert!(matches!(other, Err(Error::FrameType { .. })));
}

/// A header with a correct checksum may still be wrong in every field.
#[test]
fn forged_headers_are_refused() {
    let forge = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut frame = golden()[0].0.to_vec();
        change(&mut frame);
        let mut crc = crc32fast::Hasher::new();
        let length = u32::from_le_bytes(frame[12..16].try_into().unwrap()) as usize;
        crc.update(&frame[..16]);
        crc.update(&frame[20..24]);
        crc.update(&frame[24..24 + length]);
        let sum = crc.finalize();
        frame[16..20].copy_from_slice(&sum.to_le_bytes());
        decode(frame.into()).unwrap_err()
    };
    // The header has the type hash at 24, the element type at 32, the rank at 36, the extents at 44 and 52,
    // and the length at 60.
    assert!(matches!(forge(&|f| f[24] ^= 1), Error::FrameType { .. }));
    assert!(matches!(forge(&|f| f[32] = 99), Error::UnknownDataType { number: 99 }));
    assert!(matches!(forge(&|f| f[32] = 2), Error::FrameType { .. }));
    assert!(matches!(forge(&|f| f[36..44].fill(0xFF)), Error::FrameHeader { .. }));
    assert!(matches!(forge(&|f| f[36] = 1), Error::FrameHeaderLength { .. }));
    assert!(matches!(forge(&|f| f[44..52].fill(0xFF)), Error::TooLarge { .. }));
    assert!(matches!(forge(&|f| f[44] = 3), Error::ByteLength { .. }));
    assert!(matches!(forge(&|f| f[60] = 15), Error::FrameLength { .. }));
    assert!(matches!(forge(&|f| f[60..68].fill(0xFF)), Error::FrameEnd { .. }));
    assert!(matches!(forge(&|f| f[70] = 1), Error::FramePadding));
}

/// A stream that returns at most three bytes at a time, with interruptions.
struct Slow<'a>(&'a [u8], bool);

impl std::io::Read for Slow<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.1 = !self.1;
        if self.1 {
            return Err(std::io::ErrorKind::Interrupted.into());
        }
        let count = buffer.len().min(self.0.len()).min(3);
        buffer[..count].copy_from_slice(&self.0[..count]);
        self.0 = &self.0[count..];
        Ok(count)
    }
}

#[test]
fn golden_frames_follow_each_other_on_a_stream() {
    let mut written = Vec::new();
    for (_, tensor, checksum) in golden() {
        wire::write(&mut written, &tensor, checksum).unwrap();
    }
    assert_eq!(written, golden().map(|(frame, ..)| frame).concat());
    let (mut tensors, mut frames) = (Slow(&written, false), Slow(&written, false));
    for (bytes, tensor, _) in golden() {
        let got = wire::read(&mut tensors, bytes.len()).unwrap().unwrap();
        assert_eq!(got, tensor);
        assert_eq!(got.bytes().unwrap().as_ptr().align_offset(tensor.dtype().align()), 0);
        let frame = wire::read_frame(&mut frames, bytes.len()).unwrap().unwrap();
        assert_eq!((frame.type_hash, &*frame.bytes), (wire::type_hash(tensor.dtype()), bytes));
    }
    // The stream ends between two frames.
    assert!(wire::read(&mut tensors, 64).unwrap().is_none());
    assert!(wire::read_frame(&mut frames, 64).unwrap().is_none());
}

#[test]
fn every_element_type_travels_on_a_stream() {
    let mut stream = Vec::new();
    let shapes = [&[][..], &[0, 3], &[3, 1, 5]];
    let all = || {
        DataType::ALL
            .iter()
            .flat_map(|&dtype| shapes.map(|shape| TensorData::zeros(dtype, shape, 4096).unwrap()))
    };
    all().for_each(|x| wire::write(&mut stream, &x, Checksum::All).unwrap());
    let mut stream = stream.as_slice();
    all().for_each(|x| assert_eq!(wire::read(&mut stream, 4096).unwrap(), Some(x)));
    assert!(wire::read(&mut stream, 4096).unwrap().is_none());
}

#[test]
fn a_stream_that_ends_within_a_frame_says_where() {
    for (frame, ..) in golden() {
        for length in 1..frame.len() {
            let error = wire::read(&mut &frame[..length], 4096).unwrap_err();
            let Error::FrameEnd { expected, got } = error else { panic!("{error:?}") };
            assert_eq!(got, length as u64);
            assert!(expected > got && expected <= frame.len() as u64, "{expected} of {}", frame.len());
            assert!(wire::read_frame(&mut &frame[..length], 4096).is_err());
        }
    }
    assert!(matches!(wire::read(&mut &b"GET /"[..], 4096), Err(Error::FrameMagic)));
}

#[test]
fn a_frame_beyond_the_limit_is_refused_before_its_elements_are_read() {
    /// A stream that must not be read to its end.
    struct Endless<'a>(&'a [u8], usize);
    impl std::io::Read for Endless<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            let read = self.0.read(buffer)?;
            self.1 += read;
            assert!(read > 0, "the elements were asked for");
            Ok(read)
        }
    }
    let x = TensorData::zeros(DataType::F32, &[1 << 20], usize::MAX).unwrap();
    let frame = encode(&x).unwrap();
    let elements = frame.len() - x.bytes().unwrap().len();
    let limit = frame.len() - 1;
    for read in [
        wire::read(&mut Endless(&frame[..elements], 0), limit).map(|_| ()),
        wire::read_frame(&mut Endless(&frame[..elements], 0), limit).map(|_| ()),
    ] {
        let error = read.unwrap_err();
        assert!(matches!(error, Error::FrameTooLong { got, .. } if got == frame.len() as u64));
        assert!(error.to_string().contains("`bb.tensor/1;f32;dense-le`"), "{error}");
    }
    assert_eq!(wire::read(&mut frame.as_slice(), limit + 1).unwrap(), Some(x));
}

#[test]
fn damaged_elements_on_a_stream_are_refused() {
    let (frame, ..) = golden().into_iter().next().unwrap();
    let mut damaged = frame.to_vec();
    *damaged.last_mut().unwrap() ^= 1;
    let error = wire::read(&mut damaged.as_slice(), 4096).unwrap_err();
    assert!(matches!(error, Error::FrameChecksum { part: "elements", .. }));
}

#[test]
fn a_stream_that_fails_keeps_its_reason() {
    struct Closed;
    impl std::io::Read for Closed {
        fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::ConnectionReset.into())
        }
    }
    impl std::io::Write for Closed {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let reset = wire::read(&mut Closed, 64).unwrap_err();
    assert!(
        matches!(reset, Error::FrameIo { source } if source.kind() == std::io::ErrorKind::ConnectionReset)
    );
    let broken = wire::write(&mut Closed, &TensorData::scalar(1i64), Checksum::Header).unwrap_err();
    assert!(matches!(broken, Error::FrameIo { source } if source.kind() == std::io::ErrorKind::BrokenPipe));
}

#[test]
fn a_frame_of_another_type_names_both() {
    let frame = encode(&TensorData::scalar(1i64)).unwrap();
    let error = wire::decode_as(wire::type_hash(DataType::F32), frame.clone().into()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the frame holds `bb.tensor/1;i64;dense-le`; expected `bb.tensor/1;f32;dense-le`"
    );
    let error = wire::decode_as(wire::hash_name("mine/1"), frame.into()).unwrap_err().to_string();
    assert!(error.contains("expected a type that is not declared here (hash 0x"), "{error}");
}
