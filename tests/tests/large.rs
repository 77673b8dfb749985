//! Tests that checking, planning and running a model takes time and memory in proportion to the model's size, whichever of its
//! dimensions is large.
//!
//! Each dimension is measured at a count and at twice the count, and if the ratio is too large, at greater counts, too: a cost that
//! grows too fast does so at all counts, while a model that just leaves a cache or a busy machine does so at one. `BB_LARGE=8`
//! multiplies all counts, and `BB_LARGE_ONLY=ifs` measures the dimensions whose names begin so.
#![expect(clippy::unwrap_used, reason = "tests")]
#![expect(unsafe_code, reason = "`GlobalAlloc` is an unsafe trait")]

use bb::ir::graph::{Dim, ValueType};
use bb::onnx::OnnxValue;
use bb::{CompileOptions, DataType, Error, Module, Port, RunOptions, TensorData};
use bb_tests::large::{Dimension, dimensions};
use bb_tests::{backends, capped};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

struct Counting;

thread_local! {
    static LIVE: Cell<usize> = const { Cell::new(0) };
    static MOST: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: every method passes its arguments to `System`, which fulfils the contract. Counting does not
// allocate, because the counters are constant-initialised thread-locals without destructors.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let live = LIVE.get().wrapping_add(layout.size());
        LIVE.set(live);
        // Memory that another thread allocated may make the sum negative for a while.
        if live < usize::MAX / 2 {
            MOST.set(MOST.get().max(live));
        }
        // SAFETY: the caller's promise about `layout` holds for `System`, too.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        LIVE.set(LIVE.get().wrapping_sub(layout.size()));
        // SAFETY: `memory` came from `alloc` above, and so from `System`, with this layout.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The cost of checking, planning and running a model once.
#[derive(Debug, Clone, Copy)]
struct Taken {
    seconds: f64,
    bytes: usize,
}

/// Returns the seconds that this thread has computed for, or the time where the system does not count them.
fn computed(start: Instant) -> f64 {
    let counted = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanoseconds = counted.and_then(|text| text.split(' ').next()?.parse::<f64>().ok());
    nanoseconds.map_or_else(|| start.elapsed().as_secs_f64(), |n| n * 1e-9)
}

/// Makes an input of few elements.
fn input(port: &Port) -> TensorData {
    let ValueType::Tensor { dtype, shape: Some(dims) } = &port.ty else { panic!("{:?}", port.ty) };
    // Many extents of 2 are more elements than memory holds.
    let open = if dims.len() < 10 { 2 } else { 1 };
    let extent = |dim: &Dim| if let Dim::Known(extent) = dim { *extent } else { open };
    let shape: Vec<usize> = dims.iter().map(extent).collect();
    match dtype {
        DataType::I64 => TensorData::new(&shape, &vec![2i64; shape.iter().product()]).unwrap(),
        dtype => TensorData::zeros(*dtype, &shape, usize::MAX).unwrap(),
    }
}

/// Checks, plans and runs a model.
fn ran(model: &[u8]) -> Result<(), Error> {
    let on = backends::start("cpu").unwrap();
    let mut options = CompileOptions::default();
    options.check_passes = false;
    let compiled = on.clone().compile(Module::from_bytes(model.to_vec())?, &options)?;
    let inputs: Vec<TensorData> = compiled.inputs().iter().map(input).collect();
    let inputs: Vec<_> = inputs.iter().map(|x| Some(OnnxValue::Tensor(on.constant(x).unwrap()))).collect();
    compiled.run_items(&inputs).map(drop)
}

fn measured(model: &[u8]) -> (Taken, Result<(), Error>) {
    let (start, before) = (Instant::now(), LIVE.get());
    let began = computed(start);
    MOST.set(before);
    let outcome = ran(model);
    (Taken { seconds: computed(start) - began, bytes: MOST.get().saturating_sub(before) }, outcome)
}

/// The greatest ratio of the costs of twice the count and of the count, and the costs that are too small to be compared.
const MOST_TIMES: f64 = 2.5;
const LITTLE_SECONDS: f64 = 0.05;
const LITTLE_BYTES: usize = 1 << 20;

/// The dimensions that a limit of the format or of `bb` bounds, so that their counts are not multiplied.
const BOUNDED: [&str; 6] =
    ["einsum_letters", "extents_of_one_input", "functions_nested", "ifs_nested", "loops_nested", "rank"];

/// The dimensions whose time and memory grow with the product of segments and of values that are read behind them: each segment takes
/// all that segments behind it read. `plan_bytes` bounds the memory, and a deadline the time.
const PRODUCTS: [&str; 3] = ["host_nodes_in_a_fan", "loops_in_a_fan", "sequence_reads"];

/// The factors of the counts at which a dimension is measured until its costs are in proportion.
const FACTORS: [usize; 3] = [1, 2, 4];

/// Measures a dimension at counts multiplied by `scale`; returns its costs if they are not in proportion.
fn compared(dimension: &Dimension, scale: usize) -> Option<String> {
    let Dimension { name, count, model } = dimension;
    let scale = if BOUNDED.contains(name) { 1 } else { scale };
    let counts = [scale * count, 2 * scale * count];
    let models = counts.map(model);
    let mut least = [Taken { seconds: f64::INFINITY, bytes: usize::MAX }; 2];
    let mut said = String::new();
    for _ in 0..5 {
        let mut outcomes = Vec::new();
        for (least, model) in least.iter_mut().zip(&models) {
            let (taken, outcome) = measured(model);
            least.seconds = least.seconds.min(taken.seconds);
            least.bytes = least.bytes.min(taken.bytes);
            outcomes.push(outcome.map_err(|error| chain(&error)));
        }
        let [once, twice] = least;
        said = format!(
            "{name}: {counts:?} in {:?} bytes take {:.3} and {:.3} s, {} and {} KiB; {outcomes:.60?}",
            models.each_ref().map(Vec::len),
            once.seconds,
            twice.seconds,
            once.bytes >> 10,
            twice.bytes >> 10,
        );
        let most = if PRODUCTS.contains(name) { 2.0 * MOST_TIMES } else { MOST_TIMES };
        let slow = twice.seconds > most * once.seconds.max(LITTLE_SECONDS / most);
        let large = twice.bytes as f64 > most * once.bytes.max(LITTLE_BYTES) as f64;
        if !slow && !large {
            println!("{said}");
            return None;
        }
        if twice.seconds > 10.0 {
            break;
        }
    }
    Some(said)
}

fn chain(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {}", chain(source)),
        None => error.to_string(),
    }
}

