//! Compares the time for frames of 1 Mi `f32` with the time for copying the same bytes:
//! `cargo bench -p bb-ir --bench wire`.
//!
//! The measurements alternate within one run, so that their ratios hold whatever else the machine does.
#![allow(missing_docs, reason = "a program")]

use bb_ir::wire::{Checksum, decode, encode, encode_into};
use bb_ir::{Error, TensorData};
use bytes::Bytes;
use std::hint::black_box;
use std::time::{Duration, Instant};

const ROUNDS: usize = 300;

fn main() -> Result<(), Error> {
    let elements = vec![1.5f32; 1 << 20];
    let tensor = TensorData::new(&[1 << 20], &elements)?;
    let frame = Bytes::from(encode(&tensor)?);
    let mut checked = Vec::new();
    encode_into(&tensor, Checksum::All, &mut checked)?;
    let checked = Bytes::from(checked);
    let misaligned = Bytes::from([&[0], &frame[..]].concat()).slice(1..);
    let mut copy = vec![0f32; 1 << 20];
    let mut buffer = Vec::new();

    let mut memcpy = || copy.copy_from_slice(black_box(&elements));
    let mut fresh = || drop(black_box(encode(black_box(&tensor))));
    let mut reused = || {
        buffer.clear();
        let _ = black_box(encode_into(black_box(&tensor), Checksum::Header, &mut buffer));
    };
    let mut whole = || {
        let mut out = Vec::new();
        let _ = encode_into(black_box(&tensor), Checksum::All, &mut out);
        black_box(out);
    };
    let mut adopt = || drop(black_box(decode(black_box(frame.clone()))));
    let mut verify = || drop(black_box(decode(black_box(checked.clone()))));
    let mut moved = || drop(black_box(decode(black_box(misaligned.clone()))));
    let mut cases: [(&str, &mut dyn FnMut()); 7] = [
        ("memcpy, into memory in use", &mut memcpy),
        ("encode", &mut fresh),
        ("encode into a reused buffer", &mut reused),
        ("encode, elements with a checksum", &mut whole),
        ("decode by adoption", &mut adopt),
        ("decode by adoption, elements with a checksum", &mut verify),
        ("decode of misaligned elements", &mut moved),
    ];
    let mut times = vec![Vec::with_capacity(ROUNDS); cases.len()];
    for _ in 0..ROUNDS {
        for ((_, run), times) in cases.iter_mut().zip(&mut times) {
            let start = Instant::now();
            run();
            times.push(start.elapsed());
        }
    }
    let medians: Vec<Duration> = times
        .iter_mut()
        .map(|t| {
            t.sort_unstable();
            t.get(ROUNDS / 2).copied().unwrap_or_default()
        })
        .collect();
    let base = medians.first().copied().unwrap_or_default().as_secs_f64();
    for ((name, _), median) in cases.iter().zip(&medians) {
        println!("{name:46} {median:>10.1?} {:6.3}", median.as_secs_f64() / base);
    }
    Ok(())
}
