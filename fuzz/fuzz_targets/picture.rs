//! Decodes pictures with `ImageDecoder`, in all forms of pixels, within a deadline and within memory that its limit justifies.
//!
//! `BB_FUZZ_FORMAT=bmp` keeps to one format, so that each has a run of its own: `bmp`, `jpeg`, `jpeg2000`, `png`, `pnm`, `tiff`
//! or `webp`.
#![no_main]

use bb::ir::proto::attribute_proto::AttributeType;
use bb::ir::proto::{AttributeProto, GraphProto, NodeProto, TypeProto, ValueInfoProto, type_proto};
use bb::{BackendHandle, CompileOptions, ErasedExecutable, Module, RunOptions, Runtime, Value};
use bb_fuzz::{limits, memory};
use bb_reference::Reference;
use libfuzzer_sys::{Corpus, fuzz_target};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

/// The most bytes of a decoded picture.
const PICTURE: usize = 1 << 20;

/// Memory limit in bytes for decoding. Before a decoder starts, an allocation of the size of its result is tried, and refused from
/// `memory::MOST` bytes on.
const MEMORY: usize = memory::MOST + (32 << 20);

/// The deadline of a run, and the processor time that it may take until it ends, under a sanitizer.
const DEADLINE: Duration = Duration::from_secs(1);
const MOST: Duration = Duration::from_secs(5);

static BACKEND: LazyLock<BackendHandle> = LazyLock::new(|| BackendHandle::new(Runtime::new(Reference)));

static DECODERS: LazyLock<[Arc<dyn ErasedExecutable>; 3]> =
    LazyLock::new(|| ["RGB", "BGR", "Grayscale"].map(decoder));

static FORMAT: LazyLock<Option<String>> = LazyLock::new(|| std::env::var("BB_FUZZ_FORMAT").ok());

fuzz_target!(|data: &[u8]| -> Corpus {
    if FORMAT.as_deref().is_some_and(|format| format_of(data) != Some(format)) {
        return Corpus::Reject;
    }
    let Ok(x) = BACKEND.tensor(&[data.len()], data) else { return Corpus::Reject };
    let decoder = &DECODERS[data.len() % 3];
    let begin = processor_time();
    let options = RunOptions::default().with_deadline(Instant::now() + DEADLINE);
    let (outputs, peak) = memory::granted(|| decoder.run_with(&[Some(&x)], &options));
    let took = processor_time() - begin;
    assert!(took < MOST, "it took {took:?}");
    assert!(peak <= MEMORY, "{peak} bytes");
    if let Ok(outputs) = outputs {
        let y: &Value = &outputs[0];
        let y = y.to_host(PICTURE).expect("no more bytes than the limit");
        assert!(matches!(y.shape(), [_, _, 1 | 3]), "{:?}", y.shape());
    }
    Corpus::Keep
});

/// Returns the processor time of this process, which goes on however busy the machine is.
fn processor_time() -> Duration {
    unsafe extern "C" {
        // In microseconds, on every system of POSIX.
        safe fn clock() -> std::ffi::c_long;
    }
    Duration::from_micros(clock().unsigned_abs())
}

/// Returns the format that the first bytes claim.
fn format_of(data: &[u8]) -> Option<&'static str> {
    Some(match data {
        [b'B', b'M', ..] => "bmp",
        [0xff, 0xd8, 0xff, ..] => "jpeg",
        [0xff, 0x4f, 0xff, 0x51, ..] | [0, 0, 0, 12, b'j', b'P', b' ', b' ', ..] => "jpeg2000",
        [0x89, b'P', b'N', b'G', ..] => "png",
        [b'P', b'1'..=b'7', ..] => "pnm",
        [b'I', b'I', 42 | 43, 0, ..] | [b'M', b'M', 0, 42 | 43, ..] => "tiff",
        [b'R', b'I', b'F', b'F', ..] => "webp",
        _ => return None,
    })
}

/// Compiles a model of one node.
fn decoder(pixels: &str) -> Arc<dyn ErasedExecutable> {
    let port = |name: &str| ValueInfoProto {
        name: Some(name.to_owned()),
        r#type: Some(TypeProto {
            value: Some(type_proto::Value::TensorType(type_proto::Tensor {
                elem_type: Some(2),
                shape: None,
            })),
            ..TypeProto::default()
        }),
        ..ValueInfoProto::default()
    };
    let node = NodeProto {
        op_type: Some("ImageDecoder".to_owned()),
        input: vec!["x".to_owned()],
        output: vec!["y".to_owned()],
        attribute: vec![AttributeProto {
            name: Some("pixel_format".to_owned()),
            r#type: Some(AttributeType::String as i32),
            s: Some(pixels.as_bytes().to_vec()),
            ..AttributeProto::default()
        }],
        ..NodeProto::default()
    };
    let graph = GraphProto {
        name: Some("picture".to_owned()),
        node: vec![node],
        input: vec![port("x")],
        output: vec![port("y")],
        ..GraphProto::default()
    };
    let limits = bb::Limits { value_bytes: PICTURE, run_bytes: 1 << 24, ..limits() };
    let module = Module::from_graph(&graph, &[], &[]).expect("a valid graph");
    BACKEND.compile(module, &CompileOptions::default().within(&limits)).expect("it compiles")
}