/// Calls `work` on a backend and a serialized model in three stages: checking, compiling, and the first run, which plans. Calls
/// `stage` around each.
fn in_stages(
    model: &[u8],
    mut stage: impl FnMut(&str, &mut dyn FnMut() -> Result<(), Error>) -> Result<(), Error>,
) -> Result<(), Error> {
    let on = backends::start("cpu").unwrap();
    let (mut module, mut compiled) = (None, None);
    stage("check", &mut || {
        module = Some(Module::from_bytes(model.to_vec())?);
        Ok(())
    })?;
    stage("compile", &mut || {
        compiled = Some(on.clone().compile(module.clone().unwrap(), &CompileOptions::default())?);
        Ok(())
    })?;
    let compiled = compiled.unwrap();
    let inputs: Vec<TensorData> = compiled.inputs().iter().map(input).collect();
    let inputs: Vec<_> = inputs.iter().map(|x| Some(OnnxValue::Tensor(on.constant(x).unwrap()))).collect();
    stage("plan", &mut || compiled.run_items(&inputs).map(drop))
}

fn named(name: &str) -> Dimension {
    *dimensions().iter().find(|dimension| dimension.name == name).unwrap()
}

#[test]
fn checking_and_planning_look_at_each_node_whether_the_run_must_end() {
    for name in ["nodes_in_a_chain", "ifs", "products", "calls", "constants_in_a_chain"] {
        let count = 200;
        let model = (named(name).model)(count);
        let mut looks = Vec::new();
        in_stages(&model, |stage, work| {
            let looked = Arc::new(AtomicUsize::new(0));
            let counter = looked.clone();
            let options = RunOptions::default()
                .with_watch(move || counter.fetch_add(1, Ordering::Relaxed) > usize::MAX / 2);
            options.within(&mut *work)?;
            looks.push((stage.to_owned(), looked.load(Ordering::Relaxed)));
            Ok(())
        })
        .unwrap();
        for (stage, looked) in &looks {
            assert!(*looked >= count, "{name}: {stage} looks {looked} times");
        }
        // Whichever look says so ends the stage, and a stage that was ended leaves nothing behind.
        for (ended, looked) in &looks {
            for at in [0, looked / 2, looked - 1] {
                let outcome = in_stages(&model, |stage, work| {
                    let looked = AtomicUsize::new(0);
                    let watch = move || looked.fetch_add(1, Ordering::Relaxed) >= at;
                    let options = if stage == ended {
                        RunOptions::default().with_watch(watch)
                    } else {
                        RunOptions::default()
                    };
                    options.within(&mut *work)
                });
                let error = chain(&outcome.unwrap_err());
                assert!(error.ends_with(&Error::Cancelled.to_string()), "{name}: {ended}: {error}");
            }
        }
    }
}

