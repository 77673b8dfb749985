//! Counts the allocations of calls and of runtimes, with a counting allocator. Each test counts the allocations of its own thread.
#![expect(clippy::unwrap_used, reason = "tests")]
#![expect(unsafe_code, reason = "`GlobalAlloc` is an unsafe trait")]

use bb::{
    Backend, BackendHandle, Backends, CompileOptions, DataType, Executable, Module, ResultBuffer, Runtime,
    TensorData,
};
use bb_cpu::Cpu;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::hint::black_box;
use std::time::Instant;

struct Counting;

thread_local! {
    static COUNT: Cell<usize> = const { Cell::new(0) };
    static LIVE_BYTES: Cell<usize> = const { Cell::new(0) };
    static MOST_BYTES: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: every method passes its arguments to `System`, which fulfils the contract. Counting does not
// allocate, because the counter is a constant-initialised thread-local without a destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.with(|count| count.set(count.get() + 1));
        let live = LIVE_BYTES.with(|bytes| {
            bytes.set(bytes.get().wrapping_add(layout.size()));
            bytes.get()
        });
        MOST_BYTES.with(|most| most.set(most.get().max(live)));
        // SAFETY: the caller's promise about `layout` holds for `System`, too.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        LIVE_BYTES.with(|bytes| bytes.set(bytes.get().wrapping_sub(layout.size())));
        // SAFETY: `memory` came from `alloc` above, and so from `System`, with this layout.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Returns the number of allocations of the last of several calls, because earlier calls fill pools.
fn allocations<R>(mut call: impl FnMut() -> R) -> usize {
    for _ in 0..16 {
        black_box(call());
    }
    let before = COUNT.with(Cell::get);
    black_box(call());
    COUNT.with(Cell::get) - before
}

#[test]
fn a_call_allocates_its_result_and_erasure_adds_nothing() {
    let cpu = Cpu::new();
    let data = TensorData::new(&[2, 2], &[1f32, 2.0, 3.0, 4.0]).unwrap();
    let (a, b) = (cpu.constant(&data).unwrap(), cpu.constant(&data).unwrap());
    let backends = Backends::new([bb::backend("cpu").unwrap()]);
    let (va, vb) = (backends.constant(&data).unwrap(), backends.constant(&data).unwrap());

    assert_eq!(allocations(|| cpu.add(&a, &b).unwrap()), 1, "a typed call allocates its result");
    assert_eq!(allocations(|| backends.add(&va, &vb).unwrap()), 1, "an erased call allocates no more");

    let typed = allocations(|| cpu.matmul(&a, &b).unwrap());
    assert_eq!(allocations(|| backends.matmul(&va, &vb).unwrap()), typed);
    let typed = allocations(|| cpu.reduce_sum(&a, &[0], true).unwrap());
    assert_eq!(allocations(|| backends.reduce_sum(&va, &[0], true).unwrap()), typed);
    let typed = allocations(|| cpu.transpose(&a, &[1, 0]).unwrap());
    assert_eq!(allocations(|| backends.transpose(&va, &[1, 0]).unwrap()), typed);

    assert_eq!(allocations(|| va.clone()), 0, "a value clones by one reference");
}

/// Opens a runtime, uses it and drops it.
fn open_and_drop() {
    let handle = BackendHandle::new(Runtime::new(bb_reference::Reference));
    black_box(handle.tensor(&[1], &[1f32]).unwrap());
}

#[test]
fn dropped_runtimes_leave_nothing_behind() {
    (0..100).for_each(|_| open_and_drop());
    let before = LIVE_BYTES.with(Cell::get);
    (0..10_000).for_each(|_| open_and_drop());
    assert_eq!(LIVE_BYTES.with(Cell::get), before);
}

#[test]
fn opening_takes_as_long_after_many_openings_as_before() {
    let fastest = || {
        let time = |_| {
            let start = Instant::now();
            (0..50).for_each(|_| open_and_drop());
            start.elapsed()
        };
        (0..20).map(time).min().unwrap()
    };
    let before = fastest();
    (0..50_000).for_each(|_| open_and_drop());
    let after = fastest();
    assert!(after < before * 8, "{before:?} before, {after:?} after");
}

/// Returns the greatest number of bytes that a call held at a time.
fn most_bytes<R>(call: impl FnOnce() -> R) -> usize {
    let before = LIVE_BYTES.with(Cell::get);
    MOST_BYTES.with(|most| most.set(before));
    black_box(call());
    MOST_BYTES.with(Cell::get) - before
}

#[test]
fn a_frame_allocates_as_much_as_arrives_and_not_what_it_claims() {
    use bb::ir::wire;
    const CLAIMED: usize = 1 << 28;
    let zeros = TensorData::zeros(bb::DataType::U8, &[CLAIMED], CLAIMED).unwrap();
    let frame = wire::encode(&zeros).unwrap();
    let front = frame.len() - CLAIMED;
    for arrived in [front + 1, front + 1000, front + 100_000, front + 1_000_000] {
        let part = frame.get(..arrived).unwrap();
        let tensor = most_bytes(|| assert!(wire::read(&mut &*part, usize::MAX).is_err()));
        let raw = most_bytes(|| assert!(wire::read_frame(&mut &*part, usize::MAX).is_err()));
        // While a buffer grows, the old and the new one exist.
        let most = 4 * arrived + (1 << 14);
        assert!(tensor <= most && raw <= most, "{arrived} bytes arrived, {tensor} and {raw} were allocated");
    }
    assert_eq!(wire::read(&mut frame.as_slice(), usize::MAX).unwrap(), Some(zeros));
}

/// Compiles `exp(x · y) · z`, a plan of three instructions, because nothing fuses them.
fn three_instructions(cpu: &Cpu) -> Box<dyn Executable<Cpu>> {
    let inputs: [(&str, DataType, &[usize]); 3] =
        [("x", DataType::F32, &[8, 8]), ("y", DataType::F32, &[8, 8]), ("z", DataType::F32, &[8, 8])];
    let graph = bb::trace(&inputs, |on, inputs| match inputs {
        [x, y, z] => Ok(vec![on.matmul(&on.exp(&on.matmul(x, y)?)?, z)?]),
        _ => Ok(Vec::new()),
    });
    let module = Module::from_graph(&graph.unwrap(), &[], &[]).unwrap();
    cpu.compile(module, &CompileOptions::default()).unwrap()
}

#[test]
fn a_run_into_buffers_allocates_the_handles_of_results_and_nothing_else() {
    let cpu = Cpu::new();
    let plan = three_instructions(&cpu);
    let data = TensorData::new(&[8, 8], &[0.5f32; 64]).unwrap();
    let x = cpu.constant(&data).unwrap();
    let mut result = [0f32; 64];
    let mut buffer = ResultBuffer::new(&[8, 8], &mut result).unwrap();
    let inputs = [Some(&x); 3];
    let into = allocations(|| plan.run_into(&cpu, &inputs, &mut [Some(&mut buffer)]).unwrap());
    assert_eq!(into, 3, "one handle for the result of each instruction");
    let named = [("z", &x), ("y", &x), ("x", &x)];
    let name = plan.outputs().first().unwrap().name.clone();
    let by_name = allocations(|| plan.run_named_into(&cpu, &named, &mut [(&name, &mut buffer)]).unwrap());
    assert_eq!(by_name, into, "names add nothing");
    let returned = allocations(|| plan.run(&cpu, &inputs).unwrap());
    assert_eq!(returned, into + 1, "a list of results");
    // By definition: each element of x · y is 8 · 0.25, and each of the product with z is 8 · e² · 0.5.
    assert!(result.iter().all(|y| (y - 4.0 * 2f32.exp()).abs() < 1e-4), "{result:?}");
}

#[test]
fn erasure_adds_nothing_to_a_run_into_buffers() {
    let cpu = bb::backend("cpu").unwrap();
    let graph = bb::trace(&[("x", DataType::F32, &[8, 8])], |on, inputs| match inputs {
        [x] => Ok(vec![on.matmul(x, x)?]),
        _ => Ok(Vec::new()),
    });
    let module = Module::from_graph(&graph.unwrap(), &[], &[]).unwrap();
    let plan = cpu.compile(module, &CompileOptions::default()).unwrap();
    let x = cpu.tensor(&[8, 8], &[0.5f32; 64]).unwrap();
    let mut result = [0f32; 64];
    let mut buffer = ResultBuffer::open(&mut result);
    assert_eq!(allocations(|| plan.run_into(&[Some(&x)], &mut [Some(&mut buffer)]).unwrap()), 1);
}

/// Loading a compiled model takes memory in proportion to its file, whichever byte of the file is forged.
#[test]
fn a_compiled_model_allocates_in_proportion_to_its_file() {
    let cpu = bb::backend("cpu").unwrap();
    let graph = bb::trace(&[("x", DataType::F32, &[8, 8])], |on, inputs| match inputs {
        [x] => Ok(vec![on.exp(&on.matmul(x, x)?)?]),
        _ => Ok(Vec::new()),
    });
    let module = Module::from_graph(&graph.unwrap(), &[], &[]).unwrap();
    let plan = cpu.compile(module, &CompileOptions::default()).unwrap();
    plan.run(&[Some(&cpu.tensor(&[8, 8], &[0.5f32; 64]).unwrap())]).unwrap();
    let path = std::env::temp_dir().join(format!("bb-allocations-{}.bb", std::process::id()));
    plan.save(&path).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    let body = bytes.get(16..24).and_then(|body| <[u8; 8]>::try_from(body).ok()).map(u64::from_le_bytes);
    let end = 32 + usize::try_from(body.unwrap()).unwrap();
    let load = || Module::load(&path).and_then(|module| cpu.compile(module, &CompileOptions::default()));
    assert!(load().is_ok());
    for at in 32..end {
        for forged in [0x7f, 0xff] {
            let mut copy = bytes.clone();
            *copy.get_mut(at).unwrap() = forged;
            let sum = crc32(&[copy.get(..12).unwrap(), copy.get(16..end).unwrap()]);
            copy.get_mut(12..16).unwrap().copy_from_slice(&sum.to_le_bytes());
            std::fs::write(&path, &copy).unwrap();
            let taken = most_bytes(|| load().is_ok());
            assert!(taken < 64 * bytes.len() + (1 << 16), "byte {at} as {forged}: {taken} bytes");
        }
    }
    std::fs::remove_file(&path).unwrap();
}

/// CRC-32 as of IEEE 802.3, bit by bit.
fn crc32(parts: &[&[u8]]) -> u32 {
    !parts.iter().copied().flatten().fold(u32::MAX, |crc, byte| {
        (0..8).fold(
            crc ^ u32::from(*byte),
            |crc, _| if crc & 1 == 1 { (crc >> 1) ^ 0xedb8_8320 } else { crc >> 1 },
        )
    })
}
