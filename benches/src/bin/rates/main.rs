//! Measures the peak rates of the processor, in a few seconds: `rates [--threads N] [--json]`.
//!
//! For each level of instructions that kernels have, it prints the multiplications with additions of `f32` and of bytes per second. It also
//! prints how fast data are read that fit into the first-, second- or third-level cache, or into none. A kernel's speed is given as a share
//! of these rates.

mod caches;
mod chains;
mod reads;

use std::time::Instant;

/// The functions that are measured at one level of instructions.
struct Level {
    name: &'static str,
    /// The chain that measures products of `f32`.
    floats: Option<Chain>,
    bytes: Option<Chain>,
    /// Returns a number that depends on all elements. The slice's length is a multiple of 128.
    read: fn(&[f32]) -> f32,
}

/// The number of products of a repetition, and the function that computes them, which takes the number of repetitions.
type Chain = (usize, fn(u32));

/// The number of runs; the fastest counts.
const RUNS: usize = 20;

/// The number of times that a chain is repeated, less than a millisecond.
const TIMES: u32 = 1 << 17;

/// The bytes that a measurement of memory reads at least.
const READ: usize = 1 << 25;

/// The elements of a cache line.
const LINE: usize = 16;

/// The rates of one level: products a second, and bytes a second for each size.
struct Rates {
    name: &'static str,
    floats: Option<f64>,
    bytes: Option<f64>,
    reads: Vec<f64>,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut threads = 1;
    let mut json = false;
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--threads" => threads = arguments.next().ok_or("--threads needs a number")?.parse()?,
            "--json" => json = true,
            _ => return Err("expected: rates [--threads N] [--json]".into()),
        }
    }
    let threads: usize = threads;
    let sizes = caches::sizes();
    let levels: Vec<Rates> = chains::levels().iter().map(|level| measured(level, threads, &sizes)).collect();
    if json {
        println!("{}", as_json(threads, &sizes, &levels));
    } else {
        print!("{}", as_table(threads, &sizes, &levels));
    }
    Ok(())
}

/// Measures a level with all threads at once, and returns the sums of their rates.
fn measured(level: &Level, threads: usize, sizes: &[(&'static str, usize)]) -> Rates {
    let chain = |chain: Option<Chain>| {
        let (products, run) = chain?;
        Some(together(threads, products as f64 * f64::from(TIMES), |_| move || run(TIMES)))
    };
    let reads = sizes.iter().map(|&(name, size)| {
        // The last cache is one for all threads, and so is memory.
        let own = if matches!(name, "L1" | "L2") { size } else { size / threads.max(1) };
        let elements = (own / size_of::<f32>() / 128).max(1) * 128;
        let times = (READ / (elements * size_of::<f32>())).max(1);
        let all = (elements * size_of::<f32>() * times) as f64;
        together(threads, all, |thread| {
            // Zeros might be one page of the system for all of them.
            let data = vec![thread as f32 + 1.0; elements + LINE];
            // Vectors that cross cache lines take twice as long.
            let first = data.as_ptr().align_offset(LINE * size_of::<f32>()).min(LINE);
            let read = level.read;
            move || {
                let data = data.get(first..first + elements).unwrap_or_default();
                for _ in 0..times {
                    std::hint::black_box(read(std::hint::black_box(data)));
                }
            }
        })
    });
    Rates { name: level.name, floats: chain(level.floats), bytes: chain(level.bytes), reads: reads.collect() }
}

/// Runs what `make` returns on each of some threads, and returns how much they do a second together if a run does `amount`.
fn together<F: FnMut()>(threads: usize, amount: f64, make: impl Fn(usize) -> F + Sync) -> f64 {
    std::thread::scope(|scope| {
        let one = |thread: usize| {
            let make = &make;
            move || {
                let mut run = make(thread);
                let mut best = f64::INFINITY;
                for _ in 0..RUNS {
                    let start = Instant::now();
                    run();
                    best = best.min(start.elapsed().as_secs_f64());
                }
                amount / best
            }
        };
        let started: Vec<_> = (0..threads.max(1)).map(|thread| scope.spawn(one(thread))).collect();
        started.into_iter().filter_map(|thread| thread.join().ok()).sum()
    })
}

fn as_table(threads: usize, sizes: &[(&'static str, usize)], levels: &[Rates]) -> String {
    let mut text = format!("Threads: {threads}. G products/s, and GB/s of reading\n\n");
    text += &format!("{:<14}{:>10}{:>10}", "level", "f32", "bytes");
    for (name, size) in sizes {
        text += &format!("{:>21}", format!("{name} ({} KiB)", size >> 10));
    }
    let number = |rate: Option<f64>| rate.map_or("–".to_owned(), |rate| format!("{:.1}", rate / 1e9));
    for level in levels {
        text += &format!("\n{:<14}{:>10}{:>10}", level.name, number(level.floats), number(level.bytes));
        for &read in &level.reads {
            text += &format!("{:>21.1}", read / 1e9);
        }
    }
    text + "\n"
}

fn as_json(threads: usize, sizes: &[(&'static str, usize)], levels: &[Rates]) -> String {
    let number = |rate: Option<f64>| rate.map_or("null".to_owned(), |rate| format!("{rate:e}"));
    let levels = levels.iter().map(|level| {
        let reads = sizes.iter().zip(&level.reads).map(|((name, _), read)| format!("\"{name}\": {read:e}"));
        format!(
            "{{\"level\": \"{}\", \"f32\": {}, \"i8\": {}, \"read\": {{{}}}}}",
            level.name,
            number(level.floats),
            number(level.bytes),
            reads.collect::<Vec<_>>().join(", ")
        )
    });
    format!("{{\"threads\": {threads}, \"levels\": [{}]}}", levels.collect::<Vec<_>>().join(", "))
}
