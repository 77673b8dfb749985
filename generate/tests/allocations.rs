//! Counts the allocations of a decode step, with a counting allocator. The program has one test, because others would allocate meanwhile.
#![expect(clippy::unwrap_used, reason = "tests")]
#![expect(unsafe_code, reason = "`GlobalAlloc` is an unsafe trait")]

mod tiny;

use bb_cpu as _;
use bb_generate::{GenerateOptions, Generator, OpenOptions};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};
use tiny::{Quant, Tiny};

struct Counting;

static COUNT: AtomicUsize = AtomicUsize::new(0);
static BYTES: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every method passes its arguments to `System`, which fulfils the contract.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.fetch_add(1, Ordering::Relaxed);
        BYTES.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's guarantee about `layout` holds for `System`, too.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: `memory` came from `alloc` above, and so from `System`, with this layout.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn opened(layers: usize) -> Generator {
    let tiny = Tiny { quant: Quant::Q8_0, layers, ..Tiny::default() };
    let path = std::env::temp_dir().join(format!("bb-allocations-{}-{layers}.gguf", std::process::id()));
    std::fs::write(&path, tiny.writer().bytes()).unwrap();
    let on = bb::backend("cpu(threads=1)").unwrap();
    let generator = Generator::open(&path, &on, &OpenOptions::default()).unwrap();
    std::fs::remove_file(path).unwrap();
    generator
}

/// Returns the allocations of each of the steps behind a prompt: how many, and how many bytes.
fn steps(generator: &Generator) -> Vec<(usize, usize)> {
    let mut options = GenerateOptions::default();
    (options.tokens, options.ignore_end) = (100, true);
    let mut sequence = generator.sequence();
    let mut counts = Vec::new();
    // The first generation fills the pool of memory.
    for _ in 0..2 {
        counts.clear();
        let mut generation = sequence.generate(&[40, 41, 42], &options).unwrap();
        loop {
            let before = [COUNT.load(Ordering::Relaxed), BYTES.load(Ordering::Relaxed)];
            let Some(piece) = generation.next() else { break };
            piece.unwrap();
            let [count, bytes] = before;
            counts.push((COUNT.load(Ordering::Relaxed) - count, BYTES.load(Ordering::Relaxed) - bytes));
        }
    }
    counts
}

/// Operations return tensors. Each tensor is a block of the pool and a reference to it. So the number of allocations of a step
/// depends only on the layers: nothing grows with the positions, and no cache is copied.
#[test]
fn a_step_allocates_small_things_whose_number_only_the_layers_decide() {
    let medians = [1, 2].map(|layers| {
        let mut counts = steps(&opened(layers));
        counts.sort_unstable();
        println!("{layers} layers: {:?} to {:?}", counts.first(), counts.last());
        counts
    });
    let [one, two] = medians.each_ref().map(|counts| counts.get(counts.len() / 2).copied().unwrap());
    for counts in &medians {
        let (few, many) = (counts.get(5).unwrap(), counts.get(counts.len() - 6).unwrap());
        // The texts of tokens have different lengths.
        assert!(many.0 <= few.0 + 32, "{few:?}, {many:?}");
        assert!(many.1 <= few.1 + 4096, "{few:?}, {many:?}");
    }
    let (per_layer, rest) = (two.0 - one.0, 2 * one.0 - two.0);
    assert!(per_layer <= 100, "{per_layer} for each layer");
    assert!(rest <= 100, "{rest} for what is no layer");
}
