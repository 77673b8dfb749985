//! Measures the overhead of a call in addition to its kernel: typed, erased, and in a plan.
#![expect(clippy::expect_used, reason = "a benchmark stops where it cannot go on")]

use bb::{Backend, Backends, CompileOptions, DataType, Module, TensorData};
use bb_benches::{compare, subject};
use bb_cpu::Cpu;

/// The length of the chain that measures the cost of a plan per node.
const NODES: usize = 1000;

fn main() {
    let cpu = Cpu::new();
    let one = TensorData::new(&[1], &[1.5f32]).expect("one element");
    let (a, b) = (cpu.constant(&one).expect("constant"), cpu.constant(&one).expect("constant"));

    let backends = Backends::new([bb::backend("cpu").expect("linked")]);
    let (va, vb) = (backends.constant(&one).expect("constant"), backends.constant(&one).expect("constant"));
    let (na, nb) = (ndarray::arr1(&[1.5f32]).into_dyn(), ndarray::arr1(&[1.5f32]).into_dyn());
    compare(
        "add of two tensors of one f32",
        vec![
            subject("typed: cpu.add", || cpu.add(&a, &b)),
            subject("erased: ctx.backends.add", || backends.add(&va, &vb)),
            subject("ndarray: &a + &b, dynamic rank", || &na + &nb),
        ],
    );

    let graph =
        bb::trace(&[("x", DataType::F32, &[1]), ("y", DataType::F32, &[1])], |on, inputs| match inputs {
            [x, y] => {
                let mut sum = on.add(x, y)?;
                for _ in 1..NODES {
                    sum = on.add(&sum, y)?;
                }
                Ok(vec![sum])
            }
            _ => Ok(Vec::new()),
        })
        .expect("traces");
    let module = Module::from_graph(&graph, &[], &[]).expect("valid");
    let plan = cpu.compile(module, &CompileOptions::default()).expect("compiles");
    let inputs = [Some(&a), Some(&b)];
    let times = compare(
        "a chain of 1000 additions of one f32",
        vec![
            subject("typed calls", || {
                let mut sum = cpu.add(&a, &b).expect("adds");
                for _ in 1..NODES {
                    sum = cpu.add(&sum, &b).expect("adds");
                }
                sum
            }),
            subject("compiled plan", || plan.run(&cpu, &inputs).expect("runs")),
        ],
    );
    if let [typed, planned] = times[..] {
        println!(
            "  a plan's cost beyond typed calls: {:.1} ns per node",
            (planned - typed) * 1e9 / NODES as f64
        );
    }

    layers(&a, &b);
    planning(&cpu);
}

/// Passes everything on.
#[derive(bb::Backend)]
#[bb(delegate = inner)]
struct Passing<B> {
    inner: B,
}

#[bb::layer]
impl<B: bb::InnerBackend> bb::Layer for Passing<B> {}

/// Measures what layers add to a call.
fn layers(a: &<Cpu as Backend>::Tensor, b: &<Cpu as Backend>::Tensor) {
    let cpu = Cpu::new();
    let passing = Passing { inner: Passing { inner: Passing { inner: Cpu::new() } } };
    let metrics = bb_layers::Metrics::new(Cpu::new());
    let times = compare(
        "add through layers",
        vec![
            subject("no layer", || cpu.add(a, b)),
            subject("three that pass on", || passing.add(a, b)),
            subject("metrics", || metrics.add(a, b)),
        ],
    );
    if let [plain, passed, measured] = times[..] {
        let nanoseconds = |time: f64| (time - plain) * 1e9;
        println!(
            "  three layers that pass on: {:.1} ns; metrics: {:.1} ns",
            nanoseconds(passed),
            nanoseconds(measured)
        );
    }
}

/// Runs a decoder whose cache grows, as generating text does: one plan serves all lengths.
fn planning(cpu: &Cpu) {
    const LENGTHS: usize = 200;
    let file =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/data/models/tiny_llama_primitives_op17/model.onnx");
    let module = Module::load(file).expect("valid");
    let nodes = module.graph().nodes.len();
    let compiled = || cpu.compile(module.clone(), &CompileOptions::default()).expect("compiles");
    let decoder = compiled();
    let constant = |data: TensorData| cpu.constant(&data).expect("constant");
    let inputs: Vec<Vec<_>> = (1..=LENGTHS)
        .map(|cached| {
            let past = TensorData::new(&[1, 2, cached, 16], &vec![0.5f32; 32 * cached]).expect("a cache");
            let mask = TensorData::bools(&[1, 1, 1, cached + 1], &vec![true; cached + 1]).expect("a mask");
            let number = |n: i64| constant(TensorData::new(&[1, 1], &[n]).expect("a number"));
            let mut inputs = vec![number(7), number(1), constant(mask)];
            inputs.extend((0..4).map(|_| constant(past.clone())));
            inputs
        })
        .collect();
    let given = |at: usize| -> Vec<_> {
        inputs.iter().cycle().nth(at % LENGTHS).into_iter().flatten().map(Some).collect()
    };
    let run = |at: usize| decoder.run(cpu, &given(at)).expect("runs");
    let mut at = 0;
    let times = compare(
        "a step of a small decoder",
        vec![
            subject("the same length again", || run(LENGTHS / 2)),
            subject("a cache that is longer each time", || {
                at += 1;
                run(at)
            }),
            subject("compiled and planned anew", || compiled().run(cpu, &given(LENGTHS / 2)).expect("runs")),
        ],
    );
    if let [known, _, anew] = times[..] {
        println!("  planning: {:.2} µs for each of {nodes} nodes", (anew - known) * 1e6 / nodes as f64);
    }
}
