//! Compares products with integers of few bits in blocks: rows rounded to 8 bits with rows of floats, and both with a plain read of the
//! packed columns.
//!
//! The columns are several matrices that are multiplied in turns, because a model returns to a matrix after others have displaced it from
//! the caches.
#![expect(unsafe_code, reason = "vectors are read through pointers")]

use bb::ext::QuantOp;
use bb::ir::op::Param;
use bb::{Backend, DataType, Kernel, KernelOperand, KernelOperands, PrepareOperand, PrepareStep, TensorData};
use bb_benches::{asked, compare, subject};
use bb_cpu::{Array, Cpu};
use rayon::prelude::*;

#[path = "../src/bin/rates/reads.rs"]
mod reads;

/// The bytes that all matrices take at least: more than caches hold.
const BYTES: usize = 96 << 20;
/// The numbers of a block.
const BLOCK: usize = 32;

type Fallible<T> = Result<T, Box<dyn std::error::Error>>;

/// Numbers that look drawn.
fn drawn(n: usize, seed: u64) -> impl Iterator<Item = u64> {
    let mut state = seed;
    (0..n).map(move |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 33
    })
}

/// A matrix as models have it.
struct Matrix {
    b: Array,
    scales: Array,
    zeros: Option<Array>,
    bits: i64,
    inner: usize,
}

impl Matrix {
    fn new(cpu: &Cpu, bits: usize, [k, n]: [usize; 2], seed: u64) -> Fallible<Matrix> {
        let blocks = k.div_ceil(BLOCK);
        let size = BLOCK * bits / 8;
        let b: Vec<u8> = drawn(n * blocks * size, seed).map(|x| x as u8).collect();
        // Scales and least values of 16 bits, as quantisation writes them.
        let half = |x: u64| 2f32.powi(-9) * (1.0 + (x % 1024) as f32 / 1024.0);
        let scales: Vec<f32> = drawn(n * blocks, seed + 1).map(half).collect();
        let least = drawn(n * blocks, seed + 2).map(|x| -8.0 * half(x));
        let zeros: Vec<f32> = least.zip(&scales).map(|(least, scale)| -least / scale).collect();
        let shape = [n, blocks];
        Ok(Matrix {
            b: cpu.constant(&TensorData::new(&[n, blocks, size], &b)?)?,
            scales: cpu.constant(&TensorData::new(&shape, &scales)?)?,
            zeros: if bits == 8 { None } else { Some(cpu.constant(&TensorData::new(&shape, &zeros)?)?) },
            bits: bits as i64,
            inner: k,
        })
    }

    fn kernel(&self, cpu: &Cpu, integers: bool) -> Fallible<Box<dyn Kernel<Cpu>>> {
        let params = [
            Param::Int(self.inner as i64),
            Param::Int(self.bits),
            Param::Int(BLOCK as i64),
            Param::Bool(integers),
        ];
        let a = PrepareOperand::varying(DataType::F32, [None, None], false);
        let constants = [Some(&self.b), Some(&self.scales), self.zeros.as_ref()];
        let constants = constants.map(|x| x.map(PrepareOperand::of_constant));
        let operands = std::iter::once(Some(a)).chain(constants).chain([None]);
        let step = PrepareStep::new(QuantOp::MatMulNBits.spec(), &params, operands);
        cpu.prepare(&step)?.ok_or_else(|| "no kernel".into())
    }

    fn run(&self, cpu: &Cpu, kernel: &dyn Kernel<Cpu>, x: &Array) {
        let given = [Some(x), Some(&self.b), Some(&self.scales), self.zeros.as_ref(), None];
        let given = given.map(|x| x.map_or(KernelOperand::Absent, KernelOperand::Shared));
        let mut given: KernelOperands<'_, Array> = given.into_iter().collect();
        std::hint::black_box(kernel.run(cpu, &mut given).is_ok());
    }
}

/// Reads all elements.
fn read(x: &[f32]) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx512f") {
        // SAFETY: the processor has the instructions.
        std::hint::black_box(unsafe { reads::avx512(x) });
        return;
    } else if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has the instructions.
        std::hint::black_box(unsafe { reads::avx2(x) });
        return;
    }
    std::hint::black_box(reads::portable(x));
}

fn products(threads: usize, bits: usize, [k, n]: [usize; 2], rows: &[usize]) -> Fallible<()> {
    let title = |m: usize| format!("{m}x{k}x{n} {bits} bits {threads}t");
    if !rows.iter().any(|&m| asked(&title(m))) {
        return Ok(());
    }
    let cpu = Cpu::builder().threads(threads).build()?;
    let count = BYTES.div_ceil(k * n * bits / 8);
    let matrices: Vec<Matrix> =
        (0..count).map(|i| Matrix::new(&cpu, bits, [k, n], i as u64)).collect::<Fallible<_>>()?;
    let kernels = |integers| -> Fallible<Vec<_>> {
        matrices.iter().map(|matrix| matrix.kernel(&cpu, integers)).collect()
    };
    let [floats, integers] = [kernels(false)?, kernels(true)?];
    let bytes = integers.first().map_or(0, |kernel| kernel.bytes());
    let plain: Vec<f32> = vec![1.0; (bytes * count).div_ceil(4).next_multiple_of(128)];
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build()?;
    for &m in rows.iter().filter(|&&m| asked(&title(m))) {
        let x: Vec<f32> = drawn(m * k, 9).map(|x| (x % 2001) as f32 / 1000.0 - 1.0).collect();
        let x = cpu.constant(&TensorData::new(&[m, k], &x)?)?;
        let turn = |kernels: &[Box<dyn Kernel<Cpu>>], i: &mut usize| {
            *i = (*i + 1) % count;
            if let (Some(matrix), Some(kernel)) = (matrices.get(*i), kernels.get(*i)) {
                matrix.run(&cpu, &**kernel, &x);
            }
        };
        let [mut i, mut j, mut at] = [0; 3];
        let size = (bytes / 4).next_multiple_of(128);
        let mut plain_read = || {
            at = if at + 2 * size > plain.len() { 0 } else { at + size };
            let part = plain.get(at..at + size).unwrap_or(&plain);
            let each = part.len().div_ceil(threads).next_multiple_of(128);
            if threads == 1 { read(part) } else { pool.install(|| part.par_chunks(each).for_each(read)) }
        };
        let seconds = compare(
            &title(m),
            vec![
                subject("integers", || turn(&integers, &mut i)),
                subject("floats", || turn(&floats, &mut j)),
                subject("plain read", &mut plain_read),
            ],
        );
        let rate = |seconds: Option<&f64>| bytes as f64 / seconds.copied().unwrap_or(f64::NAN) / 1e9;
        println!(
            "    {:.1} GB/s of {:.1} GB/s, {:.0} products/ns",
            rate(seconds.first()),
            rate(seconds.get(2)),
            (m * k * n) as f64 / seconds.first().copied().unwrap_or(f64::NAN) / 1e9
        );
    }
    Ok(())
}

fn main() -> Fallible<()> {
    for threads in [1, 2] {
        for (bits, extents) in [
            (4, [576, 1536]),
            (4, [1536, 576]),
            (4, [2048, 2048]),
            (2, [2048, 2048]),
            (8, [576, 49152]),
            (8, [2048, 2048]),
        ] {
            products(threads, bits, extents, &[1, 4, 8, 128, 512])?;
        }
    }
    Ok(())
}