#[test]
fn planning_ends_at_its_deadline() {
    /// How long what must end may go on, on a machine that does much else.
    const TAIL: f64 = 1.0;
    let models = [
        ("nodes_in_a_chain", 100_000),
        ("split_results", 100_000),
        ("inputs", 100_000),
        ("extents_of_inputs", 50_000),
        ("ifs", 50_000),
        ("ifs_on_host", 5000),
        ("loops_in_a_fan", 5000),
        ("host_nodes_in_a_fan", 5000),
        ("convolutions", 20_000),
        ("quantised_layers", 10_000),
        ("attentions", 5000),
        ("constants_large", 50_000),
    ];
    for (name, count) in models {
        let model = (named(name).model)(count);
        let outcome = in_stages(&model, |stage, work| {
            let start = Instant::now();
            let began = computed(start);
            let end = start + Duration::from_millis(50);
            let outcome = RunOptions::default().with_deadline(end).within(&mut *work);
            let took = computed(start) - began;
            assert!(took < 0.05 + TAIL, "{name}: {stage} computes for {took} s");
            match outcome {
                Ok(()) => Ok(()),
                Err(error) => {
                    let text = chain(&error);
                    assert!(
                        text.ends_with(&Error::DeadlineExceeded.to_string()),
                        "{name}: {stage}: {text:.300}"
                    );
                    // The stage is done without a deadline, so that the next one is looked at.
                    if stage == "plan" { Err(error) } else { work() }
                }
            }
        });
        let error = outcome.expect_err(&format!("{name} is planned within 50 ms"));
        assert!(chain(&error).ends_with(&Error::DeadlineExceeded.to_string()), "{name}: {}", chain(&error));
    }
}

/// The environment variable of the child process that drops plans.
const DROPPED: &str = "BB_LARGE_DROPPED";

/// A graph may have more segments than a stack has room for, and each holds the plans of the next one.
#[test]
fn plans_of_many_segments_are_dropped_on_a_small_stack() {
    if std::env::var(DROPPED).is_ok() {
        return ran(&(named("host_nodes_in_a_chain").model)(12_000)).unwrap();
    }
    let test = ["--exact", "plans_of_many_segments_are_dropped_on_a_small_stack"];
    capped::run(&test, &[(DROPPED, "1"), ("RUST_MIN_STACK", "524288")]).unwrap();
}

#[test]
fn a_model_of_twice_the_size_takes_about_twice_the_time_and_memory() {
    let scale = std::env::var("BB_LARGE").map_or(1, |scale| scale.parse().unwrap());
    let only = std::env::var("BB_LARGE_ONLY").unwrap_or_default();
    let all = dimensions();
    let problems: Vec<String> = all
        .iter()
        .filter(|dimension| dimension.name.starts_with(&only))
        .filter_map(|dimension| {
            let problems: Option<Vec<String>> = FACTORS
                .iter()
                .map(|factor| {
                    let problem = compared(dimension, factor * scale)?;
                    println!("NOT LINEAR {problem}");
                    Some(problem)
                })
                .collect();
            problems.map(|problems| problems.join("\n"))
        })
        .collect();
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}
